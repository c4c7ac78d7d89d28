//! Tutorial 6, Hello, MMA: one tensor-core instruction, and its fragments. The chapter is
//! `book/src/layouts/06_hello_mma.md`.

use std::error::Error;
use std::io::Write;

use warpwright::prelude::*;
use warpwright::runtime::Device;

/// D and C are f32, A and B f16; A is (m, k) and B (n, k), both with k contiguous.
const ATOM: &str = "SM80_16x8x16_F32F16F16F32_TN";
const M: u32 = 16;
const N: u32 = 8;
const K: u32 = 16;
const A: (u32, u32) = (M, K);
const B: (u32, u32) = (N, K);
const C: (u32, u32) = (M, N);

/// Every lane writes its index to its elements of C.
#[kernel]
fn stamp(owners: &mut Global<u32>) {
    launch::threads(32);
    let tile = Tensor::with_layout(*owners, Layout::column_major(C));
    let mine = TiledMma::atom(ATOM).thread(thread_idx().x).c(&tile);
    for value in 0..4 {
        mine.set(value, thread_idx().x);
    }
}

/// C = A·Bᵀ by one warp and one instruction. C is column-major.
#[kernel]
fn multiply(a: &Global<f16>, b: &Global<f16>, c: &mut Global<f32>) {
    launch::threads(32);
    let lane = thread_idx().x;
    let (a_memory, b_memory) = (shared_array::<f16>(M * K), shared_array::<f16>(N * K));
    for step in (0..M * K).step_by(32) {
        a_memory.at(lane + step).store(a[lane + step]);
    }
    for step in (0..N * K).step_by(32) {
        b_memory.at(lane + step).store(b[lane + step]);
    }
    sync_threads();
    let a = Tensor::with_layout(a_memory, Layout::row_major(A));
    let b = Tensor::with_layout(b_memory, Layout::row_major(B));
    let c = Tensor::with_layout(*c, Layout::column_major(C));

    // Registers, in the shapes that the instruction needs.
    let mma = TiledMma::atom(ATOM);
    let part = mma.thread(lane);
    let a_registers: Fragment<f16> = part.a_fragment(A);
    let b_registers: Fragment<f16> = part.b_fragment(B);
    let mut accumulators: Fragment<f32> = part.c_fragment(C);
    accumulators.clear();

    // Shared memory to registers, by ldmatrix.
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

/// Multiplies, prints C, and compares it with a reference on the host.
fn show(
    device: &Device,
    out: &mut dyn Write,
    a: impl Fn(u32, u32) -> f32,
    b: impl Fn(u32, u32) -> f32,
) -> Result<(), Box<dyn Error>> {
    let half = |rows: u32, of: &dyn Fn(u32, u32) -> f32| -> Vec<f16> {
        (0..rows * K).map(|index| f16::from_f32(of(index / K, index % K))).collect()
    };
    let (a_there, b_there) = (device.buffer_from(&half(M, &a))?, device.buffer_from(&half(N, &b))?);
    let mut c = device.uninitialized::<f32>((M * N) as usize)?;
    let counts = device.compile(&multiply()?)?.launch(&device.stream()?, 1, (&a_there, &b_there, &mut c))?;
    let c = c.to_vec()?;
    let at = |m: u32, n: u32| c[(m + n * M) as usize];
    for m in 0..M {
        let row: Vec<String> = (0..N).map(|n| format!("{:>6.1}", at(m, n))).collect();
        writeln!(out, "m={m:<3} {}", row.join(" "))?;
        for n in 0..N {
            let expected: f32 = (0..K).map(|k| a(m, k) * b(n, k)).sum();
            if at(m, n) != expected {
                return Err(format!("C({m},{n}) is {}, and should be {expected}", at(m, n)).into());
            }
        }
    }
    if device.properties().is_emulated {
        writeln!(out, "multiply-adds: {}", counts.mma_multiply_adds)?;
    }
    Ok(())
}

pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "=== Who holds C: {ATOM} ===")?;
    let mut owners = device.uninitialized::<u32>((M * N) as usize)?;
    device.compile(&stamp()?)?.launch(&device.stream()?, 1, (&mut owners,))?;
    let owners = owners.to_vec()?;
    let owner = |m: u32, n: u32| owners[(m + n * M) as usize];
    for m in 0..M {
        let row: Vec<String> = (0..N).map(|n| format!("T{:02}", owner(m, n))).collect();
        writeln!(out, "m={m:<3} {}", row.join("  "))?;
        if (0..N).any(|n| owner(m, n) != m % 8 * 4 + n / 2) {
            return Err(format!("row {m} is not held as the PTX ISA says").into());
        }
    }

    writeln!(out, "\n=== C(16x8) = A(16x16) * B(8x16)ᵀ, all ones ===")?;
    show(device, out, |_, _| 1.0, |_, _| 1.0)?;
    writeln!(out, "\n=== A(m,k) = m + k, B(n,k) = k - n ===")?;
    show(device, out, |m, k| (m + k) as f32, |n, k| k as f32 - n as f32)
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
