//! Tests of the engine and the serving half together.

mod scheduled;
mod verbs;
