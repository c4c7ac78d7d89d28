//! Which wait of a deadlock is probably the cause, and what its mistake is.
//!
//! Threads that wait for each other form a cycle, so that every wait looks alike. The mbarriers tell them
//! apart: a count that does not fit its phase is a mistake whatever other threads do, and a wait for a
//! phase that no thread works towards follows from a mistake elsewhere.

use warpwright_events::LANES;

use crate::cta::mbarrier::{Arrivals, Mbarrier, MbarrierRecord, arrivals};
use crate::execution::effect::Watched;
use crate::launch::context::LaunchContext;
use crate::scheduling::cluster::Cluster;
use crate::scheduling::deadlock::Waiting;
use crate::scheduling::path::Wait;
use crate::scheduling::warp::Warp;

/// What is wrong with a wait, the most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Diagnosis {
    /// Lanes of one warp wait for each other at two instructions.
    Apart,
    /// Some lanes of one warp alone have completed the previous phase of an mbarrier that counts
    /// several arrivals: other warps may have been meant.
    Surplus,
    /// The bytes that the phase expects are not those that its copies bring.
    Bytes,
    /// The phase has its bytes, and no thread arrives.
    OnlyBytes,
    /// An instruction needs more lanes of its warp. That keeps the warp from everything that other
    /// threads wait for.
    Lanes,
    /// A barrier of the CTA lacks more threads than do not wait at its barriers, and some wait at another one:
    /// whatever the mbarriers bring, it does not complete.
    Barriers,
    /// The phase has some of its arrivals.
    Arrivals,
    /// The thread waits for a phase, and has never waited for one before it, which has ended.
    Parity,
    /// The phase that the thread waits for has ended, and so have an odd number of phases after it.
    Lapped,
    /// A producer waits for a slot at whose mbarrier no thread has ever arrived, at its first wait.
    FirstSlot,
    /// A thread waits for an accumulator at whose mbarrier no thread has ever arrived, at its first wait, and for operands
    /// afterwards.
    Accumulator,
    /// A producer waits for a slot at whose mbarrier no thread has ever arrived, at a later wait.
    Slot,
    /// No thread has ever arrived at the mbarrier, at the first wait for it.
    Never,
    /// The same, at a later wait.
    NeverAgain,
    /// The threads that arrived in the phase before have exited.
    Exited,
    /// Another wait for an mbarrier.
    Mbarrier,
    /// A barrier of the CTA lacks threads.
    Barrier,
    /// Another wait.
    Other,
}

impl Diagnosis {
    /// Whether it is the mistake itself.
    pub(super) fn is_cause(self) -> bool {
        matches!(self, Self::Apart | Self::Surplus | Self::Bytes | Self::OnlyBytes | Self::Lanes)
    }
}

/// The instructions behind a wait among which a producer issues its copies.
const NEAR: usize = 40;

impl Cluster {
    /// The mbarrier that threads wait for, at which offset, and what is recorded of it.
    fn awaited(&self, waiting: &Waiting<'_>) -> Option<(u64, Mbarrier, &MbarrierRecord)> {
        let Some(Watched::Mbarrier { address, .. }) = waiting.watched() else { return None };
        let block = &self.blocks[address.rank as usize];
        let barrier = block.mbarrier(address.offset).ok()?;
        Some((address.offset, barrier, block.mbarriers.get(&address.offset)?))
    }

    /// Whether the warp of an arrival has exited.
    fn has_exited(&self, arrival: &Arrivals) -> bool {
        let warps = &self.ctas[arrival.rank as usize].warps;
        warps.iter().any(|warp| warp.index == arrival.warp && warp.paths.is_empty())
    }

    /// Whether threads of a CTA wait at another of its barriers.
    fn waits_at_another(&self, rank: usize, barrier: u32) -> bool {
        let mut paths = self.ctas[rank].warps.iter().flat_map(|warp| &warp.paths);
        paths.any(|path| matches!(path.wait, Wait::Barrier { id, .. } if id != barrier))
    }

    /// The threads of a CTA that have not exited and do not wait at one of its barriers.
    fn threads_not_at_barriers(&self, rank: usize) -> u32 {
        let paths = self.ctas[rank].warps.iter().flat_map(|warp| &warp.paths);
        let elsewhere = paths.filter(|path| !matches!(path.wait, Wait::Barrier { .. } | Wait::Again { .. }));
        elsewhere.map(|path| path.mask.count_ones()).sum()
    }

    /// What is wrong with a wait, as far as the state that it waits for tells.
    pub(super) fn diagnosis(&self, launch: &LaunchContext<'_>, waiting: &Waiting<'_>) -> Diagnosis {
        if matches!(waiting.path.wait, Wait::Together | Wait::Members(_)) {
            let are_apart = waiting.warps.iter().all(|warp| are_apart(warp));
            return if are_apart { Diagnosis::Apart } else { Diagnosis::Lanes };
        }
        if let Wait::Barrier { id, .. } = waiting.path.wait {
            let block = &self.blocks[waiting.rank];
            let (count, wanted) = block.barriers[id as usize].progress(&block.alive);
            let lacks_others = self.waits_at_another(waiting.rank, id)
                && wanted.saturating_sub(count) > self.threads_not_at_barriers(waiting.rank);
            return if lacks_others { Diagnosis::Barriers } else { Diagnosis::Barrier };
        }
        let Some((_, barrier, record)) = self.awaited(waiting) else { return Diagnosis::Other };
        let observed = record.observed_by(waiting.rank as u32, waiting.warps[0].index);
        let is_part = (2..LANES as u32).contains(&barrier.expected);
        let all_pending = barrier.pending == barrier.expected;
        match record.arrivals_before.as_slice() {
            [only] if is_part && only.count == barrier.expected && all_pending => return Diagnosis::Surplus,
            _ => {}
        }
        match () {
            () if barrier.bytes < 0 || barrier.pending == 0 => Diagnosis::Bytes,
            () if all_pending && barrier.bytes == 0 && record.bytes_expected > 0 => Diagnosis::OnlyBytes,
            () if !all_pending => Diagnosis::Arrivals,
            () if record.phase > observed.unwrap_or(0) => {
                let missed = record.phase - observed.unwrap_or(0);
                if missed % 2 == 1 { Diagnosis::Parity } else { Diagnosis::Lapped }
            }
            () if !record.arrivals_before.is_empty()
                && record.arrivals_before.iter().all(|arrival| self.has_exited(arrival)) =>
            {
                Diagnosis::Exited
            }
            () if record.phase > 0 => Diagnosis::Mbarrier,
            () if observed.is_none() && is_followed_by_operands(launch, waiting.path.pc) => {
                Diagnosis::Accumulator
            }
            () if !issues_copies(launch, waiting.path.pc) => {
                if observed.is_none() {
                    Diagnosis::Never
                } else {
                    Diagnosis::NeverAgain
                }
            }
            () if observed.is_none() => Diagnosis::FirstSlot,
            () => Diagnosis::Slot,
        }
    }

    /// The mistake as a sentence, if the wait tells it.
    pub(super) fn named(&self, diagnosis: Diagnosis, waiting: &Waiting<'_>) -> Option<String> {
        if let Wait::Barrier { id, .. } = waiting.path.wait {
            let block = &self.blocks[waiting.rank];
            let (count, wanted) = block.barriers[id as usize].progress(&block.alive);
            return Some(format!(
                "Deadlock: barrier {id} waits for {wanted} threads, of which {count} have arrived, and no other thread can come."
            ));
        }
        let (offset, barrier, record) = self.awaited(waiting)?;
        let phase = record.phase;
        let object = format!("phase {phase} of the mbarrier at shared address {offset:#x}");
        let (expected, arrived) = (record.bytes_expected, record.bytes_arrived);
        let (who, plural) = (self.who(waiting), !waiting.is_one());
        let waits = if plural { "wait" } else { "waits" };
        Some(match diagnosis {
            Diagnosis::Bytes if expected == 0 => {
                format!("Deadlock: no thread expects bytes in {object}, and its copies bring {arrived}.")
            }
            Diagnosis::Bytes => {
                format!("Deadlock: {object} expects {expected} bytes, and its copies bring {arrived}.")
            }
            Diagnosis::OnlyBytes => {
                format!(
                    "Deadlock: {object} has the {arrived} bytes that it expects, and no thread arrives in it."
                )
            }
            Diagnosis::Arrivals => format!(
                "Deadlock: {object} has {} of its {}, and no thread can bring the rest.",
                barrier.expected - barrier.pending,
                arrivals(barrier.expected)
            ),
            Diagnosis::Parity => format!(
                "Deadlock: {who} {waits} for {object}, and {} not waited for phase {}, which has ended.",
                if plural { "have" } else { "has" },
                record.observed_by(waiting.rank as u32, waiting.warps[0].index).unwrap_or(0)
            ),
            Diagnosis::Lapped => {
                let missed = record.observed_by(waiting.rank as u32, waiting.warps[0].index).unwrap_or(0);
                format!(
                    "Deadlock: {who} {waits} for phase {missed} of the mbarrier at shared address {offset:#x}, which has ended, and \
                     so has phase {}: a wait by parity cannot see that.",
                    phase - 1
                )
            }
            Diagnosis::FirstSlot
            | Diagnosis::Accumulator
            | Diagnosis::Slot
            | Diagnosis::Never
            | Diagnosis::NeverAgain => {
                format!("Deadlock: {who} {waits} for {object}, at which no thread has ever arrived.")
            }
            Diagnosis::Exited => {
                let [first, others @ ..] = record.arrivals_before.as_slice() else { return None };
                let arrived = match others {
                    [] => format!("warp {}, which arrived in phase {}, has", first.warp, phase - 1),
                    _ => format!("all warps that arrived in phase {} have", phase - 1),
                };
                format!("Deadlock: {who} {waits} for {object}, and {arrived} exited.")
            }
            Diagnosis::Apart
            | Diagnosis::Surplus
            | Diagnosis::Lanes
            | Diagnosis::Mbarrier
            | Diagnosis::Barriers
            | Diagnosis::Barrier
            | Diagnosis::Other => return None,
        })
    }

    /// How to correct it.
    pub(super) fn help(&self, diagnosis: Diagnosis, waiting: &Waiting<'_>) -> Option<String> {
        if let Wait::Barrier { id, .. } = waiting.path.wait {
            let in_turns = match diagnosis {
                Diagnosis::Barriers => {
                    "; groups that take turns at two barriers need a first arrival at one of them, and an arrival at the other's when a turn ends"
                }
                _ => "",
            };
            return Some(format!(
                "let every thread that barrier {id} counts execute it, in the same order; or count only \
                 the threads that execute it{in_turns}"
            ));
        }
        if matches!(diagnosis, Diagnosis::Apart | Diagnosis::Lanes) {
            return Some(
                "let all lanes that the instruction needs execute it: move it out of the branch, \
             or name in its member mask only the lanes that execute it"
                    .to_owned(),
            );
        }
        if matches!(waiting.path.wait, Wait::Ready) && waiting.watched().is_none() {
            return Some(
                "let the loop change what its condition depends on; a flag that another thread sets is loaded in every round \
                 (`load_with`, with an acquire)"
                    .to_owned(),
            );
        }
        let (_, _, record) = self.awaited(waiting)?;
        let (expected, arrived) = (record.bytes_expected, record.bytes_arrived);
        Some(match diagnosis {
            Diagnosis::Surplus => format!(
                "let one thread arrive for its group: `arrive` counts one for each thread that executes it, and lanes of warp \
                 {} alone have completed the previous phase",
                record.arrivals_before.first()?.warp
            ),
            Diagnosis::Bytes if expected > arrived => format!(
                "expect (`arrive_and_expect`, `expect_tx`) exactly the bytes of the copies that complete in a phase, here \
                 {arrived}; or a copy is missing, or completes at another mbarrier. A tensor copy has the bytes of its map's box"
            ),
            Diagnosis::Bytes if expected == 0 => "expect the bytes of the copies in the phase in which they are issued, before they are: call \
                                                  `arrive_and_expect` instead of `arrive`"
                .to_owned(),
            Diagnosis::Bytes => format!(
                "expect (`arrive_and_expect`, `expect_tx`) exactly the bytes of the copies that complete in a phase, here \
                 {arrived}, before they are issued; a tensor copy has the bytes of its map's box"
            ),
            Diagnosis::OnlyBytes => "arrive too: `expect` (`expect_tx`) adds bytes and is no arrival; `arrive_and_expect` is both"
                .to_owned(),
            Diagnosis::Arrivals => "initialize the mbarrier with the number of arrivals of a phase; `arrive` counts one for each \
                                    thread that executes it"
                .to_owned(),
            Diagnosis::Parity => "wait with the parity of the phase: phase n has the parity n % 2, so the first wait is for parity 0, \
                                  and the parity flips each time the same mbarrier is waited for again. A wait for parity 1 on a new \
                                  mbarrier returns at once"
                .to_owned(),
            Diagnosis::Lapped => "let the threads that arrive wait until each phase has been observed: by a second mbarrier at which \
                                  the waiting threads arrive, as a ring's `empty`"
                .to_owned(),
            Diagnosis::FirstSlot => "a slot is empty at first: wait for it with the other parity (`parity ^ 1`), because a wait for \
                                     parity 1 on a new mbarrier returns at once. Or let the threads that should arrive first do so \
                                     before they wait themselves"
                .to_owned(),
            Diagnosis::Accumulator => "an accumulator is free at first: wait for it with the other parity (`parity ^ 1`), because a wait for \
                                       parity 1 on a new mbarrier returns at once"
                .to_owned(),
            Diagnosis::Slot => "release the slot: let the threads that read it arrive at this mbarrier when they have read it \
                                (`arrive`; in a pipeline, `release`)"
                .to_owned(),
            Diagnosis::Never | Diagnosis::NeverAgain => "let a thread arrive (`arrive`, `arrive_and_expect`), or commit the MMAs that the wait is for to this \
                                 mbarrier (`commit_tensor_core`); or find what prevents the thread that should arrive"
                .to_owned(),
            Diagnosis::Exited => "let the threads that arrive make as many rounds as those that wait: one load for each wait, and one \
                                  release for each load that follows"
                .to_owned(),
            Diagnosis::Apart | Diagnosis::Lanes | Diagnosis::Barriers | Diagnosis::Mbarrier | Diagnosis::Barrier | Diagnosis::Other => "find the threads that should arrive in this phase, and \
                                 what prevents them; if none should, the wait has the parity of the wrong phase, or of one that has \
                                 already completed"
                .to_owned(),
        })
    }
}

/// Whether the instructions behind a wait issue copies that complete at an mbarrier: a producer's.
fn issues_copies(launch: &LaunchContext<'_>, pc: u32) -> bool {
    let code = &launch.kernel.code;
    let behind = (pc as usize + 1..code.of_operation.len()).take(NEAR);
    let mut texts = behind.map(|pc| &*code.instruction(pc as u32).text);
    let next = texts.find(|text| is_other_wait(text) || text.contains(".expect_tx") || is_copy(text));
    next.is_some_and(|text| !is_other_wait(text))
}

/// Whether the instructions behind a wait first wait for operands, and then issue an MMA to tensor memory.
fn is_followed_by_operands(launch: &LaunchContext<'_>, pc: u32) -> bool {
    let code = &launch.kernel.code;
    let behind = (pc as usize + 1..code.of_operation.len()).take(2 * NEAR);
    let mut texts = behind.map(|pc| &*code.instruction(pc as u32).text);
    let is_mma = |text: &str| text.contains("tcgen05.mma");
    let is_copied = |text: &str| text.contains(".expect_tx") || is_copy(text);
    let next = texts.find(|text| is_other_wait(text) || is_mma(text) || is_copied(text));
    next.is_some_and(is_other_wait) && texts.any(is_mma)
}

/// Whether all lanes of a warp that have not exited wait at exchanges and barriers, at several instructions.
fn are_apart(warp: &Warp) -> bool {
    let waits = |wait: &Wait| {
        matches!(wait, Wait::Together | Wait::Members(_) | Wait::Barrier { .. } | Wait::Again { .. })
    };
    warp.paths.len() > 1 && warp.paths.iter().all(|path| waits(&path.wait))
}

fn is_other_wait(text: &str) -> bool {
    text.contains("mbarrier.try_wait") || text.contains("mbarrier.test_wait")
}

fn is_copy(text: &str) -> bool {
    text.contains("cp.async.bulk") && text.contains("mbarrier::complete_tx")
}
