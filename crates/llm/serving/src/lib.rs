//! Tokenizer, chat template, scheduler and HTTP server over an executor.

pub mod scheduler;
