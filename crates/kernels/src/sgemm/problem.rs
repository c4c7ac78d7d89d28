//! What is computed.

use warpwright::runtime::Buffer;

/// alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The factor of A·B.
    pub alpha: f32,
    /// The factor of C; where it is 0, C is not read.
    pub beta: f32,
}

impl Default for Scale {
    /// C = A·B.
    fn default() -> Self {
        Self { alpha: 1.0, beta: 0.0 }
    }
}

/// What is multiplied, and where the product goes: A (m, k), B (k, n) and C (m, n), row-major.
pub struct Matrices<'a> {
    /// m, n and k.
    pub extents: (u32, u32, u32),
    /// A.
    pub a: &'a Buffer<f32>,
    /// B.
    pub b: &'a Buffer<f32>,
    /// C.
    pub c: &'a mut Buffer<f32>,
}
