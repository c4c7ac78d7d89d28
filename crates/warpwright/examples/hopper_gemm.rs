//! C = A·Bᵀ on Hopper's tensor cores, in forty lines: TMA fills the stages of a pipeline, `wgmma`
//! empties them.
//!
//! Runs on an H100 or H200, or on the emulator of one:
//! `cargo run --release -p warpwright --example hopper_gemm`.

use warpwright::arch::Arch;
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule};

struct HopperGemm;

impl HopperGemm {
    /// A tile of A or B: 128 rows of 64 elements, swizzled over 128 bytes.
    fn tile() -> Result<TmaTile, Error> {
        TmaTile::new::<bf16>((128, 64), Major::K)
    }

    /// A: (m, k), B: (n, k), C: (m, n), rows contiguous; m and n are multiples of 128, k of 64.
    #[kernel]
    fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<f32>, m: u32, n: u32, k: u32) {
        let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(2).registers(232)]);
        let mut stages = Pipeline::stages(4);
        let a_tiles = stages.operand::<bf16>(Self::tile());
        let b_tiles = stages.operand::<bf16>(Self::tile());
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, ClusterGrid::new((1, 1)));
        let (row, column) = (block_idx().y, block_idx().x);
        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for step in 0..k / 64 {
                    let a = a_tiles.load(a, (row * 128, step * 64), None);
                    let b = b_tiles.load(b, (column * 128, step * 64), None);
                    pipeline.load([a, b]);
                }
            }
        } else {
            consumer.begin();
            let mut pipeline = pipeline.consumer();
            let mma = TiledMma::warpgroups("SM90_64x128x16_F32BF16BF16_SS", 2);
            let a = mma.a_operand(a_tiles.tensor(), consumer.warpgroup());
            let b = mma.b_operand(b_tiles.tensor());
            let part = mma.thread(consumer.thread());
            let mut accumulators: Fragment<f32> = part.c_fragment((128, 128));
            accumulators.clear();
            for _ in 0..k / 64 {
                let at = (All, All, pipeline.wait());
                multiply(&mma, &mut accumulators, &a.slice(at), &b.slice(at), Accumulate::Yes);
                wait_multiplications(0);
                pipeline.release();
            }
            let c = Tensor::with_layout(*c, Layout::new((m, n), (multiple_of(n, 2), 1)));
            let mine = part.c(&c.local_tile((128, 128), (row, column)));
            for pair in (0..accumulators.len()).step_by(2) {
                mine.set_vector(pair, [accumulators.get(pair), accumulators.get(pair + 1)]);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = match Device::cuda(0) {
        Ok(gpu) if gpu.properties().capability.target == "sm_90a" => gpu,
        _ => Device::emulated(Arch::named("h200")?, Schedule::Latest)?,
    };
    let (m, n, k) = (256u32, 384u32, 320u32);
    let element = |index: u32| bf16::from_f32((index * 7919 % 17) as f32 - 8.0);
    let a: Vec<bf16> = (0..m * k).map(element).collect();
    let b: Vec<bf16> = (0..n * k).map(|index| element(index + 5)).collect();
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    let mut c = device.uninitialized::<f32>((m * n) as usize)?;

    let kernel = device.compile(&HopperGemm.run()?)?;
    let a_map = kernel.tensor_map("a", &a_there, &[m.into(), k.into()])?;
    let b_map = kernel.tensor_map("b", &b_there, &[n.into(), k.into()])?;
    kernel.launch(&device.stream()?, (n / 128, m / 128), (&a_map, &b_map, &mut c, m, n, k))?;

    let found = c.to_vec()?;
    let dot = |row: u32, column: u32| -> f32 {
        (0..k).map(|i| a[(row * k + i) as usize].to_f32() * b[(column * k + i) as usize].to_f32()).sum()
    };
    let wrong = (0..m * n).filter(|&at| found[at as usize] != dot(at / n, at % n)).count();
    println!("{}: {wrong} of {} elements are wrong", device.name(), m * n);
    if wrong == 0 { Ok(()) } else { Err("the kernel's result is wrong".into()) }
}
