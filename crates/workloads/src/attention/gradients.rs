//! Attention's gradients as a workload.

use warpwright::arch::Capability;
use warpwright::runtime::Buffer;
use warpwright_harness::{HostNumber, Options, Prepared, Result, Setup, Work, Workload};

use super::gradient_reference::{Gradients, verify_gradients};
use super::matrices::{Placement, dense};
use super::options::{AttentionOptions, AttentionType, with_attention_type};
use super::reference::{Inputs, work};
use warpwright_kernels::attention::AttentionBuffers;
use warpwright_kernels::attention::{Attention, AttentionElement};
use warpwright_kernels::attention::{GradientBuffers, GradientConfiguration};
use warpwright_kernels::operations::Operations;

/// The gradients of Q, K and V of an attention.
#[derive(Clone, Debug, Options)]
pub(crate) struct GradientWorkload {
    /// What it computes.
    #[option(flatten)]
    of: AttentionOptions,
    /// Queries of a block: 64 or 128.
    #[option(search = [64, 128])]
    block: Option<u32>,
    /// Heads of K whose blocks of keys take turns in the order of CTAs. By default as many as L2 holds.
    #[option(search = [1, 4, 16, 64])]
    section: Option<u32>,
    /// Whether every launch computes the same bits: additions to dQ take turns.
    deterministic: bool,
}

impl GradientWorkload {
    fn offsets(&self) -> [Vec<u32>; 2] {
        self.of.offsets(self.of.packed)
    }

    fn attention(&self) -> Attention {
        let [queries, keys] = self.offsets().map(|offsets| offsets.last().copied().unwrap_or(0));
        let attention = self.of.attention();
        let attention = if self.of.packed { attention.packed(queries, keys) } else { attention };
        self.of.layout.of(attention)
    }

    fn prepare_of<T: AttentionElement + HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let attention = self.attention();
        let (reach, rows) = (attention.matrices().map(|matrix| matrix.reach() as usize), attention.rows()[0]);
        let heads = attention.shape.heads as usize;
        let chosen = GradientConfiguration::of(&attention);
        let configuration = GradientConfiguration {
            rows: self.block.unwrap_or(chosen.rows),
            section: self.section.unwrap_or(chosen.section),
            deterministic: self.deterministic,
        };
        let operations = Operations::new(setup.device());
        let (offsets, slopes, sinks) = (self.offsets(), self.of.slopes(), self.of.sink_values());
        let buffers = setup.buffers(self.work(), |seed| {
            let placement = Placement::new(&attention, &[], seed);
            let input = |number: usize| {
                setup.input(reach[number], |_| placement.values::<T>(&attention, number, seed))
            };
            let (q, k, v, d_o) = (input(0)?, input(1)?, input(2)?, input(3)?);
            let copy = |values: &Vec<u32>| setup.input(values.len(), |_| values.clone());
            let numbers = |values: &Vec<f32>| setup.input(values.len(), |_| values.clone());
            let offsets = [copy(&offsets[0])?, copy(&offsets[1])?];
            let [slopes, sinks] = [numbers(&slopes)?, numbers(&sinks)?];
            let (mut o, mut lse) = (setup.output::<T>(reach[3])?, setup.output::<f32>(rows * heads)?);
            let stream = setup.device().stream()?;
            let forward = AttentionBuffers {
                lse: Some(&mut lse),
                offsets: Some(offsets.each_ref()),
                slopes: Some(&slopes),
                sinks: Some(&sinks),
                ..AttentionBuffers::new(&q, &k, &v, &mut o)
            };
            operations.attention(&stream, &attention, forward)?;
            stream.synchronize()?;
            let gradients =
                [setup.output::<T>(q.len())?, setup.output::<T>(k.len())?, setup.output::<T>(v.len())?];
            let sink_gradients = setup.output::<f32>(if attention.sinks { heads } else { 0 })?;
            let further = (offsets, slopes, (sinks, sink_gradients));
            Ok(([q, k, v, d_o], (o, lse), further, gradients))
        })?;
        Ok(buffers
            .launch(move |stream, ([q, k, v, d_o], (o, lse), (offsets, slopes, sinks), gradients)| {
                let (sinks, d_sinks) = sinks;
                let buffers = GradientBuffers {
                    offsets: Some(offsets.each_ref()),
                    slopes: Some(slopes),
                    sinks: Some((sinks, d_sinks)),
                    ..GradientBuffers::new([q, k, v], (o, lse), d_o, gradients.each_mut())
                };
                Ok(operations.attention_gradients_as(stream, &attention, configuration, buffers)?)
            })
            .verify(move |(inputs, _, (offsets, slopes, (sinks, d_sinks)), gradients)| {
                let read = |number: usize, buffer: &Buffer<T>| -> Result<Vec<T>> {
                    Ok(dense(&attention, (&[], &[]), number, buffer.to_vec()?))
                };
                let [q, k, v, d_o] = inputs.each_ref();
                let (q, k, v, d_o) = (read(0, q)?, read(1, k)?, read(2, v)?, read(3, d_o)?);
                let [d_q, d_k, d_v] = gradients.each_ref();
                let (d_q, d_k, d_v) = (read(0, d_q)?, read(1, d_k)?, read(2, d_v)?);
                let offsets = [offsets[0].to_vec()?, offsets[1].to_vec()?];
                let (slopes, sinks, d_sinks) = (slopes.to_vec()?, sinks.to_vec()?, d_sinks.to_vec()?);
                let inputs =
                    Inputs { q: &q, k: &k, v: &v, offsets: &offsets, slopes: &slopes, sinks: &sinks };
                let found = Gradients { matrices: [&d_q, &d_k, &d_v], sinks: &d_sinks };
                Ok(verify_gradients(&attention, &inputs, &d_o, &found)?)
            }))
    }
}

impl Workload for GradientWorkload {
    const NAME: &'static str = "attention-gradients";

    fn supports(capability: &Capability) -> bool {
        warpwright_kernels::gemm::host::config::has_wgmma(capability)
    }

    fn work(&self) -> Work {
        // Five products where the forward pass has two.
        let Work { operations, bytes } = work(&self.attention(), &self.offsets(), [2; 2]);
        Work { operations: 2.5 * operations, bytes: 2.0 * bytes }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_attention_type!(self.of.element, T => self.prepare_of::<T>(setup))
    }
}
