//! The CTAs that an issued operation involves.

use warpwright_events::{FULL, FaultKind};

use crate::cta::block::{Block, Blocks};
use crate::launch::failure::Failure;
use crate::tensor::warpgroup_operands::Outside;

/// The ranks of the CTAs that an issued operation involves.
pub(crate) fn ranks(own: u32, ctas: u32) -> impl Iterator<Item = u32> {
    let first = if ctas == 2 { own & !1 } else { own };
    first..first + ctas
}

/// A CTA that it involves, which must be resident.
pub(crate) fn partner<'b>(blocks: &'b mut Blocks<'_>, rank: u32) -> Result<&'b mut Block, Box<Failure>> {
    let own = blocks.own.rank;
    let failure = |message: String| Err(Failure::new(FaultKind::PeerNotResident, FULL, message));
    match blocks.get(rank) {
        Some(block) if rank == own || block.is_running() => Ok(block),
        Some(block) => {
            let what = if block.started { "has exited" } else { "has not started" };
            failure(format!("The work is of a pair of CTAs, of which that of rank {rank} {what}."))
        }
        None => failure(format!(
            ".cta_group::2 is for pairs of CTAs in a cluster, and the CTA of rank {own} has no partner."
        )),
    }
}

pub(super) fn outside(outside: Outside, size: u64) -> Box<Failure> {
    let message = format!(
        "A matrix of tcgen05 extends beyond the CTA's shared memory of {size} bytes: the 16 bytes at \
         {:#x} are outside it.",
        outside.address
    );
    Failure::new(FaultKind::OutOfBounds, FULL, message)
}
