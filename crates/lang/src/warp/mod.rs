//! Exchanges between the lanes of a warp. PTX ISA, `shfl`, `vote`, `match`, `redux`,
//! `bar.warp.sync`, `elect`.
//!
//! Each takes a mask of the lanes that take part: all of them must execute the same operation.
//! [`ALL_LANES`] is the mask of a warp that has not diverged. Reductions, scans and broadcasts of
//! any values are calls: [`reduce`], [`inclusive_scan`], [`broadcast`] and their like.

mod collective;

pub(crate) use self::collective::add;
pub use self::collective::{
    Lanes, broadcast, exclusive_scan, exclusive_sum, inclusive_scan, inclusive_sum, reduce, reduce_max,
    reduce_min, reduce_sum,
};
use warpwright_arch::limits::WARP_SIZE;
use warpwright_ir::{Operand, RegisterClass};

use crate::element::Element;
use crate::operation::{compute, fresh, perform, record, refuse};
use crate::operators::is_predicate;
use crate::requirement::{Feature, require};
use crate::value::{Reg, Value};

/// All 32 lanes.
pub const ALL_LANES: u32 = 0xffff_ffff;

/// Which lane a shuffle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Index,
    Up,
    Down,
    Butterfly,
}

impl Shuffle {
    fn word(self) -> &'static str {
        match self {
            Shuffle::Index => "idx",
            Shuffle::Up => "up",
            Shuffle::Down => "down",
            Shuffle::Butterfly => "bfly",
        }
    }

    /// What its second argument is.
    fn argument(self) -> &'static str {
        match self {
            Shuffle::Index => "lane",
            Shuffle::Up | Shuffle::Down => "distance",
            Shuffle::Butterfly => "mask",
        }
    }

    /// The `c` operand for the whole warp: the lane not to pass, and no segments.
    fn bound(self) -> i128 {
        if self == Shuffle::Up { 0 } else { 31 }
    }
}

#[track_caller]
fn shuffle_word(kind: Shuffle, value: Operand, lane: Operand, mask: Operand) -> (Reg<u32>, Reg<bool>) {
    let (result, valid) = (fresh::<u32>(), fresh::<bool>());
    let destination = Operand::Pair(result.register(), valid.register());
    let opcode = format!("shfl.sync.{}.b32", kind.word());
    record(opcode, 1, vec![destination, value, lane, Operand::Integer(kind.bound()), mask]);
    (result, valid)
}

#[track_caller]
pub(crate) fn shuffle<T: Element>(
    kind: Shuffle,
    value: Reg<T>,
    lane: Operand,
    mask: Operand,
) -> (Reg<T>, Reg<bool>) {
    match T::CLASS {
        RegisterClass::B32 => {
            let (word, valid) = shuffle_word(kind, Reg::operand(value), lane, mask);
            (Reg::from_register(word.register()), valid)
        }
        RegisterClass::B64 => {
            let (low, high) = (fresh::<u32>(), fresh::<u32>());
            let halves = Operand::Vector(vec![low.operand(), high.operand()]);
            record("mov.b64", 1, vec![halves, Reg::operand(value)]);
            let (low, valid) = shuffle_word(kind, low.operand(), lane.clone(), mask.clone());
            let (high, _) = shuffle_word(kind, high.operand(), lane, mask);
            (compute("mov.b64", [Operand::Vector(vec![low.operand(), high.operand()])]), valid)
        }
        _ if is_predicate::<T>() => {
            let word = Reg::<bool>::from_register(value.register()).to_u32();
            let (word, valid) = shuffle_word(kind, word.operand(), lane, mask);
            (Reg::from_register(word.ne(0u32).register()), valid)
        }
        _ => {
            let word: Reg<u32> = compute("cvt.u32.u16", [Reg::operand(value)]);
            let (word, valid) = shuffle_word(kind, word.operand(), lane, mask);
            (compute("cvt.u16.u32", [word.operand()]), valid)
        }
    }
}

/// The lane, or the distance, which is refused if it is known and no warp has it: the hardware takes
/// its lowest 5 bits.
#[track_caller]
pub(crate) fn demand_lane(call: &str, kind: Shuffle, lane: Operand) -> Operand {
    if let Operand::Integer(number) = lane
        && !(0..i128::from(WARP_SIZE)).contains(&number)
    {
        let (what, last) = (kind.argument(), WARP_SIZE - 1);
        refuse(format!("`{call}`: the {what} is {number}, and a warp has lanes 0 to {last}"));
    }
    lane
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident $checked:ident $kind:ident;)*) => {
        impl<T: Element> Reg<T> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(self, lane: impl Value<u32>) -> Reg<T> {
                    let lane = demand_lane(stringify!($name), Shuffle::$kind, lane.operand());
                    shuffle(Shuffle::$kind, self, lane, Value::<u32>::operand(ALL_LANES)).0
                }

                #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") among the lanes of `mask`; with it, whether the lane read is within the warp.")]
                ///
                /// Where it is not, the value is the lane's own. Every lane that `mask` names makes the call,
                /// with the same mask, and no other lane does. A value read from a lane that `mask` does not
                /// name, or that has exited, is undefined.
                #[track_caller]
                pub fn $checked(self, lane: impl Value<u32>, mask: impl Value<u32>) -> (Reg<T>, Reg<bool>) {
                    let lane = demand_lane(stringify!($checked), Shuffle::$kind, lane.operand());
                    shuffle(Shuffle::$kind, self, lane, mask.operand())
                }
            )*
        }
    };
}

shuffles! {
    /// The value of lane `lane`.
    shuffle shuffle_masked Index;
    /// The value of the lane whose index is `lane` less than this one's; in the lowest lanes their
    /// own.
    shuffle_up shuffle_up_masked Up;
    /// The value of the lane whose index is `lane` more than this one's; in the highest lanes their
    /// own.
    shuffle_down shuffle_down_masked Down;
    /// The value of the lane whose index is this one's XOR `lane`.
    shuffle_xor shuffle_xor_masked Butterfly;
}

/// Whether `predicate` holds in all lanes of `mask`.
#[track_caller]
pub fn vote_all(predicate: impl Value<bool>, mask: impl Value<u32>) -> Reg<bool> {
    compute("vote.sync.all.pred", [predicate.operand(), mask.operand()])
}

/// Whether `predicate` holds in some lane of `mask`.
#[track_caller]
pub fn vote_any(predicate: impl Value<bool>, mask: impl Value<u32>) -> Reg<bool> {
    compute("vote.sync.any.pred", [predicate.operand(), mask.operand()])
}

/// Whether `predicate` is the same in all lanes of `mask`.
#[track_caller]
pub fn vote_uniform(predicate: impl Value<bool>, mask: impl Value<u32>) -> Reg<bool> {
    compute("vote.sync.uni.pred", [predicate.operand(), mask.operand()])
}

/// The lanes of `mask` whose `predicate` holds, as bits.
#[track_caller]
pub fn ballot(predicate: impl Value<bool>, mask: impl Value<u32>) -> Reg<u32> {
    compute("vote.sync.ballot.b32", [predicate.operand(), mask.operand()])
}

/// The lanes that execute this instruction together.
#[track_caller]
pub fn active_mask() -> Reg<u32> {
    compute("activemask.b32", [])
}

/// Waits for the lanes of `mask`; their memory accesses before it are then visible to one another.
#[track_caller]
pub fn sync_warp(mask: impl Value<u32>) {
    perform("bar.warp.sync", [mask.operand()]);
}

/// True in one lane of `mask`; sm_90.
#[track_caller]
pub fn elect(mask: impl Value<u32>) -> Reg<bool> {
    require(Feature::Elect);
    let (leader, elected) = (fresh::<u32>(), fresh::<bool>());
    let destination = Operand::Pair(leader.register(), elected.register());
    record("elect.sync", 1, vec![destination, mask.operand()]);
    elected
}

/// A type that `match` compares: 32 or 64 bits.
pub trait Matched: Element {}

impl Matched for u32 {}
impl Matched for i32 {}
impl Matched for f32 {}
impl Matched for u64 {}
impl Matched for i64 {}
impl Matched for f64 {}

impl<T: Matched> Reg<T> {
    /// The lanes of `mask` whose value has the same bits.
    #[track_caller]
    pub fn match_any(self, mask: impl Value<u32>) -> Reg<u32> {
        compute(format!("match.any.sync.b{}", 8 * T::BYTES), [Reg::operand(self), mask.operand()])
    }

    /// Whether the value has the same bits in all lanes of `mask`.
    #[track_caller]
    pub fn match_all(self, mask: impl Value<u32>) -> Reg<bool> {
        let (lanes, same) = (fresh::<u32>(), fresh::<bool>());
        let destination = Operand::Pair(lanes.register(), same.register());
        let opcode = format!("match.all.sync.b{}", 8 * T::BYTES);
        record(opcode, 1, vec![destination, Reg::operand(self), mask.operand()]);
        same
    }
}

/// An integer that `redux.sync` reduces.
#[diagnostic::on_unimplemented(
    message = "`redux.sync` reduces `u32` and `i32`, and this is a `{Self}`",
    label = "use `warp::reduce_sum(x)`, `warp::reduce_min(x)` or `warp::reduce_max(x)`, which reduce every number"
)]
pub trait Reduced: Element {}

impl Reduced for u32 {}
impl Reduced for i32 {}

macro_rules! reductions {
    ($bound:ident: $($(#[$doc:meta])* $name:ident $word:literal, $bits:literal;)*) => {
        impl<T: $bound> Reg<T> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(self, mask: impl Value<u32>) -> Reg<T>
                where
                    T: Reduced,
                {
                    let ty = if $bits { "b32" } else { T::PTX };
                    compute(format!(concat!("redux.sync.", $word, ".{}"), ty), [Reg::operand(self), mask.operand()])
                }
            )*
        }
    };
}

// The bound is the methods' own, so that the compiler shows its message.
reductions! { Element:
    /// The sum over the lanes of `mask`, in all of them.
    warp_sum "add", false;
    /// The bitwise and over the lanes of `mask`, in all of them.
    warp_and "and", true;
    /// The bitwise or over the lanes of `mask`, in all of them.
    warp_or "or", true;
    /// The bitwise exclusive or over the lanes of `mask`, in all of them.
    warp_xor "xor", true;
}

// `f32` has these too, by other instructions.
reductions! { Reduced:
    /// The smallest over the lanes of `mask`, in all of them.
    warp_min "min", false;
    /// The largest over the lanes of `mask`, in all of them.
    warp_max "max", false;
}

impl Reg<f32> {
    /// The smallest over the lanes of `mask`, in all of them; of numbers and NaN, a number.
    /// `redux.sync`, sm_100a; elsewhere shuffle.
    #[track_caller]
    pub fn warp_min(self, mask: impl Value<u32>) -> Self {
        self.reduce_float("min", mask)
    }

    /// The largest over the lanes of `mask`, in all of them; of numbers and NaN, a number.
    /// `redux.sync`, sm_100a; elsewhere shuffle.
    #[track_caller]
    pub fn warp_max(self, mask: impl Value<u32>) -> Self {
        self.reduce_float("max", mask)
    }

    /// [`warp_min`](Self::warp_min), NaN if any is NaN.
    #[track_caller]
    pub fn warp_min_nan(self, mask: impl Value<u32>) -> Self {
        self.reduce_float("min.NaN", mask)
    }

    /// [`warp_max`](Self::warp_max), NaN if any is NaN.
    #[track_caller]
    pub fn warp_max_nan(self, mask: impl Value<u32>) -> Self {
        self.reduce_float("max.NaN", mask)
    }

    #[track_caller]
    fn reduce_float(self, operation: &str, mask: impl Value<u32>) -> Self {
        require(Feature::FloatRedux);
        compute(format!("redux.sync.{operation}.f32"), [Reg::operand(self), mask.operand()])
    }
}
