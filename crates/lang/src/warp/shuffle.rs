//! `shfl`: the value of another lane.

use warpwright_arch::limits::WARP_SIZE;
use warpwright_ir::{Operand, RegisterClass};

use crate::element::Element;
use crate::operation::{compute, fresh, record, refuse};
use crate::operators::is_predicate;
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
