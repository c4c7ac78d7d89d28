//! Tutorial 3, The Naive Copy: one element or four to an instruction, and what each costs. The
//! chapter is `book/src/layouts/03_the_naive_copy.md`.

use std::error::Error;
use std::io::Write;

use warpwright::layout::Access;
use warpwright::prelude::*;
use warpwright::runtime::{Device, ptx};

/// The tile is `SIDE` by `SIDE`, column-major, in global and in shared memory.
const SIDE: u32 = 64;
const ELEMENTS: u32 = SIDE * SIDE;
const THREADS: u32 = 256;

/// Copies a tile through shared memory, `WIDTH` neighboring elements to an instruction.
struct Copy<const WIDTH: usize>;

impl<const WIDTH: usize> Copy<WIDTH> {
    /// In each step thread t moves the t-th vector, so that a warp's vectors are side by side.
    #[kernel]
    fn run(&self, from: &Global<f32>, to: &mut Global<f32>) {
        launch::threads(THREADS);
        let tile = shared_array::<f32>(ELEMENTS);
        let vectors = ELEMENTS / WIDTH as u32;
        for step in (0..vectors).step_by(THREADS as usize) {
            let first = (thread_idx().x + step) * WIDTH as u32;
            tile.at(first).store_vector(from.at(first).load_vector::<WIDTH>());
        }
        sync_threads();
        for step in (0..ELEMENTS).step_by(THREADS as usize) {
            let element = thread_idx().x + step;
            to[element] = tile[element];
        }
    }
}

/// Runs one width, checks it, and prints the instructions of a thread that fill the tile.
fn show<const WIDTH: usize>(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let values: Vec<f32> = (0..ELEMENTS).map(|index| index as f32).collect();
    let from = device.buffer_from(&values)?;
    let mut to = device.uninitialized::<f32>(ELEMENTS as usize)?;
    let kernel = Copy::<WIDTH>.run()?;
    device.compile(&kernel)?.launch(&device.stream()?, 1, (&from, &mut to))?;
    if to.to_vec()? != values {
        return Err(format!("{WIDTH} elements an instruction: the copy differs").into());
    }

    let text = ptx(&kernel, device.properties().capability)?;
    let opcodes: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let load = opcodes.iter().find(|opcode| opcode.starts_with("ld.global")).ok_or("it loads")?;
    let loads = opcodes.iter().filter(|opcode| *opcode == load).count();
    let warp = Access::new(Layout::new((32, WIDTH), (WIDTH, 1))?, 32)?;
    cost(out, &format!("{WIDTH} to an instruction: {loads:>2} x {load}"), &warp)
}

/// Prints the sectors of 32 bytes that a warp's instruction touches.
fn cost(out: &mut dyn Write, what: &str, warp: &Access) -> Result<(), Box<dyn Error>> {
    let sectors = warp.sectors(&Layout::column_major((SIDE, SIDE))?.into())?;
    let used = 100 * sectors.ideal / sectors.touched;
    Ok(writeln!(out, "{what:<50} {:>2} sectors, {used:>3} % used", sectors.touched)?)
}

pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "=== A {SIDE} x {SIDE} tile, global to shared memory, {THREADS} threads ===")?;
    show::<1>(device, out)?;
    show::<2>(device, out)?;
    show::<4>(device, out)?;

    writeln!(out, "\n=== One load of a warp, elsewhere ===")?;
    let blocked = Access::new(Layout::new((32, 1), (4, 0))?, 32)?;
    cost(out, "each lane the first of its own four", &blocked)?;
    let dealt = Access::new(Layout::new(((8, 4), 1), ((1, SIDE), 0))?, 32)?;
    cost(out, "threads (8,32), dealt in turn", &dealt)?;
    let column = Access::new(Layout::new((32, 1), (SIDE, 0))?, 32)?;
    cost(out, "lanes along a row of the column-major tile", &column)?;

    writeln!(out, "\n=== What may be a vector ===")?;
    let tile = ComposedLayout::from(Layout::column_major((SIDE, SIDE))?);
    let dealt = tile.local_partition(&Layout::column_major((8, 32))?, 0)?;
    writeln!(out, "thread 0 of (8,32) holds {dealt:#}: {} together", dealt.max_common_vector(&dealt)?)?;
    let own = tile.local_tile((4, 1), &(0, 0).into())?;
    writeln!(out, "a tile of (4,1) is       {own:#}: {} together", own.max_common_vector(&own)?)?;
    let vector = Access::new(Layout::new((32, 4), (4, 1))?, 32)?;
    match vector.from(1).sectors(&tile) {
        Err(error) => writeln!(out, "four from element 1 on: {error}")?,
        Ok(_) => return Err("a misaligned vector was let through".into()),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
