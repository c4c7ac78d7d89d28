//! Tutorial 4, The Parallel Copy: a plan that assigns elements to threads. The chapter is
//! `book/src/layouts/04_the_parallel_copy.md`.

use std::error::Error;
use std::io::Write;

use warpwright::layout;
use warpwright::prelude::*;
use warpwright::runtime::Device;

/// The tile, column-major, in global and in shared memory.
const ROWS: u32 = 16;
const COLUMNS: u32 = 8;
const ELEMENTS: u32 = ROWS * COLUMNS;
const THREADS: u32 = 32;

/// 32 threads in a grid of (4, 8), each with four neighbors of a column: (16, 8) in all.
#[track_caller]
fn plan(atom: &str) -> TiledCopy {
    TiledCopy::new::<f32>(atom, Layout::column_major((4, 8)), Layout::column_major((4, 1)))
}

/// Every thread writes its number where the plan puts its values.
#[kernel]
fn stamp(owners: &mut Global<u32>) {
    launch::threads(THREADS);
    let tile = Tensor::with_layout(*owners, Layout::column_major((ROWS, COLUMNS)));
    let mine = plan("UniversalCopy<128>").thread(thread_idx().x).target(&tile);
    for value in 0..4 {
        mine.set(value, thread_idx().x);
    }
}

/// Copies a tile to shared memory as planned, then reads it there by rows.
#[kernel]
fn bring(from: &Global<f32>, to: &mut Global<f32>) {
    launch::threads(THREADS);
    let from = Tensor::with_layout(*from, Layout::column_major((ROWS, COLUMNS)));
    let memory = shared_array::<f32>(ELEMENTS);
    let tile = Tensor::with_layout(memory, Layout::column_major((ROWS, COLUMNS)));

    let copy = plan("SM80_CP_ASYNC_CACHEALWAYS<128>").thread(thread_idx().x);
    copy.copy_async(&copy.target(&tile), &copy.source(&from), |_| None);
    commit_async_copies();
    wait_async_copies(0);
    sync_threads();

    for step in (0..ELEMENTS).step_by(THREADS as usize) {
        let element = thread_idx().x + step;
        to[element] = tile.get((element / COLUMNS, element % COLUMNS));
    }
}

/// The part of thread 0 in a tile of 128 by 128, for threads in (4, 8) and these values of each.
fn part(atom: &str, values: (i64, i64)) -> Result<ComposedLayout, layout::Error> {
    let atom = CopyAtom::named(atom, 32)?;
    let threads = Layout::column_major((4, 8))?;
    let copy = layout::TiledCopy::new(atom, &threads, &Layout::column_major(values)?)?;
    copy.partition_source(&Layout::column_major((128, 128))?.into(), 0)
}

pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let stream = device.stream()?;

    writeln!(out, "=== Who copies what: {ROWS} x {COLUMNS}, {THREADS} threads ===")?;
    let mut owners = device.uninitialized::<u32>(ELEMENTS as usize)?;
    device.compile(&stamp()?)?.launch(&stream, 1, (&mut owners,))?;
    let owners = owners.to_vec()?;
    for row in 0..ROWS {
        let cells = (0..COLUMNS).map(|column| format!("T{:02}", owners[(row + column * ROWS) as usize]));
        writeln!(out, "r{row:<3} {}", cells.collect::<Vec<_>>().join("  "))?;
    }
    if (0..ELEMENTS).any(|element| owners[element as usize] != element / 4) {
        return Err("four neighbors of the column-major tile belong to one thread".into());
    }

    writeln!(out, "\n=== The tile in shared memory, by rows ===")?;
    let values: Vec<f32> = (0..ELEMENTS).map(|index| index as f32).collect();
    let from = device.buffer_from(&values)?;
    let mut to = device.uninitialized::<f32>(ELEMENTS as usize)?;
    device.compile(&bring()?)?.launch(&stream, 1, (&from, &mut to))?;
    for (row, found) in to.to_vec()?.chunks(COLUMNS as usize).enumerate() {
        let cells: Vec<String> = found.iter().map(|value| format!("{value:>4}")).collect();
        writeln!(out, "row {row:>2}: {}", cells.join(" "))?;
        let wrong = |(column, value): (usize, &f32)| *value != (row + column * ROWS as usize) as f32;
        if found.iter().enumerate().any(wrong) {
            return Err(format!("row {row} is not the matrix's").into());
        }
    }

    writeln!(out, "\n=== Thread 0's part of a 128 x 128 tile ===")?;
    for (atom, values) in
        [("UniversalCopy<128>", (4, 1)), ("UniversalCopy<128>", (8, 1)), ("UniversalCopy<32>", (4, 1))]
    {
        writeln!(out, "{atom:<18} values {values:?}: {:#}", part(atom, values)?)?;
    }
    match part("UniversalCopy<128>", (1, 1)) {
        Err(error) => writeln!(out, "UniversalCopy<128> values (1, 1): {error}")?,
        Ok(_) => return Err("an atom of four values cannot move one".into()),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
