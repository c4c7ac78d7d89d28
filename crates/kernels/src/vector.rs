//! Elements in vectors of 16 bytes, the widest that one instruction moves on every GPU.

use warpwright::prelude::*;

/// How many elements of `T` are a vector.
pub const fn width<T: Element>() -> u32 {
    16 / T::BYTES
}

/// Loads the vector at `at`, which is aligned to 16 bytes.
#[track_caller]
pub fn load<T: Element>(at: Global<T>, access: Access) -> Vec<Reg<T>> {
    match T::BYTES {
        1 => at.load_vector_with::<16>(access).to_vec(),
        2 => at.load_vector_with::<8>(access).to_vec(),
        4 => at.load_vector_with::<4>(access).to_vec(),
        _ => at.load_vector_with::<2>(access).to_vec(),
    }
}

/// Stores consecutive elements at `at`, which is aligned to their size together, by as few instructions as there are for it.
#[track_caller]
pub fn store<T: Element>(at: Global<T>, elements: &[Reg<T>], access: Access) {
    let widest = width::<T>() as usize;
    for (number, piece) in elements.chunks(widest).enumerate() {
        let at = at.at(number * widest);
        match *piece {
            [a] => at.store_with(a, access),
            [a, b] => at.store_vector_with([a, b], access),
            [a, b, c, d] => at.store_vector_with([a, b, c, d], access),
            _ => {
                for (number, eight) in piece.chunks(8).enumerate() {
                    let eight: [Reg<T>; 8] = eight.try_into().expect("runs are powers of two");
                    at.at(8 * number).store_vector_with(eight, access);
                }
            }
        }
    }
}
