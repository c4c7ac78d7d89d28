//! Exchanges between the lanes of a warp. PTX ISA, `shfl`, `vote`, `match`, `redux`,
//! `bar.warp.sync`, `elect`.
//!
//! Each takes a mask of the lanes that take part: all of them must execute the same operation.
//! [`ALL_LANES`] is the mask of a warp that has not diverged. Reductions, scans and broadcasts of
//! any values are calls: [`reduce`], [`inclusive_scan`], [`broadcast`] and their like.

mod collective;
pub(crate) mod shuffle;

pub(crate) use self::collective::add;
pub use self::collective::{
    Lanes, broadcast, exclusive_scan, exclusive_sum, inclusive_scan, inclusive_sum, reduce, reduce_max,
    reduce_min, reduce_sum,
};
pub use self::shuffle::ALL_LANES;
use warpwright_ir::Operand;

use crate::element::Element;
use crate::operation::{compute, fresh, perform, record};
use crate::requirement::{Feature, require};
use crate::value::{Reg, Value};

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
