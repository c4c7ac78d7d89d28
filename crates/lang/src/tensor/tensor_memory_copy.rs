//! `tcgen05.cp` and `tcgen05.shift`: one thread copies shared memory to tensor memory, or moves rows
//! of it, asynchronously. PTX ISA, "tcgen05.cp", "tcgen05.shift"; sm_100a.

use warpwright_arch::DataType;
use warpwright_layout::Layout;
use warpwright_layout::atom::Operand;

use super::view::Tensor;
use super::warpgroup::{MatrixOperand, Reads, Share};
use crate::cta_group::CtaGroup;
use crate::element::Element;
use crate::operation::{perform, refuse};
use crate::pointer::Shared;
use crate::requirement::{Feature, require};
use crate::space::SharedSpace;
use crate::tensor_memory::{TensorMemory, demand_one_group};

/// What a copy from shared to tensor memory moves: rows of 16 or 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorMemoryCopy {
    /// `.128x256b`: 128 rows of 32 bytes.
    Rows128x256b,
    /// `.4x256b`: 4 rows of 32 bytes, to rows 0, 32, 64 and 96.
    Rows4x256b,
    /// `.128x128b`: 128 rows of 16 bytes.
    Rows128x128b,
    /// `.64x128b.warpx2::02_13`: 64 rows of 16 bytes, to rows 0 to 63 and again to 64 to 127.
    Rows64x128bTwice,
    /// `.64x128b.warpx2::01_23`: 64 rows of 16 bytes; each 32 rows to two quarters.
    Rows64x128bByHalves,
    /// `.32x128b.warpx4`: 32 rows of 16 bytes, to each quarter of the rows.
    Rows32x128b,
}

impl TensorMemoryCopy {
    /// The modifiers, rows, and bytes of a row.
    fn form(self) -> (&'static str, u32, u32) {
        match self {
            Self::Rows128x256b => ("128x256b", 128, 32),
            Self::Rows4x256b => ("4x256b", 4, 32),
            Self::Rows128x128b => ("128x128b", 128, 16),
            Self::Rows64x128bTwice => ("64x128b.warpx2::02_13", 64, 16),
            Self::Rows64x128bByHalves => ("64x128b.warpx2::01_23", 64, 16),
            Self::Rows32x128b => ("32x128b.warpx4", 32, 16),
        }
    }
}

/// Bytes of the scales of 128 rows or columns, four for each.
pub const SCALE_BYTES: u32 = 512;

impl TensorMemory {
    /// Starts a copy of a tile (rows, columns) of shared memory to the cells from here on. One
    /// thread executes it. MMAs that it issues later read what is copied; others wait for a commit.
    ///
    /// ```
    /// use warpwright_lang::fence::fence_proxy_async_shared;
    /// use warpwright_lang::mbarrier::Mbarrier;
    /// use warpwright_lang::shared::{dynamic_shared_aligned, shared_array};
    /// use warpwright_lang::tensor::{Tensor, TensorMemoryCopy};
    /// use warpwright_lang::tensor_memory::*;
    /// use warpwright_lang::{block, kernel, launch, special::thread_idx};
    /// use warpwright_layout::Layout;
    ///
    /// /// Each thread writes a row of shared memory, which is copied.
    /// #[kernel]
    /// fn copy() {
    ///     launch::threads(128);
    ///     let (holder, copied) = (shared_array::<u32>(1), Mbarrier::new());
    ///     let memory = dynamic_shared_aligned::<u32>(128 * 4, 128);
    ///     let (rows, thread) = (Tensor::with_layout(memory, Layout::new((128, 4), (4, 1))), thread_idx().x);
    ///     if thread == 0 {
    ///         copied.init(1);
    ///     }
    ///     if thread < 32 {
    ///         allocate_tensor_memory(CtaGroup::One, 32, holder);
    ///     }
    ///     rows.set((thread, 0), thread);
    ///     fence_proxy_async_shared();
    ///     block::sync_threads();
    ///     tensor_fence_after_sync();
    ///     let cells = TensorMemory::at(holder);
    ///     if thread == 0 {
    ///         cells.copy_from(CtaGroup::One, TensorMemoryCopy::Rows128x128b, &rows);
    ///         commit_tensor_core(CtaGroup::One, copied);
    ///     }
    ///     copied.wait_parity(0);
    ///     tensor_fence_before_sync();
    ///     block::sync_threads();
    ///     if thread < 32 {
    ///         cells.free(CtaGroup::One, 32);
    ///     }
    /// }
    /// copy().unwrap();
    /// ```
    #[track_caller]
    pub fn copy_from<T: Element>(
        self,
        group: CtaGroup,
        copy: TensorMemoryCopy,
        tile: &Tensor<T, SharedSpace>,
    ) {
        require(Feature::TensorMemory);
        demand_one_group(group);
        let (words, rows, row_bytes) = copy.form();
        let block = (i64::from(rows), i64::from(row_bytes / T::BYTES.min(row_bytes)));
        let extent = |mode: usize| {
            let size = tile.layout().inner().mode(mode).and_then(|mode| mode.size());
            size.ok().and_then(|size| size.known())
        };
        if tile.layout().rank() != 2 || (extent(0), extent(1)) != (Some(block.0), Some(block.1)) {
            refuse(format!(
                "`copy_from`: the tile has shape {}, and {copy:?} copies ({rows}, {}) elements of {}: pass a tile of that shape",
                tile.layout().inner().shape(),
                block.1,
                T::NAME
            ));
            return;
        }
        self.demand_columns("copy_from", row_bytes / 4);
        let reads = Reads { operand: Operand::A, element: DataType::U8, block };
        let source = MatrixOperand::of_blocks(reads, 1, tile, Share::Whole);
        if source.is_known() {
            let opcode = format!("tcgen05.cp{}.{words}", group.word());
            perform(opcode, [self.operand(), source.descriptor(0, 0)]);
        }
    }

    /// Starts a copy of the scales of 128 rows of A, or columns of B, four along k for each:
    /// [`SCALE_BYTES`] bytes in the layout `scale_tile` of the layout algebra, which is cuBLAS's. They
    /// take 4 columns from here on.
    #[track_caller]
    pub fn copy_scales<T: Element>(self, group: CtaGroup, scales: Shared<T>) {
        let rows = Tensor::with_layout(scales.cast::<u8>(), Layout::new((32, 16), (16, 1)));
        self.copy_from(group, TensorMemoryCopy::Rows32x128b, &rows);
    }

    /// Starts to move 32-byte wide rows one row down: row i takes what row i + 1 holds, and the last of
    /// each 32 rows stays. One thread executes it.
    #[track_caller]
    pub fn shift_down(self, group: CtaGroup) {
        require(Feature::TensorMemory);
        demand_one_group(group);
        self.demand_columns("shift_down", 8);
        perform(format!("tcgen05.shift{}.down", group.word()), [self.operand()]);
    }
}
