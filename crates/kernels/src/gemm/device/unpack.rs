//! Copies of elements of 6 bits with a byte for each, as `mma.sync` takes them.
//!
//! ```text
//! 16 elements   12 bytes, without gaps   ->   16 bytes: each in the lower 6 bits of its own
//! ```

use warpwright::arch::DataType;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Stream};

use crate::gemm::problem::block_scaled::row_elements;
use crate::operations::{Operations, Result, Scratch};

/// Elements that a thread copies: the fewest of whole words.
const ELEMENTS: u32 = 16;

/// Words of them in global memory, and in the copy.
const WORDS: (u32, u32) = (3, 4);

const THREADS: u32 = 256;

/// The copy of an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnpackedOperand {
    /// Rows of all matrices.
    rows: u64,
    /// Elements of a row of the copy.
    k: u32,
    /// Elements of a row with its padding.
    padded: u32,
}

impl UnpackedOperand {
    /// The copy of `count` matrices (rows, k) of a type, whose k is a multiple of 32; `None` if
    /// its elements are not of 6 bits.
    pub(crate) fn of(data_type: DataType, (rows, k): (u32, u32), count: u32) -> Option<Self> {
        let rows = u64::from(rows) * u64::from(count);
        (data_type.bits() == 6).then(|| Self { rows, k, padded: row_elements(k, data_type) })
    }

    /// Copies an operand to `scratch`.
    pub(crate) fn launch<'b>(
        self,
        operations: &Operations,
        stream: &Stream,
        operand: &Buffer<u8>,
        scratch: &'b mut Scratch<u8>,
    ) -> Result<(&'b Buffer<u8>, LaunchCounts)> {
        let Self { rows, k, padded } = self;
        let copied = scratch.at_least(operations.device(), (rows * u64::from(k)) as usize)?;
        let (of_row, words) = (k / ELEMENTS, padded / ELEMENTS * WORDS.0);
        let groups = rows * u64::from(of_row);
        let ctas = operations.grid("the copy of an operand", groups.div_ceil(THREADS.into()))?;
        let compiled = operations.kernel(Unpack, Unpack::run)?;
        let arguments = (operand.cast::<u32>(), copied.cast_mut::<u32>(), groups, of_row, words);
        let counts = compiled.launch(stream, ctas, arguments)?;
        Ok((copied, counts))
    }
}

/// Copies groups of 16 elements, `of_row` of each row, whose rows are `words` words apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unpack;

impl Unpack {
    #[kernel]
    fn run(&self, from: &Global<u32>, to: &mut Global<u32>, groups: u64, of_row: u32, words: u32) {
        launch::threads(THREADS);
        let group = block_idx().x.convert::<u64>() * u64::from(THREADS) + thread_idx().x.convert::<u64>();
        if group < groups {
            let of_row = of_row.convert::<u64>();
            let first = group / of_row * words.convert::<u64>() + group % of_row * u64::from(WORDS.0);
            let [low, middle, high] = [0u64, 1, 2].map(|word| from.at(first + word).load());
            // 24 bits, in the lower ones of each.
            let fours =
                [low, (low >> 24u32) | (middle << 8u32), (middle >> 16u32) | (high << 16u32), high >> 8u32];
            for (word, four) in (0u64..).zip(fours) {
                let element = |at: u32| ((four >> (6 * at)) & 0x3fu32) << (8 * at);
                let bytes = element(0) | element(1) | element(2) | element(3);
                to.at(group * u64::from(WORDS.1) + word).store(bytes);
            }
        }
    }
}
