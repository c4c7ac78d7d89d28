//! The gradients of attention in f64.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use warpwright_harness::{Compared, HostNumber, Mismatch, Verified, compare, compare_parts, merge};

use super::reference::{Inputs, MOST_MULTIPLY_ADDS, score_of, sequence_rows};
use warpwright_kernels::attention::{Attention, Shape};

/// A sum, and the sum of the magnitudes of what it adds: how far off its terms may be.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    error: f64,
}

impl Sum {
    /// Adds `factor · value`; `factor` is off by `error`.
    fn add(&mut self, factor: f64, error: f64, value: f64) {
        self.value += factor * value;
        self.error += error * value.abs();
    }

    /// A found gradient beside it, rounded to `T`.
    fn compared<T: HostNumber>(&self, found: T) -> Compared {
        let tolerance = self.error + T::ROUNDING * self.value.abs() + T::SMALLEST;
        Compared { found: found.exact(), expected: self.value, tolerance }
    }
}

/// Gradients as a kernel computes them: of Q, K, V and the sinks.
pub(crate) struct Gradients<'g, T> {
    pub(crate) matrices: [&'g [T]; 3],
    pub(crate) sinks: &'g [f32],
}

/// Compares gradients with f64. Of a large problem it compares some heads of K and V of some sequences.
pub(crate) fn verify_gradients<T: HostNumber>(
    attention: &Attention,
    inputs: &Inputs<'_, T>,
    d_o: &[T],
    found: &Gradients<'_, T>,
) -> std::result::Result<Verified, Mismatch> {
    let Shape { batch, queries, keys, heads, kv_heads, head_dim, value_dim } = attention.shape;
    let heads_of_all = u64::from(batch) * u64::from(heads);
    let pairs = heads_of_all * u64::from(queries) * u64::from(keys);
    let units = (batch * kv_heads) as usize;
    let all = 3 * pairs * u64::from(head_dim + value_dim);
    let step = units.min((all / MOST_MULTIPLY_ADDS) as usize | 1);
    let sinks = Mutex::new(vec![Sum::default(); heads as usize]);
    let verified = compare_parts(units.div_ceil(step.max(1)), &|part| {
        let unit = part * step;
        let (sequence, kv_head) = (unit / kv_heads as usize, unit % kv_heads as usize);
        let rows = sequence_rows(attention, inputs.offsets, sequence);
        let unit = Unit { attention, inputs, d_o, rows, kv_head };
        let gradients = unit.gradients();
        let mut sinks = sinks.lock().unwrap_or_else(PoisonError::into_inner);
        for (head, sum) in unit.heads().zip(&gradients.sinks) {
            sinks[head].value += sum.value;
            sinks[head].error += sum.error;
        }
        compare(unit.compared(&gradients, found), |index| vec![sequence, kv_head, index as usize])
    })?;
    if !attention.sinks || step > 1 {
        return Ok(verified);
    }
    let sinks = sinks.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sinks = sinks.iter().zip(found.sinks).map(|(sum, found)| sum.compared(*found));
    merge([Ok(verified), compare(sinks, |head| vec![head as usize])])
}

/// A head of K and V of a sequence, and the heads of Q that it serves.
struct Unit<'u, T> {
    attention: &'u Attention,
    inputs: &'u Inputs<'u, T>,
    d_o: &'u [T],
    /// The sequence's rows of Q and of K.
    rows: [Range<usize>; 2],
    kv_head: usize,
}

/// The gradients of Q, of each head and query; of K and V, of each key; of the sinks of each head.
struct UnitGradients {
    q: Vec<Vec<Sum>>,
    k: Vec<Vec<Sum>>,
    v: Vec<Vec<Sum>>,
    sinks: Vec<Sum>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl<T: HostNumber> Unit<'_, T> {
    /// The heads of Q.
    fn heads(&self) -> Range<usize> {
        let Shape { heads, kv_heads, .. } = self.attention.shape;
        let group = (heads / kv_heads) as usize;
        self.kv_head * group..(self.kv_head + 1) * group
    }

    /// The elements of a row of a matrix: its head of as many, of `d` elements.
    fn elements(row: usize, (head, heads): (usize, u32), d: u32) -> Range<usize> {
        let (heads, d) = (heads as usize, d as usize);
        let start = (row * heads + head) * d;
        start..start + d
    }

    fn row(matrix: &[T], elements: Range<usize>) -> Vec<f64> {
        matrix[elements].iter().map(|value| value.exact()).collect()
    }

    fn gradients(&self) -> UnitGradients {
        let Shape { kv_heads, head_dim, value_dim, .. } = self.attention.shape;
        let keys = self.rows[1].clone();
        let of_keys = |matrix: &[T], d: u32| -> Vec<Vec<f64>> {
            let row = |key| Self::row(matrix, Self::elements(key, (self.kv_head, kv_heads), d));
            keys.clone().map(row).collect()
        };
        let (k, v) = (of_keys(self.inputs.k, head_dim), of_keys(self.inputs.v, value_dim));
        let mut gradients = UnitGradients {
            q: Vec::new(),
            k: vec![vec![Sum::default(); head_dim as usize]; keys.len()],
            v: vec![vec![Sum::default(); value_dim as usize]; keys.len()],
            sinks: vec![Sum::default(); self.heads().len()],
        };
        for (number, head) in self.heads().enumerate() {
            for query in 0..self.rows[0].len() {
                self.add_query((number, head), query, (&k, &v), &mut gradients);
            }
        }
        gradients
    }

    /// Adds what a query of a head, which is the `number`-th of the unit, adds to the gradients.
    fn add_query(
        &self,
        (number, head): (usize, usize),
        query: usize,
        (k, v): (&[Vec<f64>], &[Vec<f64>]),
        gradients: &mut UnitGradients,
    ) {
        let (attention, inputs) = (self.attention, self.inputs);
        let Shape { heads, head_dim, value_dim, .. } = attention.shape;
        let row = self.rows[0].start + query;
        let q = Self::row(inputs.q, Self::elements(row, (head, heads), head_dim));
        let d_o = Self::row(self.d_o, Self::elements(row, (head, heads), value_dim));
        let position = query as i64 + k.len() as i64 - self.rows[0].len() as i64;
        let visible = attention.mask.visible(position, k.len() as i64);
        let visible = visible.start as usize..visible.end.max(visible.start) as usize;
        let (scale, is_bound) = (f64::from(attention.scale_or_default()), attention.bound.is_some());
        let score = |key| score_of(attention, inputs.slopes, (head, position, key), scale * dot(&q, &k[key]));
        let (scores, derivatives): (Vec<f64>, Vec<f64>) = visible.clone().map(score).unzip();
        let sink = if attention.sinks { f64::from(inputs.sinks[head]) } else { f64::NEG_INFINITY };
        let maximum = scores.iter().copied().fold(sink, f64::max);
        let mut sums = vec![Sum::default(); head_dim as usize];
        if maximum > f64::NEG_INFINITY {
            let weights: Vec<f64> = scores.iter().map(|score| (score - maximum).exp()).collect();
            let sink = (sink - maximum).exp();
            let total = sink + weights.iter().sum::<f64>();
            let products: Vec<f64> = visible.clone().map(|key| dot(&d_o, &v[key])).collect();
            let delta = dot(&weights, &products) / total;
            // O is rounded to T before delta is computed of it.
            let size: f64 = (0..value_dim as usize)
                .map(|j| visible.clone().zip(&weights).map(|(key, w)| w * v[key][j]).sum::<f64>() * d_o[j])
                .map(|product| product.abs() / total)
                .sum();
            for (i, key) in visible.enumerate() {
                let weight = weights[i] / total;
                let ds = weight * (products[i] - delta);
                // P and dS are rounded to T; exponentials are good to 2^-20.
                let error =
                    T::ROUNDING * (2.0 * ds.abs() + weight * size) + weight * products[i].abs() * 1e-5;
                // The derivative of a bound score is good to 2^-20, and P times it is rounded to T, too.
                let (derivative, of_derivative) = (derivatives[i], if is_bound { 1e-6 } else { 0.0 });
                let rounded = T::SMALLEST * (1.0 + (products[i] - delta).abs());
                let error = derivative.abs() * error + of_derivative * ds.abs() + rounded;
                for j in 0..q.len() {
                    sums[j].add(scale * derivative * ds, scale * error, k[key][j]);
                    gradients.k[key][j].add(scale * derivative * ds, scale * error, q[j]);
                }
                for (sum, d_o) in gradients.v[key].iter_mut().zip(&d_o) {
                    sum.add(weight, weight * 2.0 * T::ROUNDING + T::SMALLEST, *d_o);
                }
            }
            let error = T::ROUNDING * size + 1e-5 * delta.abs();
            gradients.sinks[number].add(-delta, error, sink / total);
        }
        gradients.q.push(sums);
    }

    /// All gradients of the unit beside those found.
    fn compared(&self, gradients: &UnitGradients, found: &Gradients<'_, T>) -> Vec<Compared> {
        let Shape { heads, kv_heads, head_dim, value_dim, .. } = self.attention.shape;
        let ([d_q, d_k, d_v], [queries, keys]) = (found.matrices, self.rows.clone());
        let mut compared = Vec::new();
        let mut beside = |found: &[T], elements: Range<usize>, sums: &[Sum]| {
            compared.extend(found[elements].iter().zip(sums).map(|(found, sum)| sum.compared(*found)));
        };
        let rows = self.heads().flat_map(|head| queries.clone().map(move |row| (head, row)));
        for ((head, row), sums) in rows.zip(&gradients.q) {
            beside(d_q, Self::elements(row, (head, heads), head_dim), sums);
        }
        for (number, key) in keys.enumerate() {
            let head = (self.kv_head, kv_heads);
            beside(d_k, Self::elements(key, head, head_dim), &gradients.k[number]);
            beside(d_v, Self::elements(key, head, value_dim), &gradients.v[number]);
        }
        compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::reference::attend_all;
    use warpwright_kernels::attention::Mask;

    /// Values around 0 that differ.
    fn values(count: usize, seed: usize) -> Vec<f64> {
        (0..count).map(|i| ((i * 37 + seed * 101) % 89) as f64 / 44.0 - 1.0).collect()
    }

    /// The sum of dO · O.
    fn loss(attention: &Attention, inputs: &Inputs<'_, f64>, d_o: &[f64]) -> f64 {
        dot(&attend_all(attention, inputs), d_o)
    }

    /// Two packed sequences, two heads of Q and one of K; each form.
    #[test]
    fn gradients_are_the_limits_of_differences() {
        let base = Attention::new(2, 5, 2, 3).keys(6).kv_heads(1).value_dim(4).packed(7, 9);
        let forms = [
            base,
            base.mask(Mask::Causal).bounded(0.7),
            base.mask(Mask::Window { left: 1, right: 1 }).biased(),
            base.with_sinks().mask(Mask::Causal),
            base.bounded(2.0).biased().with_sinks(),
        ];
        let offsets = [vec![0, 5, 7], vec![0, 3, 9]];
        let [q, k, v, o] = base.elements();
        let matrices = [values(q, 1), values(k, 2), values(v, 3), vec![0.25, -1.0]];
        let d_o = values(o, 4);
        for attention in forms {
            let slopes = [0.5, 0.25];
            let inputs_of = |matrices: &[Vec<f64>; 4], sinks: &[f32]| {
                let [q, k, v, _] = matrices;
                let inputs = Inputs { q, k, v, offsets: &offsets, slopes: &slopes, sinks };
                loss(&attention, &inputs, &d_o)
            };
            let sinks_of =
                |matrices: &[Vec<f64>; 4]| matrices[3].iter().map(|sink| *sink as f32).collect::<Vec<_>>();
            // Sinks are f32: their steps are exact in it.
            let differences: [Vec<f64>; 4] = std::array::from_fn(|i| {
                let step = if i == 3 { 1.0 / 1024.0 } else { 1e-5 };
                let difference = |j: usize| {
                    let [above, below] = [step, -step].map(|step| {
                        let mut moved = matrices.clone();
                        moved[i][j] += step;
                        inputs_of(&moved, &sinks_of(&moved))
                    });
                    (above - below) / (2.0 * step)
                };
                (0..matrices[i].len()).map(difference).collect()
            });
            let [q, k, v, _] = &matrices;
            let sinks = sinks_of(&matrices);
            let inputs = Inputs { q, k, v, offsets: &offsets, slopes: &slopes, sinks: &sinks };
            let expect_near = |sums: &[Sum], differences: &[f64]| {
                for (sum, difference) in sums.iter().zip(differences) {
                    let off = (sum.value - difference).abs();
                    assert!(off < 1e-6, "{attention:?}: {} and {difference}", sum.value);
                }
            };
            let mut sink_sums = vec![Sum::default(); 2];
            for sequence in 0..2 {
                let rows = sequence_rows(&attention, &offsets, sequence);
                let [queries, keys] = rows.clone();
                let unit = Unit { attention: &attention, inputs: &inputs, d_o: &d_o, rows, kv_head: 0 };
                let gradients = unit.gradients();
                for (head, row) in (0..2).flat_map(|head| queries.clone().map(move |row| (head, row))) {
                    let elements = Unit::<f64>::elements(row, (head, 2), 3);
                    let sums = &gradients.q[head * queries.len() + row - queries.start];
                    expect_near(sums, &differences[0][elements]);
                }
                for key in keys.clone() {
                    let number = key - keys.start;
                    expect_near(&gradients.k[number], &differences[1][key * 3..key * 3 + 3]);
                    expect_near(&gradients.v[number], &differences[2][key * 4..key * 4 + 4]);
                }
                sink_sums
                    .iter_mut()
                    .zip(&gradients.sinks)
                    .for_each(|(sum, of_unit)| sum.value += of_unit.value);
            }
            expect_near(&sink_sums, &differences[3]);
        }
    }
}
