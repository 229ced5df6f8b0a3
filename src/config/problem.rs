//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// A line of the file, counted from 1.
    File(Arc<Path>, usize),
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
    /// Nowhere: it is missing altogether.
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

/// One thing that is wrong: a line for people that names where, which key and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub(super) origin: Origin,
    pub(super) key: String,
    pub(super) text: String,
}

impl Problem {
    /// The key concerned, as a path such as `agents[0].card.skills[1].id`; empty for the file as a whole.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The line of the file, counted from 1, if a file is to blame.
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

/// Everything that is wrong with a configuration; shown one problem per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub(super) Vec<Problem>);

impl Problems {
    /// The problems, in the order of the file; at least one.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
