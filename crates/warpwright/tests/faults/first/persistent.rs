//! A persistent product on Blackwell: one warp loads, one multiplies into two accumulators in turn, and four warps
//! store a tile by tensor copies while the next one is multiplied.

use warpwright::arch::DataType;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const ALONE: CtaGroup = CtaGroup::One;
const M: u32 = 128;
const N: u32 = 16;
const DEPTH: u32 = 64;
const STEPS: u32 = 2;
const TILES: u32 = 3;
const BLOCKS: u32 = 1;
const STAGES: u32 = 3;
/// Warps that store; the next one loads, and the one after it multiplies.
const STORING: u32 = 4;

fn operand(rows: u32) -> TmaTile {
    TmaTile::new::<bf16>((rows, DEPTH), Major::K).expect("a legal tile")
}

impl Mistaken {
    /// Does something, unless that is the mistake.
    fn unless(self, mistake: &str, act: impl FnOnce()) {
        if !self.is(mistake) {
            act();
        }
    }

    /// Signals the end of the MMAs that the thread has issued, unless one of two mistakes is made.
    fn commit(self, barrier: Mbarrier, [arrives, nothing]: [&str; 2]) {
        if self.is(arrives) {
            barrier.arrive();
        } else if !self.is(nothing) {
            commit_tensor_core(ALONE, barrier);
        }
    }

    /// C = A * B^T, of the tiles of C that a block computes each `blocks`-th.
    #[kernel]
    fn persistent(&self, a: &TensorMap, b: &TensorMap, c: &mut TensorMap, tiles: u32) {
        launch::threads((STORING + 2) * 32);
        a.boxes(operand(M).requirement());
        b.boxes(operand(N).requirement());
        let (a_memory, b_memory) = (
            dynamic_shared_aligned::<bf16>(STAGES * M * DEPTH, 1024),
            dynamic_shared_aligned::<bf16>(STAGES * N * DEPTH, 1024),
        );
        let a_tiles = Tensor::new(a_memory, operand(M).layout(STAGES).expect("a legal tile"));
        let b_tiles = Tensor::new(b_memory, operand(N).layout(STAGES).expect("a legal tile"));
        let buffers = if self.is("a buffer for each warp") { STORING } else { 2 * STORING };
        let c_tiles = StoreBuffers::<f32>::new(TmaTile::new::<f32>((32, N), Major::K), buffers);
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        let (ready, taken) = (Mbarriers::new(2), Mbarriers::new(2));
        let holder = shared_array::<u32>(1);
        let (warp, lane) = ((thread_idx().x / 32).shuffle(0), thread_idx().x % 32);
        let types = TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };
        let mma = TensorCoreMma::new(ALONE, types, M, N);
        let columns = if self.is("columns of one accumulator") { N } else { 2 * N };
        if thread_idx().x == 0 {
            full.iter().chain(empty.iter()).chain(ready.iter()).for_each(|barrier| barrier.init(1));
            let takers = if self.is("taken by one warp") { 1 } else { STORING };
            taken.iter().for_each(|barrier| barrier.init(takers));
            self.unless("no fence of the initialization", || fence_mbarrier_init());
        }
        if warp == STORING + 1 {
            allocate_tensor_memory(ALONE, columns, holder);
        }
        tensor_fence_before_sync();
        self.unless("no barrier behind the setup", || sync_threads());
        tensor_fence_after_sync();
        let product = TensorMemory::at(holder);
        let (first, blocks) = (block_idx().x, grid_dim().x);

        if warp == STORING {
            if elect(ALL_LANES) || self.is("every lane loads") {
                let mut load = constant(0u32);
                for tile in (first..tiles).step_by(blocks) {
                    for step in 0..STEPS {
                        let (stage, parity) = (load % STAGES, load / STAGES % 2);
                        let parity = if self.is("parity of the consumer") { parity } else { parity ^ 1 };
                        self.unless("stage filled without a wait", || empty.at(stage).wait_parity(parity));
                        let bytes = operand(M).bytes() + operand(N).bytes();
                        full.at(stage).arrive_and_expect(match self.name() {
                            "bytes of A" => operand(M).bytes(),
                            "bytes of f32" => 2 * bytes,
                            _ => bytes,
                        });
                        let at = if self.is("all in the first stage") { constant(0u32) } else { stage };
                        let (a_to, b_to) = (a_memory + at * (M * DEPTH), b_memory + at * (N * DEPTH));
                        tma::load(*a, [constant(step * DEPTH), tile * M], a_to, full.at(stage));
                        tma::load(*b, [step * DEPTH, 0], b_to, full.at(stage));
                        load += 1;
                    }
                }
            }
        } else if warp == STORING + 1 {
            if elect(ALL_LANES) {
                let (a, b) = (mma.a_operand(&a_tiles), mma.b_operand(&b_tiles));
                let (mut load, mut count) = (constant(0u32), constant(0u32));
                for _ in (first..tiles).step_by(blocks) {
                    let (half, parity) = (count % 2, count / 2 % 2);
                    let parity = if self.is("parity of the taker") { parity } else { parity ^ 1 };
                    self.unless("accumulator not awaited", || taken.at(half).wait_parity(parity));
                    self.unless("no fence behind the taking", || tensor_fence_after_sync());
                    let into = if self.is("one accumulator") { constant(0u32) } else { half };
                    let d = product.column(into * N);
                    for step in 0..STEPS {
                        let (stage, parity) = (load % STAGES, load / STAGES % 2);
                        match self.name() {
                            "stage not awaited" => {}
                            "waits for the first stage" => full.at(0).wait_parity(parity),
                            "parity of the tile" => full.at(stage).wait_parity(count % 2),
                            _ => full.at(stage).wait_parity(parity),
                        }
                        let at = (All, All, stage);
                        let begins = step == 0 && !self.is("adds to the last product");
                        let accumulate = if begins { Accumulate::No } else { Accumulate::Yes };
                        mma.issue(d, &a.slice(at), &b.slice(at), accumulate);
                        self.commit(empty.at(stage), ["stage released by an arrival", "stage not released"]);
                        load += 1;
                    }
                    self.commit(ready.at(half), ["product signaled by an arrival", "product not committed"]);
                    count += 1;
                }
            }
        } else {
            let mut count = constant(0u32);
            for tile in (first..tiles).step_by(blocks) {
                let (half, parity) = (count % 2, count / 2 % 2);
                match self.name() {
                    "product not awaited" => {}
                    "waits for the other product" => ready.at(half ^ 1).wait_parity(parity),
                    _ => ready.at(half).wait_parity(parity),
                }
                self.unless("no fence behind the product", || tensor_fence_after_sync());
                let quarter = if self.is("rows of the next warp") { (warp + 1) % STORING } else { warp };
                let sums = product.column(half * N).row(quarter * 32).load::<{ N as usize }>();
                self.unless("load not awaited", || wait_tensor_loads());
                tensor_fence_before_sync();
                sync_warp(ALL_LANES);
                if lane == 0 && !self.is("product not released") {
                    taken.at(half).arrive();
                }
                let buffer = warp * 2 + half;
                if lane == 0 && !self.is("buffer not awaited") {
                    bulk_wait_read(if self.is("two stores in flight") { 2 } else { 1 });
                }
                self.unless("no warp barrier behind the wait", || sync_warp(ALL_LANES));
                let row = c_tiles.tensor().slice((lane, All, buffer));
                for (column, sum) in (0u32..).zip(sums) {
                    row.set(column, sum.bit_cast::<f32>());
                }
                self.unless("no fence before the store", || fence_proxy_async_shared());
                self.unless("no warp barrier before the store", || sync_warp(ALL_LANES));
                if lane == 0 || self.is("every lane stores") {
                    c_tiles.store(c, (tile * M + warp * 32, constant(0u32)), buffer);
                    self.unless("store not committed", || bulk_commit());
                }
                count += 1;
            }
            if lane == 0 && !self.is("stores not awaited") {
                bulk_wait(0);
            }
        }
        tensor_fence_before_sync();
        sync_threads();
        if warp == STORING + 1 && !self.is("columns not freed") {
            product.free(ALONE, columns);
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let (m, k) = (TILES * M, STEPS * DEPTH);
    let element = |index: u32| bf16::from_f32((index * 7919 % 17) as f32 - 8.0);
    let a: Vec<bf16> = (0..m * k).map(element).collect();
    let b: Vec<bf16> = (0..N * k).map(|index| element(index + 5)).collect();
    let kernel = device.compile(&mistaken.persistent()?)?;
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    let mut c = device.uninitialized::<f32>((m * N) as usize)?;
    let a_map = kernel.tensor_map("a", &a_there, &[m.into(), k.into()])?;
    let b_map = kernel.tensor_map("b", &b_there, &[N.into(), k.into()])?;
    let mut c_map = kernel.tensor_map("c", &mut c, &[m.into(), N.into()])?;
    let tiles = if mistaken.is("a tile too few") { TILES - 1 } else { TILES };
    kernel.launch(&device.stream()?, BLOCKS, (&a_map, &b_map, &mut c_map, tiles))?;
    let found = c.to_vec()?;
    for index in 0..m * N {
        let (row, column) = (index / N, index % N);
        let product = |i: u32| a[(row * k + i) as usize].to_f32() * b[(column * k + i) as usize].to_f32();
        let expected: f32 = (0..k).map(product).sum();
        assert!(found[index as usize] == expected, "{}: row {row}", mistaken.name());
    }
    Ok(())
}
