//! Paged attention as a workload.

use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Work, Workload, compare,
    data_types,
};

use warpwright_kernels::attention::paged::{PagedAttention, PagedAttentionBuffers};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;

data_types! {
    /// Types of queries, keys and values.
    pub(crate) enum HeadType by with_head_type { bf16, f16, f32 }
}

/// Causal attention over a paged cache for any type and head dimension, without tensor cores.
#[derive(Clone, Debug, Options)]
pub(crate) struct PagedAttentionWorkload {
    /// Sequences.
    #[option(default = 2, max = 1 << 10)]
    sequences: u32,
    /// Tokens of a sequence, which are its last ones.
    #[option(default = 3, max = 1 << 12)]
    tokens: u32,
    /// Keys of a sequence, its tokens included.
    #[option(default = 40, min = 1, max = 1 << 18)]
    keys: u32,
    /// Query heads.
    #[option(default = 4, max = 1 << 8)]
    query_heads: u32,
    /// Heads of keys and values.
    #[option(default = 2, max = 1 << 8)]
    key_heads: u32,
    /// Elements of a head.
    #[option(default = 80, max = 1 << 13)]
    head_dim: u32,
    /// Keys of a page.
    #[option(default = 16, max = 1 << 12)]
    page_size: u32,
    /// Data type of queries, keys and values.
    #[option(name = "type")]
    element: HeadType,
}

/// The buffers of a launch.
struct Set<T> {
    /// Queries, keys and values.
    inputs: [Buffer<T>; 3],
    positions: Buffer<u32>,
    sequences: Buffer<u32>,
    table: Buffer<u32>,
    output: Buffer<T>,
}

fn exact<T: HostNumber>(buffer: &Buffer<T>) -> Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(T::exact).collect())
}

impl PagedAttentionWorkload {
    fn entries(&self) -> u32 {
        self.keys.div_ceil(self.page_size.max(1))
    }

    /// The position of a token of a sequence.
    fn position(&self, token: u32) -> u32 {
        (self.keys + token).saturating_sub(self.tokens).min(self.keys - 1)
    }

    /// The pages of all sequences, in random order.
    fn table(&self, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let mut pages: Vec<u32> = (0..self.sequences * self.entries()).collect();
        for last in (1..pages.len()).rev() {
            pages.swap(last, random.below(last as u64 + 1) as usize);
        }
        pages
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let this = self.clone();
        let Self { query_heads, key_heads, head_dim, page_size, .. } = this;
        let attention = PagedAttention { query_heads, key_heads, head_dim, page_size };
        let (rows, d) = ((self.sequences * self.tokens) as usize, head_dim as usize);
        let (queries, entries) = (rows * query_heads as usize * d, self.entries());
        let pool = (self.sequences * entries * page_size * key_heads) as usize * d;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let numbers = |which: u64, count| setup.values::<T>(Values::Normal, seed ^ which, count);
            let of_rows =
                |of: &dyn Fn(u32) -> u32| setup.input(rows, |_| (0..rows as u32).map(of).collect::<Vec<_>>());
            Ok(Set {
                inputs: [numbers(1, queries)?, numbers(2, pool)?, numbers(3, pool)?],
                positions: of_rows(&|row| this.position(row % this.tokens))?,
                sequences: of_rows(&|row| row / this.tokens)?,
                table: setup.input((this.sequences * entries) as usize, |_| this.table(seed))?,
                output: setup.output(queries)?,
            })
        })?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut Set<T>| {
                let [queries, keys, values] = &set.inputs;
                let buffers = PagedAttentionBuffers {
                    queries,
                    keys,
                    values,
                    positions: &set.positions,
                    sequences: &set.sequences,
                    table: &set.table,
                    entries,
                    output: &mut set.output,
                };
                Ok(operations.paged_attention(stream, attention, buffers)?)
            })
            .verify(move |set| {
                let [queries, keys, values] =
                    [exact(&set.inputs[0])?, exact(&set.inputs[1])?, exact(&set.inputs[2])?];
                let (table, found) = (set.table.to_vec()?, exact(&set.output)?);
                let group = (query_heads / key_heads) as usize;
                let mut compared = vec![];
                for (at, query) in queries.chunks(d).enumerate() {
                    let (row, head) = (at as u32 / query_heads, at % query_heads as usize);
                    let (sequence, token) = (row / reference.tokens, row % reference.tokens);
                    let key = |position: u32| {
                        let page = table[(sequence * entries + position / page_size) as usize];
                        let slot = page as usize * page_size as usize + (position % page_size) as usize;
                        (slot * key_heads as usize + head / group) * d
                    };
                    let keys_of: Vec<usize> = (0..=reference.position(token)).map(key).collect();
                    let score = |key: &usize| {
                        let dot: f64 = query.iter().zip(&keys[*key..]).map(|(q, k)| q * k).sum();
                        dot / (d as f64).sqrt()
                    };
                    let scores: Vec<f64> = keys_of.iter().map(score).collect();
                    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    for column in 0..d {
                        let terms =
                            keys_of.iter().zip(&weights).map(|(key, weight)| weight * values[key + column]);
                        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size): (f64, f64), term| {
                            (sum + term, size + term.abs())
                        });
                        let expected = sum / total;
                        let tolerance =
                            1.01 * T::ROUNDING * expected.abs() + 1e-5 * size / total + T::SMALLEST;
                        compared.push(Compared { found: found[at * d + column], expected, tolerance });
                    }
                }
                Ok(compare(compared, |element| vec![element as usize / d, element as usize % d])?)
            }))
    }
}

impl Workload for PagedAttentionWorkload {
    const NAME: &'static str = "paged-attention";

    /// Keys and values are read once, and so are queries; the output is written once.
    fn work(&self) -> Work {
        let bytes = with_head_type!(self.element, T => size_of::<T>()) as f64;
        let rows = f64::from(self.sequences) * f64::from(self.tokens) * f64::from(self.query_heads);
        let keys = f64::from(self.sequences) * f64::from(self.keys) * f64::from(self.key_heads);
        let d = f64::from(self.head_dim);
        Work { operations: 4.0 * rows * f64::from(self.keys) * d, bytes: 2.0 * bytes * d * (rows + keys) }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_head_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}
