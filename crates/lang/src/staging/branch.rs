//! `if`.

use warpwright_ir::{Label, Location, Statement};

use super::region::ended;
use crate::device_value::{DeviceValue, Sources, Yields};
use crate::operation::{here, on_behalf_of_author};
use crate::recorder::{self, IfResult, RegionId};
use crate::value::Reg;

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
        ended()
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
        self.then_ended = ended();
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

/// The value of a branch that does not reach its end.
pub enum Never {}

impl<R> Yields<R> for Never {
    fn yield_into(self, _: &mut Sources) -> R {
        match self {}
    }
}
