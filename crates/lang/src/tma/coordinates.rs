//! Coordinates of tensor copies.

use warpwright_ir::Operand;

use crate::value::{Reg, Value};

/// A coordinate of a box: `i32` or `u32`, on the device or known at build time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a coordinate of a tensor copy",
    label = "a coordinate is an `i32` or a `u32`, on the device or known at build time"
)]
pub trait BoxCoordinate: Copy {
    /// The coordinate as an operand.
    fn operand(self) -> Operand;
}

macro_rules! coordinates {
    ($($ty:ty)*) => {
        $(impl BoxCoordinate for $ty {
            #[track_caller]
            fn operand(self) -> Operand {
                Value::operand(self)
            }
        })*
    };
}

coordinates! { u32 i32 Reg<u32> Reg<i32> }

/// The coordinates of a box, one for each dimension of the tensor, 1 to 5, the contiguous dimension
/// first: an array, a vector or a tuple.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not coordinates of a tensor copy",
    label = "coordinates are an array, a vector or a tuple of 1 to 5 integers, `i32` or `u32`, on the device or known at build time"
)]
pub trait BoxCoordinates {
    /// The coordinates as operands.
    #[track_caller]
    fn operands(self) -> Vec<Operand>;
}

impl<C: BoxCoordinate, const N: usize> BoxCoordinates for [C; N] {
    #[track_caller]
    fn operands(self) -> Vec<Operand> {
        self.into_iter().map(BoxCoordinate::operand).collect()
    }
}

impl<C: BoxCoordinate> BoxCoordinates for Vec<C> {
    #[track_caller]
    fn operands(self) -> Vec<Operand> {
        self.into_iter().map(BoxCoordinate::operand).collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*))*) => {
        $(impl<$($name: BoxCoordinate),*> BoxCoordinates for ($($name,)*) {
            #[track_caller]
            fn operands(self) -> Vec<Operand> {
                vec![$(self.$index.operand()),*]
            }
        })*
    };
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
}
