//! The copy of a factor for TMA: with a gap after each row, or transposed; all matrices of a batch by one launch.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use crate::operations::{Operations, Result};

/// Bytes whose multiples the matrices and rows that TMA reads begin at.
const ROW_ALIGN: u32 = 16;

/// A factor, of which there may be several matrices, and its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FactorCopy {
    /// Rows of a matrix, and elements of a row, which are contiguous.
    rows: u32,
    pub(super) run: u32,
    /// How many matrices, and elements from one to the next.
    pub(super) matrices: u32,
    stride: u64,
    pub(super) transposes: bool,
    /// Elements from the start of a row of the copy to the start of the next.
    pub(super) pitch: u32,
}

impl FactorCopy {
    /// The copy of a factor whose elements have so many bytes; `None` if it can be read as it is.
    pub(super) fn of(
        (rows, run): (u32, u32),
        (matrices, stride): (u32, u64),
        transposes: bool,
        element_bytes: u32,
    ) -> Option<Self> {
        let align = ROW_ALIGN / element_bytes;
        let row = if transposes { rows } else { run };
        let pitch = row.checked_next_multiple_of(align)?;
        let steps = matrices == 1 || stride.is_multiple_of(align.into());
        (transposes || pitch != row || !steps).then_some(Self {
            rows,
            run,
            matrices,
            stride,
            transposes,
            pitch,
        })
    }

    /// Elements of the copy of a matrix, gaps included: from it to the next.
    pub(super) fn matrix(self) -> u64 {
        let rows = if self.transposes { self.run } else { self.rows };
        u64::from(rows) * u64::from(self.pitch)
    }

    /// Elements of the copy.
    pub(super) fn length(self) -> usize {
        self.matrices as usize * self.matrix() as usize
    }

    /// CTAs of its launch.
    fn ctas(self) -> u64 {
        let Self { rows, run, matrices, .. } = self;
        let [high, wide] = if self.transposes { [SIDE, SIDE] } else { [ROWS, SEGMENT] };
        u64::from(rows.div_ceil(high)) * u64::from(run.div_ceil(wide)) * u64::from(matrices)
    }

    pub(super) fn describe(self, factor: &str) -> String {
        let Self { rows, run, matrices, transposes, pitch, .. } = self;
        let of = if matrices == 1 { String::new() } else { format!("{matrices} matrices of ") };
        let how = if transposes { "transposed, with" } else { "with" };
        format!("{factor}, {of}{rows} rows of {run}, is first copied {how} {pitch} elements from row to row")
    }

    /// Bytes that are read and written, of elements of so many.
    pub(super) fn bytes(self, element_bytes: u32) -> f64 {
        let read = f64::from(self.rows) * f64::from(self.run) * f64::from(self.matrices);
        (read + self.length() as f64) * f64::from(element_bytes)
    }

    /// Copies a factor.
    pub(super) fn launch<T: Storable>(
        self,
        operations: &Operations,
        stream: &Stream,
        factor: &Buffer<T>,
        copied: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let Self { rows, run, stride, transposes, pitch, .. } = self;
        let ctas = operations.grid("the copy of a factor", self.ctas())?;
        let arguments = (factor, copied, rows, run, pitch, [stride, self.matrix()]);
        Ok(match transposes {
            true => operations
                .kernel(TransposeToRows, TransposeToRows::run::<T>)?
                .launch(stream, ctas, arguments)?,
            false => operations.kernel(PadRows, PadRows::run::<T>)?.launch(stream, ctas, arguments)?,
        })
    }
}

/// Threads of a warp, which are neighbours in a row.
const LANES: u32 = 32;

/// Rows of a CTA that pads: a warp each.
const ROWS: u32 = 8;

/// Elements of a row that a lane copies: all are read before the first is written, so that as many are under way.
const ELEMENTS: u32 = 16;

/// Elements of a row that a warp copies.
const SEGMENT: u32 = LANES * ELEMENTS;

/// Copies rows to where TMA can read them.
///
/// Neighbouring lanes move neighbouring elements, for the rows of the source begin anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PadRows;

impl PadRows {
    #[kernel]
    fn run<T: Element>(
        &self,
        from: &Global<T>,
        to: &mut Global<T>,
        rows: u32,
        run: u32,
        pitch: u32,
        strides: [u64; 2],
    ) {
        launch::required_block(LANES, ROWS, 1);
        let segments = (run + (SEGMENT - 1)) / SEGMENT;
        let (from, to, piece) = matrices((*from, *to), strides, (rows + (ROWS - 1)) / ROWS * segments);
        let row = piece / segments * ROWS + thread_idx().y;
        let start = piece % segments * SEGMENT;
        if row < rows {
            let from = at(from, row, run, start + thread_idx().x);
            let to = at(to, row, pitch, start + thread_idx().x);
            if run - start >= SEGMENT {
                let mut values = Vec::new();
                for step in 0..ELEMENTS {
                    values.push(from.at(step * LANES).load());
                }
                for step in 0..ELEMENTS {
                    to.at(step * LANES).store(values[step as usize]);
                }
            } else {
                for step in 0..ELEMENTS {
                    if start + thread_idx().x + step * LANES < run {
                        to.at(step * LANES).store(from.at(step * LANES).load());
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
/// A warp reads along the rows of a tile and writes along its columns, so that both are runs of memory; the tile waits in shared memory, in
/// rows a bank longer than they need be, so that a column lies in 32 banks, whatever the element's size:
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
        run: u32,
        pitch: u32,
        strides: [u64; 2],
    ) {
        launch::required_block(LANES, WARPS, 1);
        let longer = SIDE + (4 / T::BYTES).max(1);
        let memory = shared_array::<T>(SIDE * longer);
        let tile = Tensor::with_layout(memory, Layout::new((SIDE, SIDE), (longer, 1)));
        let across = (run + (SIDE - 1)) / SIDE;
        let (from, to, piece) = matrices((*from, *to), strides, (rows + (SIDE - 1)) / SIDE * across);
        let (first_row, first_column) = (piece / across * SIDE, piece % across * SIDE);
        let (lane, warp) = (thread_idx().x, thread_idx().y);
        for row in (0..SIDE).step_by(WARPS as usize) {
            for column in (0..SIDE).step_by(LANES as usize) {
                let (row, column) = (warp + row, lane + column);
                if first_row + row < rows && first_column + column < run {
                    tile.set((row, column), at(from, first_row + row, run, first_column + column).load());
                }
            }
        }
        sync_threads();
        for column in (0..SIDE).step_by(WARPS as usize) {
            for row in (0..SIDE).step_by(LANES as usize) {
                let (row, column) = (lane + row, warp + column);
                if first_row + row < rows && first_column + column < run {
                    at(to, first_column + column, pitch, first_row + row).store(tile.get((row, column)));
                }
            }
        }
    }
}

/// This CTA's matrix and its copy, which are so far from the next, and the CTA's number among the `pieces` of a matrix.
#[device]
fn matrices<T: Element>(
    (from, to): (Global<T>, Global<T>),
    strides: [Reg<u64>; 2],
    pieces: Reg<u32>,
) -> (Global<T>, Global<T>, Reg<u32>) {
    let matrix = (block_idx().x / pieces).convert::<u64>();
    let [from_stride, to_stride] = strides;
    (from.at(matrix * from_stride), to.at(matrix * to_stride), block_idx().x % pieces)
}

/// The element (row, column) of a matrix whose rows begin `pitch` elements after one another.
#[track_caller]
fn at<T: Element>(matrix: Global<T>, row: Reg<u32>, pitch: Reg<u32>, column: Reg<u32>) -> Global<T> {
    matrix.at(row.convert::<u64>() * pitch.convert::<u64>() + column.convert::<u64>())
}

#[cfg(test)]
mod tests {
    use warpwright::arch::CAPABILITIES;
    use warpwright::runtime::{self, Device};

    use super::*;

    /// Every element is where it belongs, nothing is written into the gaps, and no access to shared memory waits for another.
    #[test]
    fn copies_keep_every_element() {
        fn check<T: Storable>(element: impl Fn(usize) -> T, gap: T) {
            let device = Device::named("emu:h200").unwrap().checked().unwrap().counted().unwrap();
            let (operations, stream) = (Operations::new(&device), device.stream().unwrap());
            // Inside a tile and a segment, and past several.
            for (rows, run, matrices, gap_of_matrices) in
                [(3, 5, 1, 0), (1, 1, 1, 0), (70, 131, 2, 0), (9, 1030, 1, 0), (17, 9, 5, 3)]
            {
                let stride = rows * run + gap_of_matrices;
                let values: Vec<T> = (0..matrices * stride).map(&element).collect();
                let factor = device.buffer_from(&values).unwrap();
                for transposes in [false, true] {
                    let row = if transposes { rows } else { run } as u32;
                    let pitch = row.next_multiple_of(ROW_ALIGN / T::BYTES);
                    let (matrices, stride) = (matrices as u32, stride as u64);
                    let copy = FactorCopy {
                        rows: rows as u32,
                        run: run as u32,
                        matrices,
                        stride,
                        transposes,
                        pitch,
                    };
                    let mut copied = device.buffer_from(&vec![gap; copy.length()]).unwrap();
                    copy.launch(&operations, &stream, &factor, &mut copied).unwrap();
                    let copied = copied.to_vec().unwrap();
                    let mut expected = vec![gap; copy.length()];
                    for (matrix, place) in
                        (0..matrices as usize).flat_map(|matrix| (0..rows * run).map(move |at| (matrix, at)))
                    {
                        let (row, column) = (place / run, place % run);
                        let (row, column) = if transposes { (column, row) } else { (row, column) };
                        let there = matrix * copy.matrix() as usize + row * pitch as usize + column;
                        expected[there] = values[matrix * stride as usize + place];
                    }
                    assert!(
                        bytemuck::cast_slice::<T, u8>(&copied) == bytemuck::cast_slice::<T, u8>(&expected)
                    );
                    let launches = device.take_counters();
                    let conflicts = launches.iter().map(|launch| launch.total().counts.shared.conflicts());
                    assert_eq!(conflicts.sum::<u64>(), 0, "{rows} rows of {run} {}", T::NAME);
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
}
