//! What a task is, without any I/O: its life, its log, the fold of the log, and places in it.

mod answer;
pub mod cursor;
pub(crate) mod event;
pub(crate) mod fold;
pub mod lifecycle;
#[cfg(test)]
mod tests;
