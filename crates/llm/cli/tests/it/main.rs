//! Tests of the engine and the serving half together.

mod chat;
mod process;
mod scheduled;
mod verbs;
