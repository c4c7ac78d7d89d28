//! What decides and launches: configurations, the heuristic, tuning, and launches.
//! Imports both floors below.

pub mod config;
pub(crate) mod grouped;
pub mod heuristic;
pub(crate) mod launch;
pub(crate) mod maps;
pub mod tune;
