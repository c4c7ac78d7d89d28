//! What the kernel for e4m3 is built for: its tiles and its roles.

use warpwright::layout::Error;
use warpwright::prelude::*;

use super::transpose::SQUARE;
use super::value_transpose::ValueTranspose;
use crate::attention::forward::configuration::ForwardKernel;

/// Keys of a block, and elements of a row of V: a block of V is transposed in squares.
pub const BLOCK: u32 = 128;

/// Columns of O that one product computes: it is added to O beside the next one.
pub(super) const PART_COLUMNS: u32 = 64;

/// The forward kernel for e4m3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct Fp8Kernel {
    /// Its tiles; blocks have [`BLOCK`] keys.
    pub(crate) forward: ForwardKernel,
    /// Whether each block has a scale, or each head.
    pub(crate) block_scales: bool,
    /// Whether V is transposed before the kernel, by [`ValueTranspose`].
    pub(crate) v_transposed: bool,
}

impl Fp8Kernel {
    /// The tile of Q: (query, d), padded with zeros to whole k-steps.
    pub(crate) fn q_tile(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<e4m3>((self.forward.rows(), self.depth()), Major::K)
    }

    /// A block of K: (key, d).
    pub(crate) fn k_tile(&self) -> Result<TmaTile, Error> {
        Ok(self.in_pages(TmaTile::new::<e4m3>((BLOCK, self.depth()), Major::K)?))
    }

    /// A block of V: (key, d), padded with zeros to whole squares; (d, key) if V is transposed.
    pub(crate) fn v_tile(&self) -> Result<TmaTile, Error> {
        if self.v_transposed {
            let tile = TmaTile::new::<e4m3>((self.columns(), BLOCK), Major::K)?;
            return Ok(tile.sliced(self.forward.cluster));
        }
        Ok(self.in_pages(TmaTile::new::<e4m3>((BLOCK, self.columns()), Major::K)?))
    }

    /// The kernel that transposes V before, for [`v_transposed`](Self::v_transposed).
    pub(crate) fn value_transpose(&self) -> ValueTranspose {
        ValueTranspose { value_dim: self.forward.value_dim, packed: self.forward.packed }
    }

    /// A block of keys in slices of the cluster, and in parts of one page each.
    fn in_pages(&self, tile: TmaTile) -> TmaTile {
        tile.sliced(self.forward.cluster).in_parts(BLOCK / self.forward.part_keys())
    }

    fn depth(&self) -> u32 {
        self.forward.head_dim.next_multiple_of(32)
    }

    /// Squares of a block of V.
    pub(super) fn squares(&self) -> u32 {
        self.forward.value_dim.div_ceil(SQUARE)
    }

    /// Products that compute all columns of O.
    pub(super) fn parts(&self) -> u32 {
        self.forward.value_dim.div_ceil(PART_COLUMNS)
    }

    /// Columns of a block of V: whole parts of O, or the squares in which it is transposed.
    fn columns(&self) -> u32 {
        if self.v_transposed { self.parts() * PART_COLUMNS } else { self.squares() * SQUARE }
    }

    /// Tiles of [`PART_COLUMNS`] rows in a block of V, once it is transposed.
    pub(super) fn tiles_of_block(&self) -> u32 {
        self.columns() / PART_COLUMNS
    }

    /// The producer and the consumers. Warps that transpose V need some registers.
    pub(super) fn roles(&self) -> [RoleSize; 2] {
        if self.v_transposed {
            return self.forward.roles();
        }
        let (producer, consumer) = match self.forward.consumers {
            1 => (56, 256),
            2 => (40, 232),
            _ => (32, 160),
        };
        [warpgroups(1).registers(producer), warpgroups(self.forward.consumers).registers(consumer)]
    }
}
