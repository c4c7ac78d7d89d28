//! Copies through tensor maps (PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor",
//! "cp.async.bulk.prefetch.tensor").

use std::sync::Arc;

use warpwright_arch::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES};
use warpwright_events::{FaultKind, MemorySpace, lanes, split_shared};
use warpwright_ptx::syntax::Type;

use super::atomic::named_update;
use super::bulk::{Ending, SignalOperand, begin, ending, own_offset, target_ranks};
use crate::cta::asynchronous::reduction::Reduction;
use crate::cta::asynchronous::transfer::{ALL_BYTES, Global, Motion};
use crate::decode::{DecodeError, Decoded, Decoder, Row, elements};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::update::Update;
use crate::memory::{AddressOperand, Space};
use crate::registers::Slot;
use crate::tensor_map::{Encoded, Start, Tensor};

/// The part of the tensor that a copy accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Tile,
    Im2col,
    FourRows,
}

/// A tensor map operand: `[map, {coordinates}]`.
struct TensorOperand {
    map: AddressOperand,
    coordinates: Vec<Slot>,
    offsets: Vec<Slot>,
    rank: usize,
    mode: Mode,
}

/// The other side of the copy.
enum Side {
    /// A load, to this address; to the CTAs of a mask.
    Load { target: AddressOperand, mask: Option<Slot> },
    /// A store or a reduction, from this address.
    Store { source: AddressOperand, operation: Option<Update> },
    /// A prefetch.
    Nowhere,
}

struct TensorCopy {
    tensor: TensorOperand,
    side: Side,
    mbarrier: Option<SignalOperand>,
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("im2col::w") || i.has("im2col::w::128") {
        return Err(DecodeError::unsupported(
            "The emulator does not support im2col along axis 1 alone (`.im2col::w`): it has no such tensor maps.",
        ));
    }
    let rank = i.must("rank", &[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)])?;
    let mode = i.choose(&[
        ("tile", Mode::Tile),
        ("im2col", Mode::Im2col),
        ("im2col_no_offs", Mode::Im2col),
        ("tile::gather4", Mode::FourRows),
        ("tile::scatter4", Mode::FourRows),
    ]);
    let (prefetches, loads) = (i.has("prefetch"), i.has("mbarrier::complete_tx::bytes"));
    let Ending { mbarrier, offsets, mask, .. } = ending(d, i, if prefetches { 1 } else { 2 })?;
    let side = if prefetches {
        Side::Nowhere
    } else if loads {
        Side::Load { target: d.memory_at(i, 0)?, mask }
    } else {
        let operation = if i.has("reduce") { Some(named_update(i)?) } else { None };
        Side::Store { source: d.memory_at(i, 1)?, operation }
    };
    let operand = i.operand(usize::from(loads))?;
    let map = d.memory(operand)?;
    let mut coordinates = Vec::new();
    for coordinate in d.address(operand)?.rest.iter().flat_map(elements) {
        coordinates.push(d.source(coordinate, Type::S32)?);
    }
    let mode = mode.unwrap_or(Mode::Tile);
    d.effect(TensorCopy { tensor: TensorOperand { map, coordinates, offsets, rank, mode }, side, mbarrier })
}

/// The address of a lane's tensor map.
fn map_place(execution: &Execution<'_>, operand: &AddressOperand, lane: usize) -> (Space, u64) {
    let address = addresses(execution, operand)[lane];
    match operand.space {
        Some(space) => (space, address),
        None => Space::of(address),
    }
}

/// The bytes of the tensor map at a generic address, or at one in the space of the variable named.
pub(super) fn read_map(
    execution: &mut Execution<'_>,
    operand: &AddressOperand,
    lane: usize,
) -> Result<Encoded, Box<Failure>> {
    let (space, address) = map_place(execution, operand, lane);
    let failure = |kind, message: String| Err(Failure::new(kind, 1 << lane, message));
    if !address.is_multiple_of(TENSOR_MAP_ALIGN as u64) {
        return failure(
            FaultKind::Misaligned,
            format!(
                "The tensor map is at {} address {address:#x}; it must be at a multiple of 64.",
                space.name()
            ),
        );
    }
    let end = address.saturating_add(TENSOR_MAP_BYTES as u64);
    let host = match space {
        Space::Global | Space::Constant => {
            execution.launch.memory.locate(execution.cache, address, end, false).map(|host| host.cast_const())
        }
        Space::Parameter => execution
            .launch
            .parameters
            .get(address as usize..end as usize)
            .map(|parameters| parameters.as_ptr()),
        _ => {
            return failure(
                FaultKind::IllegalInstruction,
                format!(
                    "A copy reads its tensor map from parameters, constant or global memory; this one is in {} memory.",
                    space.name()
                ),
            );
        }
    };
    let Some(host) = host else {
        let memory = execution.launch.memory;
        let is_global = space == Space::Global;
        let freed = is_global && memory.is_freed(address);
        let kind = if freed { FaultKind::UseAfterFree } else { FaultKind::OutOfBounds };
        let message = format!("No tensor map exists at {} address {address:#x}.", space.name());
        let failure = Failure::new(kind, 1 << lane, message);
        return Err(if is_global { failure.note(memory.describe(address)) } else { failure });
    };
    let mut encoded = Encoded([0; TENSOR_MAP_BYTES]);
    // SAFETY: the bytes were found above, and do not overlap the copy.
    unsafe { encoded.0.as_mut_ptr().copy_from_nonoverlapping(host, TENSOR_MAP_BYTES) };
    if encoded.is_map() {
        return Ok(encoded);
    }
    failure(
        FaultKind::IllegalInstruction,
        format!(
            "The 128 bytes at {} address {address:#x} are not a tensor map: they were not encoded as one, or were overwritten.",
            space.name()
        ),
    )
}

impl TensorOperand {
    /// The tensor that a lane names, and the start of its copy.
    fn resolve(
        &self,
        execution: &mut Execution<'_>,
        lane: usize,
        is_store: bool,
    ) -> Result<(Arc<Tensor>, Start), Box<Failure>> {
        let refuse = |message: String| Failure::new(FaultKind::IllegalInstruction, 1 << lane, message);
        let encoded = read_map(execution, &self.map, lane)?;
        let tensor = execution.block.transfers.tensor(&encoded).map_err(|reason| {
            refuse("The tensor map breaks a rule, so no copy can use it.".to_owned()).note(reason)
        })?;
        let mut start = Start { is_four_rows: self.mode == Mode::FourRows, is_store, ..Start::default() };
        for (coordinate, slot) in start.coordinates.iter_mut().zip(&self.coordinates) {
            *coordinate = execution.registers.word(*slot)[lane] as i32;
        }
        for (offset, slot) in start.offsets.iter_mut().zip(&self.offsets) {
            *offset = execution.registers.word(*slot)[lane] as u16;
        }
        if tensor.rank() != self.rank {
            return Err(refuse(format!(
                "The copy is of {} axes, and its tensor map of {}.",
                self.rank,
                tensor.rank()
            )));
        }
        if tensor.is_im2col != (self.mode == Mode::Im2col) {
            let name = |is_im2col| if is_im2col { "im2col" } else { "tiled" };
            return Err(refuse(format!(
                "The copy is {}, and its tensor map is {}.",
                name(!tensor.is_im2col),
                name(tensor.is_im2col)
            )));
        }
        match tensor.refuses(&start) {
            Some(reason) => Err(match tensor.aligned_start(&start) {
                Some(help) => refuse(reason).advise(help),
                None => refuse(reason),
            }),
            None => Ok((tensor, start)),
        }
    }
}

impl Effect for TensorCopy {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        for lane in lanes(mask) {
            let is_store = matches!(self.side, Side::Store { .. });
            let (tensor, start) = self.tensor.resolve(execution, lane, is_store)?;
            let element = tensor.element;
            let tile = Global::Tile { tensor, start };
            let motion = match &self.side {
                Side::Nowhere => continue,
                Side::Load { target, mask } => {
                    let target = addresses(execution, target)[lane];
                    let ranks = target_ranks(execution, *mask, lane, target)?;
                    check_aligned(lane, target)?;
                    Motion::Load { from: tile, to: split_shared(target).1 as u32, ranks }
                }
                Side::Store { source, operation } => {
                    let source = addresses(execution, source)[lane];
                    check_aligned(lane, source)?;
                    let reduction = match operation {
                        Some(operation) => {
                            Some(Reduction::of_element(*operation, element).ok_or_else(|| {
                                Failure::new(
                                    FaultKind::IllegalInstruction,
                                    1 << lane,
                                    format!(
                                        "This reduction does not exist for elements of {}.",
                                        element.name()
                                    ),
                                )
                            })?)
                        }
                        None => None,
                    };
                    Motion::Store {
                        from: own_offset(execution, lane, source)?,
                        to: tile,
                        reduction,
                        mask: ALL_BYTES,
                    }
                }
            };
            let map = match map_place(execution, &self.tensor.map, lane) {
                (Space::Global, address) => Some(address),
                _ => None,
            };
            begin(execution, lane, motion, self.mbarrier.as_ref(), map)?;
        }
        Ok(())
    }
}

/// Tiles are at multiples of 128 bytes, for every swizzle (measured on H200).
fn check_aligned(lane: usize, address: u64) -> Result<(), Box<Failure>> {
    if address.is_multiple_of(128) {
        return Ok(());
    }
    let message = format!(
        "The tile of a tensor copy is at shared address {address:#x}; it must be at a multiple of 128."
    );
    Err(Failure::new(FaultKind::Misaligned, 1 << lane, message).at(MemorySpace::Shared, address))
}
