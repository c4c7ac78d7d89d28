//! A paged cache that holds nothing else than what a workload reads.

use warpwright_harness::{HostNumber, Random};

use warpwright_kernels::attention::PagedCache;

/// Pages in random order; page 0 belongs to no sequence, and entries past a length are no pages.
pub(crate) fn block_table(cache: &PagedCache, lengths: &[u32], seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut free: Vec<u32> = (1..cache.pages).collect();
    let mut table = Vec::new();
    for length in lengths {
        for entry in 0..cache.pages_per_sequence {
            let is_used = entry < length.div_ceil(cache.page_size);
            let page = is_used.then(|| free.swap_remove(random.below(free.len() as u64) as usize));
            table.push(page.unwrap_or(u32::MAX));
        }
    }
    table
}

/// NaN for the keys that no sequence has: results that depend on one are found.
pub(crate) fn poison_unused<T: HostNumber>(
    pool: &mut [T],
    cache: &PagedCache,
    lengths: &[u32],
    table: &[u32],
) {
    let (key, page_size) = (pool.len() / cache.keys(), cache.page_size as usize);
    let mut poison = |page: usize, used: usize| {
        pool[page * page_size * key..][used * key..page_size * key].fill(T::nearest(f64::NAN));
    };
    poison(0, 0);
    for (pages, length) in table.chunks(cache.pages_per_sequence as usize).zip(lengths) {
        let (whole, rest) = (*length as usize / page_size, *length as usize % page_size);
        if rest > 0 {
            poison(pages[whole] as usize, rest);
        }
    }
}

/// The keys of all sequences, one after another.
pub(crate) fn gather<T: Copy>(pool: &[T], cache: &PagedCache, lengths: &[u32], table: &[u32]) -> Vec<T> {
    let (key, page_size) = (pool.len() / cache.keys(), cache.page_size);
    let tables = table.chunks(cache.pages_per_sequence as usize);
    let keys = tables.zip(lengths).flat_map(|(pages, length)| {
        (0..*length)
            .map(move |key| (pages[(key / page_size) as usize] * page_size + key % page_size) as usize)
    });
    keys.flat_map(|index| pool[index * key..][..key].iter().copied()).collect()
}
