//! GEMMs of several problems, and with blockwise scales: `cargo run -p warpwright-kernels --example
//! gemm`.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Stream};
use warpwright_kernels::gemm::problem::scales::{Granularity, Scaled};
use warpwright_kernels::gemm::{Gemm, GroupMember};
use warpwright_kernels::operations::Operations;

type Outcome = Result<(), Box<dyn std::error::Error>>;

pub(crate) fn main() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    grouped_along_m(&operations, &stream)?;
    grouped(&operations, &stream)?;
    block_scales(&operations, &stream)?;
    println!("every element is right");
    Ok(())
}

/// A mixture of experts: rows 0 to 5, none, and rows 5 to 12 of A, each times a B of its own.
fn grouped_along_m(operations: &Operations, stream: &Stream) -> Outcome {
    let device = operations.device();
    let offsets = device.buffer_from(&[0u32, 5, 5, 12])?;
    let a = device.buffer_from(&[bf16::ONE; 12 * 16])?;
    let b: Vec<_> = [1.0, 2.0, 3.0].iter().flat_map(|&value| [bf16::from_f32(value); 24 * 16]).collect();
    let b = device.buffer_from(&b)?;
    let mut c = device.uninitialized::<f32>(12 * 24)?;
    operations.gemm(stream, &Gemm::new(12, 24, 16).along_m(&offsets), &a, &b, &mut c)?;
    let c: Vec<f32> = c.to_vec()?.chunks(24).map(|row| row[0]).collect();
    assert_eq!(c, [[16.0; 5].as_slice(), &[48.0; 7]].concat());
    Ok(())
}

/// Problems of unlike extents in one launch, each with its own epilogue.
fn grouped(operations: &Operations, stream: &Stream) -> Outcome {
    let device = operations.device();
    let ones = |count: usize| device.buffer_from(&vec![bf16::ONE; count]);
    let (a, b) = ([ones(8 * 16)?, ones(24 * 40)?], [ones(16 * 48)?, ones(40 * 8)?]);
    let mut c = [device.uninitialized::<f32>(8 * 48)?, device.uninitialized::<f32>(24 * 8)?];
    let [first, second] = &mut c;
    let mut members = [
        GroupMember::new(Gemm::new(8, 48, 16), &a[0], &b[0], first),
        GroupMember::new(Gemm::new(24, 8, 40).alpha(0.5), &a[1], &b[1], second),
    ];
    operations.gemm_grouped(stream, &mut members)?;
    assert_eq!((c[0].to_vec()?, c[1].to_vec()?), (vec![16.0; 8 * 48], vec![20.0; 24 * 8]));
    Ok(())
}

/// 8-bit operands that were quantized in blocks: A's rows are scaled by 1 in the first block of k,
/// and by 2 in the second.
fn block_scales(operations: &Operations, stream: &Stream) -> Outcome {
    let (device, (m, n, k)) = (operations.device(), (8, 16, 256));
    let a = device.buffer_from(&[e4m3::from_f32(1.0); 8 * 256])?;
    let b = device.buffer_from(&[e4m3::from_f32(1.0); 16 * 256])?;
    let mut a_scales = vec![1.0f32; Granularity::Row.count((m, k))];
    (0..m).for_each(|row| a_scales[Granularity::Row.index((row, 128), (m, k))] = 2.0);
    let b_scales = vec![0.5f32; Granularity::Block.count((n, k))];
    let (a_scales, b_scales) = (device.buffer_from(&a_scales)?, device.buffer_from(&b_scales)?);
    let mut c = device.uninitialized::<f32>(8 * 16)?;
    let (a, b) = (Scaled::by_row(&a, &a_scales), Scaled::by_block(&b, &b_scales));
    operations.gemm(stream, &Gemm::new(m, n, k), a, b, &mut c)?;
    assert_eq!(c.to_vec()?, [128.0 * 0.5 + 128.0 * 2.0 * 0.5; 8 * 16]);
    Ok(())
}
