//! Why a model cannot be loaded or run.

use std::path::PathBuf;

use warpwright::runtime;
use warpwright_kernels::operations::OperationError;

/// The result of the engine.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// Why a model cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The model's configuration is not one that the engine runs.
    #[error("the model's configuration: {0}")]
    Config(String),
    /// The tensors are not those of the model.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A step that contradicts the executor's capacity.
    #[error("the step: {0}")]
    Step(String),
    /// An operation refused or failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The device refused or failed.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

/// How a checkpoint's tensors differ from those that the model needs.
#[derive(Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the checkpoint does not fit the model:{}", listed(self))]
pub struct WeightsError {
    /// Tensors that the model needs.
    pub missing: Vec<String>,
    /// Tensors that the model does not use.
    pub extra: Vec<String>,
    /// Tensors of another shape: the name, the expected shape and the found one.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl WeightsError {
    /// Whether the tensors are those of the model.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.misshapen.is_empty()
    }
}

/// A line for each difference, and a count of those past the first few.
fn listed(error: &WeightsError) -> String {
    const MOST: usize = 12;
    let missing = error.missing.iter().map(|name| format!("{name} is missing"));
    let extra = error.extra.iter().map(|name| format!("{name} is not used"));
    let misshapen = error
        .misshapen
        .iter()
        .map(|(name, expected, found)| format!("{name} has the shape {found:?}, expected {expected:?}"));
    let lines: Vec<String> = missing.chain(misshapen).chain(extra).collect();
    let mut text: String = lines.iter().take(MOST).map(|line| format!("\n  {line}")).collect();
    if lines.len() > MOST {
        text += &format!("\n  and {} more", lines.len() - MOST);
    }
    text
}
