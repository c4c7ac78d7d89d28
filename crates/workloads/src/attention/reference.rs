//! Attention in f64.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use warpwright::prelude::e4m3;
use warpwright_harness::{Compared, HostNumber, Mismatch, Verified, Work, compare, compare_parts};

use warpwright_kernels::attention::BLOCK;
use warpwright_kernels::attention::ScaleGranularity;
use warpwright_kernels::attention::{Attention, Shape};

/// Multiply-adds of a reference that is computed whole; of larger problems a sample of queries is.
pub(crate) const MOST_MULTIPLY_ADDS: u64 = 1 << 34;

/// The inputs of an attention on the host.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'i, T> {
    pub(crate) q: &'i [T],
    pub(crate) k: &'i [T],
    pub(crate) v: &'i [T],
    /// The first query and the first key of each packed sequence, and their numbers in all.
    pub(crate) offsets: &'i [Vec<u32>; 2],
    pub(crate) slopes: &'i [f32],
    pub(crate) sinks: &'i [f32],
}

/// A query: its head, its number in its sequence, and the sequence's rows of Q and of K.
struct Query {
    head: usize,
    number: usize,
    rows: [Range<usize>; 2],
}

/// The rows of Q and of K of a sequence.
pub(crate) fn sequence_rows(
    attention: &Attention,
    offsets: &[Vec<u32>; 2],
    sequence: usize,
) -> [Range<usize>; 2] {
    let Shape { queries, keys, .. } = attention.shape;
    let of = |offsets: &Vec<u32>, length: u32| match attention.is_packed() {
        true => offsets[sequence] as usize..offsets[sequence + 1] as usize,
        false => sequence * length as usize..(sequence + 1) * length as usize,
    };
    [of(&offsets[0], queries), of(&offsets[1], keys)]
}

/// The work of an attention: the products of the pairs of a query and a key that it sees. An element
/// of an input has `input_bytes`, and one of O `output_bytes`.
pub(crate) fn work(
    attention: &Attention,
    offsets: &[Vec<u32>; 2],
    [input_bytes, output_bytes]: [u32; 2],
) -> Work {
    let Shape { batch, heads, head_dim, value_dim, .. } = attention.shape;
    let pairs_of = |sequence: u32| {
        let [queries, keys] =
            sequence_rows(attention, offsets, sequence as usize).map(|rows| rows.len() as i64);
        let sees = |row: i64| {
            let visible = attention.mask.visible(row + keys - queries, keys);
            (visible.end - visible.start).max(0) as f64
        };
        // Of very many queries, some thousand stand for all.
        let step = (queries >> 16).max(1);
        let (sum, taken) = (0..queries)
            .step_by(step as usize)
            .fold((0.0, 0.0), |(sum, taken), row| (sum + sees(row), taken + 1.0));
        sum * queries as f64 / f64::max(taken, 1.0)
    };
    let pairs: f64 = match attention.is_packed() {
        true => (0..batch).map(pairs_of).sum(),
        false => pairs_of(0) * f64::from(batch),
    };
    let [q, k, v, o] = attention.elements().map(|elements| elements as f64);
    Work {
        operations: 2.0 * pairs * f64::from(heads) * f64::from(head_dim + value_dim),
        bytes: (q + k + v) * f64::from(input_bytes) + o * f64::from(output_bytes),
    }
}

/// An element of O.
#[derive(Clone, Copy, Default)]
struct Element {
    value: f64,
    /// The sum of the magnitudes that it adds, and of their squares.
    size: f64,
    squares: f64,
    /// The sum of the magnitudes of V, each with the largest weight.
    heaviest: f64,
}

/// A row of O, and its logarithm.
struct Row {
    elements: Vec<Element>,
    logarithm: f64,
    /// The sum of the magnitudes that a score adds, of the score where it is largest.
    score_size: f64,
}

/// Compares O and the logarithms with f64. Of a large problem it compares every `step`-th query.
pub(crate) fn verify<T: HostNumber>(
    attention: &Attention,
    inputs: &Inputs<'_, T>,
    o: &[T],
    lse: &[f32],
) -> std::result::Result<Verified, Mismatch> {
    // P is rounded to T, and so is O.
    let tolerance = |_: &Row, element: &Element, _: f64| {
        T::ROUNDING * (2.0 * element.size + element.value.abs()) + T::SMALLEST
    };
    verify_within(attention, inputs, (o, lse), &tolerance, &|row| 1e-5 * (1.0 + row.logarithm.abs()))
}

/// [`verify`] for O of another type than the inputs. `tolerance` is that of an element of O, which
/// it is given with what was found, and `of_logarithm` that of a row's logarithm.
fn verify_within<T: HostNumber, O: HostNumber>(
    attention: &Attention,
    inputs: &Inputs<'_, T>,
    (o, lse): (&[O], &[f32]),
    tolerance: &(dyn Fn(&Row, &Element, f64) -> f64 + Sync),
    of_logarithm: &(dyn Fn(&Row) -> f64 + Sync),
) -> std::result::Result<Verified, Mismatch> {
    let Shape { batch, keys, heads, head_dim, value_dim, .. } = attention.shape;
    let ([rows, _], heads) = (attention.rows(), heads as usize);
    let all = (rows * heads) as u64 * u64::from(keys) * u64::from(head_dim + value_dim);
    // An odd step meets every row and every head of a tile.
    let step = (all / MOST_MULTIPLY_ADDS) as usize | 1;
    let d = value_dim as usize;
    let starts: Vec<_> =
        (0..batch as usize).map(|sequence| sequence_rows(attention, inputs.offsets, sequence)).collect();
    compare_parts((rows * heads).div_ceil(step), &|part| {
        let (row, head) = (part * step / heads, part * step % heads);
        let sequence = starts.partition_point(|[queries, _]| queries.end <= row);
        let rows = starts[sequence].clone();
        let query = Query { head, number: row - rows[0].start, rows };
        let expected = attend(attention, inputs, &query);
        let elements = o[(row * heads + head) * d..][..d].iter().zip(&expected.elements);
        let elements = elements.map(|(found, element)| Compared {
            found: found.exact(),
            expected: element.value,
            tolerance: tolerance(&expected, element, found.exact()),
        });
        // The logarithms are (sequence, head, query), of packed sequences (head, query).
        let at = match attention.is_packed() {
            true => head * starts[batch as usize - 1][0].end + row,
            false => (sequence * heads + head) * query.rows[0].len() + query.number,
        };
        let logarithm = Compared {
            found: f64::from(lse[at]),
            expected: expected.logarithm,
            tolerance: of_logarithm(&expected),
        };
        compare(elements.chain([logarithm]), |column| vec![sequence, query.number, head, column as usize])
    })
}

/// The score of a scaled one of a head, a query's position and a key; and its derivative.
pub(crate) fn score_of(
    attention: &Attention,
    slopes: &[f32],
    (head, position, key): (usize, i64, usize),
    scaled: f64,
) -> (f64, f64) {
    let (mut score, mut derivative) = (scaled, 1.0);
    if let Some(bound) = attention.bound.map(f64::from) {
        let part = score / bound;
        // 1 - tanh², without the cancellation near the bound.
        (score, derivative) = (bound * part.tanh(), part.cosh().powi(-2));
    }
    if attention.biased {
        score -= f64::from(slopes[head]) * (position - key as i64).abs() as f64;
    }
    (score, derivative)
}

/// A row of O.
fn attend<T: HostNumber>(attention: &Attention, inputs: &Inputs<'_, T>, query: &Query) -> Row {
    let Shape { heads, kv_heads, head_dim, value_dim, .. } = attention.shape;
    let (head, [queries, keys]) = (query.head, &query.rows);
    let kv_head = head / (heads / kv_heads) as usize;
    let row = |matrix: &[T], row: usize, (head, heads): (usize, u32), d: u32| -> Vec<f64> {
        let start = (row * heads as usize + head) * d as usize;
        matrix[start..][..d as usize].iter().map(|value| value.exact()).collect()
    };
    let q = row(inputs.q, queries.start + query.number, (head, heads), head_dim);
    let position = query.number as i64 + keys.len() as i64 - queries.len() as i64;
    let visible = attention.mask.visible(position, keys.len() as i64);
    let visible = visible.start as usize..visible.end.max(visible.start) as usize;
    let scale = f64::from(attention.scale_or_default());
    let mut score_size: f64 = 0.0;
    let mut score = |key: usize| {
        let k = row(inputs.k, keys.start + key, (kv_head, kv_heads), head_dim);
        let (sum, size) =
            q.iter().zip(k).fold((0.0, 0.0), |(sum, size), (q, k)| (sum + q * k, size + (q * k).abs()));
        score_size = score_size.max(scale * size);
        score_of(attention, inputs.slopes, (head, position, key), scale * sum).0
    };
    let scores: Vec<f64> = visible.clone().map(&mut score).collect();
    let sink = if attention.sinks { f64::from(inputs.sinks[head]) } else { f64::NEG_INFINITY };
    let maximum = scores.iter().copied().fold(sink, f64::max);
    let mut elements = vec![Element::default(); value_dim as usize];
    if maximum == f64::NEG_INFINITY {
        return Row { elements, logarithm: maximum, score_size };
    }
    let total = (sink - maximum).exp() + scores.iter().map(|score| (score - maximum).exp()).sum::<f64>();
    for (key, score) in visible.zip(&scores) {
        let weight = (score - maximum).exp() / total;
        let v = row(inputs.v, keys.start + key, (kv_head, kv_heads), value_dim);
        for (element, v) in elements.iter_mut().zip(v) {
            let term = weight * v;
            element.value += term;
            element.size += term.abs();
            element.squares += term * term;
            element.heaviest += v.abs() / total;
        }
    }
    Row { elements, logarithm: maximum + total.ln(), score_size }
}

/// The inputs of an attention of e4m3 with scales.
pub(crate) struct Fp8Inputs<'i> {
    pub(crate) inputs: Inputs<'i, e4m3>,
    pub(crate) granularity: ScaleGranularity,
    /// The scales of Q, K and V.
    pub(crate) scales: [&'i [f32]; 3],
}

impl Fp8Inputs<'_> {
    /// Q, K and V times their scales.
    fn scaled(&self, attention: &Attention) -> [Vec<f32>; 3] {
        let Shape { batch, heads, kv_heads, head_dim, value_dim, .. } = attention.shape;
        let Inputs { q, k, v, .. } = self.inputs;
        let extents = [(q, heads, head_dim), (k, kv_heads, head_dim), (v, kv_heads, value_dim)];
        let mut matrices = [q, k, v].map(|matrix| Vec::with_capacity(matrix.len()));
        for (number, ((matrix, heads, d), scaled)) in extents.into_iter().zip(&mut matrices).enumerate() {
            let scales = self.scales[number];
            let (heads, d) = (heads as usize, d as usize);
            let count = scales.len() / (batch as usize * heads).max(1);
            for sequence in 0..batch as usize {
                let rows = sequence_rows(attention, self.inputs.offsets, sequence)[number.min(1)].clone();
                let first = rows.start;
                for (row, head) in rows.flat_map(|row| (0..heads).map(move |head| (row, head))) {
                    let block = match self.granularity {
                        ScaleGranularity::Head => 0,
                        ScaleGranularity::Block => (row - first) / BLOCK as usize,
                    };
                    let scale = scales[(sequence * heads + head) * count + block];
                    let elements = &matrix[(row * heads + head) * d..][..d];
                    scaled.extend(elements.iter().map(|element| element.to_f32() * scale));
                }
            }
        }
        matrices
    }
}

/// Compares O and the logarithms of e4m3 inputs with f64; finds the error of all O.
pub(crate) fn verify_fp8<O: HostNumber>(
    attention: &Attention,
    inputs: &Fp8Inputs<'_>,
    o: &[O],
    lse: &[f32],
) -> std::result::Result<Verified, Mismatch> {
    let [q, k, v] = inputs.scaled(attention);
    let Inputs { offsets, slopes, sinks, .. } = inputs.inputs;
    let inputs = Inputs { q: &q, k: &k, v: &v, offsets, slopes, sinks };
    let sums = Mutex::new([0.0; 2]);
    // The tensor cores keep 13 bits of the largest of 32 products.
    let of_score = |row: &Row| row.score_size / 1024.0;
    let tolerance = |row: &Row, element: &Element, found: f64| {
        let Element { value, size, squares, heaviest } = *element;
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        *sums = [sums[0] + (found - value).powi(2), sums[1] + value * value];
        // Weights are rounded to e4m3, and of many keys the roundings cancel; those that are less
        // than 2^-14 of the largest, to multiples of 2^-17 of it.
        let weights = e4m3::ROUNDING * f64::min(size, 8.0 * squares.sqrt()) + heaviest / f64::from(1 << 18);
        weights + (of_score(row) + 1.0 / 1024.0) * size + O::ROUNDING * value.abs() + O::SMALLEST
    };
    let verified = verify_within(attention, &inputs, (o, lse), &tolerance, &|row| 1e-5 + of_score(row))?;
    let [error, value] = sums.into_inner().unwrap_or_else(PoisonError::into_inner).map(f64::sqrt);
    let finding =
        format!("the rms error of O is {:.3} % of its rms", 100.0 * error / value.max(f64::MIN_POSITIVE));
    Ok(Verified { finding: Some(finding), ..verified })
}

/// O of every row, in the order (row, head, element).
#[cfg(test)]
pub(crate) fn attend_all(attention: &Attention, inputs: &Inputs<'_, f64>) -> Vec<f64> {
    let Shape { batch, heads, .. } = attention.shape;
    let mut o = Vec::new();
    for sequence in 0..batch as usize {
        let rows = sequence_rows(attention, inputs.offsets, sequence);
        for (number, head) in
            (0..rows[0].len()).flat_map(|row| (0..heads as usize).map(move |head| (row, head)))
        {
            let query = Query { head, number, rows: rows.clone() };
            o.extend(attend(attention, inputs, &query).elements.iter().map(|element| element.value));
        }
    }
    o
}
