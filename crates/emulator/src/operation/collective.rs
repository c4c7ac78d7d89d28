//! Exchanges between the lanes of a warp: `shfl`, `vote`, `match`, `redux`, `bar.warp.sync`.
//!
//! Each names the lanes that take part. They need not be on the same path: an exchange executes
//! once every live lane of the member mask waits at the same kind of exchange with the same mask,
//! at any position in the program (PTX ISA, "Parallel Synchronization and Communication
//! Instructions").

use warpwright_events::{Actor, Event, LANES, lanes};

use crate::launch::observer::Observer;
use crate::registers::{Registers, Slot};

/// How a shuffle picks its source lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// The result of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// How `redux` combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Add,
    MinUnsigned,
    MaxUnsigned,
    MinSigned,
    MaxSigned,
    And,
    Or,
    Xor,
    /// Of f32; `absolute` compares magnitudes, `nan` lets NaN through.
    MinFloat {
        absolute: bool,
        nan: bool,
    },
    MaxFloat {
        absolute: bool,
        nan: bool,
    },
}

/// The kinds of exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    Shuffle(Shuffle),
    Vote(Vote),
    MatchAny,
    MatchAll,
    Reduce(Reduction),
    /// The lowest lane of the mask leads.
    Elect,
    /// `bar.warp.sync`: no exchange of values.
    Meet,
}

/// A source or destination in one of the register files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    None,
    Word(Slot),
    Long(Slot),
    Predicate(Slot),
}

/// One exchange, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    pub(crate) exchange: Exchange,
    /// The register that holds the member mask.
    pub(crate) members: Slot,
    /// Destination, and the predicate destination beside it.
    pub(crate) value: Place,
    pub(crate) predicate: Place,
    /// The source; negated for `!p`.
    pub(crate) source: Place,
    pub(crate) negated: bool,
    /// Lane and clamp of a shuffle.
    pub(crate) b: Slot,
    pub(crate) c: Slot,
}

/// The inputs of the lanes.
pub(crate) struct Inputs {
    source: [u64; LANES],
    b: [u32; LANES],
    c: [u32; LANES],
}

impl Default for Inputs {
    fn default() -> Self {
        Self { source: [0; LANES], b: [0; LANES], c: [0; LANES] }
    }
}

/// The results of the lanes.
pub(crate) struct Outputs {
    value: [u32; LANES],
    predicate: u32,
    /// Lanes that receive the value of a lane that does not take part.
    pub(crate) undefined: u32,
}

impl Collective {
    /// Adds the inputs of the lanes of `mask`.
    pub(crate) fn gather(&self, registers: &Registers, mask: u32, inputs: &mut Inputs) {
        for lane in lanes(mask) {
            inputs.source[lane] = match self.source {
                Place::None => 0,
                Place::Word(slot) => u64::from(registers.word(slot)[lane]),
                Place::Long(slot) => registers.long(slot)[lane],
                Place::Predicate(slot) => {
                    u64::from((registers.predicate(slot) >> lane & 1 != 0) != self.negated)
                }
            };
        }
        if let Exchange::Shuffle(_) = self.exchange {
            for lane in lanes(mask) {
                inputs.b[lane] = registers.word(self.b)[lane];
                inputs.c[lane] = registers.word(self.c)[lane];
            }
        }
    }

    /// Writes the results of the lanes of `mask`.
    pub(crate) fn scatter(&self, registers: &mut Registers, mask: u32, outputs: &Outputs) {
        match self.value {
            Place::Word(slot) => {
                let column = registers.word_mut(slot);
                for lane in lanes(mask) {
                    column[lane] = outputs.value[lane];
                }
            }
            Place::Predicate(slot) => registers.set_predicate(slot, mask, outputs.predicate),
            Place::Long(_) | Place::None => {}
        }
        if let Place::Predicate(slot) = self.predicate {
            registers.set_predicate(slot, mask, outputs.predicate);
        }
    }

    /// Reports a shuffle of lanes to observers that follow registers, or if it gives undefined
    /// values.
    #[cold]
    pub(crate) fn report(&self, observer: &Observer, actor: Actor, inputs: &Inputs, outputs: &Outputs) {
        if let Exchange::Shuffle(mode) = self.exchange {
            let from = std::array::from_fn(|lane| source(mode, inputs, lane).0 as u8);
            let undefined = outputs.undefined & actor.lanes;
            observer.report(Event::Shuffle { actor, from: &from, undefined });
        }
    }

    /// The exchange between the lanes of `present`: the live ones of the member mask.
    pub(crate) fn exchange(&self, inputs: &Inputs, present: u32) -> Outputs {
        let mut outputs = Outputs { value: [0; LANES], predicate: 0, undefined: 0 };
        let everywhere = |value: u32| [value; LANES];
        match self.exchange {
            Exchange::Shuffle(mode) => shuffle(mode, inputs, present, &mut outputs),
            Exchange::Vote(vote) => {
                let ballot = lanes(present).fold(0, |bits, lane| bits | (inputs.source[lane] as u32) << lane);
                let holds = match vote {
                    Vote::All => ballot == present,
                    Vote::Any => ballot != 0,
                    Vote::Uniform => ballot == 0 || ballot == present,
                    Vote::Ballot => false,
                };
                outputs.value = everywhere(ballot);
                outputs.predicate = if holds { u32::MAX } else { 0 };
            }
            Exchange::MatchAny => {
                for lane in lanes(present) {
                    outputs.value[lane] = equal_to(inputs, present, lane);
                }
            }
            Exchange::MatchAll => {
                let same = equal_to(inputs, present, present.trailing_zeros() as usize) == present;
                // Lanes that a CTA does not have, or that have exited, are not in the result
                // (measured on H200).
                outputs.value = everywhere(if same { present } else { 0 });
                outputs.predicate = if same { u32::MAX } else { 0 };
            }
            Exchange::Reduce(reduction) => {
                let combined = lanes(present)
                    .map(|lane| inputs.source[lane] as u32)
                    .reduce(|a, b| reduce(reduction, a, b))
                    .unwrap_or(0);
                outputs.value = everywhere(combined);
            }
            Exchange::Elect => {
                outputs.value = everywhere(present.trailing_zeros());
                outputs.predicate = present & present.wrapping_neg();
            }
            Exchange::Meet => {}
        }
        outputs
    }
}

fn equal_to(inputs: &Inputs, present: u32, lane: usize) -> u32 {
    lanes(present).filter(|&other| inputs.source[other] == inputs.source[lane]).fold(0, |m, l| m | 1 << l)
}

/// The lane that a lane of a shuffle reads, and whether it is in its segment. PTX ISA, "shfl.sync":
/// `c` holds the clamp in its low five bits and the segment mask in bits 8 to 12.
#[inline(always)]
fn source(mode: Shuffle, inputs: &Inputs, lane: usize) -> (u32, bool) {
    let (own, b, c) = (lane as u32, inputs.b[lane] & 31, inputs.c[lane]);
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let highest = (own & segment) | (clamp & !segment);
    let lowest = own & segment;
    let (from, inside) = match mode {
        Shuffle::Up => (own.wrapping_sub(b), own as i32 - b as i32 >= highest as i32),
        Shuffle::Down => (own + b, own + b <= highest),
        Shuffle::Butterfly => (own ^ b, own ^ b <= highest),
        Shuffle::Index => (lowest | (b & !segment), lowest | (b & !segment) <= highest),
    };
    (if inside { from & 31 } else { own }, inside)
}

fn shuffle(mode: Shuffle, inputs: &Inputs, present: u32, outputs: &mut Outputs) {
    for lane in 0..LANES {
        let (from, inside) = source(mode, inputs, lane);
        let takes_part = present >> from & 1 != 0;
        outputs.value[lane] = inputs.source[from as usize] as u32;
        outputs.predicate |= u32::from(inside && takes_part) << lane;
        outputs.undefined |= u32::from(!takes_part) << lane;
    }
}

fn reduce(reduction: Reduction, a: u32, b: u32) -> u32 {
    let float = |absolute: bool, nan: bool, larger: bool| {
        let magnitude = |bits: u32| if absolute { bits & 0x7fff_ffff } else { bits };
        let (x, y) = (f32::from_bits(magnitude(a)), f32::from_bits(magnitude(b)));
        if x.is_nan() || y.is_nan() {
            if nan || (x.is_nan() && y.is_nan()) {
                return 0x7fff_ffff;
            }
            return if x.is_nan() { y.to_bits() } else { x.to_bits() };
        }
        let first = if larger { x.total_cmp(&y).is_ge() } else { x.total_cmp(&y).is_le() };
        if first { x.to_bits() } else { y.to_bits() }
    };
    match reduction {
        Reduction::Add => a.wrapping_add(b),
        Reduction::MinUnsigned => a.min(b),
        Reduction::MaxUnsigned => a.max(b),
        Reduction::MinSigned => (a as i32).min(b as i32) as u32,
        Reduction::MaxSigned => (a as i32).max(b as i32) as u32,
        Reduction::And => a & b,
        Reduction::Or => a | b,
        Reduction::Xor => a ^ b,
        Reduction::MinFloat { absolute, nan } => float(absolute, nan, false),
        Reduction::MaxFloat { absolute, nan } => float(absolute, nan, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffled(mode: Shuffle, b: u32, c: u32) -> Outputs {
        let mut inputs = Inputs { b: [b; LANES], c: [c; LANES], ..Inputs::default() };
        for lane in 0..LANES {
            inputs.source[lane] = 100 + lane as u64;
        }
        let mut outputs = Outputs { value: [0; LANES], predicate: 0, undefined: 0 };
        shuffle(mode, &inputs, u32::MAX, &mut outputs);
        outputs
    }

    #[test]
    fn shuffles_of_whole_warps_and_of_segments() {
        for lane in 0..32usize {
            let up = shuffled(Shuffle::Up, 1, 0);
            assert_eq!(up.value[lane], 100 + lane.saturating_sub(1) as u32);
            assert_eq!(up.predicate >> lane & 1, u32::from(lane >= 1));
            let down = shuffled(Shuffle::Down, 4, 31);
            assert_eq!(down.value[lane] as usize, 100 + if lane + 4 < 32 { lane + 4 } else { lane });
            let butterfly = shuffled(Shuffle::Butterfly, 16, 31);
            assert_eq!(butterfly.value[lane] as usize, 100 + (lane ^ 16));
            // Width 8: c = (32 - 8) << 8 | 31, except for `up`, whose clamp is 0.
            let index = shuffled(Shuffle::Index, 3, 0x1800 | 31);
            assert_eq!(index.value[lane] as usize, 100 + (lane & !7) + 3);
            let segment_up = shuffled(Shuffle::Up, 2, 0x1800);
            let within = lane % 8 >= 2;
            assert_eq!(segment_up.value[lane] as usize, 100 + if within { lane - 2 } else { lane });
            assert_eq!(segment_up.predicate >> lane & 1, u32::from(within));
        }
    }
}
