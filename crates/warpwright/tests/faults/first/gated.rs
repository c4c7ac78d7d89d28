//! Two products of one A, combined elementwise (SwiGLU): roles, a pipeline of three operands, a bias by
//! `cp.async`, and a tensor store.

use warpwright::layout::Error as LayoutError;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const TILE: u32 = 64;
const M: u32 = 128;
const N: u32 = 64;
const K: u32 = 256;

fn tile() -> Result<TmaTile, LayoutError> {
    TmaTile::new::<bf16>((TILE, TILE), Major::K)
}

impl Mistaken {
    /// D = silu(A * G^T + bias) * (A * U^T).
    #[kernel]
    fn gated(
        &self,
        a: &TensorMap,
        g: &TensorMap,
        u: &TensorMap,
        bias: &Global<f32>,
        d: &mut TensorMap,
        k: u32,
    ) {
        let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(1).registers(232)]);
        let mut stages = Pipeline::stages(2);
        let a_tiles = stages.operand::<bf16>(tile());
        let g_tiles = stages.operand::<bf16>(tile());
        let u_tiles = stages.operand::<bf16>(tile());
        let d_tile = StoreBuffers::<f32>::new(TmaTile::new::<f32>((TILE, 32), Major::K), 2);
        let bias_part = shared_array::<f32>(TILE);
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, ClusterGrid::new((1, 1)));
        let (row, column) = (block_idx().y * TILE, block_idx().x * TILE);
        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                let steps = if self.is("one load too many") {
                    k / TILE + 1
                } else if self.is("one load too few") {
                    k / TILE - 1
                } else {
                    k / TILE
                };
                for step in 0..steps {
                    let at = step * TILE;
                    let a = a_tiles.load(a, (row, at), None);
                    let g = g_tiles.load(g, (column, at), None);
                    let u = u_tiles.load(u, (column, at), None);
                    let mut loads = vec![a, g];
                    if !self.is("an operand is not loaded") {
                        loads.push(u);
                    }
                    pipeline.load(loads);
                }
            }
        } else {
            if !self.is("the consumer does not begin") {
                consumer.begin();
            }
            let thread = consumer.thread();
            if thread < TILE / 4 {
                copy_async(bias_part.at(thread * 4), bias.at(column + thread * 4), 4);
                commit_async_copies();
            }
            let mut pipeline = pipeline.consumer();
            let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
            let a = mma.a_operand(a_tiles.tensor(), consumer.warpgroup());
            let g = mma.b_operand(g_tiles.tensor());
            let u = mma.b_operand(u_tiles.tensor());
            let part = mma.thread(thread);
            let mut gate: Fragment<f32> = part.c_fragment((TILE, TILE));
            let mut up: Fragment<f32> = part.c_fragment((TILE, TILE));
            gate.clear();
            up.clear();
            for _ in 0..k / TILE {
                let at = (All, All, pipeline.wait());
                fence_multiplications();
                issue_multiplications(&mma, &mut gate, &a.slice(at), &g.slice(at), Accumulate::Yes);
                let second = if self.is("waits for each operand") { (All, All, pipeline.wait()) } else { at };
                issue_multiplications(&mma, &mut up, &a.slice(second), &u.slice(second), Accumulate::Yes);
                commit_multiplications();
                wait_multiplications(0);
                pipeline.release();
                if self.is("released for each operand") {
                    pipeline.release();
                }
            }
            wait_async_copies(0);
            consumer.sync();
            let places = part.c_coordinates((TILE, TILE));
            for i in 0..gate.len() {
                let n = places.column(i);
                let x = gate.get(i) + bias_part[n];
                d_tile.tensor().set((places.row(i), n % 32, n / 32), x.silu() * up.get(i));
            }
            if self.is("fenced by one thread") {
                if consumer.leads() {
                    fence_proxy_async_shared();
                }
            } else {
                fence_proxy_async_shared();
            }
            consumer.sync();
            if consumer.leads() {
                d_tile.store(d, (row, column), 0);
                d_tile.store(d, (row, column + 32), 1);
                bulk_commit();
                bulk_wait(0);
            }
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let element = |index: u32| bf16::from_f32(((index * 7919 % 17) as f32 - 8.0) / 16.0);
    let a: Vec<bf16> = (0..M * K).map(element).collect();
    let g: Vec<bf16> = (0..N * K).map(|index| element(index + 5)).collect();
    let u: Vec<bf16> = (0..N * K).map(|index| element(index + 11)).collect();
    let bias: Vec<f32> = (0..N).map(|index| index as f32 / 64.0).collect();
    let kernel = device.compile(&mistaken.gated()?)?;
    let (a_there, g_there, u_there) =
        (device.buffer_from(&a)?, device.buffer_from(&g)?, device.buffer_from(&u)?);
    let bias_there = device.buffer_from(&bias)?;
    let mut d = device.uninitialized::<f32>((M * N) as usize)?;
    let a_map = kernel.tensor_map("a", &a_there, &[M.into(), K.into()])?;
    let g_map = kernel.tensor_map("g", &g_there, &[N.into(), K.into()])?;
    let u_map = kernel.tensor_map("u", &u_there, &[N.into(), K.into()])?;
    let mut d_map = kernel.tensor_map("d", &mut d, &[M.into(), N.into()])?;
    kernel.launch(
        &device.stream()?,
        (N / TILE, M / TILE),
        (&a_map, &g_map, &u_map, &bias_there, &mut d_map, K),
    )?;
    let found = d.to_vec()?;
    let dot = |b: &[bf16], row: u32, column: u32| -> f32 {
        (0..K).map(|i| a[(row * K + i) as usize].to_f32() * b[(column * K + i) as usize].to_f32()).sum()
    };
    for index in 0..M * N {
        let (row, column) = (index / N, index % N);
        let x = dot(&g, row, column) + bias[column as usize];
        let expected = x / (1.0 + (-x).exp()) * dot(&u, row, column);
        let found = found[index as usize];
        assert!((found - expected).abs() <= 1e-3 * (1.0 + expected.abs()), "{}: {found}", mistaken.name());
    }
    Ok(())
}
