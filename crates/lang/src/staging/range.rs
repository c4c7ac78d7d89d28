//! The ranges of `for`.

use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};

use warpwright_ir::{Label, Location, Operand, Register, RegisterClass, Statement};

use crate::element::{Element, Kind};
use crate::operation::refuse;
use crate::recorder::{self, RegionId};
use crate::value::{Reg, bits_word};

/// `start..end` in the head of a `for`: a device-time range if either bound is a device value.
#[diagnostic::on_unimplemented(
    message = "a range cannot go from `{Self}` to `{E}`",
    label = "the bounds of a range are integers of one type, on the device or at build time",
    note = "declare both with one type, or convert one of them: `n as u32`"
)]
pub trait Bounds<E> {
    /// The range.
    type Range;
    /// `self..end`
    fn until(self, end: E) -> Self::Range;
}

/// `start..=end` in the head of a `for`.
#[diagnostic::on_unimplemented(
    message = "a range cannot go from `{Self}` to `{E}`",
    label = "the bounds of a range are integers of one type, on the device or at build time",
    note = "declare both with one type, or convert one of them: `n as u32`"
)]
pub trait InclusiveBounds<E> {
    /// The range.
    type Range;
    /// `self..=end`
    fn through(self, end: E) -> Self::Range;
}

/// The step of a range: a build-time or device value of the range's type.
#[diagnostic::on_unimplemented(
    message = "a device-time range of `{T}` cannot step by `{Self}`",
    label = "the step is a `{T}` or a `Reg<{T}>`"
)]
pub trait Stride<T>: Copy {
    /// As an operand.
    fn stride(self) -> Operand;
    /// Its value if that is known at build time.
    fn known(self) -> Option<u64>;
}

impl<T: RangeElement> Stride<T> for Reg<T> {
    fn stride(self) -> Operand {
        self.operand()
    }

    fn known(self) -> Option<u64> {
        None
    }
}

impl<T: RangeElement> Stride<T> for T {
    fn stride(self) -> Operand {
        Operand::Integer(self.bits().into())
    }

    fn known(self) -> Option<u64> {
        Some(self.bits())
    }
}

/// An integer that ranges count in.
pub trait RangeElement: Element {
    /// As a literal.
    fn literal(self) -> Operand;
}

macro_rules! range_elements {
    ($($ty:ty)*) => {
        $(
            impl RangeElement for $ty {
                fn literal(self) -> Operand {
                    Operand::Integer(self.into())
                }
            }

            impl Bounds<Reg<$ty>> for $ty {
                type Range = DeviceRange<$ty>;
                fn until(self, end: Reg<$ty>) -> DeviceRange<$ty> {
                    DeviceRange::new(self.literal(), end.operand(), false)
                }
            }

            impl InclusiveBounds<Reg<$ty>> for $ty {
                type Range = DeviceRange<$ty>;
                fn through(self, end: Reg<$ty>) -> DeviceRange<$ty> {
                    DeviceRange::new(self.literal(), end.operand(), true)
                }
            }
        )*
        build_time_ranges! { $($ty)* }
    };
}

macro_rules! build_time_ranges {
    ($($ty:ty)*) => {
        $(
            impl BuildTimeBound for $ty {}
        )*
    };
}

/// An integer type with Rust ranges that iterate.
pub trait BuildTimeBound {}

#[diagnostic::do_not_recommend]
impl<T: BuildTimeBound> Bounds<T> for T {
    type Range = Range<T>;
    fn until(self, end: T) -> Range<T> {
        self..end
    }
}

#[diagnostic::do_not_recommend]
impl<T: BuildTimeBound> InclusiveBounds<T> for T {
    type Range = RangeInclusive<T>;
    fn through(self, end: T) -> RangeInclusive<T> {
        self..=end
    }
}

range_elements! { u8 u16 u32 u64 i8 i16 i32 i64 }
build_time_ranges! { usize isize u128 i128 char }

impl<T: RangeElement> Bounds<Reg<T>> for Reg<T> {
    type Range = DeviceRange<T>;
    fn until(self, end: Reg<T>) -> DeviceRange<T> {
        DeviceRange::new(self.operand(), end.operand(), false)
    }
}

impl<T: RangeElement> Bounds<T> for Reg<T> {
    type Range = DeviceRange<T>;
    fn until(self, end: T) -> DeviceRange<T> {
        DeviceRange::new(self.operand(), end.literal(), false)
    }
}

impl<T: RangeElement> InclusiveBounds<Reg<T>> for Reg<T> {
    type Range = DeviceRange<T>;
    fn through(self, end: Reg<T>) -> DeviceRange<T> {
        DeviceRange::new(self.operand(), end.operand(), true)
    }
}

impl<T: RangeElement> InclusiveBounds<T> for Reg<T> {
    type Range = DeviceRange<T>;
    fn through(self, end: T) -> DeviceRange<T> {
        DeviceRange::new(self.operand(), end.literal(), true)
    }
}

/// A range that the device counts through. Its bounds were read when it was made.
pub struct DeviceRange<T> {
    start: Operand,
    end: Operand,
    /// Whether `end` itself is included.
    inclusive: bool,
    direction: Direction,
    element: PhantomData<T>,
}

/// The direction and the step in which a range is counted.
enum Direction {
    Ascending,
    Descending,
    /// With a step, from the first.
    AscendingBy(Stepping),
    /// With a step, from the last.
    DescendingBy(Stepping),
    /// The numbers of `AscendingBy`, from the last of them.
    ReversedBy(Stepping),
}

struct Stepping {
    stride: Operand,
}

/// How to count, once the form is known: the loop is
/// `if any { i = first; loop { ..; if !(i CONTINUES limit) break; i STEPS stride } }`.
struct Plan {
    any: Register,
    first: Operand,
    continues: &'static str,
    limit: Operand,
    steps: &'static str,
    stride: Operand,
}

impl<T: RangeElement> DeviceRange<T> {
    fn new(start: Operand, end: Operand, inclusive: bool) -> Self {
        Self { start, end, inclusive, direction: Direction::Ascending, element: PhantomData }
    }

    /// Every `stride`-th number.
    #[track_caller]
    pub fn step_by(mut self, stride: impl Stride<T>) -> Self {
        if stride.known() == Some(0) {
            refuse("a range cannot step by 0");
        }
        let stepping = Stepping { stride: stride.stride() };
        self.direction = match self.direction {
            Direction::Ascending => Direction::AscendingBy(stepping),
            Direction::Descending => Direction::DescendingBy(stepping),
            other => {
                refuse("a device-time range takes one `step_by`: multiply the steps");
                other
            }
        };
        self
    }

    /// The same numbers from the last to the first.
    #[track_caller]
    #[allow(clippy::should_implement_trait, reason = "it is what ranges call it")]
    pub fn rev(mut self) -> Self {
        self.direction = match self.direction {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
            Direction::AscendingBy(stepping) => Direction::ReversedBy(stepping),
            Direction::ReversedBy(stepping) => Direction::AscendingBy(stepping),
            other => {
                refuse("a device-time range that is reversed and stepped cannot be reversed again");
                other
            }
        };
        self
    }

    /// Opens the loop; its counter.
    pub(super) fn begin(self, region: RegionId, location: Location) -> (Counting, Reg<T>) {
        let word = word::<T>();
        let mut instructions = Instructions { location, class: T::CLASS };
        if let (Direction::Ascending, false) = (&self.direction, self.inclusive) {
            // for: loop { if !(i < end) break; ..; i += 1 }
            let counter = instructions.compute(format!("mov.{}", bits_word(T::CLASS)), vec![self.start]);
            let label = recorder::with(|recorder| recorder.open_loop(region, true, location));
            let goes_on = instructions.compare(format!("setp.lt.{word}"), counter, self.end);
            instructions.break_unless(goes_on, label);
            let step = Step { test: None, opcode: format!("add.{word}"), stride: Operand::Integer(1) };
            return (
                Counting { label, counter, step, guarded: false, location },
                Reg::from_register(counter),
            );
        }
        let plan = self.plan(&mut instructions);
        recorder::with(|recorder| recorder.open_then(plan.any, location));
        let counter = instructions.compute(format!("mov.{}", bits_word(T::CLASS)), vec![plan.first]);
        let label = recorder::with(|recorder| recorder.open_loop(region, true, location));
        let step = Step {
            test: Some((format!("setp.{}.{word}", plan.continues), plan.limit)),
            opcode: format!("{}.{word}", plan.steps),
            stride: plan.stride,
        };
        (Counting { label, counter, step, guarded: true, location }, Reg::from_register(counter))
    }

    /// Nothing here overflows where its result is used: `span` is a distance, taken as unsigned.
    fn plan(self, instructions: &mut Instructions) -> Plan {
        let word = word::<T>();
        let unsigned = unsigned_word::<T>();
        let relation = if self.inclusive { "le" } else { "lt" };
        let opcode = format!("setp.{relation}.{word}");
        let any = instructions.predicate(opcode, vec![self.start.clone(), self.end.clone()]);
        let one = Operand::Integer(1);
        let last = match self.inclusive {
            true => self.end,
            false => {
                Operand::Register(instructions.compute(format!("sub.{word}"), vec![self.end, one.clone()]))
            }
        };
        let start = self.start;
        let (descending, stride, aligned) = match self.direction {
            Direction::Ascending => (false, one.clone(), false),
            Direction::Descending => (true, one.clone(), false),
            Direction::AscendingBy(stepping) => (false, stepping.stride, false),
            Direction::DescendingBy(stepping) => (true, stepping.stride, false),
            Direction::ReversedBy(stepping) => (true, stepping.stride, true),
        };
        let span = instructions.compute(format!("sub.{word}"), vec![last.clone(), start.clone()]);
        let span = Operand::Register(span);
        let more = instructions.predicate(format!("setp.ge.{unsigned}"), vec![span.clone(), stride.clone()]);
        let mut arithmetic = |name: &str, word: &str, a: Operand, b: Operand| {
            Operand::Register(instructions.compute(format!("{name}.{word}"), vec![a, b]))
        };
        let (first, limit, continues, steps) = if descending {
            let first = if aligned {
                let excess = arithmetic("rem", unsigned, span, stride.clone());
                arithmetic("sub", word, last, excess)
            } else {
                last
            };
            let beyond = arithmetic("add", word, start, stride.clone());
            (first, arithmetic("sub", word, beyond, one), "gt", "sub")
        } else {
            let beyond = arithmetic("sub", word, last, stride.clone());
            (start, arithmetic("add", word, beyond, one), "lt", "add")
        };
        // For a single number, a limit that it does not reach.
        let operands = vec![limit, first.clone(), Operand::Register(more)];
        let limit =
            Operand::Register(instructions.compute(format!("selp.{}", bits_word(T::CLASS)), operands));
        Plan { any, first, continues, limit, steps, stride }
    }
}

/// An open counted loop.
pub(super) struct Counting {
    pub(super) label: Label,
    counter: Register,
    step: Step,
    /// Whether an `if` around the loop skips it when the range is empty.
    guarded: bool,
    location: Location,
}

struct Step {
    test: Option<(String, Operand)>,
    opcode: String,
    stride: Operand,
}

impl Counting {
    /// Closes the loop.
    pub(super) fn end(self, class: RegisterClass) {
        let mut instructions = Instructions { location: self.location, class };
        recorder::with(|recorder| recorder.open_step());
        if let Some((opcode, limit)) = self.step.test {
            let goes_on = instructions.compare(opcode, self.counter, limit);
            instructions.break_unless(goes_on, self.label);
        }
        let counter = Operand::Register(self.counter);
        recorder::with(|recorder| {
            recorder.emit(
                self.step.opcode,
                1,
                vec![counter.clone(), counter, self.step.stride],
                self.location,
            );
            recorder.close_loop();
            if self.guarded {
                recorder.close_if();
            }
        });
    }
}

/// Records instructions at one position.
struct Instructions {
    location: Location,
    class: RegisterClass,
}

impl Instructions {
    fn compute(&mut self, opcode: String, sources: Vec<Operand>) -> Register {
        self.record(self.class, opcode, sources)
    }

    fn predicate(&mut self, opcode: String, sources: Vec<Operand>) -> Register {
        self.record(RegisterClass::Predicate, opcode, sources)
    }

    fn compare(&mut self, opcode: String, left: Register, right: Operand) -> Register {
        self.predicate(opcode, vec![Operand::Register(left), right])
    }

    fn record(&mut self, class: RegisterClass, opcode: String, sources: Vec<Operand>) -> Register {
        recorder::with(|recorder| {
            let destination = recorder.fresh(class);
            let operands = [Operand::Register(destination)].into_iter().chain(sources).collect();
            recorder.emit(opcode, 1, operands, self.location);
            destination
        })
    }

    fn break_unless(&mut self, condition: Register, label: Label) {
        recorder::with(|recorder| {
            recorder.open_then(condition, self.location);
            recorder.open_otherwise();
            recorder.leave(Some(label), Statement::Break(label, self.location));
            recorder.close_if();
        });
    }
}

/// The type word of `T`'s arithmetic; 8-bit numbers live in 16 bits.
fn word<T: Element>() -> &'static str {
    match (T::BYTES, T::KIND) {
        (1, Kind::Signed) => "s16",
        (1, _) => "u16",
        _ => T::PTX,
    }
}

fn unsigned_word<T: Element>() -> &'static str {
    match T::CLASS {
        RegisterClass::B64 => "u64",
        RegisterClass::B32 => "u32",
        _ => "u16",
    }
}
