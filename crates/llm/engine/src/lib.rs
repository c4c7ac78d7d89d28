//! Models, weights and the executor of language models on the kernel library.

mod config;
mod error;
mod executor;
mod layers;
mod models;
mod number;
mod sharding;
mod upload;
pub mod weights;

pub use error::{EngineError, Result, WeightsError};
pub use executor::{DataType, DecodePlan, Engine, Limits, OperationCost, StateType, WarmUp};
