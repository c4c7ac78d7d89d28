//! The functions of f64.

use crate::conversion::Rounding;
use crate::operation::compute;
use crate::value::Reg;

impl Reg<f64> {
    /// The square root, to the nearest even.
    #[track_caller]
    pub fn sqrt(self) -> Self {
        compute("sqrt.rn.f64", [Reg::operand(self)])
    }

    /// The largest integer not above the value.
    #[track_caller]
    pub fn floor(self) -> Self {
        self.round_with(Rounding::Down)
    }

    /// The smallest integer not below the value.
    #[track_caller]
    pub fn ceil(self) -> Self {
        self.round_with(Rounding::Up)
    }

    /// The integer part.
    #[track_caller]
    pub fn trunc(self) -> Self {
        self.round_with(Rounding::Zero)
    }
}
