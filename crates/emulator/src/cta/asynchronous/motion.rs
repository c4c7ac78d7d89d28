//! The execution of copies.

use std::ops::Range;

use warpwright_arch::tensor_map::ElementType;
use warpwright_events::{Event, FaultKind, MbarrierAddress, MemorySpace};

use super::reduction::Reduction;
use super::shared_tile::SharedTile;
use super::transfer::{ALL_BYTES, Completion, Global, LINEAR_ROW, Motion, Transfer, ranks_of};
use crate::cta::block::Blocks;
use crate::cta::mbarrier_update::{complete_tx, running};
use crate::launch::context::LaunchContext;
use crate::launch::failure::Failure;
use crate::memory::{Memory, RegionCache};
use crate::numeric::convert::{ConvertMode, Scalar, convert};

impl Transfer {
    /// Advances to a step, and reports the completion after the last one. Returns whether it has
    /// completed.
    pub(super) fn advance(
        &mut self,
        until: u32,
        blocks: &mut Blocks<'_>,
        launch: &LaunchContext<'_>,
    ) -> Result<bool, Box<Failure>> {
        let (steps, rows) = (self.steps(), self.rows());
        let until = until.min(steps);
        if until > self.progress {
            let range = self.progress..until;
            match &self.motion {
                Motion::Load { from, to, ranks } => load(from, *to, *ranks, range, blocks, launch),
                Motion::Store { from, to, reduction, mask } => {
                    if range.start < rows {
                        let range = range.start..range.end.min(rows);
                        stage(*from, to, range, &mut self.staged, blocks);
                    }
                    if range.end > rows {
                        let range = range.start.max(rows) - rows..range.end - rows;
                        store(to, reduction.as_ref(), *mask, range, &self.staged, launch.memory);
                    }
                }
                Motion::Peer { from, to, rank, bytes, reduction } => {
                    pass(*from, (*rank, *to), *bytes, reduction.as_ref(), blocks);
                }
                Motion::Value { data, bytes, to, rank, reduction, .. } => {
                    let target = shared(blocks, *rank, *to, *bytes);
                    // SAFETY: `shared` found the bytes, which are aligned, and the data has no
                    // fewer.
                    unsafe { put(data.as_ptr(), target, *bytes, reduction.as_ref()) };
                }
            }
            self.progress = until;
        }
        if self.progress < steps {
            return Ok(false);
        }
        self.complete(blocks, launch)?;
        Ok(true)
    }

    fn bytes(&self) -> u32 {
        match &self.motion {
            Motion::Load { from, .. } => from.bytes(),
            Motion::Store { to, .. } => to.bytes(),
            Motion::Peer { bytes, .. } | Motion::Value { bytes, .. } => *bytes,
        }
    }

    fn complete(&self, blocks: &mut Blocks<'_>, launch: &LaunchContext<'_>) -> Result<(), Box<Failure>> {
        let Completion::Mbarriers { offset, signal } = self.completion else { return Ok(()) };
        for rank in self.destinations(blocks.own.rank).map(|rank| signal.rank(rank)) {
            blocks
                .own
                .observer
                .report(Event::MbarrierCopyComplete { mbarrier: MbarrierAddress { rank, offset } });
            // Before the bytes arrive: they may end the phase.
            if let Ok(block) = running(blocks, MbarrierAddress { rank, offset }) {
                block.note_copy(offset, self.issuer.pc, self.bytes());
            }
            complete_tx(blocks, MbarrierAddress { rank, offset }, self.bytes()).map_err(|failure| {
                let origin = launch.kernel.code.instruction(self.issuer.pc);
                failure.note(format!(
                    "the bytes are those of the copy at PTX line {} (`{}`), issued by warp {}, lane {}",
                    origin.line, origin.text, self.issuer.warp, self.issuer.lane
                ))
            })?;
        }
        Ok(())
    }

    /// Rejects a copy with invalid rows, so that executing them later cannot fail.
    pub(super) fn check(&self, blocks: &mut Blocks<'_>, memory: &Memory) -> Result<(), Box<Failure>> {
        let lane = 1 << self.issuer.lane;
        let (global, writes) = match &self.motion {
            Motion::Load { from, .. } => (Some(from), false),
            Motion::Store { to, .. } => (Some(to), true),
            Motion::Peer { .. } | Motion::Value { .. } => (None, false),
        };
        if let Some(global) = global {
            check_global(global, writes, lane, memory)?;
        }
        let mut check =
            |rank: u32, address: u32, bytes: u32| check_shared(blocks, rank, address, bytes, lane);
        match &self.motion {
            Motion::Load { from, to, ranks } => {
                ranks_of(*ranks).try_for_each(|rank| check(rank, *to, from.shared_bytes()))
            }
            Motion::Store { from, to, .. } => {
                let own = blocks.own.rank;
                check_shared(blocks, own, *from, to.shared_bytes(), lane)
            }
            Motion::Peer { from, to, rank, bytes, .. } => {
                check(*rank, *to, *bytes)?;
                let own = blocks.own.rank;
                check_shared(blocks, own, *from, *bytes, lane)
            }
            Motion::Value { to, rank, bytes, .. } => check(*rank, *to, *bytes),
        }
    }
}

fn check_global(global: &Global, writes: bool, lane: u32, memory: &Memory) -> Result<(), Box<Failure>> {
    let mut cache = RegionCache::default();
    let mut bad = None;
    global.for_rows(0..global.rows(), |row| {
        let end = row.global.wrapping_add(global.global_bytes(row.inside.len() as u32).into());
        if !row.inside.is_empty() && memory.locate(&mut cache, row.global, end, writes).is_none() {
            bad.get_or_insert((row, end));
        }
    });
    let Some((row, end)) = bad else { return Ok(()) };
    let verb = if writes { "writes" } else { "reads" };
    let what = match global {
        Global::Linear { address, bytes } => {
            format!("A bulk copy {verb} {bytes} bytes at global address {address:#x}")
        }
        Global::Tile { .. } => format!(
            "Row {} of a tensor copy is inside its tensor, and {verb} {} bytes at global address {:#x}",
            row.index,
            end - row.global,
            row.global
        ),
    };
    let live = memory.locate(&mut cache, row.global, end, false).is_some();
    let freed = memory
        .nearest(row.global)
        .is_some_and(|region| !region.is_live() && row.global < region.base + region.size);
    let (kind, where_) = match (live, freed) {
        (true, _) => (FaultKind::ReadOnly, "which may only be read"),
        (_, true) => (FaultKind::UseAfterFree, "in memory that was freed"),
        _ => (FaultKind::OutOfBounds, "which are not all inside an allocation"),
    };
    let mut failure =
        Failure::new(kind, lane, format!("{what}, {where_}.")).at(MemorySpace::Global, row.global);
    if !live {
        failure = failure.note(memory.describe(if freed { row.global } else { end - 1 }));
    }
    if let Global::Tile { .. } = global {
        failure = failure.note("the tensor map's address, extents and strides determine where the tensor is");
    }
    Err(failure)
}

fn check_shared(
    blocks: &mut Blocks<'_>,
    rank: u32,
    address: u32,
    bytes: u32,
    lane: u32,
) -> Result<(), Box<Failure>> {
    let own = blocks.own.rank;
    let Some(block) = blocks.get(rank) else {
        let message = format!("A copy reaches the CTA of rank {rank}, which the cluster does not have.");
        return Err(Failure::new(FaultKind::OutOfBounds, lane, message));
    };
    if rank != own && !block.is_running() {
        let what = if block.started { "has exited" } else { "has not started" };
        let message = format!("A copy reaches the shared memory of the CTA of rank {rank}, which {what}.");
        let help = match block.started {
            true => {
                "keep each CTA until its peers have stopped copying to it: in a pipeline, call `tail()` in the producer; otherwise \
                     `cluster_sync()` at the end of the kernel"
            }
            false => "call `cluster_sync()` (`barrier.cluster`) in all CTAs of the cluster before the copy",
        };
        return Err(Failure::new(FaultKind::PeerNotResident, lane, message).advise(help));
    }
    if u64::from(address) + u64::from(bytes) <= block.shared.size() {
        return Ok(());
    }
    let message = format!(
        "A copy accesses {bytes} bytes from offset {address:#x} on, which are outside shared memory."
    );
    let note = format!("each CTA has {} bytes of it, static and dynamic", block.shared.size());
    Err(Failure::new(FaultKind::OutOfBounds, lane, message)
        .note(note)
        .at(MemorySpace::Shared, address.into()))
}

/// The host's bytes of a CTA's shared memory, which `check` has validated.
fn shared(blocks: &mut Blocks<'_>, rank: u32, address: u32, bytes: u32) -> *mut u8 {
    let block = blocks.get(rank).expect("the copy was held to ranks of the cluster");
    let first = block.shared.base() + u64::from(address);
    block.shared.locate(first, first + u64::from(bytes)).expect("the copy was held to shared memory")
}

fn load(
    from: &Global,
    to: u32,
    ranks: u16,
    rows: Range<u32>,
    blocks: &mut Blocks<'_>,
    launch: &LaunchContext<'_>,
) {
    let mut cache = RegionCache::default();
    let mut scratch = [0; LINEAR_ROW as usize];
    let fill = from.fill();
    let tiles: Vec<SharedTile> =
        ranks_of(ranks).map(|rank| from.tile(shared(blocks, rank, to, from.shared_bytes()), to)).collect();
    from.for_rows(rows, |row| {
        let inside = row.inside.clone();
        let mut data = std::ptr::null();
        if !inside.is_empty() {
            let bytes = from.global_bytes(inside.len() as u32);
            let end = row.global + u64::from(bytes);
            let host = launch.memory.locate(&mut cache, row.global, end, false);
            data = host.expect("the copy was held to live memory").cast_const();
            // SAFETY: `locate` found `bytes` bytes, and no row is longer than the scratch.
            data = unsafe { as_shared(from.element(), data, inside.len(), &mut scratch) };
        }
        for tile in &tiles {
            // SAFETY: `shared` found the bytes of all rows, and `data` has those inside the tensor.
            unsafe {
                tile.put(row.index, inside.clone(), data);
                tile.fill(row.index, 0..inside.start, fill);
                tile.fill(row.index, inside.end..row.bytes, fill);
            }
        }
    });
}

/// Elements as they are in shared memory: most are unchanged, tf32 is rounded, padded elements are
/// spread.
///
/// # Safety
/// `data` points to the bytes in global memory of `length` bytes in shared memory, which is at most
/// the scratch.
#[inline(always)]
unsafe fn as_shared(
    element: Option<ElementType>,
    data: *const u8,
    length: usize,
    scratch: &mut [u8; LINEAR_ROW as usize],
) -> *const u8 {
    match element {
        Some(ElementType::Tf32 | ElementType::Tf32Ftz) => {
            for at in (0..length).step_by(4) {
                // SAFETY: the caller's promise.
                let bits = unsafe { data.wrapping_add(at).cast::<u32>().read_unaligned() };
                scratch[at..at + 4].copy_from_slice(&rounded_to_tf32(bits).to_le_bytes());
            }
        }
        Some(element) if element.is_padded() => {
            let packed = element.bits() as usize * 2;
            for piece in 0..length / 16 {
                let target = &mut scratch[16 * piece..][..packed];
                // SAFETY: the caller's promise.
                unsafe {
                    target.as_mut_ptr().copy_from_nonoverlapping(data.wrapping_add(piece * packed), packed)
                };
            }
        }
        _ => return data,
    }
    scratch.as_ptr()
}

/// A load of tf32 rounds to nearest, ties to even, and makes every NaN canonical (measured on
/// H200).
fn rounded_to_tf32(bits: u32) -> u32 {
    if f32::from_bits(bits).is_nan() {
        return 0x7fff_e000;
    }
    convert(bits.into(), Scalar::F32, Scalar::Tf32, ConvertMode::default()) as u32
}

/// Reads rows of a store from shared memory.
fn stage(from: u32, to: &Global, rows: Range<u32>, staged: &mut Vec<u8>, blocks: &mut Blocks<'_>) {
    let own = blocks.own.rank;
    let tile = to.tile(shared(blocks, own, from, to.shared_bytes()), from);
    to.for_rows(rows, |row| {
        let start = staged.len();
        staged.resize(start + row.bytes as usize, 0);
        // SAFETY: `shared` found the bytes of all rows, including this one's.
        unsafe { tile.get(row.index, 0..row.bytes, staged[start..].as_mut_ptr()) };
    });
}

/// Writes rows of a store to global memory.
fn store(
    to: &Global,
    reduction: Option<&Reduction>,
    mask: u16,
    rows: Range<u32>,
    staged: &[u8],
    memory: &Memory,
) {
    let mut cache = RegionCache::default();
    to.for_rows(rows, |row| {
        if row.inside.is_empty() {
            return;
        }
        // Every row before has as many bytes as the first, which only the last may lack.
        let row_bytes = match to {
            Global::Linear { .. } => LINEAR_ROW,
            Global::Tile { tensor, .. } => tensor.row_bytes,
        };
        let start = row.index as usize * row_bytes as usize;
        let inside = start + row.inside.start as usize..start + row.inside.end as usize;
        let source = &staged[inside];
        let bytes = to.global_bytes(row.inside.len() as u32);
        let end = row.global + u64::from(bytes);
        let target =
            memory.locate(&mut cache, row.global, end, true).expect("the copy was held to live memory");
        // SAFETY: `locate` found `bytes` bytes, which are whole elements of the source.
        unsafe {
            match (reduction, to.element()) {
                (Some(reduction), _) => reduction.apply(target, source.as_ptr(), source.len()),
                (None, None) if mask != ALL_BYTES => {
                    for (at, byte) in source.iter().enumerate().filter(|(at, _)| mask >> (at % 16) & 1 != 0) {
                        target.wrapping_add(at).write(*byte);
                    }
                }
                (None, Some(element)) if element.is_padded() => {
                    let packed = element.bits() as usize * 2;
                    for (piece, source) in source.chunks(16).enumerate() {
                        target.wrapping_add(piece * packed).copy_from_nonoverlapping(source.as_ptr(), packed);
                    }
                }
                _ => target.copy_from_nonoverlapping(source.as_ptr(), source.len()),
            }
        }
    });
}

/// Copies between the shared memories of CTAs, which may be the same.
fn pass(
    from: u32,
    (rank, to): (u32, u32),
    bytes: u32,
    reduction: Option<&Reduction>,
    blocks: &mut Blocks<'_>,
) {
    let own = blocks.own.rank;
    let source = shared(blocks, own, from, bytes).cast_const();
    let target = shared(blocks, rank, to, bytes);
    // SAFETY: `shared` found the bytes of both.
    unsafe { put(source, target, bytes, reduction) };
}

/// Copies bytes, or reduces them into the destination.
///
/// # Safety
/// Both are of `bytes` bytes, which may overlap; the target is aligned to the elements of the
/// reduction.
unsafe fn put(source: *const u8, target: *mut u8, bytes: u32, reduction: Option<&Reduction>) {
    // SAFETY: the caller's promise; `copy_from` allows overlap, and elements are reduced one by
    // one.
    unsafe {
        match reduction {
            Some(reduction) => reduction.apply(target, source, bytes as usize),
            None => target.copy_from(source, bytes as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an H200 loaded them through a tensor map of tf32.
    #[test]
    fn tf32_is_rounded_as_measured() {
        let cases = [
            (0x3f80_0fff, 0x3f80_0000),
            (0x3f80_1000, 0x3f80_0000),
            (0x3f80_1001, 0x3f80_2000),
            (0x3f80_3000, 0x3f80_4000),
            (0x0000_0001, 0),
            (0x007f_ffff, 0x0080_0000),
            (0x8000_0001, 0x8000_0000),
            (0x7f7f_ffff, 0x7f80_0000),
            (0x7f7f_f000, 0x7f80_0000),
            (0xff80_0000, 0xff80_0000),
            (0x7fc0_0001, 0x7fff_e000),
            (0xffff_ffff, 0x7fff_e000),
            (0x0000_1fff, 0x0000_2000),
        ];
        for (bits, rounded) in cases {
            assert_eq!(rounded_to_tf32(bits), rounded, "{bits:#x}");
        }
    }
}
