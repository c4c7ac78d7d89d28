//! The steps of the ladder: their kernels, and the parameters of their launches.

use std::marker::PhantomData;
use strum::{Display, EnumMessage, IntoStaticStr, VariantArray};

use warpwright::lang::pointer::Out;
use warpwright::lang::tensor_map::{OutTensorMap, TensorMap as MapParameter};
use warpwright::prelude::*;
use warpwright_harness::Result;

use super::cluster::{self, Clustered};
use super::one_tile::OneTile;
use super::overlap::{self, Overlapped};
use super::persistent::{self, Persistent};
use super::pingpong::{self, Pingpong};
use super::pipeline::{self, Pipelined};
use super::queue::{self, Queue};
use super::tma_store::{self, TmaStored};
use super::two_consumers::{self, TwoConsumers};
use crate::error::LessonError;
use warpwright_kernels::gemm::GemmOutput;

/// A step of the ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum HopperStep {
    /// TMA copies A tile by tile.
    #[default]
    TileCopy,
    /// One tile of 64 x 64 per CTA.
    OneTile,
    /// One tile of 128 x 128 per CTA.
    WideTile,
    /// A producer warpgroup fills a queue of stages.
    Queue,
    /// Two consumer warpgroups.
    TwoConsumers,
    /// Persistent CTAs, tiles row by row.
    PersistentByRows,
    /// Persistent CTAs, tiles in groups of rows.
    Persistent,
    /// Pipelined MMAs.
    Pipeline,
    /// Clusters with multicast.
    Cluster,
    /// Stores of one tile overlap the next.
    Overlap,
    /// Stores by TMA.
    TmaStore,
    /// Consumers alternate between main loop and epilogue.
    Pingpong,
    /// The library's GEMM.
    Gemm,
}

/// Rows of tiles per rasterization group in the persistent steps.
const GROUP: u32 = 8;

/// Arguments of a kernel that stores elements: A, B, C, m, n, k.
type ToElements<C> = (MapParameter, MapParameter, Out<C>, u32, u32, u32);

/// Arguments of a kernel that stores by TMA.
type ToBoxes = (MapParameter, MapParameter, OutTensorMap, u32, u32, u32);

/// A step's kernel, by how it stores C.
pub(super) enum Storing<C> {
    /// From registers.
    Elements(Kernel<ToElements<C>>),
    /// Through shared memory, by TMA.
    Boxes(Kernel<ToBoxes>),
}

/// A step that multiplies.
pub(super) struct Step<C> {
    pub(super) tile: (u32, u32),
    /// CTAs per cluster. They compute vertically adjacent tiles and load a part of B each.
    pub(super) cluster: u32,
    /// Whether its CTAs are persistent.
    stays: bool,
    pub(super) kernel: Storing<C>,
}

impl<C: GemmOutput> Step<C> {
    /// A step between the first, which multiplies nothing, and the last, which is the library's
    /// GEMM.
    pub(super) fn new(chosen: HopperStep) -> Result<Self> {
        let (output, group) = (PhantomData, GROUP);
        let step = match chosen {
            HopperStep::OneTile => {
                let tile = (64, 64);
                Self::of(tile, OneTile { tile, output }.run()?)
            }
            HopperStep::WideTile => {
                let tile = (128, 128);
                Self::of(tile, OneTile { tile, output }.run()?)
            }
            HopperStep::Queue => Self::of(queue::TILE, Queue { output }.run()?),
            HopperStep::TwoConsumers => Self::of(two_consumers::TILE, TwoConsumers { output }.run()?),
            HopperStep::PersistentByRows => {
                Self::of(persistent::TILE, Persistent { group: 1, output }.run()?).staying()
            }
            HopperStep::Persistent => {
                Self::of(persistent::TILE, Persistent { group, output }.run()?).staying()
            }
            HopperStep::Pipeline => Self::of(pipeline::TILE, Pipelined { group, output }.run()?).staying(),
            HopperStep::Cluster => Self::of(cluster::TILE, Clustered { group, output }.run()?)
                .staying()
                .clustered(cluster::CLUSTER),
            HopperStep::Overlap => Self::of(overlap::TILE, Overlapped { group, output }.run()?)
                .staying()
                .clustered(overlap::CLUSTER),
            HopperStep::TmaStore => {
                let kernel = Storing::Boxes(TmaStored { group }.run()?);
                Self::storing(tma_store::TILE, kernel).staying().clustered(tma_store::CLUSTER)
            }
            HopperStep::Pingpong => {
                let kernel = Storing::Boxes(Pingpong { group }.run()?);
                Self::storing(pingpong::TILE, kernel).staying().clustered(pingpong::CLUSTER)
            }
            HopperStep::TileCopy | HopperStep::Gemm => {
                return Err(format!("step {chosen} is not a lesson that multiplies matrices").into());
            }
        };
        let stores_boxes = matches!(step.kernel, Storing::Boxes(_));
        if stores_boxes && (C::NAME, C::BYTES) != (bf16::NAME, bf16::BYTES) {
            return Err(LessonError::StoresPairs { step: chosen.to_string() }.into());
        }
        Ok(step)
    }

    fn of(tile: (u32, u32), kernel: Kernel<ToElements<C>>) -> Self {
        Self::storing(tile, Storing::Elements(kernel))
    }

    fn storing(tile: (u32, u32), kernel: Storing<C>) -> Self {
        Self { tile, cluster: 1, stays: false, kernel }
    }

    fn staying(self) -> Self {
        Self { stays: true, ..self }
    }

    fn clustered(self, cluster: u32) -> Self {
        Self { cluster, ..self }
    }

    /// The number of CTAs to launch on a device with `sms` SMs.
    pub(super) fn grid(&self, (m, n): (u32, u32), sms: u32) -> std::result::Result<u32, LessonError> {
        let rows = u64::from(m).div_ceil(u64::from(self.tile.0) * u64::from(self.cluster));
        let clusters = rows * u64::from(n.div_ceil(self.tile.1));
        let tiles = clusters * u64::from(self.cluster);
        // The kernels number tiles with 32 bits, and a grid's first extent has 31.
        match u32::try_from(tiles) {
            Ok(tiles) if tiles <= i32::MAX as u32 => {
                let most = sms / self.cluster * self.cluster;
                Ok(if self.stays { tiles.min(most) } else { tiles })
            }
            _ => Err(LessonError::TooManyTiles { tiles, tile: self.tile }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_beyond_a_grid_are_refused() {
        let step = Step::<f32>::new(HopperStep::OneTile).expect("a lesson that multiplies");
        assert_eq!(step.grid((1 << 20, 64), 132).expect("it fits"), 1 << 14);
        let refused = step.grid((1 << 30, 1 << 30), 132);
        assert!(matches!(refused, Err(LessonError::TooManyTiles { tile: (64, 64), .. })), "{refused:?}");
    }
}
