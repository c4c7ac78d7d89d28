//! Problems that the lessons refuse.

/// A shape that a step's kernel does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step} {reason}: make --{option} a multiple of {multiple}; {extent} is not one")]
pub struct LessonError {
    /// The step.
    pub step: String,
    /// What the kernel does with the extent.
    pub reason: &'static str,
    /// The option that sets the extent.
    pub option: &'static str,
    /// What it must be a multiple of.
    pub multiple: u32,
    /// Its value.
    pub extent: u32,
}
