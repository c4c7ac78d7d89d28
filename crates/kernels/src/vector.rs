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

/// Stores a vector at `at`, which is aligned to 16 bytes.
#[track_caller]
pub fn store<T: Element>(at: Global<T>, elements: &[Reg<T>], access: Access) {
    let exactly = "a vector is 16 bytes of elements";
    match T::BYTES {
        1 => at.store_vector_with::<16>(elements.try_into().expect(exactly), access),
        2 => at.store_vector_with::<8>(elements.try_into().expect(exactly), access),
        4 => at.store_vector_with::<4>(elements.try_into().expect(exactly), access),
        _ => at.store_vector_with::<2>(elements.try_into().expect(exactly), access),
    }
}
