//! Rows scaled to integers and transposed: one half of the block scales tiles and transposes them into two
//! buffers by `stmatrix`, the other half stores them. A second kernel restores the rows in another stream.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

/// Rows of a block: 16 for each of its scaling warps.
const ROWS: u32 = 32;
const COLUMNS: u32 = 192;
/// Columns of a tile, of which two buffers hold one each.
const WIDTH: u32 = 64;
const TILES: u32 = COLUMNS / WIDTH;
const BANDS: u32 = 2;
/// Elements from one column of a buffer to the next.
const PITCH: u32 = ROWS + 8;
const HALF: u32 = 64;
/// The barriers of a full and of an empty buffer; each has one of the next number, too.
const FULL: u32 = 1;
const EMPTY: u32 = 3;

impl Mistaken {
    /// y (columns, rows) has the elements of x (rows, columns) divided by the scale of their row, two a word.
    #[kernel]
    fn requantized(&self, x: &Global<f32>, scales: &mut Global<f32>, y: &mut Global<u32>, rows: u32) {
        launch::threads(2 * HALF);
        let count = if self.is("one buffer") { 1 } else { 2 };
        let buffers = dynamic_shared_aligned::<i16>(count * WIDTH * PITCH, 16);
        let pitch = if self.is("columns at a wrong alignment") { PITCH - 4 } else { PITCH };
        let of_rows = shared_array::<f32>(ROWS);
        let (thread, lane) = (thread_idx().x, thread_idx().x % 32);
        let band = block_idx().x * ROWS;
        let threads = if self.is("full counts a half") { HALF } else { 2 * HALF };
        let full =
            |buffer: Reg<u32>| if self.is("one full barrier") { constant(FULL) } else { buffer + FULL };
        let empty = |buffer: Reg<u32>| match self.name() {
            "releases the other buffer" => (buffer ^ 1) + EMPTY,
            "empty and full are one barrier" => buffer + FULL,
            _ => buffer + EMPTY,
        };
        if thread < HALF {
            let first = thread / 32 * 16;
            let row = |i: Reg<u32>| (band + i) * COLUMNS;
            let scaled = if self.is("half of the scales") { 8 } else { 16 };
            for i in 0..scaled {
                let of_row = *x + row(first + i);
                let mut most = constant(0.0f32);
                let columns = if self.is("a column too many") { COLUMNS / 32 + 1 } else { COLUMNS / 32 };
                for part in 0..columns {
                    most = most.max(of_row[part * 32 + lane].abs());
                }
                most = match self.name() {
                    "maximum of half a warp" => most.warp_max(0xffff),
                    _ => warp::reduce_max(most),
                };
                if lane == 0 {
                    of_rows[first + i] = most / 127.0;
                    scales[band + first + i] = most / 127.0;
                }
            }
            if !self.is("no warp barrier behind the scales") {
                sync_warp(ALL_LANES);
            }
            let tiles = if self.is("a tile left over") { TILES - 1 } else { TILES };
            for tile in 0..constant(tiles) {
                let buffer = tile % 2;
                let begun = if self.is("waits for the first buffers") { 0 } else { 2 };
                if tile >= begun && !self.is("buffer not awaited") {
                    barrier_sync(buffer + EMPTY, 2 * HALF);
                }
                for step in 0..WIDTH / 16 {
                    // Matrices of 8 rows and 8 columns: of two rows, each for two columns.
                    let matrices: [Reg<u32>; 4] = std::array::from_fn(|i| {
                        let own = first + (i as u32 % 2 * 8) + lane / 4;
                        let from = tile * WIDTH + (step * 16 + i as u32 / 2 * 8) + lane % 4 * 2;
                        let [low, high] = (*x + (row(own) + from)).load_vector();
                        let integer =
                            |value: Reg<f32>| (value / of_rows[own]).round_ties_even().convert::<i32>();
                        integer(low).pack_s16x2(integer(high)).bit_cast()
                    });
                    let place = if self.is("one buffer for all tiles") { constant(0u32) } else { buffer };
                    let column = place * WIDTH + step * 16 + lane / 16 * 8 + lane % 8;
                    let to = buffers + (column * pitch + first + lane / 8 % 2 * 8);
                    if self.is("half of a warp stores") {
                        if lane < 16 {
                            stmatrix_transposed::<i16, 4>(to, matrices);
                        }
                    } else {
                        stmatrix_transposed::<i16, 4>(to, matrices);
                    }
                }
                if self.is("block barrier for full") {
                    sync_threads();
                } else if !self.is("full not signaled") {
                    barrier_arrive(full(buffer), threads);
                }
            }
        } else {
            for tile in 0..TILES {
                let buffer = constant(tile % 2);
                match self.name() {
                    "arrives where it waits" => barrier_arrive(full(buffer), threads),
                    "full not awaited" => {}
                    _ => barrier_sync(full(buffer), threads),
                }
                if self.is("released before it is read") && tile + 2 < TILES {
                    barrier_arrive(empty(buffer), 2 * HALF);
                }
                let column = thread - HALF;
                let from = buffers + ((buffer * WIDTH + column) * pitch);
                let pair = from.cast::<u32>();
                let to = *y + ((column + tile * WIDTH) * rows + band) / 2;
                for word in 0..ROWS / 8 {
                    let words: [Reg<u32>; 4] = (pair + 4 * word).load_vector();
                    let shifted = if self.is("rows stored one further") { 1 } else { 0 };
                    (to + 4 * (word + shifted)).store_vector(words);
                }
                let releases = !self.is("not released") && !self.is("released before it is read");
                if releases && tile + 2 < TILES {
                    barrier_arrive(empty(buffer), 2 * HALF);
                }
            }
        }
    }

    /// z (rows, columns) has the products of scales and integers.
    #[kernel]
    fn restored(&self, scales: &Global<f32>, y: &Global<u32>, z: &mut Global<f32>, rows: u32) {
        launch::threads(COLUMNS);
        let (row, column) = (block_idx().x, thread_idx().x);
        let word = y[(column * rows + row) / 2];
        let integer = (word >> (row % 2 * 16)).convert::<u16>().bit_cast::<i16>();
        z[row * COLUMNS + column] = integer.convert::<f32>() * scales[row];
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let rows = BANDS * ROWS;
    let x: Vec<f32> = (0..rows * COLUMNS).map(|i| (i * 7919 % 1009) as f32 / 64.0 - 7.0).collect();
    let (kernel, restore) =
        (device.compile(&mistaken.requantized()?)?, device.compile(&mistaken.restored()?)?);
    let (stream, other) = (device.stream()?, device.stream()?);
    let there = device.buffer_from(&x)?;
    let length = x.len();
    let mut scales = device.uninitialized::<f32>(rows as usize)?;
    let (mut y, mut z) = (device.uninitialized::<u32>(length / 2)?, device.uninitialized::<f32>(length)?);
    let early = stream.record()?;
    if mistaken.is("restored first") {
        restore.launch(&stream, rows, (&scales, &y, &mut z, rows))?;
    }
    let bands = match mistaken.name() {
        "a band too many" => BANDS + 1,
        "a band too few" => BANDS - 1,
        _ => BANDS,
    };
    kernel.launch(&stream, bands, (&there, &mut scales, &mut y, rows))?;
    match mistaken.name() {
        "restored without an event" => {}
        "event of before the kernel" => other.wait(&early)?,
        _ => other.wait(&stream.record()?)?,
    }
    if !mistaken.is("restored first") {
        restore.launch(&other, rows, (&scales, &y, &mut z, rows))?;
    }
    let found = z.to_vec()?;
    for (found, expected) in found.chunks(COLUMNS as usize).zip(x.chunks(COLUMNS as usize)) {
        let scale = expected.iter().fold(0.0f32, |most, value| most.max(value.abs())) / 127.0;
        let is_near = |(found, expected): (&f32, &f32)| (found - expected).abs() <= scale * 0.51;
        assert!(found.iter().zip(expected).all(is_near), "{}", mistaken.name());
    }
    Ok(())
}
