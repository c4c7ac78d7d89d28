//! Tutorial 7, The Global GEMM: tiles of C to CTAs, k-blocks through shared memory, fragments to
//! tensor cores. The chapter is `book/src/layouts/07_global_gemm.md`.

use std::error::Error;
use std::io::Write;

use warpwright::compare::{Tolerance, compare};
use warpwright::prelude::*;
use warpwright::runtime::Device;

/// The CTA tile: (m, n, k).
const TILE: (u32, u32, u32) = (128, 128, 32);
/// Warps of a CTA along m and n.
const WARPS: (u32, u32) = (2, 2);
const THREADS: u32 = 128;

/// A tile of (128, 32) in shared memory: k contiguous, 16-byte chunks exchanged by row.
#[track_caller]
fn shared_tile(rows: u32) -> Tensor<f16, SharedSpace> {
    let memory = dynamic_shared_aligned::<f16>(rows * TILE.2, 128);
    Tensor::swizzled(memory, Layout::row_major((rows, TILE.2)), Swizzle::new(2, 3, 3))
}

/// C = A·Bᵀ. A is (m, k), B is (n, k), C is (m, n), all row-major; m, n and k are multiples of the
/// tile.
#[kernel]
fn global_gemm(a: &Global<f16>, b: &Global<f16>, c: &mut Global<f32>, m: u32, n: u32, k: u32) {
    launch::threads(THREADS);
    let thread = thread_idx().x;
    let (row, column) = (block_idx().x, block_idx().y);

    // The strips of A and B that this CTA needs, (128, 32, k / 32), and its tile of C.
    let stride = multiple_of(k, TILE.2);
    let a = Tensor::with_layout(*a, Layout::new((m, k), (stride.clone(), 1)));
    let b = Tensor::with_layout(*b, Layout::new((n, k), (stride, 1)));
    let c = Tensor::with_layout(*c, Layout::new((m, n), (multiple_of(n, TILE.1), 1)));
    let a = a.local_tile((TILE.0, TILE.2), (row, All));
    let b = b.local_tile((TILE.1, TILE.2), (column, All));
    let c = c.local_tile((TILE.0, TILE.1), (row, column));

    // Global to shared memory: 16 bytes per thread, four threads per row.
    let (a_tile, b_tile) = (shared_tile(TILE.0), shared_tile(TILE.1));
    let copy = TiledCopy::new::<f16>(
        "SM80_CP_ASYNC_CACHEGLOBAL<128>",
        Layout::row_major((32, 4)),
        Layout::row_major((1, 8)),
    )
    .thread(thread);
    let (a_from, a_to) = (copy.source(&a), copy.target(&a_tile));
    let (b_from, b_to) = (copy.source(&b), copy.target(&b_tile));

    // Shared memory to registers, and registers to tensor cores.
    let mma = TiledMma::new("SM80_16x8x16_F32F16F16F32_TN", WARPS);
    let part = mma.thread(thread);
    let (tile_m, tile_n, tile_k) = TILE;
    let a_registers: Fragment<f16> = part.a_fragment((tile_m, tile_k));
    let b_registers: Fragment<f16> = part.b_fragment((tile_n, tile_k));
    let mut accumulators: Fragment<f32> = part.c_fragment((tile_m, tile_n));
    accumulators.clear();
    let a_load = TiledCopy::into_a::<f16>("SM75_U32x4_LDSM_N", &mma).thread(thread);
    let b_load = TiledCopy::into_b::<f16>("SM75_U32x4_LDSM_N", &mma).thread(thread);
    let (a_filled, b_filled) = (a_load.retile(&a_registers), b_load.retile(&b_registers));
    let (a_shared, b_shared) = (a_load.source(&a_tile), b_load.source(&b_tile));

    for k_block in 0..k / TILE.2 {
        copy.copy_async(&a_to, &a_from.slice((All, All, All, k_block)), |_| None);
        copy.copy_async(&b_to, &b_from.slice((All, All, All, k_block)), |_| None);
        commit_async_copies();
        wait_async_copies(0);
        sync_threads();
        for part in 0..tile_k / 16 {
            a_load.load_matrix(&a_filled.slice((All, All, part)), &a_shared.slice((All, All, part)));
            b_load.load_matrix(&b_filled.slice((All, All, part)), &b_shared.slice((All, All, part)));
            gemm(
                &mma,
                &mut accumulators,
                &a_registers.slice((All, All, part)),
                &b_registers.slice((All, All, part)),
            );
        }
        sync_threads();
    }

    // Each lane holds pairs of neighboring columns.
    let mine = part.c(&c);
    for pair in (0..accumulators.len()).step_by(2) {
        mine.set_vector(pair, [accumulators.get(pair), accumulators.get(pair + 1)]);
    }
}

/// Multiplies on the device, prints a corner, and compares every element with the host.
fn show(
    device: &Device,
    out: &mut dyn Write,
    (m, n, k): (u32, u32, u32),
    a: impl Fn(u32, u32) -> f32,
    b: impl Fn(u32, u32) -> f32,
) -> Result<(), Box<dyn Error>> {
    writeln!(out, "GEMM: C({m} x {n}) = A({m} x {k}) * B({n} x {k})ᵀ")?;
    let all = |rows: u32, of: &dyn Fn(u32, u32) -> f32| -> Vec<f32> {
        (0..rows * k).map(|index| of(index / k, index % k)).collect()
    };
    let (a, b) = (all(m, &a), all(n, &b));
    let half = |values: &[f32]| -> Vec<f16> { values.iter().map(|value| f16::from_f32(*value)).collect() };
    let (a_there, b_there) = (device.buffer_from(&half(&a))?, device.buffer_from(&half(&b))?);
    let mut c = device.uninitialized::<f32>((m * n) as usize)?;
    let kernel = device.compile(&global_gemm()?)?;
    let grid = (m / TILE.0, n / TILE.1);
    kernel.launch(&device.stream()?, grid, (&a_there, &b_there, &mut c, m, n, k))?;

    let c = c.to_vec()?;
    writeln!(out, "C[0:4][0:4]:")?;
    for row in c.chunks(n as usize).take(4) {
        writeln!(out, "  {:>8.1} {:>8.1} {:>8.1} {:>8.1}", row[0], row[1], row[2], row[3])?;
    }
    let products = a
        .chunks(k as usize)
        .flat_map(|row| b.chunks(k as usize).map(|column| row.iter().zip(column).map(|(a, b)| a * b).sum()));
    // All products and sums are integers below 2^24, which f32 holds exactly, in any order.
    let right = compare(&c, &products.collect::<Vec<f32>>(), Tolerance::EXACT)?;
    writeln!(out, "all {} elements are exact\n", right.elements)?;
    Ok(())
}

pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    show(device, out, (512, 512, 256), |_, _| 1.0, |_, _| 1.0)?;
    let a = |m: u32, k: u32| (m * 7 + k * 3) as f32 % 11.0 - 5.0;
    let b = |n: u32, k: u32| (n * 5 + k * 2) as f32 % 13.0 - 6.0;
    show(device, out, (256, 128, 96), a, b)
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
