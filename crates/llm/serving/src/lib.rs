//! Tokenizer, chat template, scheduler and HTTP server over an executor.

pub mod defaults;
pub mod guide;
pub mod model;
mod panics;
pub mod scheduler;
pub mod server;
pub mod service;
pub mod template;
pub mod text;
pub mod tokenizer;
pub mod trace;
