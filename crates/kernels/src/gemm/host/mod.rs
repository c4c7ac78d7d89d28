//! What decides and launches: configurations, the heuristic, tuning, and launches.
//! Imports both floors below.

pub(crate) mod candidates;
pub mod choice;
pub mod config;
pub mod cost;
mod gpc;
pub mod grouped;
pub mod heuristic;
pub mod launch;
pub(crate) mod maps;
mod mma_sync;
pub mod tune;
