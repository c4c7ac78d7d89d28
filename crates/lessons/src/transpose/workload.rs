//! The ladder of transposes as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright_harness::{
    HostNumber, Ladder, Measure, Options, Prepared, Result, Setup, Values, Work, Workload, data_types, words,
};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::transpose::{BlockTranspose, tile};
use warpwright_workloads::transpose::reference::{verify, work};

use super::tile::{Step, TileLesson};
use crate::library::library;

data_types! {
    /// Types of elements.
    pub(crate) enum ElementType by with_element { f32, f16, bf16, f64, u8 }
}

/// Transposes a matrix: naive, through shared memory, padded, swizzled, and in 16-byte vectors.
#[derive(Clone, Debug, Options)]
pub(crate) struct TransposeLadder {
    /// Number of rows of A.
    #[option(default = 1000)]
    m: u32,
    /// Number of columns of A.
    #[option(default = 776)]
    n: u32,
    /// Data type of the elements.
    #[option(name = "type")]
    element: ElementType,
    /// Step of the ladder.
    step: TransposeStep,
    /// 16-byte blocks along a side of a tile (blocks).
    #[option(default = BlockTranspose::FASTEST.side, min = 1)]
    side: u32,
    /// 16-byte blocks per thread (blocks).
    #[option(default = BlockTranspose::FASTEST.blocks, min = 1)]
    blocks: u32,
    /// Rows of tiles that are rasterized together (blocks).
    #[option(default = BlockTranspose::FASTEST.raster, min = 1)]
    raster: u32,
}

/// A step of the ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum TransposeStep {
    /// Reads rows and writes columns.
    #[default]
    Naive,
    /// Through a tile in shared memory.
    Shared,
    /// Through a tile with one extra column.
    Padded,
    /// The library's kernel, through a swizzled tile.
    Swizzled,
    /// The library's kernel, in blocks of 16 bytes.
    Blocks,
}

impl TransposeLadder {
    fn prepare_of<T: HostNumber>(&self, setup: &Setup, step: Step) -> Result<Box<dyn Prepared>> {
        let (m, n) = (self.m, self.n);
        let elements = m as usize * n as usize;
        let operations = Operations::new(setup.device());
        let kernel = operations.kernel(TileLesson { step }, TileLesson::run::<T>)?;
        let grid = operations.grid("transpose", tile::grid(m, n))?;
        let buffers = setup.buffers(self.work(), |seed| {
            Ok((setup.values::<T>(Values::Special, seed, elements)?, setup.output::<T>(elements)?))
        })?;
        Ok(buffers
            .launch(move |stream, (a, b)| match grid {
                0 => Ok(Default::default()),
                grid => Ok(kernel.launch(stream, grid, (a, b, m, n))?),
            })
            .verify(move |(a, b)| verify(&a.to_vec()?, (m, n), &b.to_vec()?)))
    }
}

impl Workload for TransposeLadder {
    const NAME: &'static str = "transpose-ladder";

    fn work(&self) -> Work {
        with_element!(self.element, T => work::<T>(self.m, self.n))
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let step = match self.step {
            TransposeStep::Naive => Step::Naive,
            TransposeStep::Shared => Step::Shared,
            TransposeStep::Padded => Step::Padded,
            step => return library("transpose", self, &[("algorithm", step.into())])?.prepare(setup),
        };
        with_element!(self.element, T => self.prepare_of::<T>(setup, step))
    }

    fn ladder() -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: words::<TransposeStep>(),
            defaults: &[],
            measure: Measure::Bytes,
            baseline: Some("copy"),
            counted_on: "emu:h200",
            counted: &[("m", "256"), ("n", "256")],
        })
    }
}
