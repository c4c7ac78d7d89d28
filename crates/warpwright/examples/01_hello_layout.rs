//! Tutorial 1, Hello, Layout: one memory, three layouts. The chapter is
//! `book/src/layouts/01_hello_layout.md`.

use std::error::Error;
use std::io::Write;

use warpwright::prelude::*;
use warpwright::runtime::Device;

const ROWS: u32 = 2;
const COLUMNS: u32 = 4;

/// Reads memory as a grid of `ROWS` by `COLUMNS`.
struct Lens {
    layout: Layout,
}

impl Lens {
    /// Thread (row, column) reads the element there, and writes it down at its place in the
    /// row-major `seen`.
    #[kernel]
    fn look(&self, memory: &Global<u32>, seen: &mut Global<u32>) {
        launch::required_block(ROWS, COLUMNS, 1);
        let (row, column) = (thread_idx().x, thread_idx().y);
        let grid = Tensor::new(*memory, self.layout.clone());
        seen[row * COLUMNS + column] = grid.get((row, column));
    }
}

/// Looks at memory in which every element holds its own address: what is seen at a coordinate is
/// its offset.
fn show(device: &Device, out: &mut dyn Write, title: &str, layout: Layout) -> Result<(), Box<dyn Error>> {
    writeln!(out, "=== {title} ===\nLayout: {layout:#}")?;
    let room = layout.cosize()?.known().expect("the layout is known");
    let addresses: Vec<u32> = (0..room as u32).collect();
    let memory = device.buffer_from(&addresses)?;
    let mut seen = device.uninitialized::<u32>((ROWS * COLUMNS) as usize)?;

    let look = device.compile(&Lens { layout: layout.clone() }.look()?)?;
    look.launch(&device.stream()?, 1, (&memory, &mut seen))?;

    for (index, offset) in (0..).zip(seen.to_vec()?) {
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        let end = if column + 1 == COLUMNS { "\n" } else { "" };
        write!(out, "  ({row},{column})->{offset}{end}")?;
        let expected = layout.index(&(i64::from(row), i64::from(column)).into())?;
        if !expected.is(i64::from(offset)) {
            return Err(format!("the device is at {offset}, the layout at {expected}").into());
        }
    }
    Ok(writeln!(out)?)
}

pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let shape = (i64::from(ROWS), i64::from(COLUMNS));
    show(device, out, "Column-major", Layout::column_major(shape)?)?;
    show(device, out, "Row-major", Layout::row_major(shape)?)?;
    show(device, out, "Strides of our own", Layout::new(shape, (8, 1))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
