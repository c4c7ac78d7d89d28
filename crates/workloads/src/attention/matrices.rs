//! The matrices of a workload in memory: at their strides, or in the pages of a cache, between NaN. A kernel
//! that reads anything else is found.

use warpwright_harness::{HostNumber, Values};

use super::pages::{block_table, gather, poison_unused};
use warpwright_kernels::attention::Attention;

/// Where the keys of each sequence are, if they are in a paged cache.
pub(super) struct Placement {
    /// Keys of each sequence.
    pub(super) key_counts: Vec<u32>,
    /// The block table; empty without a cache.
    pub(super) table: Vec<u32>,
}

impl Placement {
    /// Pages in random order.
    pub(super) fn new(attention: &Attention, key_counts: &[u32], seed: u64) -> Self {
        let table = attention.cache.map(|cache| block_table(&cache, key_counts, seed));
        Self { key_counts: key_counts.to_vec(), table: table.unwrap_or_default() }
    }

    /// Random elements of Q, K, V or O, which have the numbers 0 to 3, as a buffer has them.
    pub(super) fn values<T: HostNumber>(&self, attention: &Attention, number: usize, seed: u64) -> Vec<T> {
        let (matrix, seed) = (attention.matrices()[number], seed + ((number as u64) << 16));
        let mut values = Values::Normal.numbers::<T>(seed, matrix.elements());
        if let Some(cache) = attention.cache.filter(|_| is_paged(number)) {
            poison_unused(&mut values, &cache, &self.key_counts, &self.table);
        }
        if attention.strides.is_none() {
            return values;
        }
        let mut spread = vec![T::nearest(f64::NAN); matrix.reach() as usize];
        matrix.indices().zip(values).for_each(|(index, value)| spread[index] = value);
        spread
    }
}

/// Q, K, V or O, which have the numbers 0 to 3, without gaps, from the elements of a buffer. `table` is the
/// block table.
pub(super) fn dense<T: Copy>(
    attention: &Attention,
    (key_counts, table): (&[u32], &[u32]),
    number: usize,
    values: Vec<T>,
) -> Vec<T> {
    let values = match attention.strides {
        Some(_) => attention.matrices()[number].indices().map(|index| values[index]).collect(),
        None => values,
    };
    match &attention.cache {
        Some(cache) if is_paged(number) => gather(&values, cache, key_counts, table),
        _ => values,
    }
}

/// Whether a paged cache has the matrix: K or V.
fn is_paged(number: usize) -> bool {
    matches!(number, 1 | 2)
}
