//! Paths of fields in errors, such as `message.parts[1].text`. The JSON reader and the validator write them the same
//! way.

use std::fmt::{self, Write as _};

use serde_path_to_error::{Path, Segment};

/// The position of the validator in a message: a linked list on the stack. Its text is only built for a violation.
#[derive(Debug, Clone, Copy)]
pub enum At<'a> {
    /// The message itself.
    Root,
    /// A field, by its JSON name.
    Field(&'a At<'a>, &'static str),
    /// An element of a list.
    Index(&'a At<'a>, usize),
    /// An entry of a map.
    Key(&'a At<'a>, &'a str),
}

impl<'a> At<'a> {
    /// Returns the position of a field of the message at this position.
    pub fn field(&'a self, name: &'static str) -> At<'a> {
        At::Field(self, name)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        self.append_to(&mut path);
        f.write_str(&path)
    }
}

impl At<'_> {
    fn append_to(&self, path: &mut String) {
        match self {
            At::Root => {}
            At::Field(parent, name) => {
                parent.append_to(path);
                push_key(path, name);
            }
            At::Key(parent, key) => {
                parent.append_to(path);
                push_key(path, key);
            }
            At::Index(parent, index) => {
                parent.append_to(path);
                push_index(path, *index);
            }
        }
    }
}

/// Writes the path that the JSON reader had reached.
pub(super) fn render(path: &Path) -> String {
    let mut text = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => push_index(&mut text, *index),
            Segment::Map { key } => push_key(&mut text, key),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    text
}

fn push_index(path: &mut String, index: usize) {
    // Writing to a string does not fail.
    let _ = write!(path, "[{index}]");
}

/// Writes a key. Clients choose keys, which may hold any character; only a plain name is written without quotes.
fn push_key(path: &mut String, key: &str) {
    let name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !name {
        let _ = write!(path, "[{key:?}]");
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    }
}
