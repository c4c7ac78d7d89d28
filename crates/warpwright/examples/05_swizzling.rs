//! Tutorial 5, Swizzling: a tile without bank conflicts, in both directions. The chapter is
//! `book/src/layouts/05_swizzling.md`.

use std::error::Error;
use std::io::Write;

use warpwright::layout::Access;
use warpwright::prelude::*;
use warpwright::runtime::Device;

/// The tile is `SIDE` by `SIDE`, column-major under the swizzle.
const SIDE: u32 = 8;
const ELEMENTS: u32 = SIDE * SIDE;
/// Shared memory has 32 banks of 4 bytes.
const BANKS: u32 = 32;

/// A tile of shared memory through a swizzle.
struct Tile {
    swizzle: Swizzle,
}

impl Tile {
    fn layout(&self) -> ComposedLayout {
        Layout::column_major((SIDE, SIDE)).expect("a plain layout").swizzled(self.swizzle)
    }

    /// Writes every element's number through the layout, reads the memory underneath, and so finds
    /// each element's bank.
    #[kernel]
    fn find_banks(&self, banks: &mut Global<u32>) {
        launch::threads(ELEMENTS);
        let memory = shared_array::<u32>(ELEMENTS);
        let tile = Tensor::new(memory, self.layout());
        let thread = thread_idx().x;
        tile.set((thread % SIDE, thread / SIDE), thread);
        sync_threads();
        let element = memory[thread];
        banks[element] = thread % BANKS;
    }

    /// Copies a column-major matrix into the tile, two elements at a time, and reads it there by
    /// rows.
    #[kernel]
    fn bring(&self, from: &Global<f32>, to: &mut Global<f32>) {
        launch::threads(32);
        let from = Tensor::with_layout(*from, Layout::column_major((SIDE, SIDE)));
        let tile = Tensor::new(shared_array::<f32>(ELEMENTS), self.layout());
        let atom = "SM80_CP_ASYNC_CACHEALWAYS<64>";
        let copy = TiledCopy::new::<f32>(atom, Layout::column_major((4, 8)), Layout::column_major((2, 1)));
        let copy = copy.thread(thread_idx().x);
        copy.copy_async(&copy.target(&tile), &copy.source(&from), |_| None);
        commit_async_copies();
        wait_async_copies(0);
        sync_threads();
        for step in (0..ELEMENTS).step_by(32) {
            let element = thread_idx().x + step;
            to[element] = tile.get((element / SIDE, element % SIDE));
        }
    }
}

/// Prints each element's bank, and the bank conflicts of each row.
fn show_banks(device: &Device, out: &mut dyn Write, tile: &Tile) -> Result<u32, Box<dyn Error>> {
    let mut banks = device.uninitialized::<u32>(ELEMENTS as usize)?;
    device.compile(&tile.find_banks()?)?.launch(&device.stream()?, 1, (&mut banks,))?;
    let banks = banks.to_vec()?;
    writeln!(out, "=== {:#} ===", tile.layout())?;
    let mut conflicts = 0;
    for row in 0..SIDE {
        let of_row: Vec<u32> = (0..SIDE).map(|column| banks[(row + column * SIDE) as usize]).collect();
        let cells: Vec<String> = of_row.iter().map(|bank| format!("B{bank:02}")).collect();
        writeln!(out, "r{row}  {}", cells.join("  "))?;
        conflicts += (0..SIDE as usize).filter(|at| of_row[..*at].contains(&of_row[*at])).count() as u32;

        let read = Access::row((SIDE.into(), SIDE.into()), row.into(), 32)?;
        let extra = read.conflicts(&tile.layout())?.extra();
        let most = (0..BANKS).map(|bank| of_row.iter().filter(|of| **of == bank).count()).max();
        if most != usize::try_from(extra + 1).ok() {
            return Err(
                format!("row {row} has {most:?} elements in one bank, and {extra} extra passes").into()
            );
        }
    }
    writeln!(out, "elements of a row that share a bank with another: {conflicts}\n")?;
    Ok(conflicts)
}

/// Prints the passes that shared memory makes for a warp that reads 32 columns of a row of a 128 x
/// 128 tile.
fn show_passes(out: &mut dyn Write, swizzle: Swizzle) -> Result<(), Box<dyn Error>> {
    let tile = Layout::column_major((128, 128))?.swizzled(swizzle);
    let read = Access::new(Layout::new((32, 1), (128, 0))?, 32)?;
    Ok(writeln!(out, "{:<28} {:>2} passes", swizzle.to_string(), read.conflicts(&tile)?.wavefronts)?)
}

pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let swizzled = Tile { swizzle: Swizzle::new(3, 2, 3)? };
    if show_banks(device, out, &Tile { swizzle: Swizzle::IDENTITY })? != 32 {
        return Err("the plain tile must have four conflicting pairs in each of eight rows".into());
    }
    if show_banks(device, out, &swizzled)? != 0 {
        return Err("the swizzle leaves conflicts".into());
    }

    writeln!(out, "=== A copy into the swizzled tile, read by rows ===")?;
    let values: Vec<f32> = (0..ELEMENTS).map(|index| index as f32).collect();
    let from = device.buffer_from(&values)?;
    let mut to = device.uninitialized::<f32>(ELEMENTS as usize)?;
    device.compile(&swizzled.bring()?)?.launch(&device.stream()?, 1, (&from, &mut to))?;
    for (row, found) in to.to_vec()?.chunks(SIDE as usize).enumerate() {
        let cells: Vec<String> = found.iter().map(|value| format!("{value:>3}")).collect();
        writeln!(out, "row {row}: {}", cells.join(" "))?;
        if found.iter().enumerate().any(|(column, value)| *value != (row + column * 8) as f32) {
            return Err(format!("row {row} is not the matrix's").into());
        }
    }

    writeln!(out, "\n=== A warp along a row of a 128 x 128 tile, (128,128):(1,128) ===")?;
    show_passes(out, Swizzle::IDENTITY)?;
    show_passes(out, Swizzle::new(3, 2, 3)?)?;
    show_passes(out, Swizzle::new(3, 2, 5)?)?;
    show_passes(out, Swizzle::new(5, 0, 7)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
