//! The bytes that mbarriers expect, and those of the copies that complete on them.

use rustc_hash::{FxHashMap, FxHashSet};
use warpwright_ir::Register;

use super::Mistake;
use super::act::{Act, Receivers};
use super::walk::{Deed, Deeds, Step};

/// The mbarriers whose bytes are summed: all of an array, or the one at an offset.
type Account = (Register, Option<i64>);

/// What the executions of one path change together.
#[derive(Default)]
struct Changes<'a> {
    expects: Vec<(&'a Deed, i64)>,
    copies: Vec<(&'a Deed, i64)>,
    /// Expected and copied bytes of each CTA of the cluster; `None` if some are known on the device only.
    sums: Option<Vec<(i64, i64)>>,
}

impl Deeds<'_> {
    /// Bytes that no phase can balance. Whatever the indices into an array of mbarriers are, in the end
    /// it has got as many bytes as it has expected; so what runs as often as something else must agree
    /// with it.
    pub(super) fn byte_mistakes(&self, miscounted: &FxHashSet<Register>) -> Vec<Mistake> {
        let is_of_bytes = |deed: &&Deed| matches!(deed.act, Act::Expect { .. } | Act::Complete { .. });
        let deeds: Vec<&Deed> = self.all.iter().filter(is_of_bytes).collect();
        // An unknown mbarrier may be any of them.
        if deeds.iter().any(|deed| deed.place.is_none()) {
            return self.mistakes_of(&deeds, "mbarriers").into_iter().collect();
        }
        let mut indexed: FxHashSet<Register> = FxHashSet::default();
        for place in deeds.iter().filter_map(|deed| deed.place.as_ref()) {
            if !place.is_fixed() {
                indexed.insert(place.array);
            }
        }
        let mut accounts: FxHashMap<Account, Vec<&Deed>> = FxHashMap::default();
        for deed in deeds {
            let Some(place) = &deed.place else { continue };
            let offset = (!indexed.contains(&place.array)).then_some(place.offset);
            accounts.entry((place.array, offset)).or_default().push(deed);
        }
        accounts.retain(|(array, _), _| !miscounted.contains(array) && !self.escaped.contains(array));
        let what =
            |(_, offset): &Account| if offset.is_some() { "an mbarrier" } else { "the mbarriers of a ring" };
        accounts.iter().filter_map(|(account, deeds)| self.mistakes_of(deeds, what(account))).collect()
    }

    fn mistakes_of(&self, deeds: &[&Deed], what: &str) -> Option<Mistake> {
        let mut paths: FxHashMap<&[Step], Changes<'_>> = FxHashMap::default();
        for deed in deeds {
            let changes = paths.entry(&deed.path).or_default();
            match deed.act {
                Act::Expect { bytes, .. } => changes.expects.push((deed, bytes?)),
                Act::Complete { bytes } => changes.copies.push((deed, bytes?)),
                _ => {}
            }
        }
        for changes in paths.values_mut() {
            changes.sums = Some(self.sums(changes)?);
        }
        // The mbarriers that another kernel's code prepares, or nobody, may expect more than is seen here.
        let is_prepared = deeds.iter().all(|deed| {
            let array = deed.place.as_ref().map(|place| place.array);
            array.is_some_and(|array| self.initializes(array))
        });
        let mut found: Vec<Mistake> = Vec::new();
        for rank in 0..self.threads.blocks() as usize {
            let sums: Vec<((i64, i64), &Changes<'_>)> = paths
                .values()
                .filter_map(|changes| Some((*changes.sums.as_ref()?.get(rank)?, changes)))
                .filter(|((expected, copied), _)| expected != copied)
                .collect();
            // Bytes that one path lacks may come from another.
            let lacks = sums.iter().filter(|((expected, copied), _)| copied < expected).count();
            if lacks == 0 || lacks == sums.len() {
                let mistakes = sums.iter().filter(|(_, changes)| is_prepared || !changes.expects.is_empty());
                let of_cta =
                    if self.threads.blocks() > 1 { format!("{what} of CTA {rank}") } else { what.to_owned() };
                found.extend(mistakes.filter_map(|(sums, changes)| changes.mistake(*sums, &of_cta)));
            }
        }
        found.into_iter().min()
    }

    fn initializes(&self, array: Register) -> bool {
        let of_array = |deed: &&Deed| deed.place.as_ref().is_some_and(|place| place.array == array);
        self.all.iter().filter(of_array).any(|deed| matches!(deed.act, Act::Initialize(_)))
    }

    /// Expected and copied bytes of each CTA, where all executions of a path are alike.
    fn sums(&self, changes: &Changes<'_>) -> Option<Vec<(i64, i64)>> {
        let mut deeds = changes.expects.iter().chain(&changes.copies).map(|(deed, _)| *deed);
        let first = deeds.next()?;
        if !deeds.all(|deed| deed.threads == first.threads || deed.is_exact && first.is_exact) {
            return None;
        }
        let mut sums = vec![(0, 0); self.threads.blocks() as usize];
        for (deed, bytes) in &changes.expects {
            for (rank, threads) in self.executions(deed)? {
                sums[rank].0 += bytes * threads;
            }
        }
        for (deed, bytes) in &changes.copies {
            for (rank, threads) in self.executions(deed)? {
                sums[rank].1 += bytes * threads;
            }
        }
        Some(sums)
    }

    /// How many threads reach an mbarrier of each CTA. Which of an array's it is does not matter here.
    fn executions(&self, deed: &Deed) -> Option<Vec<(usize, i64)>> {
        let reached = deed.ranks(self.threads)?;
        Some(reached.into_iter().enumerate().map(|(rank, threads)| (rank, threads as i64)).collect())
    }
}

impl Changes<'_> {
    fn mistake(&self, (expected, copied): (i64, i64), what: &str) -> Option<Mistake> {
        let (copy, moves) = self.copies.first()?;
        let note = (copy.location, format!("this moves {moves} bytes"));
        let is_one = what.starts_with("an ");
        let (them, expects) = if is_one { ("it", "expects") } else { ("them", "expect") };
        let Some((first, _)) = self.expects.first().filter(|_| expected > 0) else {
            let message = format!(
                "copies of {copied} bytes complete on {what} that {expects} none: arrive by `arrive_and_expect`, with the bytes of \
                 the copies"
            );
            return Some((copy.location, message, note));
        };
        let is_multicast = self.copies.iter().any(|(copy, _)| !matches!(copy.receivers, Receivers::One));
        let multicast =
            if is_multicast { "; those of a multicast count in every CTA that receives it" } else { "" };
        let missing = if copied < expected { "; or a copy is missing, or completes elsewhere" } else { "" };
        let message = format!(
            "{what} {expects} {expected} bytes here, and the copies that complete on {them} move {copied}: expect the bytes of \
             the copies{multicast}{missing}"
        );
        Some((first.location, message, note))
    }
}
