//! Printing from the device: what is known when the kernel is built, and what only the device
//! knows. The chapter is `book/src/toolchain/printing.md`.

use std::error::Error;
use std::io::Write;

use warpwright::prelude::*;
use warpwright::runtime::Device;

/// Prints a tile of a matrix.
struct Report {
    tile: (u32, u32),
}

impl Report {
    /// Prints the start and the contents of the tile at (`down`, `across`).
    #[kernel]
    fn print_tile(&self, memory: &Global<f32>, rows: u32, columns: u32, down: u32, across: u32) {
        launch::threads(32);
        let matrix = Layout::row_major((Int::from(rows), Int::from(columns)));
        let whole = Tensor::with_layout(*memory, matrix);
        let tile = whole.local_tile(self.tile, (down, across));

        let thread = thread_idx().x;
        if thread == 0 {
            printf!(&format!("tiles of {:?} in a matrix of (%u,%u)\n", self.tile), rows, columns);
            printf!("tile (%u,%u) begins at offset %.0f\n", down, across, tile.get((0, 0)));
        }
        let (height, width) = self.tile;
        if thread < height {
            let mut sum = constant(0.0f32);
            for column in 0..width {
                sum += tile.get((thread, column));
            }
            printf!(
                "  row %2u: %6.1f ... sums to %8.2f, %#x\n",
                thread,
                tile.get((thread, 0)),
                sum,
                sum as u32
            );
        }
    }
}

/// Prints two tiles of a matrix of addresses.
pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let (rows, columns) = (6u32, 16u32);
    let addresses: Vec<f32> = (0..rows * columns).map(|address| address as f32).collect();
    let memory = device.buffer_from(&addresses)?;

    let report = Report { tile: (3, 4) };
    let kernel = device.compile(&report.print_tile()?)?;
    let stream = device.stream()?;
    for (down, across) in [(0, 0), (1, 2)] {
        kernel.launch(&stream, 1, (&memory, rows, columns, down, across))?;
    }
    stream.synchronize()?;
    writeln!(out, "the lines above were printed by the device")?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
