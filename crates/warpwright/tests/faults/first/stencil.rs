//! A stencil: tiles with a halo by TMA, a ring of two stages, a producer's warp, and stores by TMA from two
//! buffers.

use warpwright::lang::tma;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

/// Rows and columns of a tile of the output, and of the tile of the input with its halo. TMA needs a first
/// coordinate at a multiple of 16 bytes: the halo has four columns on each side.
const ROWS: u32 = 6;
const COLUMNS: u32 = 32;
const BORDER: u32 = 4;
const LOADED: (u32, u32) = (ROWS + 2, COLUMNS + 2 * BORDER);
const LOADED_BYTES: u32 = LOADED.0 * LOADED.1 * 4;
const STAGES: u32 = 2;
const CONSUMERS: u32 = ROWS * COLUMNS;
/// The image.
const HEIGHT: u32 = 24;
const WIDTH: u32 = 64;

impl Mistaken {
    /// Each element's four neighbors, less four times itself. A CTA computes the columns of a tile.
    #[kernel]
    fn stencil(&self, image: &TensorMap, output: &mut TensorMap, height: u32) {
        launch::threads(CONSUMERS + 32);
        let thread = thread_idx().x;
        let tile = TmaTile::dense::<f32>(LOADED, Major::K).expect("a legal tile");
        image.boxes(tile.requirement());
        let memory = dynamic_shared_aligned::<f32>(LOADED.0 * LOADED.1 * STAGES, 128);
        let tiles = Tensor::with_layout(memory, tile.layout(STAGES));
        let results = StoreBuffers::<f32>::new(TmaTile::dense::<f32>((ROWS, COLUMNS), Major::K), 2);
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        if thread == 0 || self.is("every thread initializes") {
            for stage in 0..STAGES {
                full.at(stage).init(1);
                empty.at(stage).init(CONSUMERS / 32);
            }
            fence_mbarrier_init();
        }
        sync_threads();
        let first_column = block_idx().x * COLUMNS;
        if thread >= CONSUMERS {
            if thread == CONSUMERS {
                for step in 0..height / ROWS {
                    let (stage, parity) = (step % STAGES, step / STAGES % 2);
                    if self.is("producer waits for full") {
                        full.at(stage).wait_parity(parity ^ 1);
                    } else {
                        empty.at(stage).wait_parity(parity ^ 1);
                    }
                    full.at(stage).arrive_and_expect(LOADED_BYTES);
                    let left = if self.is("starts one element left") {
                        first_column - 1
                    } else {
                        first_column - BORDER
                    };
                    let to = memory.at(stage * (LOADED.0 * LOADED.1));
                    tma::load(*image, (left, step * ROWS - 1), to, full.at(stage));
                }
            }
        } else {
            let (row, column) = (thread / 32, thread % 32);
            let consumers = NamedBarrier::new(1, CONSUMERS);
            for step in 0..height / ROWS {
                let (stage, parity, buffer) = (step % STAGES, step / STAGES % 2, step % 2);
                full.at(stage).wait_parity(parity);
                if self.is("released before it is read") {
                    if column == 0 {
                        empty.at(stage).arrive();
                    }
                }
                let read = if self.is("reads the other stage") { stage ^ 1 } else { stage };
                let above = if self.is("rows counted from the halo") { row + 1 } else { row };
                let middle = column + BORDER;
                let sum = tiles.get((above, middle, read))
                    + tiles.get((above + 2, middle, read))
                    + tiles.get((above + 1, middle - 1, read))
                    + tiles.get((above + 1, middle + 1, read))
                    - 4.0 * tiles.get((above + 1, middle, read));
                if !self.is("released before it is read") {
                    if !self.is("lane 0 releases without a warp barrier") {
                        sync_warp(ALL_LANES);
                    }
                    if column == 0 {
                        empty.at(stage).arrive();
                    }
                }
                if thread == 0 {
                    bulk_wait_read(if self.is("two stores may still read") { 2 } else { 1 });
                }
                if !self.is("others do not wait for the buffer") {
                    consumers.sync();
                }
                results.tensor().set((row, column, buffer), sum);
                fence_proxy_async_shared();
                consumers.sync();
                let storing = if self.is("each warp stores") { column } else { thread };
                if storing == 0 {
                    results.store(output, (step * ROWS, first_column), buffer);
                    bulk_commit();
                }
            }
            if thread == 0 {
                bulk_wait(0);
            }
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let height = if mistaken.is("rows left over") { HEIGHT + 2 } else { HEIGHT };
    let element = |index: u32| (index * 7919 % 31) as f32 - 15.0;
    let image: Vec<f32> = (0..height * WIDTH).map(element).collect();
    let kernel = device.compile(&mistaken.stencil()?)?;
    let there = device.buffer_from(&image)?;
    let mut output = device.uninitialized::<f32>((height * WIDTH) as usize)?;
    let image_map = kernel.tensor_map("image", &there, &[height.into(), WIDTH.into()])?;
    let mut output_map = kernel.tensor_map("output", &mut output, &[height.into(), WIDTH.into()])?;
    let blocks = if mistaken.is("one block too few") { WIDTH / COLUMNS - 1 } else { WIDTH / COLUMNS };
    kernel.launch(&device.stream()?, blocks, (&image_map, &mut output_map, height))?;
    let found = output.to_vec()?;
    let at = |row: i64, column: i64| {
        let inside = (0..i64::from(height)).contains(&row) && (0..i64::from(WIDTH)).contains(&column);
        if inside { image[(row * i64::from(WIDTH) + column) as usize] } else { 0.0 }
    };
    let expected = (0..i64::from(height * WIDTH)).map(|index| {
        let (row, column) = (index / i64::from(WIDTH), index % i64::from(WIDTH));
        at(row - 1, column) + at(row + 1, column) + at(row, column - 1) + at(row, column + 1)
            - 4.0 * at(row, column)
    });
    assert_eq!(found, expected.collect::<Vec<_>>(), "{}", mistaken.name());
    Ok(())
}
