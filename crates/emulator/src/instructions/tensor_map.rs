//! Tensor maps changed and copied by kernels (PTX ISA, "tensormap.replace",
//! "tensormap.cp_fenceproxy").

use warpwright_arch::tensor_map::{MOST_AXES, TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES};
use warpwright_events::{AccessKind, Event, FaultKind, LANES, Strength, lanes};
use warpwright_ptx::syntax::Type;

use super::address;
use super::memory_words::space_of;
use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::{addresses, memory_space};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
use crate::registers::Slot;
use crate::tensor_map::{Code, Encoded};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("replace") {
        return replace(d, i);
    }
    // `tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned
    // [target], [source], 128`
    if i.literal(2)? != TENSOR_MAP_BYTES as i64 {
        return Err(DecodeError::new("A tensor map has 128 bytes."));
    }
    let copy = CopyAndFence { target: d.memory_at(i, 0)?, source: d.memory_at(i, 1)? };
    d.emit(Kind::Aligned(Box::new(copy)));
    Ok(())
}

/// A field of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Address,
    /// Fields of each axis.
    Box,
    Extent,
    Stride,
    ElementStride,
    Code(Code),
}

/// A new value: that of a register or an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Word(Slot),
    Long(Slot),
    Number(u64),
}

/// `tensormap.replace.tile.FIELD{.space}.b1024.type [map], {axis,} value`
fn replace(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let fields = [
        ("global_address", Field::Address),
        ("rank", Field::Code(Code::Rank)),
        ("box_dim", Field::Box),
        ("global_dim", Field::Extent),
        ("global_stride", Field::Stride),
        ("element_stride", Field::ElementStride),
        ("elemtype", Field::Code(Code::Element)),
        ("interleave_layout", Field::Code(Code::Interleave)),
        ("swizzle_mode", Field::Code(Code::Swizzle)),
        ("swizzle_atomicity", Field::Code(Code::SwizzleAtomicity)),
        ("fill_mode", Field::Code(Code::Fill)),
    ];
    let field = i.must("field", &fields)?;
    let map = d.memory_at(i, 0)?;
    let space = space_of(d, address::space(i), &map);
    let is_by_axis = i.operands.len() == 3;
    let axis = if is_by_axis { usize::try_from(i.literal(1)?).unwrap_or(MOST_AXES) } else { 0 };
    let axes = if field == Field::Stride { MOST_AXES - 1 } else { MOST_AXES };
    if axis >= axes {
        return Err(DecodeError::new(format!(
            "The field has axes 0 to {}; axis {axis} does not exist.",
            axes - 1
        )));
    }
    let last = i.operands.len() - 1;
    let value = match i.operand_type(last) {
        Some(Type::B64) if i.literal(last).is_err() => Value::Long(d.source_at(i, last)?),
        _ => match i.literal(last) {
            Ok(number) => Value::Number(number as u64),
            Err(_) => Value::Word(d.source_at(i, last)?),
        },
    };
    d.effect(Replace { map, space, field, axis, value })
}

struct Replace {
    map: AddressOperand,
    space: Space,
    field: Field,
    axis: usize,
    value: Value,
}

impl Effect for Replace {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        for lane in lanes(mask) {
            let address = addresses(execution, &self.map)[lane];
            let host = map_bytes(execution, self.space, address, lane)?.cast::<Encoded>();
            // SAFETY: `map_bytes` found 128 bytes; any of them are an `Encoded`, which needs no
            // alignment.
            let mut encoded = unsafe { host.read() };
            if !encoded.is_map() && !encoded.is_blank() {
                return Err(Failure::new(
                    FaultKind::IllegalInstruction,
                    1 << lane,
                    format!(
                        "The 128 bytes at {} address {address:#x} are not a tensor map.",
                        self.space.name()
                    ),
                )
                .note("make a tensor map from a copy of another one, or from 128 bytes of zeros"));
            }
            let value = match self.value {
                Value::Word(slot) => execution.registers.word(slot)[lane].into(),
                Value::Long(slot) => execution.registers.long(slot)[lane],
                Value::Number(number) => number,
            };
            let set = match self.field {
                Field::Address => {
                    let _: () = encoded.set_address(value);
                    Ok(())
                }
                Field::Box => encoded.set_box(self.axis, value),
                Field::Extent => {
                    let _: () = encoded.set_extent(self.axis, value as u32);
                    Ok(())
                }
                Field::Stride => encoded.set_stride(self.axis, value),
                Field::ElementStride => encoded.set_element_stride(self.axis, value),
                Field::Code(code) => encoded.set_code(code, value),
            };
            set.map_err(|what| {
                let message = format!("`tensormap.replace` gives the tensor map {what}.");
                Failure::new(FaultKind::IllegalInstruction, 1 << lane, message)
            })?;
            observe(execution, self.space, address, 1 << lane, AccessKind::Write);
            // SAFETY: as above.
            unsafe { host.write(encoded) };
        }
        Ok(())
    }
}

/// Reports accesses of lanes to a tensor map.
fn observe(execution: &Execution<'_>, space: Space, address: u64, lanes: u32, kind: AccessKind) {
    let (space, address) = if space == Space::Generic { Space::of(address) } else { (space, address) };
    if execution.block.observer.listens()
        && let Some(site) = memory_space(space)
    {
        let (actor, bytes) = (execution.actor(lanes), TENSOR_MAP_BYTES as u64);
        let addresses = [address; LANES];
        execution.block.observer.report(Event::Access {
            actor,
            space: site,
            addresses: &addresses,
            bytes,
            kind,
            strength: Strength::Weak,
            values: None,
        });
    }
}

/// The host's bytes of a tensor map that may be written.
fn map_bytes(
    execution: &mut Execution<'_>,
    space: Space,
    address: u64,
    lane: usize,
) -> Result<*mut u8, Box<Failure>> {
    let (space, address) = if space == Space::Generic { Space::of(address) } else { (space, address) };
    let failure = |kind, message: String| Err(Failure::new(kind, 1 << lane, message));
    if !address.is_multiple_of(TENSOR_MAP_ALIGN as u64) {
        let message = format!(
            "The tensor map is at {} address {address:#x}; it must be at a multiple of 64.",
            space.name()
        );
        return failure(FaultKind::Misaligned, message);
    }
    let end = address.saturating_add(TENSOR_MAP_BYTES as u64);
    let host = match space {
        Space::Global => execution.launch.memory.locate(execution.cache, address, end, true),
        Space::Shared | Space::ClusterShared => execution.block.shared.locate(address, end),
        _ => None,
    };
    match host {
        Some(host) => Ok(host),
        None => failure(
            FaultKind::OutOfBounds,
            format!("The {} address {address:#x} does not start 128 writable bytes.", space.name()),
        ),
    }
}

struct CopyAndFence {
    target: AddressOperand,
    source: AddressOperand,
}

impl Effect for CopyAndFence {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        // All lanes execute it together, with the same addresses.
        let lane = mask.trailing_zeros() as usize & 31;
        let (target, source) =
            (addresses(execution, &self.target)[lane], addresses(execution, &self.source)[lane]);
        observe(execution, Space::Shared, source, 1 << lane, AccessKind::Read);
        observe(execution, Space::Global, target, 1 << lane, AccessKind::Write);
        execution.block.observer.report(Event::WarpSync { actor: execution.actor(mask) });
        let source = map_bytes(execution, Space::Shared, source, lane)?;
        let target = map_bytes(execution, Space::Global, target, lane)?;
        // SAFETY: `map_bytes` found 128 bytes of both, which are in different memories.
        unsafe { target.copy_from_nonoverlapping(source, TENSOR_MAP_BYTES) };
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}
