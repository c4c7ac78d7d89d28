//! The arithmetic of a GPU, as pure functions on register bits.
//!
//! A PTX register has no type, so every function here takes and returns *bits*: `u16` for f16 and
//! bf16, `u32` for f32, f16x2, bf16x2 and 32-bit integers, `u64` for f64 and 64-bit integers. None
//! keeps state, reads or sets the host's floating-point environment, or panics.
//!
//! | file | instructions |
//! |---|---|
//! | [`single`] | `add sub mul fma div rcp sqrt` of f32, in all rounding modes, `.ftz`, `.sat` |
//! | [`double`] | the same of f64 |
//! | [`half`] | the same of f16, bf16 and their pairs, with `.relu` |
//! | [`approximate`] | `.approx` and `.full` forms: `div rcp sqrt rsqrt sin cos lg2 ex2 tanh` |
//! | [`compare`] | `setp set min max testp abs neg copysign` of the floating types |
//! | [`convert`] | `cvt` between all types, packed `cvt`, `cvt.pack` |
//! | [`integer`] | `mul mad sad div rem add.cc dp4a dp2a` |
//! | [`bits`] | `bfe bfi bfind brev clz popc fns bmsk szext prmt shf lop3 shl shr` |
//! | `exact_sum` | sums of products with block scales |
//! | [`lanes`] | the hot f32 operations over the 32 lanes of a warp at once |
//!
//! Call the scalar functions in a loop over lanes with constant modes and they vectorize; `fma`
//! needs the host's instruction to be fast, so prefer [`lanes`] for it.

pub mod approximate;
pub mod bits;
pub mod compare;
pub mod convert;
pub mod double;
pub(crate) mod exact_sum;
pub mod format;
pub mod half;
pub mod integer;
pub mod lanes;
pub mod single;

/// How a result that does not fit is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `.rn`: to nearest, ties to even.
    #[default]
    NearestEven,
    /// `.rz`: toward zero.
    Zero,
    /// `.rm`: toward minus infinity.
    Down,
    /// `.rp`: toward plus infinity.
    Up,
    /// `.rna`: to nearest, ties away from zero. Conversions to tf32 only.
    NearestAway,
}

/// The modifiers of a floating-point instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FloatMode {
    /// The rounding.
    pub rounding: Rounding,
    /// `.ftz`: subnormal inputs and results become zero of the same sign.
    pub flush: bool,
    /// `.sat`: the result is clamped to [0, 1], and NaN becomes +0.
    pub saturate: bool,
    /// `.relu`: a negative result becomes +0, and NaN the canonical NaN. f16 and bf16 only.
    pub relu: bool,
}

impl FloatMode {
    /// Nearest even, no modifiers.
    pub const NEAREST: FloatMode =
        FloatMode { rounding: Rounding::NearestEven, flush: false, saturate: false, relu: false };

    /// No modifiers except a rounding.
    pub const fn rounding(rounding: Rounding) -> FloatMode {
        FloatMode { rounding, ..FloatMode::NEAREST }
    }
}
