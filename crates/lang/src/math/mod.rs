//! Mathematical functions, by Rust's names: `x.exp()`, `x.sin_cos()`, `y.atan2(x)`.
//!
//! A function of f32 or f64 is as accurate as CUDA's of the same name, or more. `docs/math.md`
//! lists the bounds; a test compares the functions with references of higher precision. A function
//! of f16 or bf16 computes in f32 and rounds once more. [`fast`] has the approximations of the
//! special function units.
//!
//! Infinities, NaN, signed zeros and subnormals are handled as C's Annex F specifies.
//!
//! The polynomials are minimax fits of relative error, computed for these functions. Every
//! operation is rounded as written: the functions are not subject to contraction.

mod choice;
mod double;
pub mod fast;
mod functions;
mod polynomial;
mod powf;
mod remainder;
mod rounding;
mod single;
pub mod table;

pub use functions::MathFloat;
