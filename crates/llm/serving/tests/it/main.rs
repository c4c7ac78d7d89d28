//! The tests of the serving half.

mod calls;
mod corrupt_tokenizer;
mod defaults;
mod guide;
mod model;
mod scheduler;
mod server;
mod service;
mod template;
mod text;
mod tokenizer;
