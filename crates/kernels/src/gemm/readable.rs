//! Factors that TMA or `wgmma` cannot take, and the copies of them that they can.
//!
//! TMA reads matrices whose rows begin at multiples of 16 bytes, and `wgmma` wants k contiguous in factors of other than 16 bits. (PTX
//! ISA, "Tensor Memory Access" and "wgmma.mma_async".) A factor that is not so is copied first: with a gap after each row,
//! or transposed.
//!
//! ```text
//! bf16, rows of 5:                aaaaabbb bbcccccd dddd       tf32, k down the columns:    a d g
//! padded, a row in 16 bytes:      aaaaa... bbbbb... ccccc...   transposed and padded:       a b c .
//!                                                              (rows of 3, of 16 bytes)     d e f .
//! ```
//!
//! The gaps are never read: the tensor map has the matrix's own extents and the copy's pitch, and TMA fills what a box has
//! beyond the extents with zeros. So the copies leave the gaps as they are. Buffers begin at multiples of 256 bytes on every device; only
//! rows can be out of step.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::Order;
use super::multiply::Product;
use super::plan;
use crate::operations::{Operations, Result, Scratch, both};

/// Bytes whose multiples the rows that TMA reads begin at.
const ROW_ALIGN: u32 = 16;

/// How a product is made readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Readable {
    /// The product of what TMA reads: k is contiguous in what was transposed.
    pub(super) product: Product,
    /// The copies of A and of B; `None` of what can be read as it is.
    pub(super) copies: [Option<FactorCopy>; 2],
}

/// A factor and its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FactorCopy {
    /// Rows of the factor, and elements of a row, which are contiguous.
    rows: u32,
    run: u32,
    transposes: bool,
    /// Elements from the start of a row of the copy to the start of the next.
    pub(super) pitch: u32,
}

impl FactorCopy {
    /// The copy of a factor that cannot be read as it is.
    fn of(rows: u32, run: u32, transposes: bool, element_bytes: u32) -> Option<Self> {
        let row = if transposes { rows } else { run };
        let pitch = row.checked_next_multiple_of(ROW_ALIGN / element_bytes)?;
        (transposes || pitch != row).then_some(Self { rows, run, transposes, pitch })
    }

    /// Elements of the copy, gaps included.
    fn length(self) -> usize {
        let rows = if self.transposes { self.run } else { self.rows };
        rows as usize * self.pitch as usize
    }

    /// CTAs of its launch.
    fn ctas(self) -> u64 {
        let Self { rows, run, .. } = self;
        let [high, wide] = if self.transposes { [SIDE, SIDE] } else { [ROWS, SEGMENT] };
        u64::from(rows.div_ceil(high)) * u64::from(run.div_ceil(wide))
    }

    fn describe(self, factor: &str) -> String {
        let Self { rows, run, pitch, .. } = self;
        let how = if self.transposes { "transposed, with" } else { "with" };
        format!("{factor}, {rows} rows of {run}, is first copied {how} {pitch} elements from row to row")
    }
}

impl Readable {
    /// What `T`'s product is read as.
    pub(super) fn of<T: Element>(product: Product) -> Self {
        let Product { m, n, k, .. } = product;
        // (rows, run) of a factor with `extent` rows or columns besides k, and whether k is the run.
        let copy = |extent: u32, k_contiguous: bool| match k_contiguous {
            true => FactorCopy::of(extent, k, false, T::BYTES),
            false => FactorCopy::of(k, extent, T::BYTES != 2, T::BYTES),
        };
        let copies = [copy(m, product.a == Order::RowMajor), copy(n, product.b == Order::ColumnMajor)];
        let transposes = copies.map(|copy| copy.is_some_and(|copy| copy.transposes));
        let product = Product {
            a: if transposes[0] { Order::RowMajor } else { product.a },
            b: if transposes[1] { Order::ColumnMajor } else { product.b },
            ..product
        };
        Self { product, copies }
    }

    /// Whether nothing is copied.
    pub(super) fn as_it_is(self) -> bool {
        self.copies == [None; 2]
    }

    /// Cycles that the copies take.
    pub(super) fn cycles<T: Element>(self) -> f64 {
        let cycles = |copy: FactorCopy| {
            let elements = f64::from(copy.rows) * f64::from(copy.run) + copy.length() as f64;
            plan::copy_cycles(elements * f64::from(T::BYTES))
        };
        self.copies.into_iter().flatten().map(cycles).sum()
    }

    /// What is copied, a line each.
    pub(super) fn describe(self) -> Vec<String> {
        let named = ["A", "B"].into_iter().zip(self.copies);
        named.filter_map(|(factor, copy)| Some(copy?.describe(factor))).collect()
    }
}

/// The copies of A and of B.
pub(super) struct ReadableScratch<T>([Scratch<T>; 2]);

impl<T> Default for ReadableScratch<T> {
    fn default() -> Self {
        Self([Scratch::default(), Scratch::default()])
    }
}

impl Operations {
    /// Calls `multiply` with A and B, or with their copies.
    pub(super) fn with_readable<T: Storable>(
        &self,
        stream: &Stream,
        readable: Readable,
        [a, b]: [&Buffer<T>; 2],
        multiply: impl FnOnce([&Buffer<T>; 2]) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        if readable.as_it_is() {
            return multiply([a, b]);
        }
        self.with_scratch(stream, |ReadableScratch([a_scratch, b_scratch]): &mut ReadableScratch<T>| {
            let [a_copy, b_copy] = readable.copies;
            let (a, a_counts) = self.readable(stream, a, a_copy, a_scratch)?;
            let (b, b_counts) = self.readable(stream, b, b_copy, b_scratch)?;
            Ok(both(both(a_counts, b_counts), multiply([a, b])?))
        })
    }

    /// A factor, or its copy.
    fn readable<'a, T: Storable>(
        &self,
        stream: &Stream,
        factor: &'a Buffer<T>,
        copy: Option<FactorCopy>,
        scratch: &'a mut Scratch<T>,
    ) -> Result<(&'a Buffer<T>, LaunchCounts)> {
        let Some(copy) = copy else { return Ok((factor, LaunchCounts::default())) };
        let FactorCopy { rows, run, transposes, pitch } = copy;
        let copied = scratch.at_least(self.device(), copy.length())?;
        let ctas = self.grid("the copy of a factor", copy.ctas())?;
        let arguments = (factor, &mut *copied, rows, run, pitch);
        let counts = match transposes {
            true => self.kernel(TransposeToRows, TransposeToRows::run::<T>)?.launch(
                stream,
                ctas,
                [LANES, WARPS, 1],
                arguments,
            )?,
            false => {
                self.kernel(PadRows, PadRows::run::<T>)?.launch(stream, ctas, [LANES, ROWS, 1], arguments)?
            }
        };
        Ok((copied, counts))
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
    fn run<T: Element>(&self, from: &Global<T>, to: &mut Global<T>, rows: u32, run: u32, pitch: u32) {
        launch::required_block(LANES, ROWS, 1);
        let (from, to) = (*from, *to);
        let segments = (run + (SEGMENT - 1)) / SEGMENT;
        let row = block_idx().x / segments * ROWS + thread_idx().y;
        let start = block_idx().x % segments * SEGMENT;
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
    fn run<T: Element>(&self, from: &Global<T>, to: &mut Global<T>, rows: u32, run: u32, pitch: u32) {
        launch::required_block(LANES, WARPS, 1);
        let (from, to) = (*from, *to);
        let longer = SIDE + (4 / T::BYTES).max(1);
        let memory = shared_array::<T>((SIDE * longer) as usize);
        let tile = Tensor::with_layout(memory, Layout::new((SIDE, SIDE), (longer, 1)));
        let across = (run + (SIDE - 1)) / SIDE;
        let (first_row, first_column) = (block_idx().x / across * SIDE, block_idx().x % across * SIDE);
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
            for (rows, run) in [(3, 5), (1, 1), (70, 131), (9, 1030)] {
                let values: Vec<T> = (0..rows * run).map(&element).collect();
                let factor = device.buffer_from(&values).unwrap();
                for transposes in [false, true] {
                    let row = if transposes { rows } else { run } as u32;
                    let pitch = row.next_multiple_of(ROW_ALIGN / T::BYTES);
                    let copy = FactorCopy { rows: rows as u32, run: run as u32, transposes, pitch };
                    let mut scratch = Scratch::default();
                    scratch
                        .at_least(&device, copy.length())
                        .unwrap()
                        .copy_from(&vec![gap; copy.length()])
                        .unwrap();
                    let (copied, _) =
                        operations.readable(&stream, &factor, Some(copy), &mut scratch).unwrap();
                    let copied = copied.to_vec().unwrap();
                    let mut expected = vec![gap; copy.length()];
                    for (index, value) in values.iter().enumerate() {
                        let (row, column) = (index / run, index % run);
                        let (row, column) = if transposes { (column, row) } else { (row, column) };
                        expected[row * pitch as usize + column] = *value;
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

    #[test]
    fn only_what_cannot_be_read_is_copied() {
        let both = [Order::RowMajor, Order::ColumnMajor];
        for (m, n, k) in [(1, 1, 1), (8, 16, 24), (33, 65, 17), (64, 48, 7), (16, 4, 32)] {
            for (a, b) in [(both[0], both[0]), (both[0], both[1]), (both[1], both[0]), (both[1], both[1])] {
                let product = Product { m, n, k, a, b };
                let aligned = |run: u32, bytes: u32| (run * bytes).is_multiple_of(16);
                let a_run = if a == Order::RowMajor { k } else { m };
                let b_run = if b == Order::ColumnMajor { k } else { n };
                let halves = Readable::of::<bf16>(product);
                assert_eq!(halves.product, product);
                assert_eq!(halves.copies.map(|copy| copy.is_none()), [aligned(a_run, 2), aligned(b_run, 2)]);
                let words = Readable::of::<tf32>(product);
                assert_eq!((words.product.a, words.product.b), (Order::RowMajor, Order::ColumnMajor));
                let as_they_are =
                    [a == Order::RowMajor && aligned(k, 4), b == Order::ColumnMajor && aligned(k, 4)];
                assert_eq!(words.copies.map(|copy| copy.is_none()), as_they_are);
                for copy in halves.copies.into_iter().flatten() {
                    assert!(aligned(copy.pitch, 2) && copy.pitch - copy.run < 8 && !copy.transposes);
                }
                for copy in words.copies.into_iter().flatten() {
                    assert!(aligned(copy.pitch, 4) && copy.pitch - k < 4);
                }
            }
        }
    }
}
