//! The tasks, as developers run them.

mod book;
mod chapters;
