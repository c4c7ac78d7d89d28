//! `if`.

use warpwright_ir::{Label, Location, Operand, Register, RegisterClass, Statement};

use super::device_value::DeviceValue;
use crate::element::Element;
use crate::operation::{here, on_behalf_of_author};
use crate::recorder::{self, IfResult, RegionId};
use crate::value::{Reg, bits_word};

/// The condition of `if` and `while`: `bool` is decided at build time, `Reg<bool>` on the device.
#[diagnostic::on_unimplemented(
    message = "a condition is a `bool` or a `Reg<bool>`, not `{Self}`",
    label = "not a condition",
    note = "compare it with something: `x != 0`"
)]
pub trait Condition {
    /// The `if` of this kind of condition.
    type Branch;
    /// Begins an `if`.
    fn branch(self) -> Self::Branch;
    /// Whether the round of `while` executes; on the device, records the exit of the loop `label`.
    fn holds_in(self, label: Option<Label>) -> WhileTest;
}

/// What a `while`'s condition said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileTest {
    /// At build time: go on or not.
    BuildTime(bool),
    /// The device decides.
    Device,
}

impl Condition for bool {
    type Branch = BuildTimeBranch;

    fn branch(self) -> BuildTimeBranch {
        BuildTimeBranch { holds: self }
    }

    fn holds_in(self, _: Option<Label>) -> WhileTest {
        WhileTest::BuildTime(self)
    }
}

impl Condition for Reg<bool> {
    type Branch = DeviceBranch;

    #[track_caller]
    fn branch(self) -> DeviceBranch {
        let location = here();
        let region = recorder::with(|recorder| {
            recorder.open_then(self.register(), location);
            recorder.region()
        });
        DeviceBranch { region, location, part: Part::Begin, then_ended: false, closed: false }
    }

    #[track_caller]
    fn holds_in(self, label: Option<Label>) -> WhileTest {
        let location = here();
        recorder::with(|recorder| match label {
            Some(label) => {
                recorder.decide_loop(label);
                recorder.open_then(self.register(), location);
                recorder.open_otherwise();
                recorder.leave(Some(label), Statement::Break(label, location));
                recorder.close_if();
            }
            None => recorder.error(
                location,
                "this `while` began at build time, and now its condition is a device value: use one kind \
                 of condition",
            ),
        });
        WhileTest::Device
    }
}

/// An `if` that was decided at build time.
pub struct BuildTimeBranch {
    holds: bool,
}

impl BuildTimeBranch {
    /// Whether the first branch runs.
    pub fn then(&mut self) -> bool {
        self.holds
    }

    /// Whether the second branch runs.
    pub fn otherwise(&mut self) -> bool {
        !self.holds
    }

    /// Ends the `if`; true if what follows is never reached.
    #[track_caller]
    pub fn finish(self) -> bool {
        super::ended()
    }

    /// The value of the `if`, unless what follows is never reached.
    pub fn join<V>(self, then: Option<V>, otherwise: Option<V>) -> Option<V> {
        then.or(otherwise)
    }

    /// The value of an `if` whose second branch does not reach its end.
    pub fn join_then<V>(self, then: Option<V>) -> Option<V> {
        then
    }

    /// The value of an `if` whose first branch does not reach its end.
    pub fn join_otherwise<V>(self, otherwise: Option<V>) -> Option<V> {
        otherwise
    }
}

#[derive(PartialEq)]
enum Part {
    Begin,
    Then,
    Otherwise,
}

/// An `if` that the device decides: both branches are recorded.
pub struct DeviceBranch {
    region: RegionId,
    location: Location,
    part: Part,
    then_ended: bool,
    closed: bool,
}

impl DeviceBranch {
    /// Enters the first branch.
    #[track_caller]
    pub fn then(&mut self) -> bool {
        self.part = Part::Then;
        true
    }

    /// Enters the second branch.
    #[track_caller]
    pub fn otherwise(&mut self) -> bool {
        self.part = Part::Otherwise;
        self.then_ended = super::ended();
        recorder::with(|recorder| recorder.open_otherwise());
        true
    }

    /// Ends the `if`; true if what follows is never reached.
    #[track_caller]
    pub fn finish(mut self) -> bool {
        self.closed = true;
        recorder::with(|recorder| {
            recorder.close_if();
            recorder.ended()
        })
    }

    /// The value of the `if`, unless what follows is never reached.
    #[track_caller]
    pub fn join<R: DeviceValue, A: Yields<R>, B: Yields<R>>(
        mut self,
        then: Option<A>,
        otherwise: Option<B>,
    ) -> Option<R> {
        self.closed = true;
        let (mut from_then, mut from_otherwise) = (Sources::default(), Sources::default());
        // A pointer may compute its address here.
        let (then, otherwise) = on_behalf_of_author(|| {
            let then = then.map(|value| value.yield_into(&mut from_then));
            (then, otherwise.map(|value| value.yield_into(&mut from_otherwise)))
        });
        recorder::with(|recorder| {
            let otherwise_ended = recorder.ended();
            if let (Some(then), Some(otherwise)) = (&then, &otherwise)
                && !then.same_shape(otherwise)
            {
                recorder.error(
                    self.location,
                    "the two branches of this device-time `if` yield values that differ in what is known at build time",
                );
            }
            let classes = if then.is_some() { &from_then } else { &from_otherwise };
            let source = |sources: &Sources, ended: bool, index: usize| {
                sources.0.get(index).filter(|_| !ended).map(|(word, _, operand)| (*word, operand.clone()))
            };
            let results = (0..classes.0.len())
                .map(|index| IfResult {
                    class: classes.0[index].1,
                    then: source(&from_then, self.then_ended, index),
                    otherwise: source(&from_otherwise, otherwise_ended, index),
                })
                .collect();
            let mut registers = recorder.close_if_with(results).into_iter();
            let mut value = then.or(otherwise)?;
            value.visit_registers(&mut |register| {
                *register = registers.next().unwrap_or(*register);
            });
            Some(value)
        })
    }

    /// The value of an `if` whose second branch does not reach its end.
    #[track_caller]
    pub fn join_then<R: DeviceValue, A: Yields<R>>(self, then: Option<A>) -> Option<R> {
        self.join::<R, A, Never>(then, None)
    }

    /// The value of an `if` whose first branch does not reach its end.
    #[track_caller]
    pub fn join_otherwise<R: DeviceValue, B: Yields<R>>(self, otherwise: Option<B>) -> Option<R> {
        self.join::<R, Never, B>(None, otherwise)
    }
}

impl Drop for DeviceBranch {
    fn drop(&mut self) {
        if !self.closed && !std::thread::panicking() {
            recorder::with(|recorder| recorder.abandon(self.region, self.location));
        }
    }
}

/// Where the registers of an `if`'s value come from: the word to move with, the class, the register
/// or literal.
#[derive(Default)]
pub struct Sources(Vec<(&'static str, RegisterClass, Operand)>);

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

/// The value in registers.
#[track_caller]
pub(super) fn yielded<V: DeviceValue, R: Yields<V>>(value: R, location: Location) -> V {
    let mut sources = Sources::default();
    let mut value = on_behalf_of_author(|| value.yield_into(&mut sources));
    let mut registers = sources.into_registers(location);
    value.visit_registers(&mut |register| *register = registers.next().unwrap_or(*register));
    value
}

/// The value of a branch that does not reach its end.
pub enum Never {}

impl Sources {
    /// The sources as registers; literals are moved into fresh ones.
    pub(super) fn into_registers(self, location: Location) -> impl Iterator<Item = Register> {
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

impl<R> Yields<R> for Never {
    fn yield_into(self, _: &mut Sources) -> R {
        match self {}
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

macro_rules! tuples {
    ($(($($from:ident $to:ident $index:tt),*))*) => {
        $(impl<$($from: Yields<$to>, $to),*> Yields<($($to,)*)> for ($($from,)*) {
            fn yield_into(self, sources: &mut Sources) -> ($($to,)*) {
                ($(self.$index.yield_into(sources),)*)
            }
        })*
    };
}

impl Yields<()> for () {
    fn yield_into(self, _: &mut Sources) {}
}

tuples! {
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

/// The bits of a build-time value.
fn literal<T: Element>(value: T) -> Operand {
    match (T::CLASS, value.bits()) {
        // PTX: a true predicate is any literal but zero; compilers write -1.
        (RegisterClass::Predicate, 1) => Operand::Integer(-1),
        (_, bits) => Operand::Integer(i128::from(bits)),
    }
}
