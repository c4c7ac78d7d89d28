//! A GEMM of e4m3 with scales: every thread loads by TMA what it then multiplies, one stage ahead.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const TILE: u32 = 64;
const DEPTH: u32 = 128;
const STAGES: u32 = 2;
const STEPS: u32 = 4;
const BYTES: u32 = 2 * TILE * DEPTH;
const THREADS: u32 = 128;

fn tile() -> TmaTile {
    TmaTile::new::<e4m3>((TILE, DEPTH), Major::K).expect("a legal tile")
}

impl Mistaken {
    /// C = (A * B^T) times a scale for each row of A and each column of B.
    #[kernel]
    fn eights(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        a_scales: &Global<f32>,
        b_scales: &Global<f32>,
        c: &mut Global<f32>,
        k: u32,
    ) {
        launch::threads(THREADS);
        let thread = thread_idx().x;
        a.boxes(tile().requirement());
        b.boxes(tile().requirement());
        let a_memory = dynamic_shared_aligned::<e4m3>(TILE * DEPTH * STAGES, 1024);
        let b_memory = dynamic_shared_aligned::<e4m3>(TILE * DEPTH * STAGES, 1024);
        let a_tiles = Tensor::new(a_memory, tile().layout(STAGES).expect("a legal tile"));
        let b_tiles = Tensor::new(b_memory, tile().layout(STAGES).expect("a legal tile"));
        let scales = shared_array::<f32>(2 * TILE);
        let full = Mbarriers::new(STAGES);
        if thread == 0 {
            for stage in 0..STAGES {
                if self.is("one barrier initialized") {
                    if stage == 0 {
                        full.at(0).init(1);
                    }
                } else {
                    full.at(stage).init(if self.is("counts every thread") { THREADS } else { 1 });
                }
            }
            fence_mbarrier_init();
        }
        if self.is("half of the scales loaded") {
            if thread < TILE {
                scales[thread] = a_scales[thread];
            }
        } else if thread < TILE {
            scales[thread] = a_scales[thread];
        } else {
            let at = if self.is("scales past the end") { thread } else { thread - TILE };
            scales[thread] = b_scales[at];
        }
        if !self.is("no barrier after the setup") {
            sync_threads();
        }
        let load = |step: Reg<u32>| {
            let stage = step % STAGES;
            let barrier = if self.is("one barrier for both stages") { full.at(0) } else { full.at(stage) };
            let bytes = if self.is("bytes of bf16") {
                BYTES * 2
            } else if self.is("bytes of one tile") {
                BYTES / 2
            } else {
                BYTES
            };
            barrier.arrive_and_expect(bytes);
            let at = step * DEPTH;
            tma::load(*a, (at, 0u32), a_memory.at(stage * (TILE * DEPTH)), barrier);
            let to = if self.is("both tiles in one place") { a_memory } else { b_memory };
            tma::load(*b, (at, 0u32), to.at(stage * (TILE * DEPTH)), barrier);
        };
        let is_leader = if self.is("every lane of a warp loads") { thread.lt(32) } else { thread.eq(0) };
        if is_leader {
            load(constant(0u32));
        }
        let mma = TiledMma::warpgroups("SM90_64x64x32_F32E4M3E4M3_SS", 1);
        let (a, b) = (mma.a_operand(&a_tiles, constant(0u32)), mma.b_operand(&b_tiles));
        let part = mma.thread(thread);
        let mut sums: Fragment<f32> = part.c_fragment((TILE, TILE));
        sums.clear();
        for step in 0..k / DEPTH {
            let stage = step % STAGES;
            if self.is("loads one step too many") {
                if is_leader {
                    load(step + 1);
                }
            } else if !self.is("next stage not loaded") {
                if is_leader && step + 1 < k / DEPTH {
                    load(step + 1);
                }
            }
            if self.is("parity of the step") {
                full.at(stage).wait_parity(step % 2);
            } else if self.is("one thread waits for the stage") {
                if thread == 0 {
                    full.at(stage).wait_parity(step / STAGES % 2);
                }
            } else if self.is("waits for the next stage") {
                full.at((step + 1) % STAGES).wait_parity(step / STAGES % 2);
            } else if !self.is("stage not awaited") {
                full.at(stage).wait_parity(step / STAGES % 2);
            }
            let at = (All, All, stage);
            if !self.is("sums not fenced") {
                fence_multiplications();
            }
            if self.is("multiplied by one warp") {
                if thread < 32 {
                    issue_multiplications(&mma, &mut sums, &a.slice(at), &b.slice(at), Accumulate::Yes);
                }
            } else {
                issue_multiplications(&mma, &mut sums, &a.slice(at), &b.slice(at), Accumulate::Yes);
            }
            if !self.is("batch not committed") {
                commit_multiplications();
            }
            if self.is("sums read in flight") {
            } else if self.is("batch left in flight") {
                wait_multiplications(1);
            } else {
                wait_multiplications(0);
            }
            if !self.is("stage filled while others multiply") {
                sync_threads();
            }
        }
        let places = part.c_coordinates((TILE, TILE));
        for i in 0..sums.len() {
            let (row, column) = (places.row(i), places.column(i));
            let value = sums.get(i) * scales[row] * scales[column + TILE];
            if self.is("column past the row") {
                c[row * TILE + column + 1] = value;
            } else if self.is("rows stored over each other") {
                c[row * (TILE / 2) + column] = value;
            } else {
                c[row * TILE + column] = value;
            }
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let depth = DEPTH * STEPS;
    let element = |index: u32| e4m3::from_f32((index * 7919 % 9) as f32 - 4.0);
    let a: Vec<e4m3> = (0..TILE * depth).map(element).collect();
    let b: Vec<e4m3> = (0..TILE * depth).map(|index| element(index + 5)).collect();
    let scales: Vec<f32> = (0..TILE).map(|i| 1.0 + i as f32 / 64.0).collect();
    let kernel = device.compile(&mistaken.eights()?)?;
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    let (first, second) = (device.buffer_from(&scales)?, device.buffer_from(&scales)?);
    let mut c = device.uninitialized::<f32>((TILE * TILE) as usize)?;
    let a_map = kernel.tensor_map("a", &a_there, &[TILE.into(), depth.into()])?;
    let b_map = kernel.tensor_map("b", &b_there, &[TILE.into(), depth.into()])?;
    kernel.launch(&device.stream()?, 1, (&a_map, &b_map, &first, &second, &mut c, depth))?;
    let found = c.to_vec()?;
    for at in 0..TILE * TILE {
        let (row, column) = (at / TILE, at % TILE);
        let product =
            |i: u32| a[(row * depth + i) as usize].to_f32() * b[(column * depth + i) as usize].to_f32();
        let expected = (0..depth).map(product).sum::<f32>() * scales[row as usize] * scales[column as usize];
        let found = found[at as usize];
        assert!(
            (found - expected).abs() <= 1e-2 * (1.0 + expected.abs()),
            "{}: {found} {expected}",
            mistaken.name()
        );
    }
    Ok(())
}
