//! Operations on the mbarriers of a cluster's CTAs.

use warpwright_events::{Event, FaultKind, MbarrierAddress, MemorySpace, shared_base};

use crate::cta::block::{Block, Blocks};
use crate::cta::mbarrier::{
    Arrivals, Change, Initialization, MOST_BYTES, Mbarrier, MbarrierRecord, arrivals,
};
use crate::launch::failure::Failure;

impl Block {
    /// Initializes an mbarrier for a number of arrivals.
    pub(crate) fn initialize_mbarrier(&mut self, offset: u64, initialization: Initialization) {
        let count = initialization.count;
        self.mbarriers.insert(offset, MbarrierRecord { initialization, ..MbarrierRecord::default() });
        self.shared.write_u64(offset, Mbarrier::new(count).to_bits());
    }

    /// Invalidates an mbarrier.
    pub(crate) fn invalidate_mbarrier(&mut self, offset: u64) -> Result<(), Box<Failure>> {
        self.mbarrier(offset)?;
        self.mbarriers.remove(&offset);
        self.shared.write_u64(offset, u64::MAX);
        Ok(())
    }

    /// The mbarrier at an aligned offset inside shared memory.
    pub(crate) fn mbarrier(&self, offset: u64) -> Result<Mbarrier, Box<Failure>> {
        let address = shared_base(self.rank) | offset;
        let failure =
            |message| Err(Failure::new(FaultKind::Barrier, 0, message).at(MemorySpace::Shared, address));
        if !self.mbarriers.contains_key(&offset) {
            return failure(format!("Shared address {address:#x} has no initialized mbarrier."));
        }
        match Mbarrier::from_bits(self.shared.read_u64(offset)) {
            Some(barrier) => Ok(barrier),
            None => failure(format!(
                "The mbarrier at shared address {address:#x} was overwritten by something else."
            )),
        }
    }

    /// Updates an mbarrier. Returns its previous state.
    pub(crate) fn change_mbarrier(&mut self, offset: u64, change: Change) -> Result<Mbarrier, Box<Failure>> {
        let before = self.mbarrier(offset)?;
        let after = match change {
            Change::Arrive { count, drop, expect } => {
                let expecting = Mbarrier { bytes: before.bytes.saturating_add_unsigned(expect), ..before };
                match drop {
                    _ if expecting.bytes > MOST_BYTES => None,
                    true => expecting.arrive_and_drop(count),
                    false => expecting.arrive(count),
                }
            }
            Change::Expect { bytes } => i32::try_from(bytes).ok().and_then(|bytes| before.expect(bytes)),
            Change::Complete { bytes } => i32::try_from(bytes).ok().and_then(|bytes| before.expect(-bytes)),
        };
        let address = shared_base(self.rank) | offset;
        let after = after.ok_or_else(|| self.refused(offset, address, before, change))?;
        if let Change::Complete { bytes } = change {
            self.observer.report(Event::MbarrierBytes {
                mbarrier: MbarrierAddress { rank: self.rank, offset },
                bytes,
            });
        }
        self.shared.write_u64(offset, after.to_bits());
        let record = self.mbarriers.entry(offset).or_default();
        if after.parity != before.parity {
            self.observer
                .report(Event::MbarrierPhaseEnd { mbarrier: MbarrierAddress { rank: self.rank, offset } });
            let arrivals_before = std::mem::take(&mut record.arrivals);
            *record = MbarrierRecord {
                initialization: record.initialization,
                phase: record.phase + 1,
                observed: std::mem::take(&mut record.observed),
                arrivals_before,
                ..MbarrierRecord::default()
            };
        } else {
            match change {
                Change::Arrive { expect: bytes, .. } | Change::Expect { bytes } => {
                    record.bytes_expected += u64::from(bytes);
                }
                Change::Complete { bytes } => record.bytes_arrived += u64::from(bytes),
            }
        }
        Ok(before)
    }

    /// Records a copy whose bytes arrive in the open phase.
    pub(crate) fn note_copy(&mut self, offset: u64, pc: u32, bytes: u32) {
        let Some(record) = self.mbarriers.get_mut(&offset) else { return };
        if !record.copies.contains(&(pc, bytes)) {
            record.copies.push((pc, bytes));
        }
    }

    /// Records arrivals in the phase that was open before.
    pub(crate) fn note_arrival(&mut self, offset: u64, before: Mbarrier, arrival: Arrivals) {
        let open = Mbarrier::from_bits(self.shared.read_u64(offset));
        let Some(record) = self.mbarriers.get_mut(&offset) else { return };
        let arrivals = match open {
            Some(open) if open.parity == before.parity => &mut record.arrivals,
            _ => &mut record.arrivals_before,
        };
        let same = |other: &&mut Arrivals| {
            (other.rank, other.warp, other.pc) == (arrival.rank, arrival.warp, arrival.pc)
        };
        match arrivals.iter_mut().find(same) {
            Some(known) => known.count += arrival.count,
            None => arrivals.push(arrival),
        }
    }
}

impl Block {
    /// The fault for an impossible update.
    fn refused(&self, offset: u64, address: u64, before: Mbarrier, change: Change) -> Box<Failure> {
        let record = self.mbarriers.get(&offset);
        let phase = record.map_or(0, |record| record.phase);
        let message = match change {
            Change::Arrive { count, .. } if count > before.pending => {
                let arrived = before.expected - before.pending;
                format!(
                    "Phase {phase} of the mbarrier at shared address {address:#x} takes {}: {arrived} {} arrived, and \
                     {count} more {}.",
                    arrivals(before.expected),
                    if arrived == 1 { "has" } else { "have" },
                    if count == 1 { "arrives" } else { "arrive" }
                )
            }
            Change::Arrive { count, drop: true, .. } if count > before.expected => format!(
                "The mbarrier at shared address {address:#x} has phases of {} arrivals, and {count} are dropped.",
                before.expected
            ),
            Change::Arrive { expect: bytes, .. } | Change::Expect { bytes } => format!(
                "The mbarrier at shared address {address:#x} waits for {} bytes in this phase, and {bytes} more are expected; it can count {MOST_BYTES}.",
                before.bytes
            ),
            Change::Complete { bytes } => format!(
                "The mbarrier at shared address {address:#x} has {} unexpected bytes in this phase, and {bytes} more arrive; it can count {MOST_BYTES}.",
                -before.bytes
            ),
        };
        let mut failure = Failure::new(FaultKind::Barrier, 0, message).at(MemorySpace::Shared, address);
        if !matches!(change, Change::Arrive { .. }) {
            return failure;
        }
        if let Some(record) = record {
            let Initialization { pc, count } = record.initialization;
            failure.located_notes.push((format!("it is initialized for {} a phase", arrivals(count)), pc));
            for Arrivals { warp, pc, count, .. } in &record.arrivals {
                failure
                    .located_notes
                    .push((format!("in this phase, warp {warp} has made {}", arrivals(*count)), *pc));
            }
        }
        if before.bytes > 0 {
            failure = failure.note(format!("the phase still waits for {} bytes", before.bytes));
        }
        let again = record.is_some_and(|record| !record.arrivals.is_empty());
        failure.help = Some(
            if again && before.bytes > 0 {
                "let the thread that arrives again wait first until the phase has ended: a producer fills a slot again after the \
                 wait for its release (`wait_parity` on the mbarrier at which its readers arrive). And let as many threads arrive as \
                 the mbarrier is initialized for"
            } else {
            "let as many threads arrive as the mbarrier is initialized for: `arrive` counts one for each thread that \
             executes it, so let one thread execute it (`elect`; in a role, `leads()`), or initialize the mbarrier for \
             all of them; and let a thread that arrives again wait for the phase first"
            }
            .to_owned(),
        );
        failure
    }
}

/// Bytes of an asynchronous operation arrive at an mbarrier.
pub(crate) fn complete_tx(
    blocks: &mut Blocks<'_>,
    address: MbarrierAddress,
    bytes: u32,
) -> Result<(), Box<Failure>> {
    running(blocks, address)?.change_mbarrier(address.offset, Change::Complete { bytes }).map(|_| ())
}

/// The CTA that an mbarrier belongs to, which must be running.
pub(crate) fn running<'b>(
    blocks: &'b mut Blocks<'_>,
    address: MbarrierAddress,
) -> Result<&'b mut Block, Box<Failure>> {
    let own = blocks.own.rank;
    match blocks.get(address.rank) {
        Some(block) if address.rank == own || block.is_running() => Ok(block),
        Some(block) => {
            let what = if block.started { "has exited" } else { "has not started" };
            let message = format!(
                "An operation on the mbarrier at shared address {:#x} reaches the CTA of rank {}, which {what}.",
                address.shared(),
                address.rank
            );
            let help = match block.started {
                true => {
                    "keep each CTA until its peers have stopped using its mbarriers: call `cluster_sync()` at the end of the kernel, or `tail()` in a pipeline's producer"
                }
                false => {
                    "call `cluster_sync()` (`barrier.cluster`) in all CTAs after the mbarriers are initialized, before any CTA uses those of another"
                }
            };
            Err(Failure::new(FaultKind::PeerNotResident, 0, message)
                .at(MemorySpace::Shared, address.shared())
                .advise(help))
        }
        None => Err(absent(address.rank)),
    }
}

/// The failure of an address in a CTA that the cluster does not have.
pub(crate) fn absent(rank: u32) -> Box<Failure> {
    Failure::new(FaultKind::OutOfBounds, 0, format!("The cluster has no CTA of rank {rank}."))
}
