//! Tutorial 2, The Art of Slicing: a matrix dealt to CTAs and threads. The chapter is
//! `book/src/layouts/02_the_art_of_slicing.md`.

use std::error::Error;
use std::io::Write;

use warpwright::prelude::*;
use warpwright::runtime::Device;

/// The matrix is `SIDE` by `SIDE`, and a CTA's tile `TILE` by `TILE`.
const SIDE: u32 = 8;
const TILE: u32 = 4;
/// Threads of a CTA along rows and along columns.
const THREADS: (u32, u32) = (2, 2);
const AGENTS: u32 = THREADS.0 * THREADS.1;
/// Elements of one thread.
const HAND: u32 = 4;

/// How a tile is dealt to the threads of its CTA.
#[derive(Clone, Copy)]
enum Deal {
    /// One element to each in turn: neighboring threads hold neighboring elements.
    InTurn,
    /// A block to each.
    InBlocks,
}

impl Deal {
    /// What the kernel does with `memory`: `tiles` gets each CTA's tile by rows, `hands` each
    /// thread's elements.
    #[kernel]
    fn run(self, memory: &Global<u32>, tiles: &mut Global<u32>, hands: &mut Global<u32>) {
        launch::threads(AGENTS);
        let thread = thread_idx().x;
        let block = block_idx().y * (SIDE / TILE) + block_idx().x;

        let matrix = Tensor::with_layout(*memory, Layout::column_major((SIDE, SIDE)));
        let tile = matrix.local_tile((TILE, TILE), (block_idx().x, block_idx().y));
        let mine = self.hand(&tile, thread);

        for column in 0..TILE {
            tiles[(block * TILE + thread) * TILE + column] = tile.get((thread, column));
        }
        for element in 0..HAND {
            hands[(block * AGENTS + thread) * HAND + element] = mine.get(element);
        }
    }

    /// The part of the tile that a thread holds.
    fn hand(self, tile: &Tensor<u32, GlobalSpace>, thread: Reg<u32>) -> Tensor<u32, GlobalSpace> {
        match self {
            Deal::InTurn => {
                tile.map(|layout| layout.local_partition(&Layout::column_major(THREADS)?, thread))
            }
            Deal::InBlocks => tile.local_tile((2, 2), (thread % THREADS.0, thread / THREADS.0)),
        }
    }
}

/// Deals the matrix, and prints what the first CTA and its threads hold.
fn show(device: &Device, out: &mut dyn Write, deal: Deal) -> Result<(), Box<dyn Error>> {
    let elements = SIDE * SIDE;
    let memory = device.buffer_from(&(0..elements).collect::<Vec<u32>>())?;
    let mut tiles = device.uninitialized::<u32>(elements as usize)?;
    let mut hands = device.uninitialized::<u32>(elements as usize)?;
    let blocks = (SIDE / TILE, SIDE / TILE);
    let kernel = device.compile(&deal.run()?)?;
    kernel.launch(&device.stream()?, blocks, (&memory, &mut tiles, &mut hands))?;

    let hands = hands.to_vec()?;
    if matches!(deal, Deal::InTurn) {
        writeln!(out, "=== CTA (0,0): its tile ===")?;
        for row in tiles.read(0..16)?.chunks(TILE as usize) {
            writeln!(out, "{:>3} {:>3} {:>3} {:>3}", row[0], row[1], row[2], row[3])?;
        }
        writeln!(out, "\n=== CTA (0,0), dealt in turn: local_partition ===")?;
    } else {
        writeln!(out, "\n=== CTA (0,0), dealt in blocks: local_tile again ===")?;
    }
    for (thread, hand) in hands.chunks(HAND as usize).take(4).enumerate() {
        writeln!(out, "T{thread} holds {hand:?}")?;
    }
    for row in 0..TILE {
        let owner = |column| hands.iter().position(|held| *held == row + column * SIDE).map(|at| at / 4);
        let owners: Vec<String> = (0..TILE).filter_map(owner).map(|thread| format!("T{thread}")).collect();
        writeln!(out, "  {}", owners.join(" "))?;
    }

    let mut dealt = hands;
    dealt.sort_unstable();
    if dealt != (0..elements).collect::<Vec<u32>>() {
        return Err("some element is not dealt exactly once".into());
    }
    Ok(())
}

pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let matrix = Layout::column_major((SIDE, SIDE))?;
    let tile = ComposedLayout::from(matrix.clone()).local_tile((TILE, TILE), &(0, 0).into())?;
    let threads = Layout::column_major(THREADS)?;
    writeln!(out, "matrix                    {matrix:#}")?;
    writeln!(out, "divided                   {:#}", matrix.zipped_divide((TILE, TILE))?)?;
    writeln!(out, "tile of CTA (0,0)         {tile:#}")?;
    writeln!(out, "thread 0 of it, in turn   {:#}", tile.local_partition(&threads, 0)?)?;
    writeln!(out, "thread 0 of it, in blocks {:#}\n", tile.local_tile((2, 2), &(0, 0).into())?)?;
    show(device, out, Deal::InTurn)?;
    show(device, out, Deal::InBlocks)
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
