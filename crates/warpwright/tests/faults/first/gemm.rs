//! A GEMM by TMA, mbarriers and `wgmma`: a producer warp, a ring of two stages, a consumer
//! warpgroup, and a tensor store of the product.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

/// Rows and columns of the tile of C, and the depth of a stage.
const TILE: u32 = 64;
const STAGES: u32 = 2;
const STEPS: u32 = 4;
const STAGE_BYTES: u32 = 2 * TILE * TILE * 2;
const CONSUMERS: u32 = 128;

/// A tile of A or B: 64 rows of 64 elements, k contiguous.
fn operand_tile() -> TmaTile {
    TmaTile::new::<bf16>((TILE, TILE), Major::K).expect("a legal tile")
}

impl Mistaken {
    /// C = A * B^T of 64 x 64 x 256.
    #[kernel]
    fn gemm(&self, a: &TensorMap, b: &TensorMap, c: &mut TensorMap, k: u32) {
        launch::threads(CONSUMERS + 32);
        let thread = thread_idx().x;
        a.boxes(operand_tile().requirement());
        b.boxes(operand_tile().requirement());
        let a_memory = dynamic_shared_aligned::<bf16>(TILE * TILE * STAGES, 1024);
        let b_memory = dynamic_shared_aligned::<bf16>(TILE * TILE * STAGES, 1024);
        let a_tiles = Tensor::new(a_memory, operand_tile().layout(STAGES).expect("a legal tile"));
        let b_tiles = Tensor::new(b_memory, operand_tile().layout(STAGES).expect("a legal tile"));
        let c_tile = StoreBuffers::<f32>::new(TmaTile::new::<f32>((TILE, 32), Major::K), 2);
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        if thread == 0 {
            for stage in 0..STAGES {
                full.at(stage).init(if self.is("full expects two") { 2 } else { 1 });
                empty.at(stage).init(if self.is("empty expects all threads") { CONSUMERS } else { 1 });
            }
            fence_mbarrier_init();
        }
        if !self.is("no barrier after init") {
            sync_threads();
        }
        if thread >= CONSUMERS {
            if thread == CONSUMERS {
                for step in 0..k / TILE {
                    let (stage, parity) = (step % STAGES, step / STAGES % 2);
                    if self.is("producer parity") {
                        empty.at(stage).wait_parity(parity);
                    } else if !self.is("no empty wait") {
                        empty.at(stage).wait_parity(parity ^ 1);
                    }
                    if self.is("too few bytes") {
                        full.at(stage).arrive_and_expect(STAGE_BYTES / 4);
                    } else if self.is("one operand's bytes") {
                        full.at(stage).arrive_and_expect(STAGE_BYTES / 2);
                    } else if self.is("too many bytes") {
                        full.at(stage).arrive_and_expect(STAGE_BYTES * 2);
                    } else if self.is("no bytes") {
                        full.at(stage).arrive();
                    } else if self.is("no arrival") {
                        full.at(stage).expect(STAGE_BYTES);
                    } else {
                        full.at(stage).arrive_and_expect(STAGE_BYTES);
                    }
                    let to = if self.is("wrong stage") { constant(0u32) } else { stage };
                    tma::load(*a, (step * TILE, 0u32), a_memory.at(to * (TILE * TILE)), full.at(stage));
                    if !self.is("one load missing") {
                        let by = if self.is("wrong barrier") { full.at(0) } else { full.at(stage) };
                        tma::load(*b, (step * TILE, 0u32), b_memory.at(stage * (TILE * TILE)), by);
                    }
                }
            }
        } else {
            let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
            let (a, b) = (mma.a_operand(&a_tiles, constant(0u32)), mma.b_operand(&b_tiles));
            let mut sums: Fragment<f32> = mma.thread(thread).c_fragment((TILE, TILE));
            sums.clear();
            for step in 0..k / TILE {
                let (stage, parity) = (step % STAGES, step / STAGES % 2);
                if self.is("consumer parity") {
                    full.at(stage).wait_parity(parity ^ 1);
                } else if self.is("parity not flipped") {
                    full.at(stage).wait_parity(0);
                } else if self.is("parity flipped each step") {
                    full.at(stage).wait_parity(step % 2);
                } else if self.is("waits for stage 0") {
                    full.at(0).wait_parity(parity);
                } else if !self.is("no full wait") {
                    full.at(stage).wait_parity(parity);
                }
                let read = if self.is("reads the other stage") { stage ^ 1 } else { stage };
                let at = (All, All, read);
                if self.is("no multiply fence") {
                    issue_multiplications(&mma, &mut sums, &a.slice(at), &b.slice(at), Accumulate::Yes);
                    commit_multiplications();
                } else if self.is("no commit") {
                    fence_multiplications();
                    issue_multiplications(&mma, &mut sums, &a.slice(at), &b.slice(at), Accumulate::Yes);
                } else {
                    multiply(&mma, &mut sums, &a.slice(at), &b.slice(at), Accumulate::Yes);
                }
                if !self.is("no multiply wait") {
                    wait_multiplications(if self.is("waits for all but one") { 1 } else { 0 });
                }
                if self.is("every thread releases") {
                    empty.at(stage).arrive();
                } else if self.is("released by each warp") {
                    if thread % 32 == 0 {
                        empty.at(stage).arrive();
                    }
                } else if !self.is("no release") {
                    if thread == 0 {
                        empty.at(stage).arrive();
                    }
                }
            }
            let row = (thread / 32) * 16 + thread % 32 / 4;
            for n in 0..8u32 {
                for half in 0..2u32 {
                    let column = thread % 4 * 2 + (n % 4) * 8;
                    for low in 0..2u32 {
                        let value = sums.get(n * 4 + half * 2 + low);
                        c_tile.tensor().set((row + half * 8, column + low, n / 4), value);
                    }
                }
            }
            if !self.is("no store fence") {
                fence_proxy_async_shared();
            }
            if self.is("named barrier of too few") {
                NamedBarrier::new(1, 64).sync();
            } else if self.is("named barrier of too many") {
                NamedBarrier::new(1, CONSUMERS + 32).sync();
            } else if !self.is("no named barrier") {
                NamedBarrier::new(1, CONSUMERS).sync();
            }
            if thread == 0 {
                c_tile.store(c, (constant(0u32), constant(0u32)), 0);
                c_tile.store(
                    c,
                    (constant(0u32), constant(if self.is("stores a column twice") { 0u32 } else { 32 })),
                    1,
                );
                if !self.is("no store commit") {
                    bulk_commit();
                }
                if !self.is("no store wait") {
                    bulk_wait(0);
                }
            }
        }
    }
}

/// Runs it.
pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let depth = TILE * STEPS;
    let element = |index: u32| bf16::from_f32((index * 7919 % 17) as f32 - 8.0);
    let a: Vec<bf16> = (0..TILE * depth).map(element).collect();
    let b: Vec<bf16> = (0..TILE * depth).map(|index| element(index + 5)).collect();
    let kernel = device.compile(&mistaken.gemm()?)?;
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    let mut c = device.zeros::<f32>((TILE * TILE) as usize)?;
    let a_map = kernel.tensor_map("a", &a_there, &[TILE.into(), depth.into()])?;
    let b_map = kernel.tensor_map("b", &b_there, &[TILE.into(), depth.into()])?;
    let mut c_map = kernel.tensor_map("c", &mut c, &[TILE.into(), TILE.into()])?;
    kernel.launch(&device.stream()?, 1, (&a_map, &b_map, &mut c_map, depth))?;
    let found = c.to_vec()?;
    let dot = |row: u32, column: u32| -> f32 {
        (0..depth)
            .map(|i| a[(row * depth + i) as usize].to_f32() * b[(column * depth + i) as usize].to_f32())
            .sum()
    };
    let wrong = (0..TILE * TILE).filter(|&at| found[at as usize] != dot(at / TILE, at % TILE)).count();
    assert_eq!(wrong, 0, "{} elements", mistaken.name());
    Ok(())
}
