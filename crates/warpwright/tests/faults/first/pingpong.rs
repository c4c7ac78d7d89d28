//! A GEMM of two consumer warpgroups that take turns: a cluster of two shares B by multicast, each group
//! multiplies every second tile, and stores it by TMA while the other multiplies.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const TILE: u32 = 64;
const STAGES: u32 = 4;
/// Steps of 64 along k.
const STEPS: u32 = 2;
/// Tiles of a CTA: two for each group.
const TILES: u32 = 4;
const GROUP: u32 = 128;
const OPERAND: u32 = TILE * TILE;

fn operand_tile() -> TmaTile {
    TmaTile::new::<bf16>((TILE, TILE), Major::K).expect("a legal tile")
}

/// The half of B that a CTA loads for both.
fn half_tile() -> TmaTile {
    TmaTile::new::<bf16>((TILE / 2, TILE), Major::K).expect("a legal tile")
}

impl Mistaken {
    /// C = A * B^T of 512 x 64 x 128.
    #[kernel]
    fn pingpong(&self, a: &TensorMap, b: &TensorMap, c: &mut TensorMap) {
        launch::threads(2 * GROUP + 32);
        launch::cluster(2, 1, 1);
        let (thread, rank) = (thread_idx().x, cluster_rank());
        let peer = rank ^ 1;
        a.boxes(operand_tile().requirement());
        b.boxes(if self.is("boxes of all of B") { operand_tile() } else { half_tile() }.requirement());
        let a_memory = dynamic_shared_aligned::<bf16>(OPERAND * STAGES, 1024);
        let b_memory = dynamic_shared_aligned::<bf16>(OPERAND * STAGES, 1024);
        let a_tiles = Tensor::new(a_memory, operand_tile().layout(STAGES).expect("a legal tile"));
        let b_tiles = Tensor::new(b_memory, operand_tile().layout(STAGES).expect("a legal tile"));
        let buffers = if self.is("buffers for one group") { 2 } else { 4 };
        let c_tile = StoreBuffers::<f32>::new(TmaTile::new::<f32>((TILE, 32), Major::K), buffers);
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        if thread.eq(0) {
            for stage in 0..STAGES {
                full.at(stage).init(1);
                empty.at(stage).init(if self.is("empty expects one") { 1 } else { 2 });
            }
            if !self.is("no fence of the initialization") {
                fence_mbarrier_init();
            }
        }
        if self.is("block barrier for the cluster's") {
            sync_threads();
        } else {
            cluster_sync();
        }
        if thread.ge(2 * GROUP) {
            if thread.eq(2 * GROUP) {
                for count in 0..TILES * STEPS {
                    let (stage, parity) = (count % STAGES, count / STAGES % 2);
                    let (tile, step) = (count / STEPS, count % STEPS);
                    if self.is("producer parity of the pair") {
                        empty.at(stage).wait_parity(parity);
                    } else if !self.is("stages not awaited") {
                        empty.at(stage).wait_parity(parity ^ 1);
                    }
                    let bytes = match self.name() {
                        "bytes of its own half" => OPERAND * 2 + OPERAND,
                        "bytes of both CTAs" => OPERAND * 8,
                        _ => OPERAND * 4,
                    };
                    if self.is("loads before it expects") {
                        full.at(stage).arrive();
                    } else {
                        full.at(stage).arrive_and_expect(bytes);
                    }
                    let row = (rank * TILES + tile) * TILE;
                    tma::load(*a, (constant(step * TILE), row), a_memory.at(stage * OPERAND), full.at(stage));
                    let to = if self.is("halves at one place") { constant(0u32) } else { rank };
                    let receivers = match self.name() {
                        "multicast to itself" => (constant(1u32) << rank).convert::<u16>(),
                        "multicast to three" => constant(7u16),
                        "multicast to the first" => constant(1u16),
                        _ => constant(3u16),
                    };
                    let box_of = (step * TILE, rank * (TILE / 2));
                    let there = b_memory.at(stage * OPERAND + to * (OPERAND / 2));
                    if self.is("no multicast") {
                        tma::load(*b, box_of, there, full.at(stage));
                    } else {
                        tma::Load::new(*b, box_of).multicast(receivers).start(there, full.at(stage));
                    }
                }
            }
        } else {
            let group = thread / GROUP;
            let (mine, of_group) = (group, thread % GROUP);
            let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
            let (a, b) = (mma.a_operand(&a_tiles, constant(0u32)), mma.b_operand(&b_tiles));
            let mut sums: Fragment<f32> = mma.thread(of_group).c_fragment((TILE, TILE));
            if !self.is("sums never cleared") {
                sums.clear();
            }
            let turn = if self.is("one barrier for both turns") { constant(2u32) } else { group + 2 };
            let other = if self.is("passes the turn to itself") { group + 2 } else { (group ^ 1) + 2 };
            if !self.is("nobody begins") {
                if group.eq(if self.is("the second begins") { 0 } else { 1 }) {
                    barrier_arrive(constant(2u32), 2 * GROUP);
                }
            }
            for round in 0..TILES / 2 {
                let tile = round * 2 + mine;
                let of_turn = if self.is("turns of one group") { GROUP } else { 2 * GROUP };
                if !self.is("no wait for the turn") {
                    barrier_sync(turn, of_turn);
                }
                for step in 0..STEPS {
                    let count = match self.name() {
                        "both groups read all stages" => constant(round * STEPS + step),
                        _ => tile * STEPS + step,
                    };
                    let (stage, parity) = (count % STAGES, count / STAGES % 2);
                    if self.is("parity of the round") {
                        full.at(stage).wait_parity(constant(round % 2) ^ 1);
                    } else if self.is("waits for the first stage") {
                        full.at(0).wait_parity(parity);
                    } else if !self.is("fill not awaited") {
                        full.at(stage).wait_parity(parity);
                    }
                    let at = (All, All, stage);
                    let accumulate = match (self.name(), step) {
                        ("sums never cleared", _) => Accumulate::Yes,
                        (_, 0) => Accumulate::No,
                        _ => Accumulate::Yes,
                    };
                    if !self.is("no fence before the products") {
                        fence_multiplications();
                    }
                    issue_multiplications(&mma, &mut sums, &a.slice(at), &b.slice(at), accumulate);
                    if !self.is("products not committed") {
                        commit_multiplications();
                    }
                    if self.is("one batch in flight") {
                        wait_multiplications(1);
                    } else if !self.is("products not awaited") {
                        wait_multiplications(0);
                    }
                    if !self.is("stages kept") {
                        if of_group.eq(0) {
                            empty.at(stage).arrive();
                            if self.is("released to itself twice") {
                                empty.at(stage).arrive();
                            } else if !self.is("not released to the peer") {
                                empty.at(stage).at_rank(peer).arrive();
                            }
                        }
                    }
                }
                if !self.is("turn not passed") {
                    barrier_arrive(other, of_turn);
                }
                let buffer = group * 2;
                if of_group.eq(0) {
                    if !self.is("buffer not awaited") {
                        bulk_wait_read(0);
                    }
                }
                let own = match self.name() {
                    "one barrier for both groups" => constant(4u32),
                    _ => group + 4,
                };
                let of_own = if self.is("barrier of one warp") { 32 } else { GROUP };
                if !self.is("no barrier after the buffer") {
                    barrier_sync(own, of_own);
                }
                let row = (of_group / 32) * 16 + of_group % 32 / 4;
                for n in 0..8u32 {
                    for part in 0..4u32 {
                        let column = of_group % 4 * 2 + (n % 4) * 8 + part % 2;
                        let rows = row + part / 2 * 8;
                        c_tile.tensor().set((rows, column, buffer + n / 4), sums.get(n * 4 + part));
                    }
                }
                if !self.is("no fence before the tensor store") {
                    fence_proxy_async_shared();
                }
                if !self.is("no barrier before the tensor store") {
                    barrier_sync(own, of_own);
                }
                let stores = if self.is("every warp stores") { of_group % 32 } else { of_group };
                if stores.eq(0) {
                    let row = (rank * TILES + tile) * TILE;
                    let row = if self.is("both ranks store one tile") { tile * TILE } else { row };
                    for half in 0..2u32 {
                        let other = if self.is("stores the other group's buffer") { 2 } else { 0 };
                        c_tile.store(c, (row, constant(half * 32)), (buffer + half) ^ other);
                    }
                    if !self.is("stores not committed") {
                        bulk_commit();
                    }
                }
            }
            if !self.is("stores not awaited") {
                if of_group.eq(0) {
                    bulk_wait(0);
                }
            }
            if !self.is("nobody begins") {
                // The turn that the last group has passed.
                if group.eq(0) {
                    barrier_sync(constant(2u32), 2 * GROUP);
                }
            }
        }
        if self.is("the producer leaves the peer") {
            if thread.lt(2 * GROUP) {
                cluster_sync();
            }
        } else if !self.is("no cluster barrier at the end of the pair") {
            cluster_sync();
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let (m, n, k) = (2 * TILES * TILE, TILE, STEPS * TILE);
    let element = |index: u32| bf16::from_f32((index * 7919 % 17) as f32 - 8.0);
    let a: Vec<bf16> = (0..m * k).map(element).collect();
    let b: Vec<bf16> = (0..n * k).map(|index| element(index + 5)).collect();
    let kernel = device.compile(&mistaken.pingpong()?)?;
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    let mut c = device.uninitialized::<f32>((m * n) as usize)?;
    let a_map = kernel.tensor_map("a", &a_there, &[m.into(), k.into()])?;
    let b_map = kernel.tensor_map("b", &b_there, &[n.into(), k.into()])?;
    let mut c_map = kernel.tensor_map("c", &mut c, &[m.into(), n.into()])?;
    kernel.launch(&device.stream()?, 2, (&a_map, &b_map, &mut c_map))?;
    let found = c.to_vec()?;
    let dot = |row: u32, column: u32| -> f32 {
        (0..k).map(|i| a[(row * k + i) as usize].to_f32() * b[(column * k + i) as usize].to_f32()).sum()
    };
    let wrong = (0..m * n).filter(|&at| found[at as usize] != dot(at / n, at % n)).count();
    assert_eq!(wrong, 0, "{} elements", mistaken.name());
    Ok(())
}
