//! The rotary embedding as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Work, Workload, compare,
    data_types,
};

use warpwright_kernels::operations::Operations;
use warpwright_kernels::rope::{HeadNorm, HeadRows, NO_SLOT, Pairing, RopeBuffers, RopeShape, rotations};
use warpwright_kernels::rows::{Gain, RowElement};

data_types! {
    /// Types of Q, K and V.
    pub(crate) enum HeadType by with_head_type { bf16, f16, f32 }
}

/// RMSNorm before the rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Norm {
    /// Times 1 + weight.
    #[default]
    ZeroCentred,
    /// Times the weight.
    Weight,
    /// None.
    None,
}

impl Norm {
    fn gain(self) -> Option<Gain> {
        match self {
            Norm::ZeroCentred => Some(Gain::ZeroCentred),
            Norm::Weight => Some(Gain::Weight),
            Norm::None => None,
        }
    }
}

/// RMSNorm of heads, rotation, and the write of K and V to the cache.
#[derive(Clone, Debug, Options)]
pub(crate) struct RopeWorkload {
    /// Tokens.
    #[option(default = 5, max = 1 << 20)]
    tokens: u32,
    /// Query heads; a gate of the same size follows each.
    #[option(default = 4, max = 1 << 8)]
    query_heads: u32,
    /// Heads of K and V.
    #[option(default = 2, max = 1 << 8)]
    key_heads: u32,
    /// Elements of a head.
    #[option(default = 256, max = 1 << 10)]
    head_dim: u32,
    /// Columns that are rotated.
    #[option(default = 64, max = 1 << 10)]
    rotary_dim: u32,
    /// Which columns are rotated with each other.
    pairing: Pairing,
    /// RMSNorm.
    norm: Norm,
    /// Data type of Q, K and V.
    #[option(name = "type")]
    element: HeadType,
    /// Heads of a thread, where they are vectors; 0: what the operation chooses.
    #[option(default = 0, max = 8, search = [1, 2, 4])]
    heads: u32,
}

const EPSILON: f32 = 1e-6;
/// Positions that have cosines and sines.
const POSITIONS: u32 = 300;

/// The buffers of a launch.
struct Set<T> {
    qkv: Buffer<T>,
    weights: [Buffer<T>; 2],
    rotations: Buffer<f32>,
    positions: Buffer<u32>,
    slots: Buffer<u32>,
    output: Buffer<T>,
    caches: [Buffer<T>; 2],
}

impl RopeWorkload {
    fn shape(&self) -> RopeShape {
        let Self { query_heads, key_heads, head_dim, rotary_dim, pairing, .. } = *self;
        RopeShape { query_heads, key_heads, head_dim, rotary_dim, pairing }
    }

    /// Elements of a token: each query with its gate, keys, values.
    fn token(&self) -> u32 {
        (2 * self.query_heads + 2 * self.key_heads) * self.head_dim
    }

    /// The first element of a head of Q, K or V (0, 1, 2) in a token.
    fn head(&self, which: usize, head: u32) -> u32 {
        let of = [2 * head, 2 * self.query_heads + head, 2 * self.query_heads + self.key_heads + head];
        of[which] * self.head_dim
    }

    /// Distinct slots in random order, one for each token but the second, which has none.
    fn slots(&self, seed: u64) -> Vec<u32> {
        let mut free: Vec<u32> = (0..self.tokens).collect();
        let mut random = Random::new(seed);
        let mut slot = || free.swap_remove(random.below(free.len() as u64) as usize);
        (0..self.tokens).map(|token| if token == 1 { NO_SLOT } else { slot() }).collect()
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, shape, gain) = (self.clone(), self.shape(), self.norm.gain());
        // Of a shape that is refused, the inputs have no sense: half of an odd number of columns.
        shape.check()?;
        let tokens = self.tokens as usize;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let numbers = |which, count: u32| setup.values::<T>(Values::Normal, seed ^ which, count as usize);
            let position = |random: &mut Random| random.below(POSITIONS.into()) as u32;
            let mut random = Random::new(!seed);
            let pool = this.tokens * this.key_heads * this.head_dim;
            Ok(Set {
                qkv: setup.values::<T>(Values::Normal, seed, tokens * this.token() as usize)?,
                weights: [numbers(1, this.head_dim)?, numbers(2, this.head_dim)?],
                rotations: setup.input((POSITIONS * this.rotary_dim) as usize, |_| {
                    rotations(1e7, this.rotary_dim, POSITIONS)
                })?,
                positions: setup.input(tokens, |_| (0..tokens).map(|_| position(&mut random)).collect())?,
                slots: setup.input(tokens, |_| this.slots(seed))?,
                output: setup.output(tokens * (this.query_heads * this.head_dim) as usize)?,
                // A slot that no token has keeps what it holds.
                caches: [numbers(3, pool)?, numbers(4, pool)?],
            })
        })?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut Set<T>| {
                let rows = |which, head_stride| HeadRows {
                    buffer: &set.qkv,
                    offset: this.head(which, 0),
                    token_stride: this.token(),
                    head_stride,
                };
                let [query_weights, key_weights] = &set.weights;
                let [key_cache, value_cache] = &mut set.caches;
                let norm = gain.map(|gain| HeadNorm { gain, epsilon: EPSILON, query_weights, key_weights });
                let buffers = RopeBuffers {
                    queries: rows(0, 2 * this.head_dim),
                    keys: rows(1, this.head_dim),
                    values: rows(2, this.head_dim),
                    norm,
                    rotations: &set.rotations,
                    positions: &set.positions,
                    slots: &set.slots,
                    output: &mut set.output,
                    key_cache,
                    value_cache,
                };
                match this.heads {
                    0 => Ok(operations.rope(stream, &shape, buffers)?),
                    heads => Ok(operations.rope_by(heads, stream, &shape, buffers)?),
                }
            })
            .verify(move |set| {
                let (positions, slots) = (set.positions.to_vec()?, set.slots.to_vec()?);
                let qkv = exact(&set.qkv)?;
                let weights = [exact(&set.weights[0])?, exact(&set.weights[1])?];
                let found = [exact(&set.output)?, exact(&set.caches[0])?, exact(&set.caches[1])?];
                let d = reference.head_dim as usize;
                let mut compared = vec![];
                for (token, (position, slot)) in positions.iter().zip(&slots).enumerate() {
                    let of_token = &qkv[token * reference.token() as usize..];
                    for which in 0..3 {
                        let heads = [reference.query_heads, reference.key_heads][which.min(1)];
                        let row = if which == 0 { token } else { *slot as usize };
                        if which > 0 && *slot == NO_SLOT {
                            continue;
                        }
                        for head in 0..heads {
                            let x = &of_token[reference.head(which, head) as usize..][..d];
                            let expected = match which {
                                2 => x.to_vec(),
                                _ => reference.expected(x, &weights[which], *position),
                            };
                            let size = expected.iter().fold(0.0, |most: f64, y| most.max(y.abs()));
                            let found = &found[which][(row * heads as usize + head as usize) * d..][..d];
                            compared.extend(found.iter().zip(expected).map(|(found, expected)| Compared {
                                found: *found,
                                expected,
                                tolerance: 1.01 * T::ROUNDING * expected.abs() + 1e-6 * size + T::SMALLEST,
                            }));
                        }
                    }
                }
                Ok(compare(compared, |element| vec![element as usize / d, element as usize % d])?)
            }))
    }

    /// A head of Q or K, normalized and rotated, in f64.
    fn expected(&self, x: &[f64], weights: &[f64], position: u32) -> Vec<f64> {
        let squares = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let root = 1.0 / (squares + f64::from(EPSILON)).sqrt();
        let normalized = |(x, weight): (&f64, &f64)| match self.norm {
            Norm::ZeroCentred => x * root * (1.0 + weight),
            Norm::Weight => x * root * weight,
            Norm::None => *x,
        };
        let mut y: Vec<f64> = x.iter().zip(weights).map(normalized).collect();
        let half = self.rotary_dim as usize / 2;
        for i in 0..half {
            let (first, second) = match self.pairing {
                Pairing::Halves => (i, i + half),
                Pairing::Neighbors => (2 * i, 2 * i + 1),
            };
            let angle = f64::from(position) * 1e7f64.powf(-(i as f64) / half as f64);
            let (a, b, sine, cosine) = (y[first], y[second], angle.sin(), angle.cos());
            (y[first], y[second]) = (a * cosine - b * sine, b * cosine + a * sine);
        }
        y
    }
}

fn exact<T: HostNumber>(buffer: &Buffer<T>) -> Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(HostNumber::exact).collect())
}

impl Workload for RopeWorkload {
    const NAME: &'static str = "rope";

    /// Q, K and V are read and written once.
    fn work(&self) -> Work {
        let heads = f64::from(self.query_heads + 2 * self.key_heads);
        let elements = f64::from(self.tokens) * heads * f64::from(self.head_dim);
        let bytes = with_head_type!(self.element, T => size_of::<T>()) as f64;
        Work { operations: 6.0 * elements, bytes: 2.0 * bytes * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_head_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}
