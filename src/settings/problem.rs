//! Problems of a configuration: what is wrong, and where it was written.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A line of the file, counted from 1.
    File(Arc<Path>, usize),
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
    /// Not written anywhere: the value is missing or a default.
    Nowhere,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(path, line) => write!(f, "{}:{line}: ", path.display()),
            Origin::Environment(name) => write!(f, "{name}: "),
            Origin::Flag(flag) => write!(f, "{flag}: "),
            Origin::Nowhere => Ok(()),
        }
    }
}

/// One problem of a configuration. Displays as one line with the place, the key and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub(crate) origin: Origin,
    pub(crate) key: String,
    pub(crate) text: String,
}

impl Problem {
    /// Returns the key as a path such as `agents[0].card.skills[1].id`, or an empty string if the file as a whole is
    /// wrong.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the line of the file, counted from 1, if the problem is in a file.
    pub fn line(&self) -> Option<usize> {
        match self.origin {
            Origin::File(_, line) => Some(line),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// All problems of a configuration. Displays one problem per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    /// Returns the problems in the order of the file. There is at least one.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
