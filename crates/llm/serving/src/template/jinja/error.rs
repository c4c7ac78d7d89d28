//! Why a template is not read, or a run of it ends early.

/// A template is no Jinja.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub(crate) struct Wrong {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Why a run ended early.
#[derive(Debug)]
pub(crate) enum Error {
    /// The template called `raise_exception`.
    Raised(String),
    /// It failed.
    Failed(String),
    /// It took more steps than a run may.
    TooLong,
}

pub(super) type Result<T> = std::result::Result<T, Error>;

/// A failure with a message.
pub(super) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Failed(message.into()))
}
