//! The arrivals that mbarriers are initialized for, and those that the kernel makes.

use rustc_hash::{FxHashMap, FxHashSet};
use warpwright_ir::{Location, Register};

use super::Mistake;
use super::act::Act;
use super::walk::{Deed, Deeds, Step};

/// What the mbarriers of an array are initialized for.
#[derive(Default)]
struct Initialized {
    /// By the offset in the array; `None` if it is unknown, or differs.
    counts: FxHashMap<i64, (Option<u64>, Location)>,
    /// Whether some are at unknown offsets.
    has_unknown: bool,
}

/// The arrivals of one instruction at each mbarrier that it reaches.
type Arrivals = FxHashMap<(u32, Option<i64>), u64>;

/// Deeds that may belong to one phase: those at one place, between two waits, on one path.
type Phase = (u64, u32, Vec<Step>);

impl Initialized {
    /// The arrivals of a phase at an offset; at all offsets, if it is unknown.
    fn count(&self, offset: Option<i64>) -> Option<(u64, Location)> {
        if self.has_unknown {
            return None;
        }
        if let Some(offset) = offset {
            let (count, location) = self.counts.get(&offset)?;
            return count.map(|count| (count, *location));
        }
        let mut all = self.counts.values();
        let (count, location) = *all.next()?;
        all.all(|(other, _)| *other == count).then_some((count?, location))
    }
}

impl Act {
    /// The arrivals by each thread, if it makes some.
    fn arrivals(self) -> Option<Option<u64>> {
        match self {
            Act::Arrive(count) => Some(count),
            Act::Expect { arrives: true, .. } => Some(Some(1)),
            _ => None,
        }
    }
}

impl Deeds<'_> {
    /// The mistakes, and the arrays of the mbarriers that they are at.
    pub(super) fn arrival_mistakes(&self) -> (Vec<Mistake>, FxHashSet<Register>) {
        let mut mistakes = Vec::new();
        let mut miscounted = FxHashSet::default();
        if !self.threads.are_known() || self.all.iter().any(|deed| deed.place.is_none()) {
            return (mistakes, miscounted);
        }
        let initialized = self.initialized();
        let mut by_array: FxHashMap<Register, Vec<(&Deed, Option<Arrivals>)>> = FxHashMap::default();
        for deed in &self.all {
            let Some((place, count)) = deed.place.as_ref().zip(deed.act.arrivals()) else { continue };
            let arrivals = count.and_then(|count| {
                let mut reached = deed.reached(self.threads)?;
                reached.values_mut().for_each(|threads| *threads *= count);
                Some(reached)
            });
            by_array.entry(place.array).or_default().push((deed, arrivals));
        }
        for (array, deeds) in by_array {
            let Some(initialized) = initialized.get(&array).filter(|_| !self.escaped.contains(&array)) else {
                continue;
            };
            let mistake = too_many(&deeds, initialized).or_else(|| too_few(&deeds, initialized));
            if let Some(mistake) = mistake {
                mistakes.push(mistake);
                miscounted.insert(array);
            }
        }
        (mistakes, miscounted)
    }

    fn initialized(&self) -> FxHashMap<Register, Initialized> {
        let mut initialized: FxHashMap<Register, Initialized> = FxHashMap::default();
        for deed in &self.all {
            let (Act::Initialize(count), Some(place)) = (deed.act, &deed.place) else { continue };
            let array = initialized.entry(place.array).or_default();
            match deed.reached(self.threads) {
                Some(reached) if reached.keys().all(|(_, offset)| offset.is_some()) => {
                    for offset in reached.keys().filter_map(|(_, offset)| *offset) {
                        let known = array.counts.entry(offset).or_insert((count, deed.location));
                        if known.0 != count {
                            known.0 = None;
                        }
                    }
                }
                _ => array.has_unknown = true,
            }
        }
        initialized
    }
}

/// Arrivals that end a phase and reach into the next.
fn too_many(deeds: &[(&Deed, Option<Arrivals>)], initialized: &Initialized) -> Option<Mistake> {
    let mut phases: FxHashMap<Phase, (Location, Arrivals)> = FxHashMap::default();
    for (deed, arrivals) in deeds {
        let Some(arrivals) = arrivals.as_ref().filter(|_| deed.is_exact) else { continue };
        let phase = (deed.identity, deed.epoch, deed.path.clone());
        let (first, sums) = phases.entry(phase).or_insert((deed.location, FxHashMap::default()));
        for (barrier, count) in arrivals {
            let sum = sums.entry(*barrier).or_default();
            *sum += count;
            let sum = *sum;
            let Some((expected, at)) = initialized.count(barrier.1).filter(|(expected, _)| sum > *expected)
            else {
                continue;
            };
            let (message, note) = if *count > expected {
                let message = format!(
                    "this makes {count} arrivals at an mbarrier that is initialized for {expected}: each thread that executes it \
                     counts"
                );
                (message, (at, "it is initialized here".to_owned()))
            } else {
                let message = format!(
                    "this is arrival {sum} at an mbarrier that is initialized for {expected}, and nothing waits for the phase in \
                     between: arrive once, initialize it for all arrivals of a phase, or wait before the second one, as a \
                     ring's producer does for the release of the slot"
                );
                (message, (*first, "a thread arrives here, too".to_owned()))
            };
            return Some((deed.location, message, note));
        }
    }
    None
}

/// Fewer arrivals than a phase waits for.
fn too_few(deeds: &[(&Deed, Option<Arrivals>)], initialized: &Initialized) -> Option<Mistake> {
    let mut sums: Arrivals = FxHashMap::default();
    for (deed, arrivals) in deeds {
        // What repeats may arrive several times in a phase, unless each iteration is at another mbarrier.
        if deed.repeats() && !deed.moves_on {
            return None;
        }
        for (barrier, count) in arrivals.as_ref()? {
            *sums.entry(*barrier).or_default() += count;
        }
    }
    let mut short: Vec<(Location, u64, u64)> = Vec::new();
    for (rank, offset) in sums.keys() {
        // An arrival at an unknown mbarrier of a CTA's array may be at any of them.
        let may_be_it = |(of_rank, at): &&(u32, Option<i64>)| {
            of_rank == rank && (offset.is_none() || at.is_none() || at == offset)
        };
        let sum: u64 = sums.keys().filter(may_be_it).map(|barrier| sums[barrier]).sum();
        let Some((expected, at)) = initialized.count(*offset) else { continue };
        if 0 < sum && sum < expected {
            short.push((at, expected, sum));
        }
    }
    let (at, expected, sum) = short.into_iter().min()?;
    let first = deeds.iter().find(|(_, arrivals)| arrivals.as_ref().is_some_and(|them| !them.is_empty()))?;
    let message = format!(
        "this initializes an mbarrier for {expected} arrivals, and the kernel makes {sum}: initialize it for the threads that \
         arrive"
    );
    Some((at, message, (first.0.location, "a thread arrives here".to_owned())))
}
