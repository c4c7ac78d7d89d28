//! Tensor maps: what `cuTensorMapEncode*` write is what the emulator, and the hardware, read.

use warpwright_arch::tensor_map::{
    Access, Description, ElementType, Fill, Interleave, L2Promotion, MOST_AXES, Swizzle, TENSOR_MAP_BYTES,
};

use super::guard;
use crate::edge::{In, Out, functions};
use crate::machine::machine;
use crate::status::{Result, Status};

/// `CUtensorMap`
type Map = Out<[u8; TENSOR_MAP_BYTES]>;

/// The value of a number of the driver.
fn of<T: Copy>(all: &[T], number: u32) -> Result<T> {
    all.get(number as usize).copied().ok_or(Status::INVALID_VALUE)
}

/// Interleave, swizzle, L2 promotion and fill, by their numbers.
type Choices = (u32, u32, u32, u32);

fn describe(
    (element, rank, address): (u32, u32, u64),
    (extents, strides, element_strides): (In<u64>, In<u64>, In<u32>),
    (interleave, swizzle, l2_promotion, fill): Choices,
    access: Access,
) -> Result<Description> {
    let rank = rank as usize;
    Ok(Description {
        element: of(&ElementType::ALL, element)?,
        address,
        extents: extents.array(rank)?,
        strides: strides.array(rank - 1)?,
        access,
        element_strides: element_strides.array(rank)?,
        interleave: of(&Interleave::ALL, interleave)?,
        swizzle: of(&Swizzle::ALL, swizzle)?,
        l2_promotion: of(&L2Promotion::ALL, l2_promotion)?,
        fill: of(&[Fill::Zeros, Fill::Nan], fill)?,
    })
}

fn check_rank(rank: u32, least: u32) -> Result<usize> {
    let is_valid = (least..=MOST_AXES as u32).contains(&rank);
    if is_valid { Ok(rank as usize) } else { Err(Status::INVALID_VALUE) }
}

fn encode(map: Map, description: &Description) -> Result<()> {
    if !map.address().is_multiple_of(64) {
        return Err(Status::INVALID_VALUE);
    }
    description.check().map_err(|error| {
        crate::report::once(&format!("a tensor map is refused: {error}"));
        Status::INVALID_VALUE
    })?;
    let raw = &machine()?.raw;
    map.set(raw.encode_tensor_map(description).map_err(|_| Status::INVALID_VALUE)?)
}

functions! { guard; TABLE:
    12000 cuTensorMapEncodeTiled: (
        map: Map, element: u32, rank: u32, address: u64, extents: In<u64>, strides: In<u64>, box_extents: In<u32>,
        element_strides: In<u32>, interleave: u32, swizzle: u32, l2_promotion: u32, fill: u32,
    ) {
        map.check()?;
        let access = Access::Tiled { box_extents: box_extents.array(check_rank(rank, 1)?)? };
        let choices = (interleave, swizzle, l2_promotion, fill);
        let lists = (extents, strides, element_strides);
        encode(map, &describe((element, rank, address), lists, choices, access)?)
    }
    12000 cuTensorMapEncodeIm2col: (
        map: Map, element: u32, rank: u32, address: u64, extents: In<u64>, strides: In<u64>, lower: In<i32>,
        upper: In<i32>, channels: u32, pixels: u32, element_strides: In<u32>, interleave: u32, swizzle: u32,
        l2_promotion: u32, fill: u32,
    ) {
        map.check()?;
        let axes = check_rank(rank, 3)? - 2;
        let access = Access::Im2col { lower: lower.array(axes)?, upper: upper.array(axes)?, channels, pixels };
        let choices = (interleave, swizzle, l2_promotion, fill);
        let lists = (extents, strides, element_strides);
        encode(map, &describe((element, rank, address), lists, choices, access)?)
    }
    12000 cuTensorMapReplaceAddress: (map: Map, address: u64) {
        let mut bytes = map.get()?;
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        map.set(bytes)
    }
}
