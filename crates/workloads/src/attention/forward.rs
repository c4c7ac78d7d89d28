//! Attention's forward kernel as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::Capability;
use warpwright_harness::{HostNumber, Options, Prepared, Result, Setup, Work, Workload};

use super::fp8::{self, Further};
use super::matrices::{Placement, dense};
use super::options::{AttentionOptions, AttentionType, with_attention_type};
use super::reference::{Inputs, verify, work};
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::attention::ScaleGranularity;
use warpwright_kernels::attention::{Attention, AttentionElement};
use warpwright_kernels::attention::{AttentionBuffers, Pages};
use warpwright_kernels::attention::{Configuration, TransposeV};
use warpwright_kernels::operations::Operations;

/// The data type of Q, K and V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum InputOption {
    /// That of O.
    #[default]
    Type,
    /// e4m3 with scales.
    E4m3,
}

/// O = softmax(Q·Kᵀ)·V of each head.
#[derive(Clone, Debug, Options)]
pub(crate) struct AttentionWorkload {
    /// What it computes.
    #[option(flatten)]
    of: AttentionOptions,
    /// Keys of a page: K and V are in a paged cache, and sequences have random lengths.
    #[option(max = 1 << 10)]
    page_size: Option<u32>,
    /// Data type of Q, K and V.
    input: InputOption,
    /// Which elements of Q, K and V share a scale (e4m3).
    scales: ScaleGranularity,
    /// Consumer warpgroups of a CTA.
    #[option(search = [2, 3])]
    consumers: Option<u32>,
    /// Keys of a block.
    #[option(search = [64, 80, 96, 128, 144])]
    block: Option<u32>,
    /// Tiles of Q in shared memory.
    q_stages: Option<u32>,
    /// Blocks of K, and of V, in shared memory.
    #[option(search = [2, 3])]
    stages: Option<u32>,
    /// CTAs of a cluster, which share K and V: 1 or 2.
    #[option(min = 1, max = 2, search = [1, 2])]
    cluster: Option<u32>,
    /// Heads whose K and V are read at the same time.
    section: Option<u32>,
    /// Where V is transposed (e4m3).
    transpose_v: Option<TransposeV>,
}

impl AttentionWorkload {
    fn attention(&self) -> Attention {
        let attention = self.of.attention();
        let [queries, keys] = self.offsets().map(|offsets| offsets.last().copied().unwrap_or(0));
        let attention = match self.cache() {
            Some(cache) => attention.paged(queries, cache),
            None if self.of.packed => attention.packed(queries, keys),
            None => attention,
        };
        self.of.layout.of(attention)
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

    fn offsets(&self) -> [Vec<u32>; 2] {
        self.of.offsets(self.of.packed || self.page_size.is_some())
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
            transpose_v: self.transpose_v.unwrap_or(chosen.transpose_v),
        }
    }

    fn prepare_of<T: AttentionElement + HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let attention = self.attention();
        if let Some(cache) = attention.cache {
            cache.check("an attention")?;
        }
        if self.input == InputOption::E4m3 {
            let configuration = self.configuration(Configuration::of_fp8(&attention));
            let further = Further {
                offsets: self.offsets(),
                key_counts: self.key_counts(),
                slopes: self.of.slopes(),
                sinks: self.of.sink_values(),
            };
            let problem = (attention, self.scales);
            return fp8::prepare::<T>(setup, self.work(), problem, configuration, further);
        }
        let rows = attention.rows()[0] * attention.shape.heads as usize;
        let configuration = self.configuration(Configuration::of(&attention));
        let operations = Operations::new(setup.device());
        let (offsets, slopes, sinks) = (self.offsets(), self.of.slopes(), self.of.sink_values());
        let (counts, reach) = (self.key_counts(), attention.matrices().map(|matrix| matrix.reach() as usize));
        let buffers = setup.buffers(self.work(), |seed| {
            let placement = Placement::new(&attention, &counts, seed);
            let input = |number: usize| {
                setup.input(reach[number], |_| placement.values::<T>(&attention, number, seed))
            };
            let inputs = [input(0)?, input(1)?, input(2)?];
            let copy = |values: &Vec<u32>| setup.input(values.len(), |_| values.clone());
            let numbers = |values: &Vec<f32>| setup.input(values.len(), |_| values.clone());
            let offsets = [copy(&offsets[0])?, copy(&offsets[1])?];
            let pages = [copy(&placement.table)?, copy(&counts)?];
            let more = (offsets, pages, [numbers(&slopes)?, numbers(&sinks)?]);
            Ok((inputs, more, setup.output::<T>(reach[3])?, setup.output::<f32>(rows)?))
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
                let table = table.to_vec()?;
                let dense = |number, values| dense(&attention, (&counts, &table), number, values);
                let [q, k] = [dense(0, q.to_vec()?), dense(1, k.to_vec()?)];
                let [v, o] = [dense(2, v.to_vec()?), dense(3, o.to_vec()?)];
                let inputs =
                    Inputs { q: &q, k: &k, v: &v, offsets: &offsets, slopes: &slopes, sinks: &sinks };
                Ok(verify(&attention, &inputs, &o, &lse.to_vec()?)?)
            }))
    }
}

impl Workload for AttentionWorkload {
    const NAME: &'static str = "attention";

    fn supports(capability: &Capability) -> bool {
        warpwright_kernels::gemm::host::config::has_wgmma(capability)
    }

    fn work(&self) -> Work {
        let bytes = if self.input == InputOption::E4m3 { [1, 2] } else { [2; 2] };
        work(&self.attention(), &self.offsets(), bytes)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_attention_type!(self.of.element, T => self.prepare_of::<T>(setup))
    }
}
