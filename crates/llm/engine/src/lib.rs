//! Models, weights and the executor of language models on the kernel library.

mod config;
mod data_type;
mod error;
mod executor;
mod layers;
mod models;
mod number;
mod sharding;
mod upload;
pub mod weights;

pub use data_type::{DataType, StateType};
pub use error::{EngineError, Result, WeightsError};
pub use executor::{DecodePlan, Engine, Limits, OperationCost, WarmUp};
