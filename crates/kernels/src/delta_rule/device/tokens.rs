//! A and P of a chunk: the products of its keys and queries, with the norms, β and decays of tokens.

use warpwright::prelude::*;

use super::chunk::pair;
use super::parts::lost;
use super::triangle::{BLOCK, TRIANGLE, packed};
use super::triangular_inverse::{PITCH, coupling_row};
use crate::delta_rule::problem::{CHUNK, Precision};

/// What the elements of A and P are made of, in shared memory: (heads, 64), or (2, 64).
pub(super) struct Tokens {
    /// The sum of log-decays up to the token, to base 2.
    pub(super) sums: Shared<f32>,
    /// The same less the logarithm of 1 / |k|: 2^(sum i - column j) is the decay from j to i and a
    /// norm.
    pub(super) columns: Shared<f32>,
    /// β / |k|.
    pub(super) keys: Shared<f32>,
    /// 1 / |k| of the 64 tokens, then 1 / |q| / sqrt(128).
    pub(super) norms: Shared<f32>,
    heads: u32,
    precision: Precision,
}

#[device]
impl Tokens {
    pub(super) fn shared(heads: u32, precision: Precision) -> Self {
        let of_heads = || shared_array(heads * CHUNK);
        let norms = shared_array(2 * CHUNK);
        Self { sums: of_heads(), columns: of_heads(), keys: of_heads(), norms, heads, precision }
    }

    /// Writes A of the heads to `couplings`, and P to `triangles`, (heads, parts, [`TRIANGLE`]), from the products K·Kᵀ and Q·Kᵀ. A
    /// warp has 16 rows. Blocks of 16 x 16 above the diagonal are not written.
    pub(super) fn decay(
        &self,
        products: (&Fragment<f32>, &Fragment<f32>),
        (warp, lane): (Reg<u32>, Reg<u32>),
        couplings: Shared<f32>,
        triangles: Shared<bf16>,
    ) {
        let row = warp * BLOCK + lane / 4;
        let rows = [row, row + 8];
        for head in 0..self.heads {
            let of_rows = |from: Shared<f32>| rows.map(|i| from[i + head * CHUNK]);
            let rows = Rows {
                sums: of_rows(self.sums),
                keys: of_rows(self.keys),
                queries: rows.map(|i| self.norms[i + CHUNK]),
                columns: self.columns.at(lane % 4 * 2 + head * CHUNK),
                couplings: coupling_row(couplings, head, row).at(lane % 4 * 2),
                lane,
                precision: self.precision,
            };
            for block in 0..CHUNK / BLOCK {
                let to = packed(block, warp * BLOCK + lane % 16, lane / 16 * 8)
                    + head * (self.precision.parts() * TRIANGLE);
                if warp > block {
                    rows.decay_block(products, block, false, triangles.at(to));
                } else if warp == block {
                    rows.decay_block(products, block, true, triangles.at(to));
                }
            }
        }
    }
}

/// The two rows of a head of which a lane has elements, in pairs of columns.
struct Rows {
    sums: [Reg<f32>; 2],
    keys: [Reg<f32>; 2],
    /// 1 / |q| / sqrt(128).
    queries: [Reg<f32>; 2],
    /// [`Tokens::columns`] from this lane's first column on.
    columns: Shared<f32>,
    /// A from this lane's first element on.
    couplings: Shared<f32>,
    lane: Reg<u32>,
    precision: Precision,
}

#[device]
impl Rows {
    /// A block of A and P. `scores` is the row of P, of its first part, of which this lane gives the address.
    fn decay_block(
        &self,
        (key_key, query_key): (&Fragment<f32>, &Fragment<f32>),
        block: u32,
        is_diagonal: bool,
        scores: Shared<bf16>,
    ) {
        let (mut weights, mut words) = (vec![], vec![]);
        for half in [0, 8] {
            let first = block * BLOCK + half;
            let columns = self.columns.at(first).load_vector::<2>();
            for (row, below) in [0, 8].into_iter().enumerate() {
                let of_column = |e: u32| {
                    let element = 4 * (first / 8) + 2 * row as u32 + e;
                    let decay = fast::exp2(self.sums[row] - columns[e as usize]);
                    let weight = query_key.get(element) * (self.queries[row] * decay);
                    let coupling = key_key.get(element) * (self.keys[row] * decay);
                    if !is_diagonal {
                        return (weight, coupling);
                    }
                    let (i, j) = (self.lane / 4 + below, self.lane % 4 * 2 + (half + e));
                    (j.le(i).select(weight, 0f32), j.lt(i).select(coupling, 0f32))
                };
                let [(weight, coupling), (next_weight, next_coupling)] = [0, 1].map(of_column);
                weights.push([weight, next_weight]);
                words.push(pair(weight, next_weight));
                self.couplings.at(below * PITCH + first).store_vector([coupling, next_coupling]);
            }
        }
        let matrices = [0, 1, 2, 3].map(|matrix| words[matrix]);
        stmatrix(scores, matrices);
        if self.precision == Precision::F32 {
            let lost = [0, 1, 2, 3].map(|matrix| lost(weights[matrix], matrices[matrix]));
            stmatrix(scores.at(TRIANGLE), lost);
        }
    }
}
