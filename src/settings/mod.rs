//! Reads settings from TOML tables, environment variables and flags: typed values, and a problem for each that is wrong.
//!
//! A [`Section`] is one table. A reader takes its keys one by one with the functions of [`read`], then calls
//! [`Section::finish`], which reports the keys that nobody asked for. Problems are collected, so that one run reports
//! all of them.

pub(crate) mod located;
pub(crate) mod problem;
pub(crate) mod read;
pub(crate) mod section;
pub(crate) mod value;

pub use problem::{Problem, Problems};
pub use value::{Network, Secret};

pub(crate) use section::{Diagnostics, Section};
