//! The choice of a kernel, and the operations.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::blocks::BlockTranspose;
use super::tile::{self, TileTranspose};
use crate::operations::{OperationError, Operations, Result, expect_length};

/// One of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Element by element.
    Tile(TileTranspose),
    /// In vectors.
    Blocks(BlockTranspose),
}

impl Method {
    /// The fastest for an (m, n) matrix of `T`.
    pub fn fastest<T: Storable>((m, n): (u32, u32)) -> Self {
        if BlockTranspose::fits::<T>(m, n) {
            Self::Blocks(BlockTranspose::fastest::<T>(m, n))
        } else {
            Self::Tile(TileTranspose)
        }
    }
}

impl Operations {
    /// B = Aᵀ: `a` is (m, n) and `b` (n, m), both row-major.
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let a = device.buffer_from(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let mut b = device.uninitialized(6)?;
    /// operations.transpose(&stream, &a, (2, 3), &mut b)?;
    /// assert_eq!(b.to_vec()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has another length than m·n, or the device refuses.
    pub fn transpose<T: Storable>(
        &self,
        stream: &Stream,
        a: &Buffer<T>,
        (m, n): (u32, u32),
        b: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        self.transpose_by(Method::fastest::<T>((m, n)), stream, a, (m, n), b)
    }

    /// [`transpose`](Self::transpose) by one of the kernels.
    ///
    /// # Errors
    /// The kernel cannot do the shape, or as [`transpose`](Self::transpose).
    pub fn transpose_by<T: Storable>(
        &self,
        method: Method,
        stream: &Stream,
        a: &Buffer<T>,
        (m, n): (u32, u32),
        b: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let elements = m as usize * n as usize;
        expect_length("the matrix to transpose", elements, a.len())?;
        expect_length("the transposed matrix", elements, b.len())?;
        if elements == 0 {
            return Ok(LaunchCounts::default());
        }
        match method {
            Method::Tile(kernel) => {
                let (grid, kernel) = (ctas(tile::grid(m, n))?, self.kernel(kernel, TileTranspose::run::<T>)?);
                Ok(kernel.launch(stream, grid, (a, b, m, n))?)
            }
            Method::Blocks(blocks) => {
                blocks.check::<T>(m, n)?;
                let (grid, kernel) =
                    (ctas(blocks.grid::<T>(m, n))?, self.kernel(blocks, BlockTranspose::run::<T>)?);
                Ok(kernel.launch(stream, grid, (a, b, m, n))?)
            }
        }
    }
}

/// A grid of that many CTAs.
fn ctas(count: u64) -> Result<u32> {
    let reason =
        || format!("it takes {count} CTAs, and a grid has at most {}; transpose it in parts", i32::MAX);
    let fits = i32::try_from(count).map(i32::unsigned_abs);
    fits.map_err(|_| OperationError::Shape { what: "transpose", reason: reason() })
}
