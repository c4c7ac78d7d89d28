//! The steps of the ladder: their kernels, tensor maps, and the parameters of their launches.

use std::marker::PhantomData;
use strum::{Display, EnumMessage, IntoStaticStr, VariantArray};

use warpwright::arch::tensor_map::Requirement;
use warpwright::lang::pointer::{In, Out};
use warpwright::lang::tensor_map::{OutTensorMap, TensorMap as MapParameter};
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Storable, TensorMap};
use warpwright_harness::Result;
use warpwright_kernels::gemm::GemmOutput;

use super::core_matrices::{self, CoreMatrices};
use super::launch_control::LaunchControlled;
use super::pair::{self, Pair};
use super::persistent::Persistent;
use super::scalar::Scalar;
use super::specialized::{self, Specialized};
use super::stages::{self, Staged};
use super::swizzled::{self, Swizzled};
use super::tma_store::{ROWS, SUBTILE, TmaStored};
use super::{DEPTH, TILE, tile};

/// A step of the ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum BlackwellStep {
    /// Threads copy A and B.
    #[default]
    Scalar,
    /// TMA copies columns of 16 bytes.
    V1a,
    /// TMA copies all columns at once.
    V1b,
    /// TMA copies swizzled spans of 128 bytes.
    V2a,
    /// TMA copies all spans at once.
    V2b,
    /// Two stages in flight.
    V3,
    /// One warp loads, one multiplies.
    V4,
    /// MMAs of two SMs.
    V5,
    /// Persistent CTAs, an epilogue beside the main loop.
    V6,
    /// Tiles in groups of rows.
    Grouped,
    /// C stored by TMA.
    TmaStore,
    /// Tiles of clusters that have not started.
    LaunchControl,
}

/// Rows of tiles per rasterization group in the last steps.
const GROUP: u32 = 8;

/// Arguments of a kernel whose threads load: A, B, C, m, n, k.
type OfElements<T> = (In<T>, In<T>, Out<T>, u32, u32, u32);

/// Arguments of a kernel that loads by TMA.
type OfMaps<T> = (MapParameter, MapParameter, Out<T>, u32, u32, u32);

/// Arguments of a kernel that loads and stores by TMA.
type OfMapsAlone = (MapParameter, MapParameter, OutTensorMap, u32, u32, u32);

/// A step's kernel, by how it loads and stores.
pub(super) enum StepKernel<T> {
    /// Threads load and store.
    Elements(Kernel<OfElements<T>>),
    /// TMA loads.
    Maps(Kernel<OfMaps<T>>, Boxes),
    /// TMA loads and stores.
    MapsAlone(Kernel<OfMapsAlone>, Boxes),
}

/// The boxes of A and of B.
#[derive(Clone)]
pub(super) enum Boxes {
    /// Of a matrix, by tiles.
    Tiles([TmaTile; 2]),
    /// Of a matrix whose rows are divided in runs: (run, rows, runs), with the elements of a run.
    Runs([Requirement; 2], u32),
}

/// A step of the ladder.
pub(super) struct Step<T> {
    pub(super) kernel: StepKernel<T>,
    /// The tile of C that its CTAs compute together: rows and columns.
    tile: (u32, u32),
    /// These CTAs.
    ctas: u32,
    /// Whether its CTAs are persistent.
    stays: bool,
}

impl<T: GemmOutput> Step<T> {
    pub(super) fn new(chosen: BlackwellStep) -> Result<Self> {
        use BlackwellStep::{
            Grouped, LaunchControl, Scalar as ByThreads, TmaStore, V1a, V1b, V2a, V2b, V3, V4, V5, V6,
        };
        let element = PhantomData;
        let (tile_m, tile_n) = TILE;
        let of_pair = || Boxes::Tiles([tile_m, tile_n / pair::CTAS].map(|rows| tile::<T>(rows, DEPTH)));
        let kernel = match chosen {
            ByThreads => StepKernel::Elements(Scalar { element }.run()?),
            V1a | V1b => {
                let one_box = chosen == V1b;
                let rows = [tile_m, tile_n];
                let boxes = match one_box {
                    true => Boxes::Runs(rows.map(CoreMatrices::<T>::columns), core_matrices::COLUMN),
                    false => Boxes::Tiles(rows.map(CoreMatrices::<T>::tile)),
                };
                StepKernel::Maps(CoreMatrices { one_box, element }.run()?, boxes)
            }
            V2a | V2b => {
                let one_box = chosen == V2b;
                let rows = [tile_m, tile_n];
                let boxes = match one_box {
                    true => Boxes::Runs(rows.map(Swizzled::<T>::spans), swizzled::SPAN),
                    false => Boxes::Tiles(rows.map(Swizzled::<T>::tile)),
                };
                StepKernel::Maps(Swizzled { one_box, element }.run()?, boxes)
            }
            V3 => {
                let boxes = [tile_m, tile_n].map(|rows| tile::<T>(rows, stages::DEPTH));
                StepKernel::Maps(Staged { element }.run()?, Boxes::Tiles(boxes))
            }
            V4 => {
                let (rows, columns) = specialized::TILE;
                let boxes = [rows, columns].map(|rows| tile::<T>(rows, DEPTH));
                StepKernel::Maps(Specialized { element }.run()?, Boxes::Tiles(boxes))
            }
            V5 => StepKernel::Maps(Pair { element }.run()?, of_pair()),
            V6 => StepKernel::Maps(Persistent { group: 1, element }.run()?, of_pair()),
            Grouped => StepKernel::Maps(Persistent { group: GROUP, element }.run()?, of_pair()),
            TmaStore => StepKernel::MapsAlone(TmaStored { group: GROUP, element }.run()?, of_pair()),
            LaunchControl => {
                StepKernel::MapsAlone(LaunchControlled { group: GROUP, element }.run()?, of_pair())
            }
        };
        let stays = matches!(chosen, V6 | Grouped | TmaStore);
        let ctas = if stays || matches!(chosen, V5 | LaunchControl) { pair::CTAS } else { 1 };
        let (rows, columns) = if chosen == V4 { specialized::TILE } else { TILE };
        Ok(Self { kernel, tile: (rows * ctas, columns), ctas, stays })
    }

    /// The number of CTAs to launch on a device with `sms` SMs.
    pub(super) fn grid(&self, (m, n): (u32, u32), sms: u32) -> u32 {
        let tiles = m.div_ceil(self.tile.0) * n.div_ceil(self.tile.1) * self.ctas;
        if self.stays { tiles.min(sms / self.ctas * self.ctas) } else { tiles }
    }
}

impl Boxes {
    /// The tensor maps of A and of B, with these rows and columns.
    pub(super) fn maps<T: Storable>(
        &self,
        a: (&Buffer<T>, u32),
        b: (&Buffer<T>, u32),
        columns: u32,
    ) -> Result<[TensorMap; 2]> {
        let map = |(buffer, rows): (&Buffer<T>, u32), which: usize| match self {
            Boxes::Tiles(tiles) => TensorMap::of_tile(buffer, (rows.into(), columns.into()), &tiles[which]),
            Boxes::Runs(boxes, run) => {
                let (run, columns) = (u64::from(*run), u64::from(columns));
                let mut map = boxes[which].row_major(0, &[columns / run, rows.into(), run]);
                // The runs of a row follow one another; the rows are those of the matrix.
                map.strides = [columns, run].map(|elements| elements * size_of::<T>() as u64).to_vec();
                TensorMap::new(buffer, map)
            }
        };
        Ok([map(a, 0)?, map(b, 1)?])
    }
}

/// The tensor map of C, which the last steps store in subtiles.
pub(super) fn map_of_c<T: GemmOutput>(c: &mut Buffer<T>, (m, n): (u32, u32)) -> Result<TensorMap> {
    Ok(TensorMap::of_tile(c, (m.into(), n.into()), &tile::<T>(ROWS, SUBTILE))?)
}
