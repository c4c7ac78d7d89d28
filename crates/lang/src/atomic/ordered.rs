//! Atomic minima and maxima of integers and floats.
//!
//! PTX has the instructions for integers. The bits of 32-bit and 64-bit floats are ordered like
//! signed integers if the floats are positive, and like unsigned integers in reverse if they are
//! negative. The sign of the operand selects one integer operation. 16-bit floats take a loop.

use half::{bf16, f16};

use super::{AtomicSpace, Atomicity};
use crate::element::{DeviceInteger, Element, bf16x2, f16x2};
use crate::operation::on_behalf_of_author;
use crate::pointer::Pointer;
use crate::value::{Reg, Value};

/// The smaller or the larger of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The smaller.
    Minimum,
    /// The larger.
    Maximum,
}

impl Extreme {
    fn word(self) -> &'static str {
        match self {
            Extreme::Minimum => "min",
            Extreme::Maximum => "max",
        }
    }

    fn opposite(self) -> Self {
        match self {
            Extreme::Minimum => Extreme::Maximum,
            Extreme::Maximum => Extreme::Minimum,
        }
    }
}

/// A type with atomic minima and maxima.
pub trait AtomicOrdered: Element {
    /// Replaces the element by the extreme of it and `value`; returns the old value.
    #[track_caller]
    fn replace<S: AtomicSpace>(
        extreme: Extreme,
        element: Pointer<Self, S>,
        value: impl Value<Self>,
        atomicity: Atomicity,
    ) -> Reg<Self>;

    /// The same without the old value.
    #[track_caller]
    fn reduce<S: AtomicSpace>(
        extreme: Extreme,
        element: Pointer<Self, S>,
        value: impl Value<Self>,
        atomicity: Atomicity,
    );
}

macro_rules! integers {
    ($($ty:ty),*) => {
        $(impl AtomicOrdered for $ty {
            #[track_caller]
            fn replace<S: AtomicSpace>(
                extreme: Extreme, element: Pointer<Self, S>, value: impl Value<Self>, atomicity: Atomicity,
            ) -> Reg<Self> {
                element.atomic(&format!("{}.{}", extreme.word(), Self::PTX), &[value.operand()], atomicity)
            }

            #[track_caller]
            fn reduce<S: AtomicSpace>(
                extreme: Extreme, element: Pointer<Self, S>, value: impl Value<Self>, atomicity: Atomicity,
            ) {
                Pointer::reduce(element, &format!("{}.{}", extreme.word(), Self::PTX), value.operand(), atomicity);
            }
        })*
    };
}

integers!(u32, i32, u64, i64);

macro_rules! floats {
    ($($ty:ty as $signed:ty, $unsigned:ty;)*) => {
        $(impl AtomicOrdered for $ty {
            #[track_caller]
            fn replace<S: AtomicSpace>(
                extreme: Extreme, element: Pointer<Self, S>, value: impl Value<Self>, atomicity: Atomicity,
            ) -> Reg<Self> {
                on_behalf_of_author(|| by_sign_replace::<$signed, $unsigned, S>(
                    extreme, element.cast(), value.reg().bit_cast(), atomicity,
                ).bit_cast())
            }

            #[track_caller]
            fn reduce<S: AtomicSpace>(
                extreme: Extreme, element: Pointer<Self, S>, value: impl Value<Self>, atomicity: Atomicity,
            ) {
                on_behalf_of_author(|| by_sign_reduce::<$signed, $unsigned, S>(
                    extreme, element.cast(), value.reg().bit_cast(), atomicity,
                ));
            }
        })*
    };
}

floats! {
    f32 as i32, u32;
    f64 as i64, u64;
}

#[crate::device]
fn by_sign_replace<I: AtomicOrdered + DeviceInteger, U: AtomicOrdered, S: AtomicSpace>(
    extreme: Extreme,
    element: Pointer<I, S>,
    value: Reg<I>,
    atomicity: Atomicity,
) -> Reg<I> {
    if value.lt(I::ZERO) {
        U::replace(extreme.opposite(), element.cast(), value.bit_cast(), atomicity).bit_cast()
    } else {
        I::replace(extreme, element, value, atomicity)
    }
}

#[crate::device]
fn by_sign_reduce<I: AtomicOrdered + DeviceInteger, U: AtomicOrdered, S: AtomicSpace>(
    extreme: Extreme,
    element: Pointer<I, S>,
    value: Reg<I>,
    atomicity: Atomicity,
) {
    if value.lt(I::ZERO) {
        U::reduce(extreme.opposite(), element.cast(), value.bit_cast(), atomicity);
    } else {
        I::reduce(extreme, element, value, atomicity);
    }
}

macro_rules! by_loop {
    ($($ty:ty),*) => {
        $(impl AtomicOrdered for $ty {
            #[track_caller]
            fn replace<S: AtomicSpace>(
                extreme: Extreme, element: Pointer<Self, S>, value: impl Value<Self>, atomicity: Atomicity,
            ) -> Reg<Self> {
                let value = value.reg();
                element.atomic_update_with(
                    |old| match extreme {
                        Extreme::Minimum => old.min(value),
                        Extreme::Maximum => old.max(value),
                    },
                    atomicity,
                )
            }

            #[track_caller]
            fn reduce<S: AtomicSpace>(
                extreme: Extreme, element: Pointer<Self, S>, value: impl Value<Self>, atomicity: Atomicity,
            ) {
                Self::replace(extreme, element, value, atomicity);
            }
        })*
    };
}

by_loop!(f16, bf16, f16x2, bf16x2);

macro_rules! operations {
    ($($what:literal $extreme:ident $atomic:ident $atomic_with:ident $reduce:ident $reduce_with:ident;)*) => {
        impl<T: AtomicOrdered, S: AtomicSpace> Pointer<T, S> {
            $(
                #[doc = concat!("Replaces the element by ", $what, "; returns the old \
                 value. Relaxed, at GPU scope.\n\n`f32` and `f64` are ordered as by `total_cmp`: a NaN is \
                 beyond the infinity of its sign. 16-bit floats are compared by a loop, which ignores NaN.")]
                #[track_caller]
                pub fn $atomic(self, value: impl Value<T>) -> Reg<T> {
                    self.$atomic_with(value, Atomicity::default())
                }

                #[doc = concat!("[`", stringify!($atomic), "`](Self::", stringify!($atomic), ") in a given order and scope.")]
                #[track_caller]
                pub fn $atomic_with(self, value: impl Value<T>, atomicity: Atomicity) -> Reg<T> {
                    T::replace(Extreme::$extreme, self, value, atomicity)
                }

                #[doc = concat!("[`", stringify!($atomic), "`](Self::", stringify!($atomic), ") without the old value.")]
                #[track_caller]
                pub fn $reduce(self, value: impl Value<T>) {
                    self.$reduce_with(value, Atomicity::default());
                }

                #[doc = concat!("[`", stringify!($reduce), "`](Self::", stringify!($reduce), ") in a given order and scope.")]
                #[track_caller]
                pub fn $reduce_with(self, value: impl Value<T>, atomicity: Atomicity) {
                    T::reduce(Extreme::$extreme, self, value, atomicity);
                }
            )*
        }
    };
}

operations! {
    "the smaller of it and `value`" Minimum atomic_min atomic_min_with reduce_min reduce_min_with;
    "the larger of it and `value`" Maximum atomic_max atomic_max_with reduce_max reduce_max_with;
}
