//! C = A·Bᵀ on Blackwell's tensor cores: TMA fills the stages of a pipeline, one thread multiplies
//! them into tensor memory, a warpgroup takes the product from there.
//!
//! Written without such a GPU at hand, for its emulator:
//! `cargo run --release -p warpwright --example blackwell_gemm`.

use warpwright::arch::Arch;
use warpwright::arch::DataType;
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule};

pub(crate) struct BlackwellGemm;

const ALONE: CtaGroup = CtaGroup::One;

impl BlackwellGemm {
    /// A tile of A or B: 128 rows of 64 elements, swizzled over 128 bytes.
    fn tile() -> Result<TmaTile, Error> {
        TmaTile::new::<bf16>((128, 64), Major::K)
    }

    /// A: (m, k), B: (n, k), C: (m, n), rows contiguous; m and n are multiples of 128, k of 64.
    #[kernel]
    pub(crate) fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<f32>, n: u32, k: u32) {
        let [producer, multiplier] = roles([warpgroups(1), warpgroups(1)]);
        let mut stages = Pipeline::stages(4);
        let a_tiles = stages.operand::<bf16>(Self::tile());
        let b_tiles = stages.operand::<bf16>(Self::tile());
        let types = TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };
        let mma = TensorCoreMma::new(ALONE, types, 128, 128);
        let (slot, done) = (shared_array::<u32>(1), Mbarrier::new());
        let (thread, row, column) = (multiplier.thread(), block_idx().y, block_idx().x);

        // The first warp asks for the columns of the product; the pipeline's barrier tells all
        // where they are.
        if thread_idx().x == 0 {
            done.init(1);
        }
        if thread_idx().x < 32 {
            allocate_tensor_memory(ALONE, mma.allocation(), slot);
        }
        tensor_fence_before_sync();
        let pipeline = stages.connect(multiplier, ConsumerSchedule::Cooperative, ClusterGrid::new((1, 1)));
        tensor_fence_after_sync();
        let product = TensorMemory::at(slot);

        if producer.is_mine() {
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for step in 0..k / 64 {
                    let a = a_tiles.load(a, (row * 128, step * 64), None);
                    let b = b_tiles.load(b, (column * 128, step * 64), None);
                    pipeline.load([a, b]);
                }
            }
        } else {
            if multiplier.leads() {
                let mut pipeline = pipeline.consumer();
                let (a, b) = (mma.a_operand(a_tiles.tensor()), mma.b_operand(b_tiles.tensor()));
                let mut begun = constant(false);
                for _ in 0..k / 64 {
                    let at = (All, All, pipeline.wait());
                    mma.issue(product, &a.slice(at), &b.slice(at), Accumulate::If(begun));
                    pipeline.release_after_mma(ALONE);
                    begun = constant(true);
                }
                commit_tensor_core(ALONE, done);
            }
            done.wait_parity(0);
            tensor_fence_after_sync();
            // Row r of the product is row r of tensor memory, of which each warp has its quarter.
            let own = product.row((thread / 32) * 32);
            let to = (row * 128 + thread) * n + column * 128;
            for part in (0..128).step_by(32) {
                let sums = own.column(part).load::<32>();
                wait_tensor_loads();
                for (offset, sum) in (part..).zip(sums) {
                    c[to + offset] = sum.bit_cast::<f32>();
                }
            }
        }

        tensor_fence_before_sync();
        sync_threads();
        if thread_idx().x < 32 {
            product.free(ALONE, mma.allocation());
        }
    }
}

/// How many elements of a product of small integers are wrong on a device.
pub(crate) fn wrong_elements(
    device: &Device,
    (m, n, k): (u32, u32, u32),
) -> Result<usize, Box<dyn std::error::Error>> {
    let element = |index: u32| bf16::from_f32((index * 7919 % 17) as f32 - 8.0);
    let a: Vec<bf16> = (0..m * k).map(element).collect();
    let b: Vec<bf16> = (0..n * k).map(|index| element(index + 5)).collect();
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    let mut c = device.uninitialized::<f32>((m * n) as usize)?;

    let kernel = device.compile(&BlackwellGemm.run()?)?;
    let a_map = kernel.tensor_map("a", &a_there, &[m.into(), k.into()])?;
    let b_map = kernel.tensor_map("b", &b_there, &[n.into(), k.into()])?;
    kernel.launch(&device.stream()?, (n / 128, m / 128), (&a_map, &b_map, &mut c, n, k))?;

    let found = c.to_vec()?;
    let dot = |row: u32, column: u32| -> f32 {
        (0..k).map(|i| a[(row * k + i) as usize].to_f32() * b[(column * k + i) as usize].to_f32()).sum()
    };
    Ok((0..m * n).filter(|&at| found[at as usize] != dot(at / n, at % n)).count())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::emulated(Arch::named("b200")?, Schedule::Latest)?;
    let (m, n, k) = (256, 384, 320);
    let wrong = wrong_elements(&device, (m, n, k))?;
    println!("{}: {wrong} of {} elements are wrong", device.name(), m * n);
    if wrong == 0 { Ok(()) } else { Err("the kernel's result is wrong".into()) }
}
