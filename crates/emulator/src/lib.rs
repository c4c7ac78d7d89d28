//! Executes PTX with no GPU, and says what is wrong with it.

pub mod numeric;
pub mod tensor;
