//! `operations.multiply_scaled(&stream, product, a, b, &mut c)`: C = A·B of narrow floats whose blocks have scales.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, DeviceProperties, LaunchCounts, Storable, Stream, TileMaps};

use super::batched::Batch;
use super::blocks::ScaledGemm;
use super::hopper::{CONSUMERS, Consumers};
use super::kinds::Kind;
use super::linear::{Linear, Parts};
use super::multiply::{Operands, Product, has_warpgroups};
use super::plan::{self, Configuration, Cost, SHARED_BYTES, SHARED_MARGIN, Shape};
use super::readable::Readable;
use super::ready::{OnHost, Planned, WarpgroupWay};
use super::scales::{Granularity, TileScales};
use super::store::buffers_bytes;
use super::{GemmOutput, WarpgroupInput};
use super::{tune, tuned};
use crate::operations::{OperationError, Operations, Result};

/// A factor whose blocks have scales.
#[derive(Clone, Copy)]
pub struct Scaled<'a, T> {
    /// The elements.
    pub values: &'a Buffer<T>,
    /// The scales, as [`Granularity::index`] orders them.
    pub scales: &'a Buffer<f32>,
    /// What has a scale of its own.
    pub granularity: Granularity,
}

impl<'a, T> Scaled<'a, T> {
    /// With a scale for 128 of k of each row; of B, of each column.
    pub fn by_row(values: &'a Buffer<T>, scales: &'a Buffer<f32>) -> Self {
        Self { values, scales, granularity: Granularity::Row }
    }

    /// With a scale for 128 of k of 128 rows; of B, of 128 columns.
    pub fn by_block(values: &'a Buffer<T>, scales: &'a Buffer<f32>) -> Self {
        Self { values, scales, granularity: Granularity::Block }
    }
}

/// A type whose blocks have scales: floats of 8 bits.
pub trait Narrow: WarpgroupInput + Storable {
    /// The largest finite value.
    const LARGEST: f32;
}

impl Narrow for e4m3 {
    const LARGEST: f32 = 448.0;
}

impl Narrow for e5m2 {
    const LARGEST: f32 = 57344.0;
}

/// What has a scale: of A, and of B.
pub type Granularities = (Granularity, Granularity);

/// How a product with scales is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScaledWay {
    /// Tile, cluster and so on.
    pub configuration: Configuration,
    /// Sets of sums of a consumer.
    pub in_flight: u32,
}

/// Columns of the tiles, all of 128 rows, and sets of sums of a consumer: as many as its registers hold beside the totals.
const TILES: &[(u32, u32)] =
    &[(128, 2), (192, 1), (160, 1), (128, 1), (96, 2), (64, 2), (32, 2), (16, 2), (8, 2)];

/// Cycles that promoting a column of a block's sums, 128 of them, adds: with one set of sums a consumer, and with two. Measured on an H200:
/// 898 and 1028 TFLOP/s at 4096 x 4096 x 7168, tiles of 128 x 128 and scales of B for blocks.
const PROMOTE: (f64, f64) = (2.6, 1.6);

/// How much longer it takes where each column has a scale: a load and four products for four multiply-adds, by their count.
const SCALED_COLUMNS: f64 = 2.25;

impl ScaledWay {
    /// All that make sense for a shape, the cheapest first.
    pub fn all(shape: Shape, granularities: Granularities, sms: u32) -> Vec<Self> {
        let mut ways: Vec<(f64, Self)> = Vec::new();
        for &(columns, in_flight) in TILES {
            for mut configuration in Configuration::of_tiles(&[((128, columns), Consumers::Cooperate)], shape)
            {
                // A slot is one block of k deep.
                configuration.spans = 1;
                let way = Self { configuration, in_flight };
                configuration.stages = way.most_stages(shape, granularities);
                let way = Self { configuration, in_flight };
                ways.push((way.cost(shape, granularities, sms).cycles, way));
            }
        }
        ways.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        ways.into_iter().map(|(_, way)| way).collect()
    }

    /// Whether it is one that the kernel can be built and launched in.
    pub(super) fn is_legal(self, shape: Shape, granularities: Granularities) -> bool {
        let Self { configuration: Configuration { tile, consumers, spans, stages, raster, .. }, in_flight } =
            self;
        let has_tile = tile.0 == 128 && TILES.contains(&(tile.1, in_flight));
        let has_slots = (2..=self.most_stages(shape, granularities)).contains(&stages);
        has_tile && consumers == Consumers::Cooperate && spans == 1 && has_slots && raster != 0
    }

    /// Those that differ from it in the slots or the raster alone.
    pub(super) fn around(self, shape: Shape, granularities: Granularities) -> Vec<Self> {
        let Self { configuration, in_flight } = self;
        let others = tune::neighbours(configuration).map(|configuration| Self { configuration, in_flight });
        others.filter(|other| other.is_legal(shape, granularities)).collect()
    }

    /// The sets of sums and the slots.
    pub(super) fn describe_sums(self) -> String {
        let Self { configuration, in_flight } = self;
        let sets = if in_flight == 1 { "set" } else { "sets" };
        format!("{in_flight} {sets} of sums, {} slots", configuration.stages)
    }

    /// What it costs: that of the multiplication, and of promoting the sums of each block.
    pub fn cost(self, shape: Shape, (a, b): Granularities, sms: u32) -> Cost {
        let columns = if self.configuration.transposed { a } else { b };
        let a_sum = if self.in_flight == 1 { PROMOTE.0 } else { PROMOTE.1 };
        let scale = if columns == Granularity::Row { SCALED_COLUMNS } else { 1.0 };
        let beside = a_sum * scale * f64::from(self.configuration.tile.1);
        Cost::with_work_beside(self.configuration, shape, sms, beside)
    }

    /// Slots that fit into shared memory beside the buffers of the epilogue, wherever tiles of A begin.
    fn most_stages(self, shape: Shape, (a, b): Granularities) -> u32 {
        let (rows, columns) = self.configuration.tile;
        let (a_extent, b_extent) =
            if self.configuration.transposed { (columns, rows) } else { (rows, columns) };
        let tiles = [TileScales::anywhere(a).tile(a_extent), TileScales::of(b).tile(b_extent)];
        let scales: u32 = tiles.iter().flatten().map(TmaTile::bytes).sum();
        let slot = (rows + columns) * super::scales::BLOCK * shape.input_bytes + scales;
        let buffers = buffers_bytes(CONSUMERS, columns, shape.output_bytes);
        ((SHARED_BYTES - SHARED_MARGIN - buffers) / slot).min(plan::MOST_STAGES)
    }
}

/// A way for factors of those granularities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WayOf(pub(super) ScaledWay, pub(super) Granularities);

impl WarpgroupWay for WayOf {
    type Gemm = ScaledGemm;

    fn configuration(self) -> Configuration {
        self.0.configuration
    }

    fn gemm<T: Element, C: Element>(self, read: Readable, begin_anywhere: bool) -> ScaledGemm {
        let Self(ScaledWay { configuration, in_flight }, (a, b)) = self;
        let (a, b) = (TileScales { granularity: a, begin_anywhere }, TileScales::of(b));
        let (rows, columns) = if configuration.transposed { (b, a) } else { (a, b) };
        ScaledGemm { gemm: read.kernel::<T, C>(configuration), rows, columns, in_flight }
    }

    fn cost(self, shape: Shape, sms: u32) -> Cost {
        self.0.cost(shape, self.1, sms)
    }

    fn scale_maps<T: Element, C: Element, K: Kind>(
        planned: Planned<Self, K>,
    ) -> Result<Option<[TileMaps<f32>; 2]>> {
        planned.maps_of_scales::<T, C>().map(Some)
    }
}

impl<K: Kind> Planned<WayOf, K> {
    /// The maps of the scales of the kernel's own A and B.
    fn maps_of_scales<T: Element, C: Element>(self) -> Result<[TileMaps<f32>; 2]> {
        let ScaledGemm { gemm, rows, columns, .. } = self.gemm::<T, C>();
        let Batch { product: Product { m, n, k, .. }, count, .. } = self.read::<T>().batch;
        let (own_a, own_b) = self.own();
        Ok([
            rows.maps((m, k), own_a.then_some(count), gemm.tile.0)?,
            columns.maps((n, k), own_b.then_some(count), gemm.tile.1)?,
        ])
    }
}

impl fmt::Display for ScaledWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.configuration, self.describe_sums())
    }
}

/// Refuses GPUs that have no kernel for it.
pub(super) fn check(capability: &Capability) -> Result<()> {
    if has_warpgroups(capability) {
        return Ok(());
    }
    Err(OperationError::Shape {
        what: "multiply_scaled",
        reason: format!(
            "scales of blocks need the tensor cores of sm_90a, and the device is {}",
            capability.target
        ),
    })
}

/// The way that a search has found to be the fastest on a device and kept in `file`, or else the cheapest by the model. As for `multiply`, a
/// file that cannot be read counts as none.
pub(super) fn fastest<A: Narrow, B: Narrow, C: Element>(
    batch: Batch,
    granularities: Granularities,
    properties: &DeviceProperties,
    file: Option<&Path>,
) -> ScaledWay {
    let find = |file| tuned::find_scaled::<A, B, C>(file, properties, batch, granularities).ok().flatten();
    let cheapest = || ScaledWay::all(batch.shape::<A, C>(), granularities, properties.sm_count)[0];
    file.and_then(find).unwrap_or_else(cheapest)
}

impl Operations {
    /// C = A·B, where A and B are what their elements and the scales of their blocks multiply to; C is row-major. The sums of 128 of k
    /// are accumulated by the tensor cores, and those in f32. A and B may be of different types.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::multiply::Product;
    /// use warpwright_kernels::gemm::multiply_scaled::Scaled;
    /// use warpwright_kernels::gemm::scales::Granularity;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let (m, n, k) = (8, 16, 256);
    /// let a = device.buffer_from(&[e4m3::from_f32(1.0); 8 * 256])?;
    /// let b = device.buffer_from(&[e4m3::from_f32(1.0); 16 * 256])?;
    /// // A's rows are scaled by 1 in the first block of k, and by 2 in the second.
    /// let mut a_scales = vec![1.0f32; Granularity::Row.count((m, k))];
    /// (0..m).for_each(|row| a_scales[Granularity::Row.index((row, 128), (m, k))] = 2.0);
    /// let b_scales = vec![0.5f32; Granularity::Block.count((n, k))];
    /// let (a_scales, b_scales) = (device.buffer_from(&a_scales)?, device.buffer_from(&b_scales)?);
    /// let mut c = device.uninitialized::<f32>(8 * 16)?;
    /// let (a, b) = (Scaled::by_row(&a, &a_scales), Scaled::by_block(&b, &b_scales));
    /// operations.multiply_scaled(&stream, Product::new(m, n, k), a, b, &mut c)?;
    /// assert_eq!(c.to_vec()?, [128.0 * 0.5 + 128.0 * 2.0 * 0.5; 8 * 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has another length than the product asks for; the device is no Hopper, or failed.
    pub fn multiply_scaled<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        self.multiply_scaled_batched(stream, &product.into(), a, b, c)
    }

    /// [`linear`](Self::linear) of factors whose blocks have scales.
    ///
    /// # Errors
    /// As [`multiply_scaled`](Self::multiply_scaled); a vector has another length than C's rows or columns; or k is 0.
    pub fn linear_scaled<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        linear: &Linear<'_>,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        self.linear_scaled_batched(stream, &product.into(), linear, a, b, c)
    }

    /// C = A·B in that way.
    ///
    /// # Errors
    /// As [`linear_scaled`](Self::linear_scaled).
    pub fn multiply_scaled_by<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        way: ScaledWay,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        self.multiply_scaled_batched_by(stream, &product.into(), way, a, b, c)
    }

    /// Computes what is planned of factors that have scales.
    pub(super) fn by_scaled_warpgroups<K: Kind, A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        planned: Planned<WayOf, K>,
        (linear, c): (&Linear<'_>, &mut Buffer<C>),
        (a, b): (Scaled<'_, A>, Scaled<'_, B>),
        told: &OnHost<'_, K::Told>,
    ) -> Result<LaunchCounts> {
        let (finish, scales) = (&linear.finish(), [a.scales, b.scales]);
        let operands = Operands { a: a.values, b: b.values, c, finish };
        match planned.way.configuration().transposed {
            false => self.by_own_scales(stream, planned, operands, scales, told),
            true => {
                let [a, b] = scales;
                self.by_own_scales(stream, planned, operands.transposed(), [b, a], told)
            }
        }
    }

    /// Computes what is planned of the kernel's own A and B.
    fn by_own_scales<K: Kind, A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        planned: Planned<WayOf, K>,
        operands: Operands<'_, A, B, C, Parts>,
        [a, b]: [&Buffer<f32>; 2],
        told: &OnHost<'_, K::Told>,
    ) -> Result<LaunchCounts> {
        let maps = self.remembered::<(A, C), _, _>(planned, |_| planned.maps_of_scales::<A, C>())?;
        let scales = [maps[0].of(a)?, maps[1].of(b)?];
        self.by_warpgroups(stream, planned, operands, &scales, told)
    }
}

#[cfg(test)]
mod tests {
    use warpwright::runtime::Device;

    use super::super::tuned::{Key, keep_in, temporary_file};
    use super::*;

    #[test]
    fn what_a_search_has_kept_goes_before_the_model() {
        let (file, _folder) = temporary_file("scaled");
        let (product, granularities) = (Product::new(700, 900, 1000), (Granularity::Row, Granularity::Block));
        let emulator = Device::named("emu:h200").expect("an emulator").properties().clone();
        let gpu = DeviceProperties { is_emulated: false, product: "a GPU".to_owned(), ..emulator.clone() };
        let chosen =
            |properties| fastest::<e4m3, e5m2, bf16>(product.into(), granularities, properties, Some(&file));
        let all = ScaledWay::all(product.shape::<e4m3, bf16>(), granularities, gpu.sm_count);
        assert_eq!(chosen(&gpu), all[0], "there is no file yet");
        let key = Key::of_scaled::<e4m3, e5m2, bf16>("a GPU", product, granularities);
        keep_in(&file, &key, all[5], 1.0).expect("kept");
        assert_eq!(chosen(&gpu), all[5]);
        assert_eq!(chosen(&emulator), all[0], "a GPU's time says nothing about its emulator");
        let other = fastest::<e4m3, e4m3, bf16>(product.into(), granularities, &gpu, Some(&file));
        assert_eq!(other, all[0], "another type of B");
    }
}
