//! A GEMM by `cp.async`, `ldmatrix` and `mma.sync`: three stages, and two splits of k whose blocks add to C.

use warpwright::layout::atom::MmaAtom;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const THREADS: u32 = 128;
/// Rows and columns of the tile, and the depth of a stage.
const TILE: u32 = 64;
const DEPTH: u32 = 32;
const STAGES: u32 = 3;
/// Elements from a row in shared memory to the next: 16 bytes more than it has, so that `ldmatrix` has no
/// conflicts.
const PITCH: u32 = DEPTH + 8;
const STAGE: u32 = TILE * PITCH;
const SPLITS: u32 = 2;
const K: u32 = 256;
const ROWS: u32 = 60;

impl Mistaken {
    /// Copies a tile of 64 rows from column `k` on to its stage.
    #[track_caller]
    fn copy_tile(&self, x: Global<bf16>, to: Shared<bf16>, k: Reg<u32>, rows: u32) {
        let thread = thread_idx().x;
        for half in 0..if self.is("one of two parts copied") { 1u32 } else { 2 } {
            let chunk = thread + half * THREADS;
            let (row, column) = (chunk / 4, chunk % 4 * 8);
            let pitch = match self.name() {
                "rows without their pitch" => DEPTH,
                "rows at a wrong alignment" => DEPTH + 4,
                _ => PITCH,
            };
            let to = to.at(row * pitch + column);
            let from = x.at(row * K + k + column);
            if self.is("tail read past the end") {
                copy_async(to, from, 8);
            } else if self.is("tail off by one") {
                copy_async_or_zero(to, from, 8, row.le(rows));
            } else if self.is("four of eight elements copied") {
                copy_async_or_zero(to, from, 4, row.lt(rows));
            } else if self.is("source at a wrong alignment") {
                copy_async_or_zero(to, x.at(row * K + k + column + 1), 8, row.lt(rows));
            } else {
                copy_async_or_zero(to, from, 8, row.lt(rows));
            }
        }
    }

    /// C += A * B^T of 60 x 64 x 256.
    #[kernel]
    fn staged(&self, a: &Global<bf16>, b: &Global<bf16>, c: &mut Global<f32>) {
        launch::threads(THREADS);
        let thread = thread_idx().x;
        let (warp, lane) = (thread / 32, thread % 32);
        let stages = if self.is("one stage too few") { STAGES - 1 } else { STAGES };
        let a_memory = dynamic_shared_aligned::<bf16>(STAGE * stages, 16);
        let b_memory = dynamic_shared_aligned::<bf16>(STAGE * stages, 16);
        let steps = K / SPLITS / DEPTH;
        let first = block_idx().x * if self.is("split past the end") { K } else { K / SPLITS };
        let stride = if self.is("stages of A overlap") { TILE * DEPTH } else { STAGE };
        let ahead = if self.is("one stage ahead at the start") { 1 } else { STAGES - 1 };
        for step in 0..ahead {
            self.copy_tile(*a, a_memory.at(constant(step * stride)), first + step * DEPTH, ROWS);
            self.copy_tile(*b, b_memory.at(constant(step * STAGE)), first + step * DEPTH, TILE);
            if !self.is("one group at the start") {
                commit_async_copies();
            }
        }
        if self.is("one group at the start") {
            commit_async_copies();
        }
        let (warp_row, warp_column) = (warp % 2 * 32, warp / 2 * 32);
        let atom = MmaAtom::named("SM80_16x8x16_F32BF16BF16F32_TN").expect("in the table");
        let mut sums = [[0; 4]; 8].map(|sums| sums.map(|_| constant(0.0f32)));
        if self.is("rows past the end leave early") {
            if (warp * 32 + lane).ge(ROWS) & warp.eq(1) {
                return;
            }
        }
        for step in 0..constant(steps) {
            if self.is("barrier before the wait") {
                sync_threads();
                wait_async_copies(STAGES - 2);
            } else if self.is("no barrier") {
                wait_async_copies(STAGES - 2);
            } else if self.is("no wait") {
                sync_threads();
            } else if self.is("barrier of half the block") {
                wait_async_copies(STAGES - 2);
                NamedBarrier::new(1, 64).sync();
            } else if self.is("barrier of three warps") {
                wait_async_copies(STAGES - 2);
                if warp.lt(3) {
                    sync_threads();
                }
            } else if self.is("waits for one group too few") {
                wait_async_copies(STAGES - 1);
                sync_threads();
            } else if self.is("barrier of a warp") {
                wait_async_copies(STAGES - 2);
                sync_warp(ALL_LANES);
            } else if self.is("one thread waits for its copies") {
                if thread.eq(0) {
                    wait_async_copies(STAGES - 2);
                }
                sync_threads();
            } else {
                wait_async_copies(STAGES - 2);
                sync_threads();
            }
            let stage = step % STAGES;
            let next = step + (STAGES - 1);
            let to = match self.name() {
                "copies to the stage that is read" => stage,
                "stage not taken modulo" => next,
                _ => next % STAGES,
            };
            let load = || {
                self.copy_tile(*a, a_memory.at(to * stride), first + next * DEPTH, ROWS);
                if !self.is("only A loaded") {
                    self.copy_tile(*b, b_memory.at(to * STAGE), first + next * DEPTH, TILE);
                }
            };
            if self.is("loads past the last step") {
                load();
                commit_async_copies();
            } else if self.is("no commit") {
                if next.lt(steps) {
                    load();
                }
            } else if self.is("commits only what it loads") {
                if next.lt(steps) {
                    load();
                    commit_async_copies();
                }
            } else {
                if next.lt(steps) {
                    load();
                }
                commit_async_copies();
            }
            let read = match self.name() {
                "reads the next stage" => (step + 1) % STAGES,
                "reads the stage being filled" => to,
                _ => stage,
            };
            let (a_stage, b_stage) = (a_memory.at(read * stride), b_memory.at(read * STAGE));
            for k in 0..DEPTH / 16 {
                let row = warp_row + lane % 16;
                let column = lane / 16 * 8 + k * 16;
                let mut of_a = Vec::new();
                for tile in 0..2u32 {
                    let further = if self.is("rows of A past the tile") { TILE * STAGES } else { 0 };
                    let from = a_stage.at((row + tile * 16 + further) * PITCH + column);
                    if self.is("half of a warp loads A") {
                        let mut halves = [constant(0u32); 4];
                        if lane.lt(16) {
                            halves = ldmatrix::<bf16, 4>(from);
                        }
                        of_a.push(halves);
                    } else if self.is("ldmatrix at a wrong alignment") {
                        of_a.push(ldmatrix::<bf16, 4>(from.at(1)));
                    } else {
                        of_a.push(ldmatrix::<bf16, 4>(from));
                    }
                }
                for n in 0..4u32 {
                    let row = warp_column + n * 8 + lane % 8;
                    let of_b = ldmatrix::<bf16, 2>(b_stage.at(row * PITCH + lane / 8 % 2 * 8 + k * 16));
                    for (tile, of_a) in of_a.iter().enumerate() {
                        mma_sync(&mut sums[tile * 4 + n as usize], of_a, &of_b, &atom);
                    }
                }
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            let row = warp_row + index as u32 / 4 * 16 + lane / 4;
            let column = warp_column + index as u32 % 4 * 8 + lane % 4 * 2;
            for part in 0..4u32 {
                let row = row + part / 2 * 8;
                let pitch = if self.is("rows of C too long") { TILE + 8 } else { TILE };
                let to = c.at(row * pitch + column + part % 2);
                let sum = sums[part as usize];
                if self.is("tail stored") {
                    to.reduce_add(sum);
                } else if row.lt(ROWS) {
                    if self.is("stores for atomic operations") {
                        to.store(to.load() + sum);
                    } else if self.is("atomic among the block") {
                        to.reduce_add_with(sum, Atomicity::new(AtomicOrdering::Relaxed, Scope::Block));
                    } else {
                        to.reduce_add(sum);
                    }
                }
            }
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let element = |index: u32| bf16::from_f32((index * 7919 % 17) as f32 - 8.0);
    let a: Vec<bf16> = (0..ROWS * K).map(element).collect();
    let b: Vec<bf16> = (0..TILE * K).map(|index| element(index + 5)).collect();
    let kernel = device.compile(&mistaken.staged()?)?;
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    let elements = (ROWS * TILE) as usize;
    let mut c = match mistaken.name() {
        "C not zeroed" => device.uninitialized::<f32>(elements)?,
        _ => device.zeros::<f32>(elements)?,
    };
    let shape = match mistaken.name() {
        "launched with half of its threads" => kernel.shape(SPLITS).block(THREADS / 2),
        "one split too many" => kernel.shape(SPLITS + 1),
        _ => kernel.shape(SPLITS),
    };
    kernel.launch(&device.stream()?, shape, (&a_there, &b_there, &mut c))?;
    let found = c.to_vec()?;
    let dot = |row: u32, column: u32| -> f32 {
        (0..K).map(|i| a[(row * K + i) as usize].to_f32() * b[(column * K + i) as usize].to_f32()).sum()
    };
    let wrong = (0..ROWS * TILE).filter(|&at| found[at as usize] != dot(at / TILE, at % TILE)).count();
    assert_eq!(wrong, 0, "{} elements", mistaken.name());
    Ok(())
}
