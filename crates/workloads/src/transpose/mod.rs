//! The transpose as a workload.

pub mod reference;

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright_harness::{HostNumber, Options, Prepared, Result, Setup, Values, Work, Workload, data_types};

use self::reference::{verify, work};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::transpose::BlockTranspose;
use warpwright_kernels::transpose::Method;
use warpwright_kernels::transpose::tile::TileTranspose;

data_types! {
    /// Types of elements.
    pub(crate) enum ElementType by with_element { f32, f16, bf16, f64, u8 }
}

/// Transposes a matrix, in vectors of 16 bytes or through a swizzled tile.
#[derive(Clone, Debug, Options)]
pub(crate) struct TransposeWorkload {
    /// Rows of A.
    #[option(default = 1000)]
    m: u32,
    /// Columns of A.
    #[option(default = 776)]
    n: u32,
    /// Data type of the elements.
    #[option(name = "type")]
    element: ElementType,
    /// How rows become columns.
    algorithm: Option<Algorithm>,
    /// 16-byte blocks along a side of a tile (blocks).
    #[option(default = BlockTranspose::FASTEST.side, min = 1)]
    side: u32,
    /// 16-byte blocks per thread (blocks).
    #[option(default = BlockTranspose::FASTEST.blocks, min = 1)]
    blocks: u32,
    /// Rows of tiles per rasterization group (blocks).
    #[option(default = BlockTranspose::FASTEST.raster, min = 1)]
    raster: u32,
}

/// How rows become columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Algorithm {
    /// Through a swizzled tile in shared memory.
    Swizzled,
    /// In square blocks of 16 bytes, transposed in registers.
    Blocks,
}

impl TransposeWorkload {
    fn prepare_of<T: HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let shape = (self.m, self.n);
        let elements = self.m as usize * self.n as usize;
        let method = match self.algorithm {
            None => Method::fastest::<T>(shape),
            Some(Algorithm::Swizzled) => Method::Tile(TileTranspose),
            Some(Algorithm::Blocks) => {
                Method::Blocks(BlockTranspose { side: self.side, blocks: self.blocks, raster: self.raster })
            }
        };
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            Ok((setup.values::<T>(Values::Special, seed, elements)?, setup.output::<T>(elements)?))
        })?;
        Ok(buffers
            .launch(move |stream, (a, b)| Ok(operations.transpose_by(method, stream, a, shape, b)?))
            .verify(move |(a, b)| verify(&a.to_vec()?, shape, &b.to_vec()?)))
    }
}

impl Workload for TransposeWorkload {
    const NAME: &'static str = "transpose";

    fn work(&self) -> Work {
        with_element!(self.element, T => work::<T>(self.m, self.n))
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_element!(self.element, T => self.prepare_of::<T>(setup))
    }
}
