//! What a copy does, element by element: the rules of the PTX ISA ("Tensors") spelt out with no
//! thought of speed.

use warpwright_arch::tensor_map::{Access, Description, ElementType, Fill, Swizzle};

use crate::tensor_copies::machine::{Case, Copy};

/// The coordinates of every element of a copy, and the offset of its first byte in the tile before
/// the swizzle.
fn elements(case: &Case) -> Vec<(Vec<i64>, u64)> {
    let map = &case.map;
    let size = u64::from(map.element.shared_bits()) / 8;
    let mut elements = Vec::new();
    match &map.access {
        Access::Tiled { box_extents } => {
            let step = |axis: usize| if axis == 0 { 1 } else { map.element_strides[axis] };
            let counts: Vec<u32> =
                (0..map.rank()).map(|axis| box_extents[axis].div_ceil(step(axis))).collect();
            let total: u32 = counts.iter().product();
            for number in 0..total {
                let mut left = number;
                let mut at = Vec::new();
                for (axis, count) in counts.iter().enumerate() {
                    let index = left % count;
                    left /= count;
                    at.push(i64::from(case.coordinates[axis]) + i64::from(index * step(axis)));
                }
                let (row, column) = (number / counts[0], number % counts[0]);
                elements.push((at, u64::from(row) * map.row_pitch() + u64::from(column) * size));
            }
        }
        Access::Im2col { lower, upper, channels, pixels } => {
            let rank = map.rank();
            let mut pixel: Vec<i64> = case.coordinates.iter().map(|&coordinate| coordinate.into()).collect();
            for row in 0..u64::from(*pixels) {
                for channel in 0..*channels {
                    let mut at = pixel.clone();
                    at[0] += i64::from(channel);
                    let pixels = at[1..rank - 1].iter_mut().enumerate();
                    pixels.for_each(|(index, at)| {
                        *at += case.offsets.get(index).map_or(0, |&offset| i64::from(offset));
                    });
                    elements.push((at, row * map.row_pitch() + u64::from(channel) * size));
                }
                // The next pixel of the bounding box.
                let mut axis = 1;
                loop {
                    pixel[axis] += i64::from(map.element_strides[axis]);
                    if axis == rank - 1 {
                        break;
                    }
                    let last = map.extents[axis] as i64 - 1 + i64::from(upper[axis - 1]);
                    if pixel[axis] <= last {
                        break;
                    }
                    pixel[axis] = lower[axis - 1].into();
                    axis += 1;
                }
            }
        }
    }
    elements
}

/// The offset of an element in global memory; `None` outside the tensor.
fn global_offset(map: &Description, at: &[i64]) -> Option<u64> {
    let mut offset = map.address;
    for (axis, (&at, &extent)) in at.iter().zip(&map.extents).enumerate() {
        let at = u64::try_from(at).ok().filter(|&at| at < extent)?;
        offset += if axis == 0 { at * u64::from(map.element.bits()) / 8 } else { at * map.strides[axis - 1] };
    }
    Some(offset)
}

/// Where the swizzle puts a byte: it exchanges the 16-byte piece's number within its span by the
/// number of the 128-byte line, counted in shared memory itself.
fn swizzled(swizzle: Swizzle, address: u64) -> u64 {
    let line = address / 128;
    let (pieces, number) = match swizzle {
        Swizzle::None => return address,
        Swizzle::Bytes32 => (2, line % 2),
        Swizzle::Bytes64 => (4, line % 4),
        Swizzle::Bytes128 => (8, line % 8),
        other => panic!("no H200 has {other:?}"),
    };
    let piece = address / 16 % pieces;
    address - piece * 16 + (piece ^ number) * 16
}

/// A load's value: most types as they are.
fn loaded(element: ElementType, bytes: &[u8]) -> Vec<u8> {
    if !matches!(element, ElementType::Tf32 | ElementType::Tf32Ftz) {
        return bytes.to_vec();
    }
    let bits = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let rounded = if f32::from_bits(bits).is_nan() {
        0x7fff_e000
    } else {
        let odd = bits >> 13 & 1;
        (bits + 0xfff + odd) & !0x1fff
    };
    rounded.to_le_bytes().to_vec()
}

/// Makes the copy of a case.
pub(crate) fn apply(case: &Case, global: &mut [u8], tile: &mut [u8]) {
    let map = &case.map;
    let size = map.element.bits() as usize / 8;
    for (at, offset) in elements(case) {
        let shared: Vec<usize> = (0..size as u64)
            .map(|byte| swizzled(map.swizzle, u64::from(case.tile_offset) + offset + byte) as usize)
            .collect();
        let place = global_offset(map, &at).map(|place| place as usize);
        match (case.copy, place) {
            (Copy::Load, Some(place)) => {
                let value = loaded(map.element, &global[place..place + size]);
                shared.iter().zip(value).for_each(|(&to, byte)| tile[to] = byte);
            }
            (Copy::Load, None) => {
                let fill: [u8; 2] = if map.fill == Fill::Nan { [0xf7, 0x7f] } else { [0; 2] };
                shared.iter().enumerate().for_each(|(byte, &to)| tile[to] = fill[byte % 2]);
            }
            (Copy::Store, Some(place)) => {
                shared.iter().enumerate().for_each(|(byte, &from)| global[place + byte] = tile[from]);
            }
            (Copy::Reduce(operation), Some(place)) => {
                let word = |bytes: Vec<u8>| u32::from_le_bytes(bytes.try_into().expect("32-bit elements"));
                let old = word(global[place..place + 4].to_vec());
                let new = word(shared.iter().map(|&from| tile[from]).collect());
                let value = match operation {
                    "add" => old.wrapping_add(new),
                    "min" => old.min(new),
                    "max" => old.max(new),
                    "inc" => {
                        if old >= new {
                            0
                        } else {
                            old + 1
                        }
                    }
                    "dec" => {
                        if old == 0 || old > new {
                            new
                        } else {
                            old - 1
                        }
                    }
                    "and" => old & new,
                    "or" => old | new,
                    "xor" => old ^ new,
                    other => panic!("no reduction {other}"),
                };
                global[place..place + 4].copy_from_slice(&value.to_le_bytes());
            }
            (Copy::Store | Copy::Reduce(_), None) => {}
        }
    }
}
