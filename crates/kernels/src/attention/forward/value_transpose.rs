//! V transposed in global memory by a kernel of its own, which runs before the forward kernel.
//!
//! ```text
//! V              (sequence, key, head, d)     a CTA loads a block of 128 keys of a head, transposes it
//! transposed     (sequence, head, d, key)     in shared memory, and stores it: rows of 128 keys
//! ```
//!
//! Every tile of queries reads V. Where there are many, to transpose a block once costs less than to do it
//! again beside each tile's products. `transpose.rs` does the same work in both kernels, so that keys have
//! the same order: the one of P.
//!
//! The kernel writes whole blocks: keys past the end of a sequence become zeros, whatever the workspace
//! held. A packed sequence begins with a block of its own, and so no block has keys of two sequences.
//!
//! It moves 2 bytes for each element of V, and waits for memory. A CTA has one block, and an SM has many
//! CTAs: while some wait for their block, others transpose or store theirs.

use warpwright::layout::Error;
use warpwright::prelude::*;

use super::transpose::{BLOCK, SQUARE, Transposer, WARPS};
use crate::attention::packed_blocks::PackedBlocks;

/// The named barrier of the CTA: 0 is that of `sync_threads`.
const BARRIER: u32 = 1;

/// The blocks of V.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct ValueBlocks {
    /// Heads of V.
    pub(crate) heads: Reg<u32>,
    /// Blocks of a sequence, if sequences are not packed.
    pub(crate) blocks: Reg<u32>,
    /// Sequences, and the first key of each packed one, and the number of all.
    pub(crate) sequences: Reg<u32>,
    pub(crate) offsets: Global<u32>,
}

/// Transposes V for the forward kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ValueTranspose {
    /// Elements of a head of V.
    pub(crate) value_dim: u32,
    /// Whether sequences of any lengths follow each other without gaps.
    pub(crate) packed: bool,
}

/// Where a block is in V and in the transposed matrix.
#[derive(Clone, Copy, DeviceValue)]
struct Place {
    /// The index along the maps' fourth axis, if sequences are not packed.
    sequence: Option<Reg<u32>>,
    /// Its first key in V, and in the transposed matrix.
    key: Reg<u32>,
    transposed_key: Reg<u32>,
    /// The keys of its sequence in it: given of packed sequences, whose neighbors follow in V.
    present: Option<Reg<u32>>,
}

impl ValueTranspose {
    /// A block of V: (key, d), padded with zeros to whole squares.
    pub(crate) fn tile(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<e4m3>((BLOCK, self.columns()), Major::K)
    }

    /// The same block transposed: (d, key).
    pub(crate) fn transposed_tile(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<e4m3>((self.columns(), BLOCK), Major::K)
    }

    fn columns(&self) -> u32 {
        self.value_dim.next_multiple_of(SQUARE)
    }

    /// Axes of the maps: d, keys and heads, and sequences that are not packed.
    fn rank(&self) -> usize {
        if self.packed { 3 } else { 4 }
    }

    /// One CTA for each block of each head.
    #[kernel]
    pub(crate) fn run(&self, v: &TensorMap, transposed: &mut TensorMap, blocks: ValueBlocks) {
        launch::threads(WARPS * 32);
        v.boxes(self.tile().map(|tile| tile.requirement().of_rank(self.rank())));
        transposed.boxes(self.transposed_tile().map(|tile| tile.requirement().of_rank(self.rank())));
        let (squares, square_bytes) = (self.columns() / SQUARE, SQUARE * SQUARE);
        let memory = dynamic_shared_aligned::<e4m3>(squares * square_bytes, 1024);
        let loaded = Mbarrier::new();
        let thread = thread_idx().x;
        let transposer = Transposer::new((memory, squares), warp::broadcast(thread / 32, 0), BARRIER);

        // V is there, and no launch reads the workspace any more.
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        // The heads of a block are neighbors in V.
        let head = block_idx().x % blocks.heads;
        let place = self.place(block_idx().x / blocks.heads, blocks);
        let at = |first: Reg<u32>, second: Reg<u32>| -> Vec<Reg<u32>> {
            [first, second, head].into_iter().chain(place.sequence).collect()
        };
        if thread == 0 {
            loaded.init(1);
            fence_mbarrier_init();
            loaded.arrive_and_expect(squares * square_bytes);
            for square in 0..squares {
                let box_at = at(constant(square * SQUARE), place.key);
                tma::load(*v, box_at, memory.at(square * square_bytes), loaded);
            }
        }
        sync_threads();
        loaded.wait_parity(0);
        transposer.transpose(constant(0u32), place.present);
        if thread == 0 {
            tma::store(*transposed, at(place.transposed_key, constant(0u32)), memory);
            bulk_commit();
            // The CTA's shared memory is read until then.
            bulk_wait_read(0);
        }
    }

    /// Where block `number` of a head is.
    #[device]
    fn place(&self, number: Reg<u32>, blocks: ValueBlocks) -> Place {
        if !self.packed {
            let (sequence, block) = (number / blocks.blocks, number % blocks.blocks);
            let key = block * BLOCK;
            return Place { sequence: Some(sequence), key, transposed_key: key, present: None };
        }
        let packed = PackedBlocks { offsets: blocks.offsets, sequences: blocks.sequences, rows: BLOCK };
        let sequence = packed.sequence_of(number);
        let before = (number - sequence.first_block) * BLOCK;
        let present = (sequence.count.max(before) - before).min(BLOCK);
        Place {
            sequence: None,
            key: sequence.first + before,
            transposed_key: number * BLOCK,
            present: Some(present),
        }
    }
}
