//! Vector accesses, whose width is chosen at build time.

use warpwright::prelude::*;

use crate::rows::RowElement;

/// Bytes of the widest access on every GPU.
pub const WIDEST_BYTES: u32 = 16;

/// Elements of `T` in a vector of the widest access.
pub const fn width<T: Element>() -> u32 {
    WIDEST_BYTES / T::BYTES
}

/// The access for data that is read once. Plain loads are the fastest: L2 evicts lines loaded with
/// `L1::no_allocate` or an evict-first policy before all others, so once other kernels have filled
/// L2 with lines of normal priority, all streams share what is left. (H200, two inputs and an
/// output: 3.95 TB/s with such a hint, 4.37 with plain loads.)
pub fn read_once() -> Access {
    Access::new().non_coherent()
}

/// The element (row, column) of a row-major matrix with that many columns.
#[track_caller]
pub fn element<T: Element>(
    matrix: Global<T>,
    columns: Reg<u32>,
    row: Reg<u32>,
    column: Reg<u32>,
) -> Global<T> {
    matrix.at(row.convert::<u64>() * columns.convert::<u64>() + column.convert::<u64>())
}

/// Loads a vector of the widest access, aligned to 16 bytes.
#[track_caller]
pub fn load<T: Element>(at: Global<T>, access: Access) -> Vec<Reg<T>> {
    load_lanes(at, width::<T>(), access)
}

/// Stores consecutive elements, aligned to their total size, in the fewest instructions.
#[track_caller]
pub fn store<T: Element>(at: Global<T>, elements: &[Reg<T>], access: Access) {
    let widest = width::<T>() as usize;
    for (number, piece) in elements.chunks(widest).enumerate() {
        store_lanes(at.at(number * widest), piece, access);
    }
}

/// Loads 1, 2, 4, 8 or 16 elements, at most 16 bytes, by one instruction; `at` is aligned to their
/// total size.
#[track_caller]
pub fn load_lanes<T: Element, S: Space>(at: Pointer<T, S>, lanes: u32, access: Access) -> Vec<Reg<T>> {
    match lanes {
        2 => at.load_vector_with::<2>(access).to_vec(),
        4 => at.load_vector_with::<4>(access).to_vec(),
        8 => at.load_vector_with::<8>(access).to_vec(),
        16 => at.load_vector_with::<16>(access).to_vec(),
        _ => vec![at.load_with(access)],
    }
}

/// Loads 1 to 16 neighboring elements, at most 16 bytes and aligned to their total size, as f32.
///
/// The load is coherent, also of weights. `ld.global.nc` is for data that nothing writes while the kernel runs:
/// ptxas moves it across `griddepcontrol.wait`, from where the predecessor's results are complete to where they are
/// not. It also moves such loads of weights after the wait. (ptxas 13.0, sm_90a.)
#[track_caller]
pub fn load_widened<T: RowElement>(from: Global<T>, lanes: u32) -> Vec<Reg<f32>> {
    if lanes * T::BYTES < 4 {
        return vec![from.load().convert()];
    }
    let words = lanes * T::BYTES / 4;
    load_lanes(from.cast::<u32>(), words, Access::new()).into_iter().flat_map(|word| T::widen(word)).collect()
}

/// Stores elements by one instruction, as [`load_lanes`] loads them.
#[track_caller]
pub fn store_lanes<T: Element, S: Space>(at: Pointer<T, S>, elements: &[Reg<T>], access: Access) {
    let lane = |index: usize| elements[index];
    match elements.len() {
        2 => at.store_vector_with::<2>(std::array::from_fn(lane), access),
        4 => at.store_vector_with::<4>(std::array::from_fn(lane), access),
        8 => at.store_vector_with::<8>(std::array::from_fn(lane), access),
        16 => at.store_vector_with::<16>(std::array::from_fn(lane), access),
        _ => at.store_with(elements[0], access),
    }
}

/// The widest vector of elements of `bytes` bytes that stays aligned over rows of `extent`
/// elements.
pub fn widest(extent: u64, bytes: u32) -> u32 {
    let mut lanes = (WIDEST_BYTES / bytes).max(1);
    while !extent.is_multiple_of(lanes.into()) {
        lanes /= 2;
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_vector_divides_the_row() {
        let found =
            [widest(4096, 2), widest(4100, 2), widest(7, 2), widest(6, 4), widest(3, 8), widest(64, 1)];
        assert_eq!(found, [8, 4, 1, 2, 1, 16]);
    }
}
