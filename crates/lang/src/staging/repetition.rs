//! `for`, `while` and `loop`.

use std::iter;

use warpwright_ir::{Label, Location, Statement};

use super::branch::{Condition, WhileTest};
use super::range::{Counting, DeviceRange, RangeElement};
use super::region::{ended, region};
use crate::device_value::{DeviceValue, assign_registers};
use crate::element::Element;
use crate::operation::here;
use crate::recorder::{self, Choice, RegionId};
use crate::value::Reg;

/// Maximum number of build-time iterations of a `loop` or `while` before it counts as endless.
const BUILD_TIME_ROUNDS: u64 = 1 << 20;

const LEAVES: &str = "this leaves a build-time loop, which runs while the kernel is built, on a \
 device-time condition: make the loop's bounds or condition device values, or decide at build time";

/// A loop that is running, at build time or on the device.
pub trait Repetition {
    /// The region that a device-time loop opens.
    fn device_region(&self) -> Option<RegionId>;
    /// The loop that is being recorded, if one is.
    fn label(&self) -> Option<Label>;
    /// The region around it, or the region of an undecided loop.
    fn base(&self) -> RegionId;

    /// Carries out a `break`: true if by Rust, now.
    #[track_caller]
    fn breaks(&self) -> bool {
        leave(self, Statement::Break) == Choice::BuildTime
    }

    /// Carries out a `continue`: true if by Rust, now.
    #[track_caller]
    fn continues(&self) -> bool {
        leave(self, Statement::Continue) == Choice::BuildTime
    }
}

#[track_caller]
fn leave<R: Repetition + ?Sized>(repetition: &R, statement: fn(Label, Location) -> Statement) -> Choice {
    let location = here();
    recorder::with(|recorder| {
        let label = repetition.label();
        let decided = label.is_some_and(|label| recorder.is_decided(label));
        if !decided && recorder.may_leave_at_build_time(repetition.base()) {
            return Choice::BuildTime;
        }
        match label {
            Some(label) => recorder.leave(Some(label), statement(label, location)),
            None => recorder.refuse_to_leave(repetition.base(), location, LEAVES),
        }
        Choice::Device
    })
}

/// What `for` iterates over: an iterator at build time, or a range that the device counts.
#[diagnostic::on_unimplemented(
    message = "`for` cannot iterate over a `{Self}`",
    label = "this is neither an iterator nor a device-time range",
    note = "write a device-time range in the head of the `for`: `for i in 0..n`"
)]
pub trait Iterate {
    /// The iterations.
    type Rounds;
    /// Begins the `for`.
    fn rounds(self) -> Self::Rounds;
}

#[diagnostic::do_not_recommend]
impl<I: IntoIterator> Iterate for I {
    type Rounds = BuildTimeLoop<I::IntoIter>;
    #[track_caller]
    fn rounds(self) -> Self::Rounds {
        BuildTimeLoop { base: region(), iterator: self.into_iter() }
    }
}

impl<T: RangeElement> Iterate for DeviceRange<T> {
    type Rounds = DeviceLoop<T>;
    #[track_caller]
    fn rounds(self) -> DeviceLoop<T> {
        let location = here();
        let (base, region) =
            recorder::with(|recorder| (recorder.region(), recorder.reserve_region(location)));
        DeviceLoop { base, region, location, range: Some(self), counting: None }
    }
}

/// The head of a `for` that is not written as a range.
pub struct Head<V>(pub V);

/// A device value that a `for` goes through: no type has this trait.
#[diagnostic::on_unimplemented(
    message = "`for` iterates over a range or an iterator, and this is one device value",
    label = "write a range: `for i in 0..n`"
)]
pub trait Countable {}

impl<T: Element> Head<Reg<T>> {
    /// A device value has no iterations.
    pub fn rounds(self) -> BuildTimeLoop<iter::Empty<Reg<T>>>
    where
        Reg<T>: Countable,
    {
        unreachable!("no device value is a range")
    }
}

/// A head that gives the iterations.
pub trait IteratedHead<V> {
    /// Begins the `for`.
    fn rounds(self) -> V::Rounds
    where
        V: Iterate;
}

impl<V> IteratedHead<V> for Head<V> {
    #[track_caller]
    fn rounds(self) -> V::Rounds
    where
        V: Iterate,
    {
        self.0.rounds()
    }
}

/// A `for` that runs at build time.
pub struct BuildTimeLoop<I> {
    base: RegionId,
    iterator: I,
}

impl<I> BuildTimeLoop<I> {
    /// The value of the next iteration.
    #[allow(clippy::should_implement_trait, reason = "it is no iterator to anyone else")]
    pub fn next(&mut self) -> Option<I::Item>
    where
        I: Iterator,
    {
        self.iterator.next()
    }

    /// Whether the code after the iteration is unreachable.
    #[track_caller]
    pub fn round_ends_all(&self) -> bool {
        ended()
    }

    /// Ends the loop; true if what follows is never reached.
    #[track_caller]
    pub fn finish(self) -> bool {
        ended()
    }
}

impl<I> Repetition for BuildTimeLoop<I> {
    fn device_region(&self) -> Option<RegionId> {
        None
    }

    fn label(&self) -> Option<Label> {
        None
    }

    fn base(&self) -> RegionId {
        self.base
    }
}

/// A `for` that the device counts.
pub struct DeviceLoop<T: RangeElement> {
    base: RegionId,
    region: RegionId,
    location: Location,
    range: Option<DeviceRange<T>>,
    counting: Option<Counting>,
}

impl<T: RangeElement> DeviceLoop<T> {
    /// The counter, once: the body is recorded once.
    #[allow(clippy::should_implement_trait, reason = "it is no iterator to anyone else")]
    #[track_caller]
    pub fn next(&mut self) -> Option<Reg<T>> {
        if let Some(range) = self.range.take() {
            let (counting, counter) = range.begin(self.region, self.location);
            self.counting = Some(counting);
            return Some(counter);
        }
        if let Some(counting) = self.counting.take() {
            counting.end(T::CLASS);
        }
        None
    }

    /// The device-time loop continues at the end of an iteration.
    pub fn round_ends_all(&self) -> bool {
        false
    }

    /// Ends the loop; true if what follows is never reached.
    #[track_caller]
    pub fn finish(self) -> bool {
        ended()
    }
}

impl<T: RangeElement> Repetition for DeviceLoop<T> {
    fn device_region(&self) -> Option<RegionId> {
        Some(self.region)
    }

    fn label(&self) -> Option<Label> {
        self.counting.as_ref().map(|counting| counting.label)
    }

    fn base(&self) -> RegionId {
        self.base
    }
}

impl<T: RangeElement> Drop for DeviceLoop<T> {
    fn drop(&mut self) {
        if self.counting.is_some() && !std::thread::panicking() {
            recorder::with(|recorder| recorder.abandon(self.region, self.location));
        }
    }
}

/// A `loop` or `while`. It begins undecided, and its first iteration shows whether the device or
/// the build repeats it.
pub struct Endless {
    base: RegionId,
    region: RegionId,
    location: Location,
    state: State,
    rounds: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Begin,
    /// The first iteration is being recorded.
    First(Label),
    BuildTime,
    Ended,
}

impl Endless {
    /// Begins the loop.
    #[track_caller]
    #[allow(clippy::new_without_default, reason = "it notes the author's position")]
    pub fn new() -> Self {
        let location = here();
        recorder::with(|recorder| Self {
            base: recorder.region(),
            region: recorder.reserve_region(location),
            location,
            state: State::Begin,
            rounds: 0,
        })
    }

    /// Begins the next iteration, if there is one.
    #[allow(clippy::should_implement_trait, reason = "it is no iterator to anyone else")]
    pub fn next(&mut self) -> bool {
        match self.state {
            State::Begin => {
                let label = recorder::with(|recorder| recorder.open_loop(self.region, false, self.location));
                self.state = State::First(label);
                true
            }
            State::First(label) => {
                if recorder::with(|recorder| recorder.is_decided(label)) {
                    recorder::with(|recorder| recorder.close_loop());
                    self.state = State::Ended;
                    return false;
                }
                self.dissolve();
                self.go_on()
            }
            State::BuildTime => self.go_on(),
            State::Ended => false,
        }
    }

    fn go_on(&mut self) -> bool {
        self.rounds += 1;
        if self.rounds < BUILD_TIME_ROUNDS {
            return true;
        }
        recorder::with(|recorder| {
            recorder.error(
                self.location,
                "this loop has run a million iterations at build time: for a device-time loop, leave it \
                 on a device-time condition",
            );
        });
        false
    }

    fn dissolve(&mut self) {
        recorder::with(|recorder| {
            if recorder.is_open_now(self.region) {
                recorder.dissolve_loop();
            }
        });
        self.state = State::BuildTime;
    }

    /// Whether this iteration of `while` runs.
    #[track_caller]
    pub fn holds(&mut self, condition: impl Condition) -> bool {
        let label = self.label();
        match condition.holds_in(label) {
            WhileTest::BuildTime(holds) => {
                if let Some(label) = label
                    && !recorder::with(|recorder| recorder.is_decided(label))
                {
                    self.dissolve();
                }
                holds
            }
            WhileTest::Device => label.is_some(),
        }
    }

    /// Whether the code after the iteration is unreachable: a build-time loop ends with it.
    #[track_caller]
    pub fn round_ends_all(&self) -> bool {
        match self.state {
            State::First(label) => recorder::with(|recorder| !recorder.is_decided(label) && recorder.ended()),
            _ => ended(),
        }
    }

    /// Ends the loop; true if what follows is never reached.
    #[track_caller]
    pub fn finish(mut self) -> bool {
        self.end();
        ended()
    }

    /// Ends the loop by a build-time jump: the recorded iteration of an undecided loop is kept.
    fn end(&mut self) {
        if let State::First(label) = self.state {
            if recorder::with(|recorder| recorder.is_decided(label)) {
                recorder::with(|recorder| recorder.abandon(self.region, self.location));
            } else {
                self.dissolve();
            }
        }
        self.state = State::Ended;
    }
}

impl Repetition for Endless {
    fn device_region(&self) -> Option<RegionId> {
        matches!(self.state, State::Begin | State::First(_)).then_some(self.region)
    }

    fn label(&self) -> Option<Label> {
        match self.state {
            State::First(label) => Some(label),
            _ => None,
        }
    }

    fn base(&self) -> RegionId {
        match self.state {
            State::First(_) => self.region,
            _ => self.base,
        }
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// The value of a `loop`, from its `break`s.
pub struct LoopValue<V>(Option<V>);

impl<V> LoopValue<V> {
    /// No value yet.
    #[allow(clippy::new_without_default, reason = "what the expansion calls")]
    pub fn new() -> Self {
        Self(None)
    }

    /// The value, unless nothing leaves the loop.
    pub fn take(self) -> Option<V> {
        self.0
    }
}

/// The value of a `break`.
pub struct Broken<V>(pub V);

impl<V: DeviceValue> Broken<V> {
    /// Notes it as the value of the loop.
    #[track_caller]
    pub fn note(self, result: &mut LoopValue<V>, repetition: &impl Repetition) {
        let location = here();
        let mut value = self.0;
        value.settle();
        match &mut result.0 {
            Some(own) if own.same_shape(&value) => assign_registers(own, value, location),
            Some(own) => *own = value,
            None => {
                if let Some(region) = repetition.device_region() {
                    recorder::with(|recorder| {
                        value.visit_registers(&mut |register| {
                            *register = recorder.result_of(region, *register, location);
                        });
                    });
                }
                result.0 = Some(value);
            }
        }
    }
}

/// The build-time value of a `break`.
pub trait BuildTimeBroken<V> {
    /// Notes it as the value of the loop.
    fn note(self, result: &mut LoopValue<V>, repetition: &impl Repetition);
}

impl<V> BuildTimeBroken<V> for Broken<V> {
    #[track_caller]
    fn note(self, result: &mut LoopValue<V>, repetition: &impl Repetition) {
        let location = here();
        recorder::with(|recorder| {
            recorder.judge_build_time_change(
                repetition.base(),
                location,
                "a device-time loop cannot end with a build-time value: `break` with a device value",
            );
        });
        result.0 = Some(self.0);
    }
}
