//! Staged copies of operands that TMA or `wgmma` cannot read.
//!
//! TMA reads matrices that begin, and whose rows begin, at multiples of 16 bytes, and `wgmma` needs
//! k contiguous in operands of other than 16 bits. (PTX ISA, "Tensor Memory Access" and
//! "wgmma.mma_async".) Any other operand is copied: with a gap after each row, or transposed. One
//! launch copies all matrices of a batch.
//!
//! ```text
//! bf16, rows of 5:                aaaaabbb bbcccccd dddd       tf32, k along the columns:   a d g
//! padded, a row in 16 bytes:      aaaaa... bbbbb... ccccc...   transposed and padded:       a b c .
//!                                                              (rows of 3, of 16 bytes)     d e f .
//! ```
//!
//! Nothing reads the gaps: the tensor map has the matrix's own extents and the copy's pitch, and
//! TMA fills what a box has beyond the extents with zeros. Buffers begin at multiples of 256 bytes
//! on every device.

use warpwright::arch::limits::WARP_SIZE;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use crate::gemm::problem::batching::{Batch, GemmProblem, Problem};
use crate::gemm::problem::types::MatrixLayout;
use crate::operations::{Operations, Result};

/// A batch as kernels by TMA read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StagedBatch {
    /// k is contiguous in what was transposed, and the strides are those of the copies.
    pub(crate) batch: Batch,
    /// The copies of all A and of all B; `None` for an operand that is read in place.
    pub(crate) copies: [Option<OperandCopy>; 2],
}

impl StagedBatch {
    /// How a problem's operands are read.
    pub fn of(problem: &GemmProblem) -> Self {
        Self::new(problem.batch, problem.types.input_bytes())
    }

    /// How operands of `bytes` bytes an element are read.
    pub(crate) fn new(batch: Batch, bytes: u32) -> Self {
        let Problem { m, n, k, a, b } = batch.problem;
        // An operand with `extent` rows or columns besides k.
        let copy = |extent: u32, k_contiguous: bool, matrices: (u32, u64)| match k_contiguous {
            true => OperandCopy::of((extent, k), matrices, false, bytes),
            false => OperandCopy::of((k, extent), matrices, bytes != 2, bytes),
        };
        let [a_matrices, b_matrices] = batch.matrices();
        let copies = [
            copy(m, a == MatrixLayout::RowMajor, a_matrices),
            copy(n, b == MatrixLayout::ColumnMajor, b_matrices),
        ];
        let transposes = copies.map(|copy| copy.is_some_and(|copy| copy.transposes));
        // An operand that all share still has no stride.
        let stride = |copy: Option<OperandCopy>, stride: u64| match copy {
            Some(copy) if copy.matrices > 1 => copy.matrix(),
            _ => stride,
        };
        let problem = Problem {
            a: if transposes[0] { MatrixLayout::RowMajor } else { a },
            b: if transposes[1] { MatrixLayout::ColumnMajor } else { b },
            ..batch.problem
        };
        let (a_stride, b_stride) = (stride(copies[0], batch.a_stride), stride(copies[1], batch.b_stride));
        Self { batch: Batch { problem, a_stride, b_stride, ..batch }, copies }
    }

    /// Whether nothing is copied.
    pub fn is_unstaged(self) -> bool {
        self.copies == [None; 2]
    }

    /// A line for each copy.
    pub fn describe(self) -> Vec<String> {
        let named = ["A", "B"].into_iter().zip(self.copies);
        named.filter_map(|(operand, copy)| Some(copy?.describe(operand))).collect()
    }
}

/// The rows of matrices that TMA reads begin at multiples of this many bytes.
const ROW_BYTES: u32 = 16;

/// The copy of an operand, of which there may be several matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OperandCopy {
    /// Rows of a matrix, and the contiguous elements of a row.
    rows: u32,
    columns: u32,
    /// The number of matrices, and elements from one to the next.
    matrices: u32,
    stride: u64,
    transposes: bool,
    /// Elements from the start of a row of the copy to the start of the next.
    pub(crate) pitch: u32,
}

impl OperandCopy {
    /// The copy of an operand; `None` if TMA can read it in place.
    fn of(
        (rows, columns): (u32, u32),
        (matrices, stride): (u32, u64),
        transposes: bool,
        element_bytes: u32,
    ) -> Option<Self> {
        let align = ROW_BYTES / element_bytes;
        let row = if transposes { rows } else { columns };
        let pitch = row.checked_next_multiple_of(align)?;
        let steps = matrices == 1 || stride.is_multiple_of(align.into());
        let is_copied = transposes || pitch != row || !steps;
        is_copied.then_some(Self { rows, columns, matrices, stride, transposes, pitch })
    }

    /// Elements of the copy of a matrix, gaps included.
    fn matrix(self) -> u64 {
        let rows = if self.transposes { self.columns } else { self.rows };
        u64::from(rows) * u64::from(self.pitch)
    }

    /// Elements of the copy.
    pub(crate) fn length(self) -> usize {
        self.matrices as usize * self.matrix() as usize
    }

    /// CTAs of its launch.
    fn ctas(self) -> u64 {
        let Self { rows, columns, matrices, .. } = self;
        let [high, wide] = if self.transposes { [SIDE, SIDE] } else { [ROWS, SEGMENT] };
        u64::from(rows.div_ceil(high)) * u64::from(columns.div_ceil(wide)) * u64::from(matrices)
    }

    fn describe(self, operand: &str) -> String {
        let Self { rows, columns, matrices, transposes, pitch, .. } = self;
        let of = if matrices == 1 { String::new() } else { format!("{matrices} matrices of ") };
        let how = if transposes { "transposed, " } else { "" };
        format!("{operand}, {of}{rows} rows of {columns}, is copied first: {how}row pitch {pitch} elements")
    }

    /// Bytes that are read and written.
    pub(crate) fn bytes(self, element_bytes: u32) -> f64 {
        let read = f64::from(self.rows) * f64::from(self.columns) * f64::from(self.matrices);
        (read + self.length() as f64) * f64::from(element_bytes)
    }

    /// Copies an operand.
    pub(crate) fn launch<T: Storable>(
        self,
        operations: &Operations,
        stream: &Stream,
        operand: &Buffer<T>,
        copied: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let Self { rows, columns, stride, transposes, pitch, .. } = self;
        let ctas = operations.grid("the copy of an operand", self.ctas())?;
        let arguments = (operand, copied, rows, columns, pitch, [stride, self.matrix()]);
        let compiled = match transposes {
            true => operations.kernel(TransposeToRows, TransposeToRows::run::<T>)?,
            false => operations.kernel(PadRows, PadRows::run::<T>)?,
        };
        Ok(compiled.launch(stream, ctas, arguments)?)
    }
}

/// Rows of a CTA that pads: a warp each.
const ROWS: u32 = 8;

/// Elements of a row that a lane copies: all are loaded before the first is stored, so that as many
/// are in flight.
const ELEMENTS: u32 = 16;

/// Elements of a row that a warp copies.
const SEGMENT: u32 = WARP_SIZE * ELEMENTS;

/// Copies rows to where TMA can read them.
///
/// Neighboring lanes move neighboring elements, for the rows of the source begin anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PadRows;

impl PadRows {
    #[kernel]
    fn run<T: Element>(
        &self,
        from: &Global<T>,
        to: &mut Global<T>,
        rows: u32,
        columns: u32,
        pitch: u32,
        strides: [u64; 2],
    ) {
        launch::required_block(WARP_SIZE, ROWS, 1);
        let segments = (columns + (SEGMENT - 1)) / SEGMENT;
        let (from, to, tile_index) = matrices((*from, *to), strides, (rows + (ROWS - 1)) / ROWS * segments);
        let row = tile_index / segments * ROWS + thread_idx().y;
        let start = tile_index % segments * SEGMENT;
        if row < rows {
            let from = at(from, row, columns, start + thread_idx().x);
            let to = at(to, row, pitch, start + thread_idx().x);
            if columns - start >= SEGMENT {
                let mut values = Vec::new();
                for step in 0..ELEMENTS {
                    values.push(from.at(step * WARP_SIZE).load());
                }
                for step in 0..ELEMENTS {
                    to.at(step * WARP_SIZE).store(values[step as usize]);
                }
            } else {
                for step in 0..ELEMENTS {
                    if start + thread_idx().x + step * WARP_SIZE < columns {
                        to.at(step * WARP_SIZE).store(from.at(step * WARP_SIZE).load());
                    }
                }
            }
        }
    }
}

/// The side of the tiles that are transposed.
const SIDE: u32 = 64;

/// Warps of a CTA that transposes.
const WARPS: u32 = 8;

/// Copies a matrix to its transpose, in rows that TMA can read.
///
/// A warp loads along the rows of a tile and stores along its columns, so that both are coalesced.
/// In shared memory the rows of the tile are one bank longer than they need be, so that a column is
/// in 32 banks, whatever the element's size:
///
/// ```text
/// row r of the tile begins in bank (16, 32 or 64 + 1) r: an odd number of banks after the row before
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TransposeToRows;

impl TransposeToRows {
    #[kernel]
    fn run<T: Element>(
        &self,
        from: &Global<T>,
        to: &mut Global<T>,
        rows: u32,
        columns: u32,
        pitch: u32,
        strides: [u64; 2],
    ) {
        launch::required_block(WARP_SIZE, WARPS, 1);
        let longer = SIDE + (4 / T::BYTES).max(1);
        let memory = shared_array::<T>(SIDE * longer);
        let tile = Tensor::with_layout(memory, Layout::new((SIDE, SIDE), (longer, 1)));
        let across = (columns + (SIDE - 1)) / SIDE;
        let (from, to, tile_index) = matrices((*from, *to), strides, (rows + (SIDE - 1)) / SIDE * across);
        let (first_row, first_column) = (tile_index / across * SIDE, tile_index % across * SIDE);
        let (lane, warp) = (thread_idx().x, thread_idx().y);
        for row in (0..SIDE).step_by(WARPS as usize) {
            for column in (0..SIDE).step_by(WARP_SIZE as usize) {
                let (row, column) = (warp + row, lane + column);
                if first_row + row < rows && first_column + column < columns {
                    tile.set((row, column), at(from, first_row + row, columns, first_column + column).load());
                }
            }
        }
        sync_threads();
        for column in (0..SIDE).step_by(WARPS as usize) {
            for row in (0..SIDE).step_by(WARP_SIZE as usize) {
                let (row, column) = (lane + row, warp + column);
                if first_row + row < rows && first_column + column < columns {
                    at(to, first_column + column, pitch, first_row + row).store(tile.get((row, column)));
                }
            }
        }
    }
}

/// This CTA's matrix and its copy, at those strides, and the CTA's index among the `tiles` of a
/// matrix.
#[device]
fn matrices<T: Element>(
    (from, to): (Global<T>, Global<T>),
    strides: [Reg<u64>; 2],
    tiles: Reg<u32>,
) -> (Global<T>, Global<T>, Reg<u32>) {
    let matrix = (block_idx().x / tiles).convert::<u64>();
    let [from_stride, to_stride] = strides;
    (from.at(matrix * from_stride), to.at(matrix * to_stride), block_idx().x % tiles)
}

/// The element (row, column) of a matrix of that row pitch.
#[track_caller]
fn at<T: Element>(matrix: Global<T>, row: Reg<u32>, pitch: Reg<u32>, column: Reg<u32>) -> Global<T> {
    matrix.at(row.convert::<u64>() * pitch.convert::<u64>() + column.convert::<u64>())
}

#[cfg(test)]
mod tests {
    use warpwright::arch::CAPABILITIES;
    use warpwright::runtime::{self, Device};

    use super::*;

    /// Every element is copied, the gaps are not written, and shared memory has no bank conflicts.
    #[test]
    fn copies_keep_every_element() {
        fn check<T: Storable>(element: impl Fn(usize) -> T, gap: T) {
            let device = Device::named("emu:h200").unwrap().checked().unwrap().counted().unwrap();
            let (operations, stream) = (Operations::new(&device), device.stream().unwrap());
            // Inside a tile and a segment, and past several.
            for (rows, columns, matrices, gap_of_matrices) in
                [(3, 5, 1, 0), (1, 1, 1, 0), (70, 131, 2, 0), (9, 1030, 1, 0), (17, 9, 5, 3)]
            {
                let stride = rows * columns + gap_of_matrices;
                let values: Vec<T> = (0..matrices * stride).map(&element).collect();
                let operand = device.buffer_from(&values).unwrap();
                for transposes in [false, true] {
                    let row = if transposes { rows } else { columns } as u32;
                    let pitch = row.next_multiple_of(ROW_BYTES / T::BYTES);
                    let (matrices, stride) = (matrices as u32, stride as u64);
                    let copy = OperandCopy {
                        rows: rows as u32,
                        columns: columns as u32,
                        matrices,
                        stride,
                        transposes,
                        pitch,
                    };
                    let mut copied = device.buffer_from(&vec![gap; copy.length()]).unwrap();
                    copy.launch(&operations, &stream, &operand, &mut copied).unwrap();
                    let copied = copied.to_vec().unwrap();
                    let mut expected = vec![gap; copy.length()];
                    for (matrix, place) in (0..matrices as usize)
                        .flat_map(|matrix| (0..rows * columns).map(move |at| (matrix, at)))
                    {
                        let (row, column) = (place / columns, place % columns);
                        let (row, column) = if transposes { (column, row) } else { (row, column) };
                        let there = matrix * copy.matrix() as usize + row * pitch as usize + column;
                        expected[there] = values[matrix * stride as usize + place];
                    }
                    assert!(
                        bytemuck::cast_slice::<T, u8>(&copied) == bytemuck::cast_slice::<T, u8>(&expected)
                    );
                    let launches = device.take_counters();
                    let conflicts = launches.iter().map(|launch| launch.total().counts.shared.conflicts());
                    assert_eq!(conflicts.sum::<u64>(), 0, "{rows} rows of {columns} {}", T::NAME);
                }
            }
        }
        check(|index| e4m3::from_bits(index as u8), e4m3::from_bits(0xff));
        check(|index| bf16::from_bits(index as u16), bf16::NAN);
        check(|index| index as u32, u32::MAX);
    }

    #[test]
    fn copies_are_kernels_of_every_architecture() {
        for capability in &CAPABILITIES {
            runtime::ptx(&PadRows.run::<bf16>().unwrap(), capability).unwrap();
            runtime::ptx(&TransposeToRows.run::<e5m2>().unwrap(), capability).unwrap();
        }
    }

    #[test]
    fn only_what_tma_cannot_read_is_copied() {
        let both = [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor];
        for (m, n, k) in [(1, 1, 1), (8, 16, 24), (33, 65, 17), (64, 48, 7), (16, 4, 32)] {
            for (a, b) in [(both[0], both[0]), (both[0], both[1]), (both[1], both[0]), (both[1], both[1])] {
                let problem = Problem { m, n, k, a, b };
                let aligned = |run: u32, bytes: u32| (run * bytes).is_multiple_of(16);
                let a_run = if a == MatrixLayout::RowMajor { k } else { m };
                let b_run = if b == MatrixLayout::ColumnMajor { k } else { n };
                let halves = StagedBatch::new(problem.into(), 2);
                assert_eq!(halves.batch.problem, problem);
                assert_eq!(halves.copies.map(|copy| copy.is_none()), [aligned(a_run, 2), aligned(b_run, 2)]);
                let words = StagedBatch::new(problem.into(), 4);
                assert_eq!(
                    (words.batch.problem.a, words.batch.problem.b),
                    (MatrixLayout::RowMajor, MatrixLayout::ColumnMajor)
                );
                let as_they_are = [
                    a == MatrixLayout::RowMajor && aligned(k, 4),
                    b == MatrixLayout::ColumnMajor && aligned(k, 4),
                ];
                assert_eq!(words.copies.map(|copy| copy.is_none()), as_they_are);
                for copy in halves.copies.into_iter().flatten() {
                    assert!(aligned(copy.pitch, 2) && copy.pitch - copy.columns < 8 && !copy.transposes);
                }
                for copy in words.copies.into_iter().flatten() {
                    assert!(aligned(copy.pitch, 4) && copy.pitch - k < 4);
                }
            }
        }
    }
}
