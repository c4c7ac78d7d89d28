//! From the addresses of an access to the host's bytes, or to a fault.

use warpwright_events::{
    AccessKind, Event, FaultKind, LANES, MemorySpace, Strength, Value, lanes, split_shared,
};

use crate::execution::effect::Execution;
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, BaseOperand, Space, span};

/// The kind of an access, for fault messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Load,
    /// Of a tile, by a whole warp.
    LoadTile,
    Store,
    Atomic,
    Copy,
}

impl Purpose {
    /// The subject of a sentence.
    fn name(self) -> &'static str {
        match self {
            Purpose::Load | Purpose::LoadTile => "A load",
            Purpose::Store => "A store",
            Purpose::Atomic => "An atomic operation",
            Purpose::Copy => "A copy",
        }
    }

    fn writes(self) -> bool {
        matches!(self, Purpose::Store | Purpose::Atomic)
    }

    /// Accesses that are reported; asynchronous copies report themselves.
    fn kind(self) -> Option<AccessKind> {
        match self {
            Purpose::Load => Some(AccessKind::Read),
            Purpose::LoadTile => Some(AccessKind::ReadTile),
            Purpose::Store => Some(AccessKind::Write),
            Purpose::Atomic => Some(AccessKind::Atomic),
            Purpose::Copy => None,
        }
    }
}

/// The addresses of all lanes; those of inactive lanes are undefined.
#[inline(always)]
pub(crate) fn addresses(execution: &Execution<'_>, operand: &AddressOperand) -> [u64; LANES] {
    let offset = operand.offset as u64;
    let mut result = [offset; LANES];
    match operand.base {
        BaseOperand::Absolute => {}
        BaseOperand::Shared => result = [execution.block.shared.base().wrapping_add(offset); LANES],
        BaseOperand::Frame => {
            let base = u64::from(execution.registers.base().local);
            result = [base.wrapping_add(offset); LANES];
        }
        BaseOperand::Word(slot) => {
            let column = execution.registers.word(slot);
            for lane in 0..LANES {
                // An address in 32 bits wraps at 32 bits.
                result[lane] = column[lane].wrapping_add(offset as u32).into();
            }
        }
        BaseOperand::Long(slot) => {
            let column = execution.registers.long(slot);
            for lane in 0..LANES {
                result[lane] = column[lane].wrapping_add(offset);
            }
        }
    }
    result
}

/// The host's pointer to a range of a contiguous space.
#[inline(always)]
fn locate(
    execution: &mut Execution<'_>,
    space: Space,
    first: u64,
    end: u64,
    writes: bool,
) -> Option<*mut u8> {
    match space {
        Space::Global | Space::Constant => {
            execution.launch.memory.locate(execution.cache, first, end, writes)
        }
        Space::Shared => execution.block.shared.locate(first, end),
        Space::ClusterShared => {
            let own = execution.block.shared.locate(first, end);
            own.or_else(|| locate_in_peer(execution, first, end))
        }
        Space::Parameter => {
            let parameters = execution.launch.parameters;
            let inside = !writes && first <= end && end <= parameters.len() as u64;
            inside.then(|| parameters.as_ptr().cast_mut().wrapping_add(first as usize))
        }
        Space::Local | Space::Generic => None,
    }
}

/// The host's pointer to a range of the shared memory of another CTA of the cluster, which must be
/// running.
#[inline(never)]
fn locate_in_peer(execution: &mut Execution<'_>, first: u64, end: u64) -> Option<*mut u8> {
    let mut cluster = execution.cluster();
    let peer = cluster.get(split_shared(first).0)?;
    if peer.is_running() { peer.shared.locate(first, end) } else { None }
}

/// The lanes' bytes on the host.
pub(crate) enum Located {
    /// All in one allocation: lane `i` at `host + (addresses[i] - first)`.
    Together { host: *mut u8, first: u64, contiguous: bool, uniform: bool },
    /// Each at its own pointer.
    Apart(Box<[*mut u8; LANES]>),
}

impl Located {
    /// The bytes of a lane.
    #[inline(always)]
    pub(crate) fn lane(&self, lane: usize, addresses: &[u64; LANES]) -> *mut u8 {
        match self {
            Located::Together { host, first, .. } => host.wrapping_add((addresses[lane] - first) as usize),
            Located::Apart(hosts) => hosts[lane],
        }
    }

    /// The bytes of each lane; the pointers of inactive lanes are undefined.
    #[inline(always)]
    pub(crate) fn hosts(&self, addresses: &[u64; LANES]) -> [*mut u8; LANES] {
        match self {
            Located::Together { host, first, .. } => {
                addresses.map(|address| host.wrapping_add(address.wrapping_sub(*first) as usize))
            }
            Located::Apart(hosts) => **hosts,
        }
    }
}

/// Finds the bytes of the lanes of a mask, `size` for each, for a weak access, and reports it. Not
/// for local memory.
#[inline(always)]
pub(crate) fn resolve(
    execution: &mut Execution<'_>,
    space: Space,
    addresses: &[u64; LANES],
    mask: u32,
    size: u64,
    purpose: Purpose,
) -> Result<Located, Box<Failure>> {
    resolve_ordered(execution, space, addresses, mask, size, purpose, Strength::Weak)
}

/// The same for an access that may be ordered.
#[inline(always)]
pub(crate) fn resolve_ordered(
    execution: &mut Execution<'_>,
    space: Space,
    addresses: &[u64; LANES],
    mask: u32,
    size: u64,
    purpose: Purpose,
    strength: Strength,
) -> Result<Located, Box<Failure>> {
    let located = find(execution, space, addresses, mask, size, purpose)?;
    if execution.block.observer.listens() {
        observe(execution, space, addresses, mask, size, purpose, strength, None);
    }
    Ok(located)
}

/// The same for a store of `values`.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // An access is all of these.
pub(crate) fn resolve_store(
    execution: &mut Execution<'_>,
    space: Space,
    addresses: &[u64; LANES],
    mask: u32,
    size: u64,
    strength: Strength,
    values: impl FnOnce(&Execution<'_>) -> Option<Box<[Value; LANES]>>,
) -> Result<Located, Box<Failure>> {
    let located = find(execution, space, addresses, mask, size, Purpose::Store)?;
    if execution.block.observer.listens() {
        let values = values(execution);
        let purpose = Purpose::Store;
        observe(execution, space, addresses, mask, size, purpose, strength, values.as_deref());
    }
    Ok(located)
}

/// The space of an access in events.
pub(crate) fn memory_space(space: Space) -> Option<MemorySpace> {
    match space {
        Space::Global => Some(MemorySpace::Global),
        Space::Shared | Space::ClusterShared => Some(MemorySpace::Shared),
        Space::Local => Some(MemorySpace::Local),
        Space::Constant | Space::Parameter | Space::Generic => None,
    }
}

#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)] // An access is all of these.
fn observe(
    execution: &mut Execution<'_>,
    space: Space,
    addresses: &[u64; LANES],
    mask: u32,
    size: u64,
    purpose: Purpose,
    strength: Strength,
    values: Option<&[Value; LANES]>,
) {
    if let (Some(observed), Some(kind)) = (memory_space(space), purpose.kind()) {
        execution.block.observer.report(Event::Access {
            actor: execution.actor(mask),
            space: observed,
            addresses,
            bytes: size,
            kind,
            strength,
            values,
        });
    }
}

#[inline(always)]
fn find(
    execution: &mut Execution<'_>,
    space: Space,
    addresses: &[u64; LANES],
    mask: u32,
    size: u64,
    purpose: Purpose,
) -> Result<Located, Box<Failure>> {
    let span = span(addresses, mask, size);
    let aligned = span.bits & (size - 1) == 0;
    let host = locate(execution, space, span.first, span.last.wrapping_add(size), purpose.writes());
    match host {
        Some(host) if aligned => Ok(Located::Together {
            host,
            first: span.first,
            contiguous: span.contiguous,
            uniform: span.first == span.last,
        }),
        _ => resolve_apart(execution, space, addresses, mask, size, purpose),
    }
}

#[cold]
fn resolve_apart(
    execution: &mut Execution<'_>,
    space: Space,
    addresses: &[u64; LANES],
    mask: u32,
    size: u64,
    purpose: Purpose,
) -> Result<Located, Box<Failure>> {
    let mut hosts = [std::ptr::null_mut(); LANES];
    let mut bad = 0;
    for lane in lanes(mask) {
        let address = addresses[lane];
        let host = locate(execution, space, address, address.wrapping_add(size), purpose.writes());
        match host {
            Some(host) if address.is_multiple_of(size) => hosts[lane] = host,
            _ => bad |= 1 << lane,
        }
    }
    if bad == 0 {
        return Ok(Located::Apart(Box::new(hosts)));
    }
    Err(bad_access(execution, space, addresses, bad, size, purpose))
}

/// The fault for the addresses of the lanes of `bad`.
#[cold]
pub(crate) fn bad_access(
    execution: &mut Execution<'_>,
    space: Space,
    addresses: &[u64; LANES],
    bad: u32,
    size: u64,
    purpose: Purpose,
) -> Box<Failure> {
    let failure = explain_access(execution, space, addresses, bad, size, purpose);
    match memory_space(space) {
        Some(space) => failure.at(space, addresses[bad.trailing_zeros() as usize]),
        None => failure,
    }
}

fn explain_access(
    execution: &mut Execution<'_>,
    space: Space,
    addresses: &[u64; LANES],
    bad: u32,
    size: u64,
    purpose: Purpose,
) -> Box<Failure> {
    let lane = bad.trailing_zeros() as usize;
    let address = addresses[lane];
    let what = format!("{} of {size} bytes at {} address {address:#x}", purpose.name(), space.name());
    if !address.is_multiple_of(size) {
        return Failure::new(
            FaultKind::Misaligned,
            bad,
            format!("{what} is misaligned: the address must be a multiple of {size}."),
        );
    }
    match space {
        Space::Global | Space::Constant => {
            let memory = execution.launch.memory;
            let freed = memory.is_freed(address);
            let kind = if freed {
                FaultKind::UseAfterFree
            } else if locate(execution, space, address, address.wrapping_add(size), false).is_some() {
                return Failure::new(FaultKind::ReadOnly, bad, format!("{what} goes to read-only memory."));
            } else {
                FaultKind::OutOfBounds
            };
            let message = if freed {
                format!("{what} goes to freed memory.")
            } else {
                format!("{what} is outside every allocation.")
            };
            Failure::new(kind, bad, message).note(memory.describe(address))
        }
        Space::Shared => {
            let (size, own, rank) =
                (execution.block.shared.size(), execution.block.rank, split_shared(address).0);
            let failure = Failure::new(
                FaultKind::OutOfBounds,
                bad,
                format!("{what} is outside the CTA's shared memory."),
            )
            .note(match address as i32 {
                negative @ ..0 if address >> 32 == 0 => format!(
                    "the index is negative: as a signed number, the address is {negative}, and the CTA has {size} bytes of \
                     shared memory"
                ),
                _ => format!("the CTA has {size} bytes of it, static and dynamic"),
            });
            if rank == own || rank >= execution.launch.ctas_per_cluster() {
                return failure;
            }
            // Measured on H200: such an access ends the launch with an illegal instruction.
            failure.note(format!(
                "the address is in the shared memory of the CTA of rank {rank}, and this is the CTA of \
                 rank {own}: use .shared::cluster to access another CTA"
            ))
        }
        Space::ClusterShared => bad_cluster_access(execution, address, bad, &what),
        Space::Local => {
            Failure::new(FaultKind::OutOfBounds, bad, format!("{what} is outside the thread's local memory."))
                .note(format!("the thread uses {} bytes of it", execution.local.size()))
        }
        Space::Parameter => {
            Failure::new(FaultKind::OutOfBounds, bad, format!("{what} is outside the kernel's parameters."))
                .note(format!(
                    "the kernel has {} bytes of them, which may only be read",
                    execution.launch.parameters.len()
                ))
        }
        Space::Generic => Failure::new(FaultKind::OutOfBounds, bad, format!("{what} is in no state space.")),
    }
}

/// The fault for an address of `.shared::cluster`.
fn bad_cluster_access(execution: &mut Execution<'_>, address: u64, bad: u32, what: &str) -> Box<Failure> {
    let (rank, offset) = split_shared(address);
    let outside = |message: String| Failure::new(FaultKind::OutOfBounds, bad, message);
    let absent = |message: String| Failure::new(FaultKind::PeerNotResident, bad, message);
    let size = execution.block.shared.size();
    let own = execution.block.rank;
    match execution.peers.get(rank) {
        Some(peer) if !peer.started => absent(format!("{what} reaches the CTA of rank {rank}, which has not started."))
            .note("a cluster barrier ensures that all CTAs of the cluster have started")
            .advise("call `cluster_sync()` (`barrier.cluster`) in all CTAs of the cluster before the access: `sync_threads()` waits for the threads of one CTA only"),
        Some(peer) if peer.has_exited() => absent(format!("{what} reaches the CTA of rank {rank}, which has exited."))
            .note("a CTA must not exit while others may still access its shared memory: end the kernel with a cluster barrier")
            .advise("call `cluster_sync()` (`barrier.cluster`) in all CTAs after the last access to another CTA's shared memory; in a pipeline, `tail()` in the producer"),
        None if rank != own => outside(format!("{what} names the CTA of rank {rank}, which the cluster does not have."))
            .note(format!("the cluster has {} CTAs", execution.launch.ctas_per_cluster())),
        _ => outside(format!("{what} is outside the shared memory of the CTA of rank {rank}."))
            .note(format!("the offset is {offset:#x}, and each CTA has {size} bytes of it, static and dynamic")),
    }
}

/// Splits lanes with generic addresses by space, each with its addresses there.
pub(crate) fn split_generic(addresses: &[u64; LANES], mask: u32) -> Vec<(Space, u32, [u64; LANES])> {
    let mut parts: Vec<(Space, u32, [u64; LANES])> = Vec::new();
    for lane in lanes(mask) {
        let (space, offset) = Space::of(addresses[lane]);
        let part = match parts.iter_mut().find(|(found, ..)| *found == space) {
            Some(part) => part,
            None => {
                parts.push((space, 0, [0; LANES]));
                parts.last_mut().expect("one was just pushed")
            }
        };
        part.1 |= 1 << lane;
        part.2[lane] = offset;
    }
    parts
}
