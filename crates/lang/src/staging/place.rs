//! Reading, declaring and assigning places.
//!
//! Each wrapper holds the author's expression. Inherent methods apply to device values; for
//! everything else the compiler falls back to the trait beside it, whose methods do what Rust does.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::ops;

use warpwright_ir::Location;

use super::repetition::Repetition;
use crate::device_value::{DeviceValue, Yields, assign_registers, yielded};
use crate::element::Element;
use crate::operation::here;
use crate::recorder::{self, RegionId};
use crate::value::Reg;

const REPLACED: &str = "this assigns a build-time variable inside a device-time branch or loop: make it a \
 device value, or move the assignment out of the device-time branch or loop";

const CHANGED: &str = "this changes a build-time collection inside a device-time branch or loop: move it \
 out of the device-time branch or loop, or use an array of device values";

/// Something that reads as a device value: a value, or the element of memory that it names.
pub trait ReadableAs {
    /// What reading yields.
    type Value;
    /// Reads it now.
    fn read_now(self) -> Self::Value;
}

impl<V: DeviceValue> ReadableAs for V {
    type Value = V;
    #[track_caller]
    fn read_now(mut self) -> V {
        let location = here();
        recorder::with(|recorder| {
            self.visit_registers(&mut |register| *register = recorder.snapshot(*register, location));
        });
        self
    }
}

/// A place that is read as a value.
pub struct Reading<V>(pub V);

impl<V: ReadableAs> Reading<V> {
    /// The current value.
    #[track_caller]
    pub fn read(self) -> V::Value {
        self.0.read_now()
    }
}

/// A build-time place that is read as a value.
pub trait BuildTimeReading {
    /// The value's type.
    type Value;
    /// The value itself.
    fn read(self) -> Self::Value;
}

impl<V> BuildTimeReading for Reading<V> {
    type Value = V;
    fn read(self) -> V {
        self.0
    }
}

/// The first value of a variable declared with `mut`.
pub struct Variable<V>(pub V);

impl<V: DeviceValue> Variable<V> {
    /// The value, in registers of its own.
    #[track_caller]
    pub fn declare(mut self) -> V {
        let location = here();
        self.0.settle();
        recorder::with(|recorder| {
            self.0.visit_registers(&mut |register| *register = recorder.declare(*register, location));
        });
        self.0
    }
}

/// The first value of a build-time variable.
pub trait PlainVariable {
    /// The variable's type.
    type Value;
    /// The value itself.
    fn declare(self) -> Self::Value;
}

impl<V> PlainVariable for Variable<V> {
    type Value = V;
    fn declare(self) -> V {
        self.0
    }
}

/// A variable that a device-time loop assigns.
pub struct Carried<'place, V: ?Sized>(pub &'place mut V);

impl<V: DeviceValue + ?Sized> Carried<'_, V> {
    /// Gives the variable registers that last from one iteration to the next.
    #[track_caller]
    pub fn carry(self, repetition: &impl Repetition) {
        let location = here();
        if let Some(region) = repetition.device_region() {
            recorder::with(|recorder| {
                self.0
                    .visit_registers(&mut |register| *register = recorder.carry(*register, region, location));
            });
        }
    }

    /// The same for a variable of which the loop assigns elements.
    #[track_caller]
    pub fn carry_elements(self, repetition: &impl Repetition) {
        if !V::INDEXES_MEMORY {
            self.carry(repetition);
        }
    }
}

/// A variable that a loop assigns at build time.
pub trait BuildTimeCarried: Sized {
    /// There is nothing to carry.
    fn carry(self, _: &impl Repetition) {}
    /// There is nothing to carry.
    fn carry_elements(self, _: &impl Repetition) {}
}

impl<V: ?Sized> BuildTimeCarried for Carried<'_, V> {}

/// A place that is assigned; with it, the region that its variable was declared in.
pub struct Assigned<'place, V>(pub &'place mut V, pub Option<RegionId>);

impl<V> Assigned<'_, V> {
    fn judge(&self, location: Location, message: &str) {
        if let Some(since) = self.1 {
            recorder::with(|recorder| recorder.judge_build_time_change(since, location, message));
        }
    }
}

impl<V: DeviceValue> Assigned<'_, V> {
    /// Records `place = value`.
    #[track_caller]
    pub fn assign<R: Yields<V>>(self, value: R) {
        let location = here();
        let mut value = yielded(value, location);
        value.settle();
        if self.0.same_shape(&value) {
            assign_registers(self.0, value, location);
        } else {
            self.judge(location, REPLACED);
            *self.0 = value;
        }
    }
}

/// A build-time place that is assigned.
pub trait BuildTimeAssigned {
    /// The place's type.
    type Value;
    /// Does `place = value`.
    fn assign(self, value: Self::Value);
}

impl<V> BuildTimeAssigned for Assigned<'_, V> {
    type Value = V;
    #[track_caller]
    fn assign(self, value: V) {
        self.judge(here(), REPLACED);
        *self.0 = value;
    }
}

/// A place that `+=` and its like update on the device.
pub trait CompoundAssigned: ReadableAs {
    /// The current value.
    fn current(&self) -> Self::Value;
    /// Records `place = value`.
    fn update(&mut self, value: Self::Value);
}

impl<T: Element> CompoundAssigned for Reg<T> {
    fn current(&self) -> Self {
        *self
    }

    #[track_caller]
    fn update(&mut self, value: Self) {
        assign_registers(self, value, here());
    }
}

macro_rules! compound_assignments {
    ($($operator:ident $method:ident $operator_assign:ident $method_assign:ident $symbol:literal $message:literal;)*) => {
        impl<V: CompoundAssigned> Assigned<'_, V> {
            $(
                #[doc = concat!("Records `place ", $symbol, "= value`.")]
                #[track_caller]
                pub fn $method_assign<R>(self, value: R)
                where
                    V::Value: ops::$operator<R, Output = V::Value>,
                {
                    let combined = ops::$operator::$method(self.0.current(), value);
                    self.0.update(combined);
                }
            )*
        }

        /// Compound assignment of a struct made of device values: its own operator records.
        pub trait OperatorAssigned<V> {
            $(
                #[doc = concat!("Does `place ", $symbol, "= value`.")]
                fn $method_assign<R>(self, value: R) where V: ops::$operator_assign<R>;
            )*
        }

        impl<V: DeviceValue> OperatorAssigned<V> for Assigned<'_, V> {
            $(
                #[track_caller]
                fn $method_assign<R>(self, value: R) where V: ops::$operator_assign<R> {
                    ops::$operator_assign::$method_assign(self.0, value);
                }
            )*
        }

        /// Compound assignment of a build-time place.
        pub trait BuildTimeOperatorAssigned<V> {
            $(
                #[doc = concat!("Does `place ", $symbol, "= value`.")]
                fn $method_assign<R>(self, value: R) where V: $operator_assign<R>;
            )*
        }

        impl<V> BuildTimeOperatorAssigned<V> for &mut Assigned<'_, V> {
            $(
                #[track_caller]
                fn $method_assign<R>(self, value: R) where V: $operator_assign<R> {
                    self.judge(here(), REPLACED);
                    $operator_assign::apply(self.0, value);
                }
            )*
        }

        $(
            #[doc = concat!("`", $symbol, "=` at build time.")]
            #[diagnostic::on_unimplemented(
                message = $message,
                label = "a build-time variable holds no device value",
                note = "to keep it on the device, declare it as a device value: `let mut x: Reg<{Self}> = ...`"
            )]
            pub trait $operator_assign<R> {
                #[doc = concat!("Does `place ", $symbol, "= value`.")]
                fn apply(&mut self, value: R);
            }

            #[diagnostic::do_not_recommend]
            impl<V: ops::$operator_assign<R>, R> $operator_assign<R> for V {
                #[track_caller]
                fn apply(&mut self, value: R) {
                    ops::$operator_assign::$method_assign(self, value);
                }
            }
        )*
    };
}

compound_assignments! {
    Add add AddAssign add_assign "+" "`{Self} += {R}` is not possible: the variable is a build-time `{Self}`";
    Sub sub SubAssign sub_assign "-" "`{Self} -= {R}` is not possible: the variable is a build-time `{Self}`";
    Mul mul MulAssign mul_assign "*" "`{Self} *= {R}` is not possible: the variable is a build-time `{Self}`";
    Div div DivAssign div_assign "/" "`{Self} /= {R}` is not possible: the variable is a build-time `{Self}`";
    Rem rem RemAssign rem_assign "%" "`{Self} %= {R}` is not possible: the variable is a build-time `{Self}`";
    BitAnd bitand BitAndAssign bitand_assign "&" "`{Self} &= {R}` is not possible: the variable is a build-time `{Self}`";
    BitOr bitor BitOrAssign bitor_assign "|" "`{Self} |= {R}` is not possible: the variable is a build-time `{Self}`";
    BitXor bitxor BitXorAssign bitxor_assign "^" "`{Self} ^= {R}` is not possible: the variable is a build-time `{Self}`";
    Shl shl ShlAssign shl_assign "<<" "`{Self} <<= {R}` is not possible: the variable is a build-time `{Self}`";
    Shr shr ShrAssign shr_assign ">>" "`{Self} >>= {R}` is not possible: the variable is a build-time `{Self}`";
}

/// A place whose method `push`, `insert` or the like is called.
pub struct Changed<'place, C: ?Sized>(pub &'place C);

impl<C: BuildTimeCollection + ?Sized> Changed<'_, C> {
    /// Refuses the change inside a device-time branch or loop.
    #[track_caller]
    pub fn judge(self, since: RegionId) {
        let location = here();
        recorder::with(|recorder| recorder.judge_build_time_change(since, location, CHANGED));
    }
}

/// A place whose methods are not checked.
pub trait UnjudgedChange: Sized {
    /// There is nothing to judge.
    fn judge(self, _: RegionId) {}
}

impl<C: ?Sized> UnjudgedChange for Changed<'_, C> {}

/// A collection of Rust's, which exists at build time.
pub trait BuildTimeCollection {}

impl<T> BuildTimeCollection for Vec<T> {}
impl<T> BuildTimeCollection for VecDeque<T> {}
impl<T> BuildTimeCollection for BinaryHeap<T> {}
impl<T> BuildTimeCollection for BTreeSet<T> {}
impl<K, V> BuildTimeCollection for BTreeMap<K, V> {}
impl<T, S> BuildTimeCollection for HashSet<T, S> {}
impl<K, V, S> BuildTimeCollection for HashMap<K, V, S> {}
impl BuildTimeCollection for String {}
impl<C: BuildTimeCollection + ?Sized> BuildTimeCollection for &mut C {}
