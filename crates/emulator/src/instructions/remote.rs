//! `st.async` and `red.async`: asynchronous stores to the shared memory of a CTA of the cluster,
//! and reductions there (PTX ISA, "st.async", "red.async").

use warpwright_events::{Actor, Event, FaultKind, Proxy, lanes, split_shared};

use super::atomic::{named_update, read};
use super::mbarrier;
use crate::cta::asynchronous::progress;
use crate::cta::asynchronous::reduction::Reduction;
use crate::cta::asynchronous::transfer::{Completion, Issuer, Motion, Signal, Transfer};
use crate::cta::mbarrier_update::absent;
use crate::decode::{Decoded, Decoder, File, Register, Row};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};

/// The most bytes of one store.
const MOST_BYTES: usize = 16;

/// `st.async{.weak}.shared::cluster.mbarrier::complete_tx::bytes{.vec}.type [address], values,
/// [mbarrier]`
pub(super) fn store(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    decode(d, i, None)
}

/// `red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.operation.type
/// [address], value, [mbarrier]`
pub(super) fn reduce(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let reduction = Reduction::in_shared(named_update(i)?, i.ty()?).ok_or_else(|| i.unsupported())?;
    decode(d, i, Some(reduction))
}

fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>, reduction: Option<Reduction>) -> Decoded {
    let ty = i.ty()?;
    let register = |slot| Register { file: File::of(ty), slot, ty };
    let remote = Remote {
        target: d.memory_at(i, 0)?,
        space: if i.has("shared::cluster") { Space::ClusterShared } else { Space::Generic },
        mbarrier: d.memory_at(i, 2)?,
        values: d.sources_at(i, 1)?.into_iter().map(register).collect(),
        size: ty.bytes() as usize,
        reduction,
    };
    d.effect(remote)
}

struct Remote {
    target: AddressOperand,
    space: Space,
    mbarrier: AddressOperand,
    values: Vec<Register>,
    /// Bytes of a value.
    size: usize,
    reduction: Option<Reduction>,
}

impl Effect for Remote {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let targets = addresses(execution, &self.target);
        let objects = mbarrier::objects(execution, &self.mbarrier, self.space, mask)?;
        let bytes = self.size * self.values.len();
        for lane in lanes(mask) {
            let (rank, to) = split_shared(self.shared(lane, targets[lane])?);
            let refused = |kind: FaultKind, message: String| Err(Failure::new(kind, 1 << lane, message));
            if !to.is_multiple_of(bytes as u64) {
                return refused(
                    FaultKind::Misaligned,
                    format!(
                        "An asynchronous store of {bytes} bytes at shared address {:#x} is misaligned: the address must be \
                         a multiple of {bytes}.",
                        targets[lane]
                    ),
                );
            }
            if objects[lane].rank != rank {
                return refused(
                    FaultKind::IllegalInstruction,
                    format!(
                        "An asynchronous store writes to the CTA of rank {rank}, and its mbarrier is in the CTA of rank {}: \
                         they must be in the same.",
                        objects[lane].rank
                    ),
                );
            }
            if rank >= execution.launch.ctas_per_cluster() {
                return Err(mbarrier::at(lane)(absent(rank)));
            }
            let mut data = [0; MOST_BYTES];
            for (index, value) in self.values.iter().enumerate() {
                let value = read(execution.registers, *value, lane).to_le_bytes();
                data[index * self.size..][..self.size].copy_from_slice(&value[..self.size]);
            }
            let (to, bytes) = (to as u32, bytes as u32);
            let (reduction, proxy) = (self.reduction, Proxy::Generic);
            let motion = Motion::Value { data, bytes, to, rank, reduction, proxy };
            let issuer = Issuer { warp: execution.warp, lane: lane as u8, pc: execution.pc };
            let completion =
                Completion::Mbarriers { offset: objects[lane].offset, signal: Signal::Rank(rank) };
            let launch = execution.launch;
            let transfer = Transfer::new(issuer, motion, completion, None);
            // Issuing it may complete it, and the phase with it.
            let actor = Actor { lanes: 1 << lane, ..execution.actor(0) };
            execution.block.observer.report(Event::MbarrierRelease { actor, mbarrier: objects[lane] });
            progress::issue(&mut execution.cluster(), launch, transfer)?;
        }
        Ok(())
    }
}

impl Remote {
    /// The address in `.shared::cluster`.
    fn shared(&self, lane: usize, address: u64) -> Result<u64, Box<Failure>> {
        if self.space == Space::ClusterShared || self.target.space.is_some() {
            return Ok(address);
        }
        match Space::of(address) {
            (Space::ClusterShared, shared) => Ok(shared),
            (space, _) => Err(Failure::new(
                FaultKind::OutOfBounds,
                1 << lane,
                format!(
                    "An asynchronous store writes to shared memory of the cluster; {address:#x} is in {} memory.",
                    space.name()
                ),
            )),
        }
    }
}
