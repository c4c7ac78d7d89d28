//! One instruction for each kind of unit of an SM.
//!
//! `warpwright ptx hardware-demonstration --annotate` shows which PTX each line becomes:
//!
//! ```text
//! load/store unit          ld.global, st.global
//! CUDA core                cvt, add          one f32 operation a lane and clock
//! special function unit    sin.approx        a quarter as many
//! tensor core              mma.sync          16 x 8 x 16 multiply-adds of the whole warp
//! ```

use warpwright::prelude::*;
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Result, Setup, Values, Work, Workload, compare,
};

/// waves = sin(2 · input); product = A·Bᵀ, where A is the input and B its first rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HardwareDemonstration;

/// The MMA instruction: D and C f32, A and B f16; A is (16, 16), B (8, 16), both K-major.
const ATOM: &str = "SM80_16x8x16_F32F16F16F32_TN";
const M: u32 = 16;
const N: u32 = 8;
const K: u32 = 16;
/// The shapes for the layout algebra.
const A: (u32, u32) = (M, K);
const B: (u32, u32) = (N, K);
const C: (u32, u32) = (M, N);

impl HardwareDemonstration {
    /// The input is A, (16, 16) row-major; its first 8 rows are also B. `waves` has 32 elements,
    /// `product` is (16, 8) row-major.
    #[kernel]
    pub fn run(&self, input: &Global<f16>, waves: &mut Global<f32>, product: &mut Global<f32>) {
        launch::threads(32);
        let lane = thread_idx().x;
        let loaded = input[lane];
        let single: Reg<f32> = loaded.convert();
        let doubled = single + single;
        let wave = doubled.sin_approx();
        waves[lane] = wave;

        let memory = shared_array::<f16>(M * K);
        for element in (0..M * K).step_by(32) {
            memory.at(lane + element).store(input[lane + element]);
        }
        sync_threads();
        let mma = TiledMma::atom(ATOM);
        let part = mma.thread(lane);
        let a = Tensor::with_layout(memory, Layout::row_major(A));
        let b = Tensor::with_layout(memory, Layout::row_major(B));
        let c = Tensor::with_layout(*product, Layout::row_major(C));
        let a_registers: Fragment<f16> = part.a_fragment(A);
        let b_registers: Fragment<f16> = part.b_fragment(B);
        let mut accumulators: Fragment<f32> = part.c_fragment(C);
        accumulators.clear();
        let a_load = TiledCopy::into_a::<f16>("SM75_U32x4_LDSM_N", &mma).thread(lane);
        let b_load = TiledCopy::into_b::<f16>("SM75_U32x2_LDSM_N", &mma).thread(lane);
        a_load.load_matrix(&a_load.retile(&a_registers), &a_load.source(&a));
        b_load.load_matrix(&b_load.retile(&b_registers), &b_load.source(&b));
        gemm(&mma, &mut accumulators, &a_registers.slice((All, All, 0)), &b_registers.slice((All, All, 0)));
        let mine = part.c(&c);
        for value in 0..4 {
            mine.set(value, accumulators.get(value));
        }
    }
}

/// Executes one instruction for each kind of unit of an SM: CUDA core, SFU, load/store unit, tensor
/// core.
#[derive(Clone, Debug, Options)]
pub(crate) struct HardwareDemonstrationWorkload {}

impl Workload for HardwareDemonstrationWorkload {
    const NAME: &'static str = "hardware-demonstration";

    fn work(&self) -> Work {
        Work { operations: 2.0 * f64::from(M * N * K) + 64.0, bytes: f64::from(M * K * 2 + M * N * 4 + 128) }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let kernel = setup.device().compile(&HardwareDemonstration.run()?)?;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.values::<f16>(Values::Normal, seed, (M * K) as usize)?;
            Ok((input, setup.output::<f32>(32)?, setup.output::<f32>((M * N) as usize)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, waves, product)| {
                Ok(kernel.launch(stream, 1, (input, waves, product))?)
            })
            .verify(|(input, waves, product)| {
                let input = input.to_vec()?;
                let value = |row: usize, k: usize| input[row * K as usize + k].exact();
                let waves = waves.to_vec()?.into_iter().enumerate().map(|(lane, found)| Compared {
                    found: found.into(),
                    expected: (2.0 * input[lane].exact()).sin(),
                    // PTX ISA, `sin.approx`: the absolute error is 2^-20.5 between -pi and pi, and
                    // larger outside.
                    tolerance: 2e-6,
                });
                let product = product.to_vec()?.into_iter().enumerate().map(|(index, found)| {
                    let (row, column) = (index / N as usize, index % N as usize);
                    let terms = (0..K as usize).map(|k| value(row, k) * value(column, k));
                    let size: f64 = terms.clone().map(f64::abs).sum();
                    Compared {
                        found: found.into(),
                        expected: terms.sum(),
                        tolerance: size * 4.0 * f32::ROUNDING,
                    }
                });
                Ok(compare(waves.chain(product), |index| vec![index as usize])?)
            }))
    }
}
