//! Tests of the engine and the serving half together.

mod chat;
mod scheduled;
mod verbs;
