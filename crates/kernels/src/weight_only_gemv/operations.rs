//! The operation for programs.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::kernel::{Gemv, TILE, TILES_OF_PARTS};
use super::problem::{MAX_BATCH, OPERATION, QuantizedWeights, WeightFormat};
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::overlap::{self, overlaps};
use crate::rows::RowElement;

/// Elements from which a vector is long: many warps share a row where few tiles fill the SMs.
const LONG: u32 = 14_336;
/// CTAs along y of a grid at most.
const MAX_ROUNDS: usize = (1 << 16) - 1;

/// What a configuration shall have; `None` leaves it to the heuristic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GemvTuning {
    /// Warps of a CTA, which share its rows.
    pub warps: Option<u32>,
    /// Stages of a warp.
    pub stages: Option<u32>,
    /// CTAs that share k: a cluster.
    pub cluster: Option<u32>,
    /// Parts of a CTA's k, of which shared memory holds the vectors of one.
    pub parts: Option<u32>,
    /// CTAs of an SM.
    pub ctas: Option<u32>,
}

impl GemvTuning {
    /// `gemv` with what is given here, and with what the heuristic chooses: the first of the
    /// configurations below that fits.
    ///
    /// H200, in a graph (12,288 x 4,096 and 4,096 x 14,336, of 2 and 3 CTAs an SM): three CTAs of int4 with
    /// two stages take 7.8 us, two with three 10.9; of e4m3 12.9 and 16.9. With fewer tiles than CTAs that
    /// fit, an SM gets three and another one: 14.3 us, where two fit 12.4. Eight vectors of 4,096: one CTA an
    /// SM takes 10.9 us with three stages, 11.9 with four, a cluster of two CTAs 11.8 (e4m3: 15.4 with three
    /// stages, 16.2 with four); of 14,336, a cluster of two CTAs 17.1 with 16 warps, 18.3 with 14, of eight
    /// 20.5, of four 27.7 (e4m3: 24.5 of two, 25.4 in parts). One vector of 14,336 in int4: one CTA of 16 warps
    /// takes 10.8 us, two of 8 11.7; in e4m3, one of 14 warps 16.8, two of 8 17.7. Of 12,288, each takes as
    /// long.
    fn apply(self, gemv: Gemv, (tiles, sm_count): (u32, u32), capability: &Capability) -> Gemv {
        let with = |choice: Choice| {
            // As many CTAs, and parts, as have k-blocks.
            let divided = |blocks: u32, by: u32| blocks.div_ceil(blocks.div_ceil(by.min(blocks)));
            let cluster = self.cluster.unwrap_or(choice.cluster).min(capability.ctas_per_cluster);
            let ctas = self.ctas.unwrap_or(choice.ctas);
            let room = capability.shared_bytes_per_sm / (ctas + 1) - capability.shared_bytes_reserved + 16;
            let (stages, cluster) = (self.stages.unwrap_or(choice.stages), divided(gemv.blocks(), cluster));
            let gemv = Gemv { stages, ctas, cluster, room, ..gemv };
            let parts = divided(gemv.cta_blocks(), self.parts.unwrap_or(choice.parts));
            Gemv { warps: self.warps.unwrap_or(choice.warps).min(gemv.cta_blocks()), parts, ..gemv }
        };
        let is_int4 = gemv.format == WeightFormat::Int4;
        let of_sm = |ctas, stages, cluster| Choice { warps: 8, stages, ctas, cluster, parts: 1 };
        let whole = |warps, stages, parts| Choice { warps, stages, ctas: 1, cluster: 1, parts };
        let mut choices = vec![of_sm(2, 3, 1)];
        if tiles >= 3 * sm_count {
            choices.insert(0, of_sm(3, if is_int4 { 2 } else { 3 }, 1));
        } else if gemv.batch == 1 && gemv.k >= LONG {
            choices.insert(0, whole(if is_int4 { 16 } else { 14 }, 3, 1));
        }
        choices.extend([whole(16, 3, 1), whole(8, 3, 1)]);
        if capability.ctas_per_cluster > 1 {
            let (warps, stages) = if is_int4 { (16, 2) } else { (14, 3) };
            choices.push(Choice { cluster: 2, ..whole(warps, stages, 1) });
            if is_int4 {
                choices.push(of_sm(3, 2, 8));
            }
        }
        let warps = if capability.shared_bytes_per_cta_opt_in >= 160 << 10 { 16 } else { 8 };
        choices.extend((2..=gemv.blocks()).map(|parts| whole(warps, 3, parts)));
        let fits = |gemv: &Gemv| {
            let bytes = capability.shared_bytes_per_sm / gemv.ctas - capability.shared_bytes_reserved;
            gemv.shared_bytes() <= bytes.min(capability.shared_bytes_per_cta_opt_in)
        };
        choices.into_iter().map(with).find(fits).unwrap_or_else(|| with(whole(1, 2, u32::MAX)))
    }
}

/// A configuration of the heuristic.
struct Choice {
    warps: u32,
    stages: u32,
    ctas: u32,
    cluster: u32,
    parts: u32,
}

impl Operations {
    /// Row b of `y`, (batch, n), = the product of the weights with row b of `x`, (batch, k): the
    /// weight's number less its zero point, times its group's scale. The weights are read once for
    /// each 8 vectors.
    ///
    /// Products are summed in f32, and a result is rounded to `O` once. Products are exact, but those of
    /// elements under 2^-28 of the largest of 256, which are rounded to 2^-38 of it.
    ///
    /// ```
    /// # use warpwright::prelude::*;
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// # use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// // One row of 32 weights, 0x9 and 0x7 in turns: 1 and -1.
    /// let (weights, scales) = (device.buffer_from(&[0x79u8; 16])?, device.buffer_from(&[0.5f32])?);
    /// let (format, zero_points) = (WeightFormat::Int4, None);
    /// let (n, k, group) = (1, 32, 32);
    /// let (weights, scales) = (&weights, &scales);
    /// let weights = QuantizedWeights { n, k, format, weights, group, scales, zero_points, constant: true };
    /// let x: Vec<bf16> = (0..32).map(|i| bf16::from_f32(if i % 2 == 0 { 3.0 } else { 1.0 })).collect();
    /// let mut y = device.uninitialized::<f32>(1)?;
    /// operations.weight_only_gemv(&stream, weights, &device.buffer_from(&x)?, &mut y)?;
    /// assert_eq!(y.to_vec()?, [16.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The group is another, does not divide k, a buffer does not have the length of the shape, or
    /// the device refuses.
    pub fn weight_only_gemv<S: RowElement + Storable, O: RowElement + Storable>(
        &self,
        stream: &Stream,
        weights: QuantizedWeights<'_, S>,
        x: &Buffer<bf16>,
        y: &mut Buffer<O>,
    ) -> Result<LaunchCounts> {
        self.weight_only_gemv_by((GemvTuning::default(), false), stream, weights, x, y)
    }

    /// As [`weight_only_gemv`](Self::weight_only_gemv), added to what `y` holds, in f32.
    ///
    /// ```
    /// # use warpwright::prelude::*;
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// # use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// // One row of 32 weights of 2, and nine vectors.
    /// let (weights, scales) = (device.buffer_from(&[2u8; 32])?, device.buffer_from(&[1f32])?);
    /// let format = WeightFormat::Int8;
    /// let (n, k, group, zero_points) = (1, 32, 32, None);
    /// let (weights, scales) = (&weights, &scales);
    /// let weights = QuantizedWeights { n, k, format, weights, group, scales, zero_points, constant: true };
    /// let x = device.buffer_from(&[bf16::from_f32(0.25); 9 * 32])?;
    /// let mut y = device.buffer_from(&[1f32; 9])?;
    /// operations.add_weight_only_gemv(&stream, weights, &x, &mut y)?;
    /// assert_eq!(y.to_vec()?, [17.0; 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn add_weight_only_gemv<S: RowElement + Storable, O: RowElement + Storable>(
        &self,
        stream: &Stream,
        weights: QuantizedWeights<'_, S>,
        x: &Buffer<bf16>,
        y: &mut Buffer<O>,
    ) -> Result<LaunchCounts> {
        self.weight_only_gemv_by((GemvTuning::default(), true), stream, weights, x, y)
    }

    /// As [`weight_only_gemv`](Self::weight_only_gemv), with a configuration of the caller, and added to
    /// `y` if `adds`.
    pub fn weight_only_gemv_by<S: RowElement + Storable, O: RowElement + Storable>(
        &self,
        (tuning, adds): (GemvTuning, bool),
        stream: &Stream,
        weights: QuantizedWeights<'_, S>,
        x: &Buffer<bf16>,
        y: &mut Buffer<O>,
    ) -> Result<LaunchCounts> {
        weights.check()?;
        let QuantizedWeights { n, k, format, group, scales, zero_points, constant, .. } = weights;
        let batch = x.len() / k as usize;
        expect_length("the vectors of a weight-only GEMV", batch * k as usize, x.len())?;
        expect_length("the results of a weight-only GEMV", batch * n as usize, y.len())?;
        if y.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let refuse = |reason| Err(OperationError::Shape { what: OPERATION, reason });
        let rounds = batch.div_ceil(MAX_BATCH as usize);
        if rounds > MAX_ROUNDS {
            return refuse(format!("{batch} vectors; give up to {}", MAX_ROUNDS * MAX_BATCH as usize));
        }
        let batch = batch as u32;
        let gemv = Gemv {
            format,
            k,
            group,
            batch: batch.min(MAX_BATCH),
            adds,
            has_zero_points: zero_points.is_some(),
            overlaps: overlaps(self),
            constant,
            warps: 1,
            stages: 2,
            ctas: 1,
            room: 0,
            cluster: 1,
            parts: 1,
        };
        let capability = &self.device().properties().capability;
        let (tiles, sm_count) = (n.div_ceil(TILE), self.device().properties().sm_count);
        let gemv = tuning.apply(gemv, (tiles, sm_count), capability);
        let (bytes, available) = (gemv.shared_bytes(), capability.shared_bytes_per_cta_opt_in);
        if bytes > available {
            return refuse(format!(
                "its CTAs take {bytes} bytes of shared memory, and have {available}; give them fewer warps or stages, or more parts"
            ));
        }
        let kernel = self.kernel(gemv, Gemv::run::<S, O>)?;
        let ctas_per_sm = (capability.shared_bytes_per_sm / (bytes + capability.shared_bytes_reserved))
            .min(gemv.ctas)
            .max(1);
        let resident = sm_count * ctas_per_sm / gemv.cluster;
        let least = if gemv.divides_k() { tiles.div_ceil(TILES_OF_PARTS) } else { 1 };
        let ctas = tiles.min(resident.max(least)) * gemv.cluster;
        let inputs = (weights.weights, scales, zero_points.unwrap_or(weights.weights), x, n, batch);
        let launch = overlap::shape(kernel.shape((ctas, rounds as u32)), gemv.overlaps);
        Ok(kernel.launch(stream, launch, (inputs, y))?)
    }
}
