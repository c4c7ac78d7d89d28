//! What decides and launches: configurations, the heuristic, tuning, launches, and the reference.
//! Imports both floors below.

pub mod config;
pub(in crate::gemm) mod grouped;
pub mod heuristic;
pub(in crate::gemm) mod launch;
pub(in crate::gemm) mod maps;
pub(in crate::gemm) mod reference;
pub mod tune;
