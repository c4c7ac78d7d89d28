//! Values made of registers, what becomes one, and their assignment.

use warpwright_ir::{Location, Operand, Register, RegisterClass};

use crate::element::Element;
use crate::operation::{here, on_behalf_of_author};
use crate::recorder;
use crate::value::{Reg, bits_word};

/// A value whose parts are device values: [`Reg`], and arrays, tuples, `Vec`s, `Option`s and
/// structs of them.
///
/// A variable of such a type can be assigned under a device-time condition and carried by a
/// device-time loop. `#[derive(DeviceValue)]` implements it for a struct; fields that are not
/// device values belong to build time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of device values",
    label = "this is a build-time value",
    note = "device values are `Reg<T>`, arrays, tuples and `Vec`s of them, and structs with `#[derive(DeviceValue)]`"
)]
pub trait DeviceValue: Yields<Self> {
    /// Whether indexing leads to device memory, not to a part of this value.
    const INDEXES_MEMORY: bool = false;

    /// Calls `visit` on every register that the value holds, in a fixed order.
    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register));

    /// Whether the build-time parts are the same, so that the registers correspond.
    fn same_shape(&self, other: &Self) -> bool;

    /// Moves build-time parts that a variable cannot keep, such as a pointer's offset, into
    /// registers.
    fn settle(&mut self) {}
}

/// What a branch of a device-time `if` may yield for the `if` to have a value of type `R`.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot become a `{R}` here",
    label = "expected a `{R}`",
    note = "a device-time `if` chooses between device values of one type, and a device variable or a `return` takes values of its \
            type; convert with `as`, or decide at build time",
    note = "a number is written in its type: `0` for an integer, `0.0` for a float, `f16::from_f32(0.5)` for `f16`; in generic code it is `T::ZERO` or `T::from_f64(0.5)` of `DeviceNumber`",
    note = "in generic code, bound the type by `DeviceValue + Copy`"
)]
pub trait Yields<R: ?Sized> {
    /// The value; its registers, in order, go to `sources`.
    fn yield_into(self, sources: &mut Sources) -> R
    where
        Self: Sized,
        R: Sized;
}

/// Where the registers of an `if`'s value come from: the word to move with, the class, the register
/// or literal.
#[derive(Default)]
pub struct Sources(pub(crate) Vec<(&'static str, RegisterClass, Operand)>);

impl Sources {
    /// The sources as registers; literals are moved into fresh ones.
    fn into_registers(self, location: Location) -> impl Iterator<Item = Register> {
        self.0.into_iter().map(move |(word, class, operand)| match operand {
            Operand::Register(register) => register,
            literal => recorder::with(|recorder| {
                let register = recorder.fresh(class);
                recorder.emit(format!("mov.{word}"), 1, vec![Operand::Register(register), literal], location);
                register
            }),
        })
    }
}

/// Collects the registers of a value as sources of the value of an `if`: required by
/// `#[derive(DeviceValue)]`.
#[track_caller]
pub fn yield_registers(value: &mut impl DeviceValue, sources: &mut Sources) {
    value.settle();
    recorder::with(|recorder| {
        value.visit_registers(&mut |register| {
            let class = recorder.class(*register);
            sources.0.push((bits_word(class), class, Operand::Register(*register)));
        });
    });
}

/// The value in registers.
#[track_caller]
pub(crate) fn yielded<V: DeviceValue, R: Yields<V>>(value: R, location: Location) -> V {
    let mut sources = Sources::default();
    let mut value = on_behalf_of_author(|| value.yield_into(&mut sources));
    let mut registers = sources.into_registers(location);
    value.visit_registers(&mut |register| *register = registers.next().unwrap_or(*register));
    value
}

/// The registers of a value.
pub(crate) fn registers<V: DeviceValue + ?Sized>(value: &mut V) -> Vec<Register> {
    let mut registers = Vec::new();
    value.visit_registers(&mut |register| registers.push(*register));
    registers
}

/// Copies the registers of `value` to the registers of `place`, or makes `place` hold them.
///
/// Build-time parts are the same in both, as `same_shape` has found.
pub(crate) fn assign_registers<V: DeviceValue>(place: &mut V, mut value: V, location: Location) {
    let mut held = registers(place).into_iter();
    recorder::with(|recorder| {
        value.visit_registers(&mut |register| {
            if let Some(place) = held.next() {
                let now = recorder.snapshot(*register, location);
                *register = recorder.assign(place, now, location);
            }
        });
    });
    *place = value;
}

/// Records `place = value`, wherever it is written.
#[track_caller]
pub(crate) fn assign<V: DeviceValue>(place: &mut V, mut value: V) {
    value.settle();
    assign_registers(place, value, here());
}

impl<T: Element> DeviceValue for Reg<T> {
    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        let mut register = self.register();
        visit(&mut register);
        *self = Reg::from_register(register);
    }

    fn same_shape(&self, _: &Self) -> bool {
        true
    }
}

impl<V: DeviceValue> DeviceValue for [V] {
    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        self.iter_mut().for_each(|value| value.visit_registers(visit));
    }

    fn same_shape(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(mine, theirs)| mine.same_shape(theirs))
    }

    #[track_caller]
    fn settle(&mut self) {
        for value in self {
            value.settle();
        }
    }
}

macro_rules! like_a_slice {
    ($([$($parameters:tt)*] $ty:ty;)*) => {
        $(impl<$($parameters)*> DeviceValue for $ty {
            fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
                self[..].visit_registers(visit);
            }

            fn same_shape(&self, other: &Self) -> bool {
                self[..].same_shape(&other[..])
            }

            #[track_caller]
            fn settle(&mut self) {
                self[..].settle();
            }
        })*
    };
}

like_a_slice! {
    [V: DeviceValue, const N: usize] [V; N];
    [V: DeviceValue] Vec<V>;
}

impl<V: DeviceValue + ?Sized> DeviceValue for Box<V> {
    const INDEXES_MEMORY: bool = V::INDEXES_MEMORY;

    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        (**self).visit_registers(visit);
    }

    fn same_shape(&self, other: &Self) -> bool {
        (**self).same_shape(other)
    }

    #[track_caller]
    fn settle(&mut self) {
        (**self).settle();
    }
}

impl<V: DeviceValue> DeviceValue for Option<V> {
    fn visit_registers(&mut self, visit: &mut dyn FnMut(&mut Register)) {
        if let Some(value) = self {
            value.visit_registers(visit);
        }
    }

    fn same_shape(&self, other: &Self) -> bool {
        match (self, other) {
            (Some(mine), Some(theirs)) => mine.same_shape(theirs),
            (None, None) => true,
            _ => false,
        }
    }

    #[track_caller]
    fn settle(&mut self) {
        if let Some(value) = self {
            value.settle();
        }
    }
}

impl<T: Element> Yields<Reg<T>> for Reg<T> {
    fn yield_into(self, sources: &mut Sources) -> Reg<T> {
        sources.0.push((bits_word(T::CLASS), T::CLASS, self.operand()));
        self
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element> Yields<Reg<T>> for T {
    fn yield_into(self, sources: &mut Sources) -> Reg<T> {
        sources.0.push((bits_word(T::CLASS), T::CLASS, literal(self)));
        Reg::from_register(recorder::NO_REGISTER)
    }
}

/// The bits of a build-time value.
fn literal<T: Element>(value: T) -> Operand {
    match (T::CLASS, value.bits()) {
        // PTX: a true predicate is any literal but zero; compilers write -1.
        (RegisterClass::Predicate, 1) => Operand::Integer(-1),
        (_, bits) => Operand::Integer(i128::from(bits)),
    }
}

macro_rules! tuples {
    ($(($($from:ident $to:ident $index:tt),*))*) => {
        $(impl<$($to: DeviceValue),*> DeviceValue for ($($to,)*) {
            fn visit_registers(&mut self, _visit: &mut dyn FnMut(&mut Register)) {
                $(self.$index.visit_registers(_visit);)*
            }

            fn same_shape(&self, _other: &Self) -> bool {
                true $(&& self.$index.same_shape(&_other.$index))*
            }

            #[track_caller]
            fn settle(&mut self) {
                $(self.$index.settle();)*
            }
        }

        impl<$($from: Yields<$to>, $to),*> Yields<($($to,)*)> for ($($from,)*) {
            #[allow(clippy::unused_unit, reason = "the tuple of no elements is the unit")]
            fn yield_into(self, _sources: &mut Sources) -> ($($to,)*) {
                ($(self.$index.yield_into(_sources),)*)
            }
        })*
    };
}

tuples! {
    ()
    (A P 0)
    (A P 0, B Q 1)
    (A P 0, B Q 1, C R 2)
    (A P 0, B Q 1, C R 2, D S 3)
    (A P 0, B Q 1, C R 2, D S 3, E T 4)
    (A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5)
    (A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5, G V 6)
    (A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5, G V 6, H W 7)
}

impl<A: Yields<R>, R, const N: usize> Yields<[R; N]> for [A; N] {
    fn yield_into(self, sources: &mut Sources) -> [R; N] {
        self.map(|value| value.yield_into(sources))
    }
}

impl<V: DeviceValue> Yields<[V]> for [V] {}

macro_rules! as_they_are {
    ($($ty:ident $(: $sized:tt)?;)*) => {
        $(impl<V: DeviceValue $(+ $sized Sized)?> Yields<$ty<V>> for $ty<V> {
            fn yield_into(mut self, sources: &mut Sources) -> Self {
                yield_registers(&mut self, sources);
                self
            }
        })*
    };
}

as_they_are! { Vec; Option; Box: ?; }
