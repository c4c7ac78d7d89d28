//! The shadow of memory: the last accesses to each byte.
//!
//! Memory is divided into granules of 16 bytes, each with a short list of accesses: for every byte
//! the last write, and the reads since that no later, ordered read has replaced. An access of a
//! granule records which bytes each lane touched.

use smallvec::SmallVec;
use warpwright_events::{AccessKind, GRANULE, LANES, PAGE, Proxy, Strength, Value, lanes};

use crate::state::clock::{Agent, Time};

/// Maximum number of accesses that a granule keeps.
const MOST_ACCESSES: usize = 16;

/// An access of some bytes of a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The linear index of the CTA of the agent.
    pub(crate) cta: u32,
    pub(crate) agent: Agent,
    pub(crate) time: Time,
    pub(crate) pc: u32,
    /// Distinguishes the instructions that a cluster executed.
    pub(crate) serial: u32,
    pub(crate) lanes: u32,
    /// The bytes, as a mask.
    pub(crate) bytes: u16,
    /// Bytes per lane, from `start` on, lane by lane; 0 if every lane accesses all bytes.
    pub(crate) spread: u8,
    pub(crate) start: u8,
    pub(crate) kind: AccessKind,
    pub(crate) strength: Strength,
    /// The proxy, if it is asynchronous work.
    pub(crate) proxy: Option<Proxy>,
}

impl Access {
    /// A weak access by an instruction, of no bytes yet.
    pub(crate) fn of_instruction(
        (cta, agent, time): (u32, Agent, Time),
        pc: u32,
        serial: u32,
        kind: AccessKind,
    ) -> Self {
        let strength = Strength::Weak;
        Self {
            cta,
            agent,
            time,
            pc,
            serial,
            lanes: 0,
            bytes: 0,
            spread: 0,
            start: 0,
            kind,
            strength,
            proxy: None,
        }
    }

    /// The lanes that access any of some bytes of the granule.
    pub(crate) fn lanes_of(&self, bytes: u16) -> u32 {
        lanes_of(bytes & self.bytes, self.lanes, self.spread, self.start)
    }

    /// Whether the same lanes access the same bytes of both.
    fn is_alike(&self, other: &Access) -> bool {
        (self.lanes, self.spread, self.start) == (other.lanes, other.spread, other.start)
            && (self.spread != 0 || self.lanes.is_power_of_two())
    }

    /// Whether each lane of this access covers all bytes of the granule that it accesses in the
    /// other one.
    fn includes(&self, other: &Access) -> bool {
        let same = (self.lanes, self.spread, self.start) == (other.lanes, other.spread, other.start);
        let all_of_all = self.spread == 0 && other.spread == 0 && other.lanes & !self.lanes == 0;
        other.bytes & !self.bytes == 0 && (same || all_of_all)
    }

    /// The lanes of this access that share bytes with another lane of the other access. For the
    /// same lane, program order applies.
    pub(crate) fn other_lanes(&self, other: &Access) -> u32 {
        let mut common = self.bytes & other.bytes;
        if self.is_alike(other) {
            return 0;
        }
        if self.spread == 0 && other.spread == 0 {
            return if other.lanes.is_power_of_two() { self.lanes & !other.lanes } else { self.lanes };
        }
        let mut other_lanes = 0;
        while common != 0 {
            let byte = common & common.wrapping_neg();
            common &= !byte;
            let (own, others) = (self.lanes_of(byte), other.lanes_of(byte));
            other_lanes |= if others.is_power_of_two() { own & !others } else { own };
        }
        other_lanes
    }
}

/// The lanes that access bytes: `spread` of each, from `start` on, or all lanes all bytes if it is 0.
fn lanes_of(mut bytes: u16, lanes: u32, spread: u8, start: u8) -> u32 {
    if spread == 0 {
        return if bytes == 0 { 0 } else { lanes };
    }
    let (mut result, first) = (0, lanes.trailing_zeros());
    while bytes != 0 {
        let byte = bytes.trailing_zeros();
        bytes &= bytes - 1;
        result |= 1 << (first + (byte - u32::from(start)) / u32::from(spread));
    }
    result
}

/// Sixteen bytes of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granule {
    pub(crate) accesses: SmallVec<[Access; 2]>,
    /// Bytes that have been written.
    pub(crate) initialized: u16,
    /// The last written value, for bytes where it is known.
    value: Value,
    known: u16,
}

/// The relation of an earlier access to a later one of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It happens before.
    Before,
    /// Not ordered, and harmless.
    Tolerated,
    /// Not ordered, and a conflict.
    Wrong,
}

impl Granule {
    /// Records an access. `judge` decides whether an earlier access to some of its bytes happens
    /// before it; it also receives the bytes that threads have read since the last write. Two reads
    /// never conflict, but an earlier, ordered read can be dropped.
    ///
    /// A write of the value that a plain write left there (`written`, if known) is harmless.
    /// Returns the bytes it reads that nothing has written.
    pub(crate) fn record(
        &mut self,
        access: Access,
        written: Option<Value>,
        knows: impl Fn(&Access) -> bool,
        mut judge: impl FnMut(&Access, u16) -> Verdict,
    ) -> u16 {
        let writes = access.kind.writes();
        let reads = !matches!(access.kind, AccessKind::Write | AccessKind::Object);
        let uninitialized = if reads { access.bytes & !self.initialized } else { 0 };
        let unchanged = written.map_or(0, |written| self.known & equal_bytes(&written, &self.value));
        let is_seen = |earlier: &&Access| earlier.kind == AccessKind::Read && earlier.proxy.is_none();
        let seen = self.accesses.iter().filter(is_seen).fold(0, |bytes, earlier| bytes | earlier.bytes);
        let mut subsumed = false;
        // Atomic operations on the same bytes are ordered: a thread that knows of one follows those
        // before it (PTX ISA, "Coherence").
        let is_atomic = |earlier: &Access| {
            earlier.kind == AccessKind::Atomic
                && earlier.proxy.is_none()
                && access.bytes & !earlier.bytes == 0
        };
        let mut before = match access.strength {
            Strength::Weak => {
                self.accesses.iter().rposition(|earlier| is_atomic(earlier) && knows(earlier)).unwrap_or(0)
            }
            Strength::Strong { .. } => 0,
        };
        self.accesses.retain(|earlier| {
            let comes_before = before > 0 && is_atomic(earlier);
            before = before.saturating_sub(1);
            if comes_before {
                return true;
            }
            let mut common = earlier.bytes & access.bytes;
            if earlier.kind == AccessKind::Write && access.kind == AccessKind::Write {
                common &= !unchanged;
            }
            if common == 0 {
                return true;
            }
            if !writes && !earlier.kind.writes() {
                let same =
                    (earlier.cta, earlier.agent, earlier.time) == (access.cta, access.agent, access.time);
                if same && earlier.includes(&access) {
                    subsumed = true;
                    return true;
                }
                if judge(earlier, seen) != Verdict::Before {
                    return true;
                }
            } else {
                let replaces = writes || !earlier.kind.writes();
                if judge(earlier, seen) == Verdict::Tolerated || !replaces {
                    return true;
                }
            }
            earlier.bytes &= !access.bytes;
            earlier.bytes != 0
        });
        if writes {
            self.initialized |= access.bytes;
            self.known &= !access.bytes;
            if let Some(written) = written {
                self.known |= access.bytes;
                let bytes = (0..GRANULE as usize).filter(|byte| access.bytes >> byte & 1 != 0);
                bytes.for_each(|byte| self.value[byte] = written[byte]);
            }
        }
        if subsumed {
            return uninitialized;
        }
        if self.accesses.len() >= MOST_ACCESSES {
            // Keep the first, as a witness of old accesses, and the most recent ones.
            self.accesses.remove(1);
        }
        self.accesses.push(access);
        uninitialized
    }
}

/// The bytes that two values have in common, as a mask.
fn equal_bytes(a: &Value, b: &Value) -> u16 {
    a.iter().zip(b).enumerate().fold(0, |mask, (byte, (a, b))| mask | u16::from(a == b) << byte)
}

/// A page of memory.
pub(crate) type Page = Box<[Granule; (PAGE / GRANULE) as usize]>;

/// A page with no known accesses, and the bytes that have been written.
pub(crate) fn blank_page(initialized: impl Fn(usize) -> u16) -> Page {
    let granules: Vec<Granule> = (0..(PAGE / GRANULE) as usize)
        .map(|index| Granule { initialized: initialized(index), ..Granule::default() })
        .collect();
    granules.try_into().expect("a page has this many granules")
}

/// The bytes of a range within the granule at an address, as a mask.
pub(crate) fn bytes_in(granule: u64, first: u64, end: u64) -> u16 {
    let from = first.max(granule) - granule;
    let to = end.min(granule + GRANULE) - granule;
    (((1u32 << to) - 1) & !((1u32 << from) - 1)) as u16
}

/// The bytes of one granule that lanes access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The address of the granule.
    pub(crate) granule: u64,
    pub(crate) lanes: u32,
    pub(crate) bytes: u16,
    pub(crate) spread: u8,
    pub(crate) start: u8,
}

impl Part {
    /// The lanes that access any of some bytes of the granule.
    pub(crate) fn lanes_of(&self, bytes: u16) -> u32 {
        lanes_of(bytes & self.bytes, self.lanes, self.spread, self.start)
    }

    /// The bytes that lanes write to the granule, given what each writes. If several lanes write
    /// the same bytes, the last one wins.
    pub(crate) fn value(&self, values: &[Value; LANES]) -> Value {
        let mut result = Value::default();
        if self.spread == 0 {
            let lane = 31 - self.lanes.leading_zeros();
            let first = self.bytes.trailing_zeros() as usize;
            let count = self.bytes.count_ones() as usize;
            result[first..first + count].copy_from_slice(&values[lane as usize][..count]);
        } else {
            let spread = usize::from(self.spread);
            for (index, lane) in lanes(self.lanes).enumerate() {
                let at = usize::from(self.start) + index * spread;
                result[at..at + spread].copy_from_slice(&values[lane][..spread]);
            }
        }
        result
    }
}

/// Cuts a range that all lanes access into granules.
pub(crate) fn cut_range(first: u64, bytes: u64, lanes: u32, mut act: impl FnMut(Part)) {
    let end = first + bytes;
    let mut granule = first & !(GRANULE - 1);
    while granule < end {
        act(Part { granule, lanes, bytes: bytes_in(granule, first, end), spread: 0, start: 0 });
        granule += GRANULE;
    }
}

/// The lanes of a mask that follow its first lane and have the same address: they access the same
/// bytes.
fn alike(addresses: &[u64; LANES], mask: u32) -> u32 {
    let first = addresses[mask.trailing_zeros() as usize & 31];
    let differing = lanes(mask).find(|&lane| addresses[lane] != first);
    differing.map_or(mask, |lane| mask & ((1 << lane) - 1))
}

/// Divides an access into granules. Neighboring lanes that access the same or consecutive bytes
/// form one part.
pub(crate) fn cut(addresses: &[u64; LANES], mask: u32, size: u64, mut act: impl FnMut(Part)) {
    let mut left = mask;
    let mut open: Option<(Part, usize, u64)> = None;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        let address = addresses[lane];
        let group = alike(addresses, left);
        left &= !group;
        // Addresses are multiples of the size, so no access below a granule's size spans two.
        if size >= GRANULE || group != 1 << lane {
            if let Some((part, ..)) = open.take() {
                act(part);
            }
            cut_range(address, size, group, &mut act);
            continue;
        }
        let granule = address & !(GRANULE - 1);
        let bytes = bytes_in(granule, address, address + size);
        if let Some((part, last, next)) = &mut open {
            if part.granule == granule && *last + 1 == lane && *next == address {
                part.bytes |= bytes;
                part.lanes |= 1 << lane;
                part.spread = size as u8;
                (*last, *next) = (lane, address + size);
                continue;
            }
            act(*part);
        }
        let start = (address - granule) as u8;
        open = Some((Part { granule, lanes: 1 << lane, bytes, spread: 0, start }, lane, address + size));
    }
    if let Some((part, ..)) = open {
        act(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwright_events::FULL;

    /// The lanes that access each byte, by brute force.
    fn touched(addresses: &[u64; LANES], mask: u32, size: u64) -> Vec<(u64, u32)> {
        let mut bytes = std::collections::BTreeMap::new();
        for lane in lanes(mask) {
            for byte in addresses[lane]..addresses[lane] + size {
                *bytes.entry(byte).or_insert(0) |= 1 << lane;
            }
        }
        bytes.into_iter().collect()
    }

    fn access(part: Part) -> Access {
        Access {
            cta: 0,
            agent: Agent(0),
            time: 1,
            pc: 0,
            serial: 0,
            lanes: part.lanes,
            bytes: part.bytes,
            spread: part.spread,
            start: part.start,
            kind: AccessKind::Read,
            strength: Strength::Weak,
            proxy: None,
        }
    }

    #[test]
    fn pieces_hold_every_byte_of_every_lane() {
        type Pattern = (&'static str, fn(u64) -> u64, u64);
        let patterns: [Pattern; 10] = [
            ("contiguous words", |lane| 0x1004 + 4 * lane, 4),
            ("contiguous bytes", |lane| 0x2000 + lane, 1),
            ("one word for all", |_| 0x1008, 4),
            ("rows of 16", |lane| 0x4000 + 64 * lane, 16),
            ("pairs of 16", |lane| 0x4000 + 32 * lane, 32),
            ("backwards", |lane| 0x8000 - 8 * lane, 8),
            ("two lanes to each", |lane| 0x1000 + lane / 2 * 2, 2),
            ("half a warp to each", |lane| 0x1000 + lane / 16 * 4, 4),
            ("a vector for each half", |lane| 0x1000 + lane / 16 * 64, 16),
            ("the same again", |lane| 0x1000 + lane % 16 * 4, 4),
        ];
        for (name, address, size) in patterns {
            for mask in [FULL, 0x0000_ff0f, 1 << 7, 0xaaaa_aaaa] {
                let addresses = std::array::from_fn(|lane| address(lane as u64));
                let mut found = std::collections::BTreeMap::new();
                cut(&addresses, mask, size, |part| {
                    let access = access(part);
                    for byte in 0..GRANULE {
                        let lanes = access.lanes_of(1 << byte);
                        if lanes != 0 {
                            *found.entry(part.granule + byte).or_insert(0) |= lanes;
                        }
                    }
                });
                let found: Vec<(u64, u32)> = found.into_iter().collect();
                assert_eq!(found, touched(&addresses, mask, size), "{name} in {mask:#x}");
            }
        }
    }

    #[test]
    fn strangers_are_the_lanes_that_another_lane_meets() {
        let part = |lanes, bytes, spread, start| access(Part { granule: 0, lanes, bytes, spread, start });
        let words = part(0b1111, 0xffff, 4, 0);
        assert_eq!(words.other_lanes(&words), 0);
        assert_eq!(words.other_lanes(&part(0b0010, 0x00f0, 0, 0)), 0);
        assert_eq!(words.other_lanes(&part(0b0100, 0x00f0, 0, 0)), 0b0010);
        assert_eq!(words.other_lanes(&part(0b11_1100, 0xffff, 4, 0)), 0b1111);
        let all = part(FULL, 0x000f, 0, 0);
        assert_eq!(all.other_lanes(&part(1, 0x000f, 0, 0)), FULL & !1);
        assert_eq!(part(1, 0x000f, 0, 0).other_lanes(&all), 1);
    }
}
