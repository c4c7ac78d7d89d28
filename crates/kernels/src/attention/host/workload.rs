//! Attention's forward kernel as a workload.

use warpwright::arch::Capability;
use warpwright_harness::{
    HostNumber, OptionValue, Options, Prepared, Result, Setup, Values, Work, Workload, data_types,
};

use super::backward::{GradientBuffers, GradientConfiguration};
use super::config::Configuration;
use super::fp8::ScaleGranularity;
use super::fp8_workload::{self, Further};
use super::operations::{AttentionBuffers, Pages};
use super::pages::{block_table, gather, poison_unused};
use super::reference::{Inputs, verify, verify_gradients, work};
use crate::attention::PagedCache;
use crate::attention::problem::{Attention, AttentionElement, Mask, Shape};
use crate::attention::strides::{HeadMatrix, Strides};
use crate::operations::Operations;

data_types! {
    /// Types of Q, K, V and O.
    pub(crate) enum AttentionType by with_attention_type { bf16, f16 }
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum MaskOption {
    /// Every key.
    #[default]
    Full,
    /// Those up to its own position.
    Causal,
    /// Those around its own position.
    Window,
}

impl MaskOption {
    fn of(self, left: u32, right: u32) -> Mask {
        match self {
            Self::Full => Mask::Full,
            Self::Causal => Mask::Causal,
            Self::Window => Mask::Window { left, right },
        }
    }
}

/// The data type of Q, K and V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum InputOption {
    /// That of O.
    #[default]
    Type,
    /// e4m3 with scales.
    E4m3,
}

/// The extents of an attention, its mask and its type, as the forward pass and the gradients have
/// them.
#[derive(Clone, Debug, Options)]
struct ShapeOptions {
    /// Sequences.
    #[option(default = 1, max = 1 << 16)]
    batch: u32,
    /// Queries of a sequence.
    #[option(default = 300, max = 1 << 20)]
    queries: u32,
    /// Keys of a sequence. By default as many as queries.
    #[option(max = 1 << 20)]
    keys: Option<u32>,
    /// Heads of Q and O.
    #[option(default = 2, min = 1, max = 1 << 10)]
    heads: u32,
    /// Heads of K and V. By default as many as Q has.
    #[option(max = 1 << 10)]
    kv_heads: Option<u32>,
    /// Elements of a head of Q and K.
    #[option(default = 128, max = 1 << 10)]
    head_dim: u32,
    /// Elements of a head of V and O. By default as many as Q and K have.
    #[option(max = 1 << 10)]
    value_dim: Option<u32>,
    /// Which keys a query sees.
    mask: MaskOption,
    /// Keys that a query sees before its position (window).
    #[option(default = 128)]
    left: u32,
    /// Keys that a query sees after its position (window).
    #[option(default = 0)]
    right: u32,
    /// Data type of the matrices.
    #[option(name = "type")]
    element: AttentionType,
}

impl ShapeOptions {
    fn attention(&self) -> Attention {
        let shape = Shape {
            batch: self.batch,
            queries: self.queries,
            keys: self.keys(),
            heads: self.heads,
            kv_heads: self.kv_heads.unwrap_or(self.heads),
            head_dim: self.head_dim,
            value_dim: self.value_dim.unwrap_or(self.head_dim),
        };
        Attention { shape, ..Attention::new(0, 0, 0, 0).mask(self.mask.of(self.left, self.right)) }
    }

    fn keys(&self) -> u32 {
        self.keys.unwrap_or(self.queries)
    }
}

/// How Q, K, V and O are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum LayoutOption {
    /// (batch, rows, heads, d).
    #[default]
    Rows,
    /// (batch, heads, rows, d).
    Heads,
    /// Q, K and V as columns of one matrix: (batch, rows, heads of all, d).
    Qkv,
}

impl LayoutOption {
    fn of(self, attention: Attention) -> Attention {
        let matrices = attention.matrices();
        let columns = matrices.map(|HeadMatrix { heads, d, .. }| heads * d);
        let strides = |i: usize| {
            let HeadMatrix { rows, heads, d, .. } = matrices[i];
            match self {
                Self::Heads => Strides::by_heads(rows, heads, d),
                Self::Qkv if i < 3 => {
                    let first = columns[..i].iter().sum();
                    Strides::in_rows(rows, columns[..3].iter().sum(), first, d)
                }
                Self::Rows | Self::Qkv => Strides::in_rows(rows, columns[i], 0, d),
            }
        };
        match self {
            Self::Rows => attention,
            Self::Heads | Self::Qkv => attention.strided(std::array::from_fn(strides)),
        }
    }
}

/// O = softmax(Q·Kᵀ)·V of each head.
#[derive(Clone, Debug, Options)]
pub(crate) struct AttentionWorkload {
    /// What it computes.
    #[option(flatten)]
    of: ShapeOptions,
    /// Sequences of random lengths up to `queries` and `keys`, without gaps between them.
    packed: bool,
    /// Keys of a page: K and V are in a paged cache, and sequences have random lengths.
    #[option(max = 1 << 10)]
    page_size: Option<u32>,
    /// How Q, K, V and O are laid out.
    layout: LayoutOption,
    /// What scores are multiplied by. By default 1 / sqrt(head_dim).
    scale: Option<f64>,
    /// The bound of the scores (softcap).
    bound: Option<f64>,
    /// Add a bias by distance (ALiBi).
    biased: bool,
    /// Give each head a sink.
    sinks: bool,
    /// Data type of Q, K and V.
    input: InputOption,
    /// Which elements of Q, K and V share a scale (e4m3).
    scales: ScaleGranularity,
    /// Consumer warpgroups of a CTA.
    consumers: Option<u32>,
    /// Keys of a block.
    block: Option<u32>,
    /// Tiles of Q in shared memory.
    q_stages: Option<u32>,
    /// Blocks of K, and of V, in shared memory.
    stages: Option<u32>,
    /// CTAs of a cluster, which share K and V: 1 or 2.
    #[option(min = 1, max = 2)]
    cluster: Option<u32>,
    /// Heads whose K and V are read at the same time.
    section: Option<u32>,
}

impl AttentionWorkload {
    fn attention(&self) -> Attention {
        let attention = Attention {
            scale: self.scale.map(|scale| scale as f32),
            bound: self.bound.map(|bound| bound as f32),
            biased: self.biased,
            sinks: self.sinks,
            ..self.of.attention()
        };
        let [queries, keys] = self.offsets().map(|offsets| offsets.last().copied().unwrap_or(0));
        let attention = match self.cache() {
            Some(cache) => attention.paged(queries, cache),
            None if self.packed => attention.packed(queries, keys),
            None => attention,
        };
        self.layout.of(attention)
    }

    /// The cache has the pages of all sequences, and one that none has.
    fn cache(&self) -> Option<PagedCache> {
        let page_size = self.page_size?;
        let pages_of = |keys: u32| keys.div_ceil(page_size.max(1));
        let pages = self.key_counts().into_iter().map(pages_of).fold(1, u32::saturating_add);
        Some(PagedCache { page_size, pages, pages_per_sequence: pages_of(self.of.keys()).max(1) })
    }

    /// The keys of each packed sequence.
    fn key_counts(&self) -> Vec<u32> {
        self.offsets()[1].windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// The first query and the first key of each packed sequence, and their numbers in all. Some
    /// sequences are empty, some have one row.
    fn offsets(&self) -> [Vec<u32>; 2] {
        let is_packed = self.packed || self.page_size.is_some();
        [self.of.queries, self.of.keys()].map(|most| {
            let mut offsets = vec![0];
            for sequence in 0..if is_packed { self.of.batch } else { 0 } {
                let length = match sequence % 8 {
                    5 => 0,
                    6 => most.min(1),
                    number => most - (u64::from(most) * u64::from(number) / 7) as u32,
                };
                offsets.push(u32::saturating_add(offsets[sequence as usize], length));
            }
            offsets
        })
    }

    /// Slopes as ALiBi has them: powers of two, from 1/2 down to 1/256.
    fn slopes(&self) -> Vec<f32> {
        (1..=self.of.heads).map(|head| (-8.0 * head as f32 / self.of.heads as f32).exp2()).collect()
    }

    fn sink_values(&self) -> Vec<f32> {
        (0..self.of.heads).map(|head| head as f32 - 2.0).collect()
    }

    /// The configuration, with `chosen` for what no option sets.
    fn configuration(&self, chosen: Configuration) -> Configuration {
        Configuration {
            consumers: self.consumers.unwrap_or(chosen.consumers),
            block: self.block.unwrap_or(chosen.block),
            q_stages: self.q_stages.unwrap_or(chosen.q_stages),
            stages: self.stages.unwrap_or(chosen.stages),
            cluster: self.cluster.unwrap_or(chosen.cluster),
            section: self.section.unwrap_or(chosen.section),
        }
    }

    fn prepare_of<T: AttentionElement + HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let attention = self.attention();
        if self.input == InputOption::E4m3 {
            let configuration = self.configuration(Configuration::of_fp8(&attention));
            let further =
                Further { offsets: self.offsets(), slopes: self.slopes(), sinks: self.sink_values() };
            let problem = (attention, self.scales);
            return fp8_workload::prepare::<T>(setup, self.work(), problem, configuration, further);
        }
        if let Some(cache) = attention.cache {
            cache.check("an attention")?;
        }
        let rows = attention.rows()[0] * attention.shape.heads as usize;
        let configuration = self.configuration(Configuration::of(&attention));
        let operations = Operations::new(setup.device());
        let (offsets, slopes, sinks) = (self.offsets(), self.slopes(), self.sink_values());
        let (key_counts, matrices) = (self.key_counts(), attention.matrices());
        let buffers = setup.buffers(self.work(), |seed| {
            let table = attention.cache.map(|cache| block_table(&cache, &key_counts, seed));
            let input = |number: usize, is_paged: bool| {
                let matrix = matrices[number];
                setup.input(matrix.reach() as usize, |_| {
                    let seed = seed + ((number as u64) << 16);
                    let mut values = Values::Normal.numbers::<T>(seed, matrix.elements());
                    if let (Some(cache), Some(table), true) = (&attention.cache, &table, is_paged) {
                        poison_unused(&mut values, cache, &key_counts, table);
                    }
                    spread(values, &matrix, attention.strides.is_some())
                })
            };
            let inputs = [input(0, false)?, input(1, true)?, input(2, true)?];
            let copy = |values: &Vec<u32>| setup.input(values.len(), |_| values.clone());
            let numbers = |values: &Vec<f32>| setup.input(values.len(), |_| values.clone());
            let offsets = [copy(&offsets[0])?, copy(&offsets[1])?];
            let pages = [copy(&table.unwrap_or_default())?, copy(&key_counts)?];
            let more = (offsets, pages, [numbers(&slopes)?, numbers(&sinks)?]);
            let o = setup.output::<T>(matrices[3].reach() as usize)?;
            Ok((inputs, more, o, setup.output::<f32>(rows)?))
        })?;
        let counts = self.key_counts();
        Ok(buffers
            .launch(move |stream, ([q, k, v], (offsets, [table, lengths], [slopes, sinks]), o, lse)| {
                let buffers = AttentionBuffers {
                    lse: Some(lse),
                    offsets: Some(offsets.each_ref()),
                    pages: Some(Pages { table, lengths }),
                    slopes: Some(slopes),
                    sinks: Some(sinks),
                    ..AttentionBuffers::new(q, k, v, o)
                };
                Ok(operations.attention_as(stream, &attention, configuration, buffers)?)
            })
            .verify(move |([q, k, v], (_, [table, _], _), o, lse)| {
                let matrices = attention.matrices();
                let dense = |values: Vec<T>, number: usize| match attention.strides {
                    Some(_) => matrices[number].indices().map(|index| values[index]).collect(),
                    None => values,
                };
                let [q, mut k, mut v, o] = [
                    dense(q.to_vec()?, 0),
                    dense(k.to_vec()?, 1),
                    dense(v.to_vec()?, 2),
                    dense(o.to_vec()?, 3),
                ];
                if let Some(cache) = &attention.cache {
                    let table = table.to_vec()?;
                    [k, v] = [k, v].map(|pool| gather(&pool, cache, &counts, &table));
                }
                let inputs =
                    Inputs { q: &q, k: &k, v: &v, offsets: &offsets, slopes: &slopes, sinks: &sinks };
                Ok(verify(&attention, &inputs, &o, &lse.to_vec()?)?)
            }))
    }
}

/// The elements of a matrix at its strides, between NaN: a kernel that reads a gap is found.
fn spread<T: HostNumber>(values: Vec<T>, matrix: &HeadMatrix, is_strided: bool) -> Vec<T> {
    if !is_strided {
        return values;
    }
    let mut spread = vec![T::nearest(f64::NAN); matrix.reach() as usize];
    matrix.indices().zip(values).for_each(|(index, value)| spread[index] = value);
    spread
}

impl Workload for AttentionWorkload {
    const NAME: &'static str = "attention";

    fn supports(capability: &Capability) -> bool {
        crate::gemm::host::config::has_wgmma(capability)
    }

    fn work(&self) -> Work {
        let bytes = if self.input == InputOption::E4m3 { [1, 2] } else { [2; 2] };
        work(&self.attention(), &self.offsets(), bytes)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_attention_type!(self.of.element, T => self.prepare_of::<T>(setup))
    }
}

/// The gradients of Q, K and V of an attention.
#[derive(Clone, Debug, Options)]
pub(crate) struct GradientWorkload {
    /// What it computes.
    #[option(flatten)]
    of: ShapeOptions,
    /// Queries of a block: 64 or 128.
    block: Option<u32>,
    /// Whether every launch computes the same bits: additions to dQ take turns.
    deterministic: bool,
}

impl GradientWorkload {
    fn prepare_of<T: AttentionElement + HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let attention = self.of.attention();
        let ([q, k, v, o], [rows, _]) = (attention.elements(), attention.rows());
        let rows = rows * attention.shape.heads as usize;
        let chosen = GradientConfiguration::of(&attention);
        let configuration = GradientConfiguration {
            rows: self.block.unwrap_or(chosen.rows),
            deterministic: self.deterministic,
        };
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let input =
                |number: u64, length| setup.values::<T>(Values::Normal, seed + (number << 16), length);
            let (q, k, v, d_o) = (input(0, q)?, input(1, k)?, input(2, v)?, input(3, o)?);
            let (mut o, mut lse) = (setup.output::<T>(o)?, setup.output::<f32>(rows)?);
            let stream = setup.device().stream()?;
            let forward =
                AttentionBuffers { lse: Some(&mut lse), ..AttentionBuffers::new(&q, &k, &v, &mut o) };
            operations.attention(&stream, &attention, forward)?;
            stream.synchronize()?;
            let gradients =
                [setup.output::<T>(q.len())?, setup.output::<T>(k.len())?, setup.output::<T>(v.len())?];
            Ok(([q, k, v, d_o], (o, lse), gradients))
        })?;
        Ok(buffers
            .launch(move |stream, ([q, k, v, d_o], (o, lse), [d_q, d_k, d_v])| {
                let buffers = GradientBuffers { q, k, v, o, lse, d_o, d_q, d_k, d_v };
                Ok(operations.attention_gradients_as(stream, &attention, configuration, buffers)?)
            })
            .verify(move |(inputs, _, gradients)| {
                let read = |buffer: &warpwright::runtime::Buffer<T>| buffer.to_vec();
                let [q, k, v, d_o] = inputs.each_ref().map(read);
                let inputs = [q?, k?, v?, d_o?];
                let [d_q, d_k, d_v] = gradients.each_ref().map(read);
                Ok(verify_gradients(&attention, &inputs, &[d_q?, d_k?, d_v?])?)
            }))
    }
}

impl Workload for GradientWorkload {
    const NAME: &'static str = "attention-gradients";

    fn supports(capability: &Capability) -> bool {
        crate::gemm::host::config::has_wgmma(capability)
    }

    fn work(&self) -> Work {
        // Five products where the forward pass has two.
        let Work { operations, bytes } = work(&self.of.attention(), &[vec![], vec![]], [2; 2]);
        Work { operations: 2.5 * operations, bytes: 2.0 * bytes }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_attention_type!(self.of.element, T => self.prepare_of::<T>(setup))
    }
}
