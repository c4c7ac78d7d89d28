//! Launches that overlap the one in front of them wait for it before they touch what it uses: each
//! operation behind others that wrote what it reads and read what it writes, on an emulated H200
//! whose checkers report what comes too early.

use warpwright::emulator::Schedule;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Stream};
use warpwright_harness::{DynWorkload, Setup};
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::attention::decode::{DecodeBuffers, DecodeOptions, DecodeShape, Heads};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::problem::batching::Problem;
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear};
use warpwright_kernels::monoid::Sum;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rope::{HeadRows, NO_SLOT, Pairing, RopeBuffers, RopeShape};
use warpwright_kernels::rows::Gain;
use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};
use warpwright_testing::one_in;
use warpwright_workloads::workload;

use crate::SUITE;
use crate::matrices::whole;
use crate::walk::{SHAPES, Walk, choices_of_all};

type Outcome = warpwright_harness::Result<()>;

fn checked() -> warpwright_harness::Result<(Device, Operations, Stream)> {
    let device = Device::with_schedule("emu:h200", Schedule::Random(11))?.checked()?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    Ok((device, operations, stream))
}

/// Launches a workload twice, and checks its result. The second launch has the buffers, the workspace and
/// the counters of the first.
fn launch_twice(workload: &dyn DynWorkload, device: &Device, stream: &Stream) -> Outcome {
    let mut prepared = workload.prepare(&Setup::new(device))?;
    prepared.launch(stream)?;
    prepared.launch(stream)?;
    prepared.verify()?;
    Ok(())
}

/// Whatever runs in front of a kernel of the library may write all that it reads, but weights that the
/// caller says are constant.
#[test]
fn every_kernel_waits_for_any_predecessor() -> Outcome {
    let schedule = Schedule::Random(12);
    let device = Device::with_schedule("emu:h200", schedule)?.checked_behind_writers()?;
    let mut walk = Walk::new(&SUITE);
    for mut workload in one_in(3, choices_of_all(&SUITE, SHAPES, 1)) {
        let settings = [
            ("fresh-weights", "true"),
            ("fresh-states", "true"),
            ("preload-b", "false"),
            ("settled", "false"),
        ];
        for (option, value) in settings {
            if workload.get(option).is_some() {
                workload.set(option, value)?;
            }
        }
        walk.step_on(&*workload, &device, schedule);
    }
    walk.finish();
    Ok(())
}

#[test]
fn row_kernels_and_reductions_wait() -> Outcome {
    let (device, operations, stream) = checked()?;
    let ones = |count: u32| device.buffer_from(&vec![bf16::from_f32(1.0); count as usize]);
    // A part of a warp, a CTA, a cluster that leaves, and what is measured to be best for the
    // longest.
    for shape @ (rows, columns) in [(9, 100), (3, 4096), (2, 32_768), (2, 262_144)] {
        let matrix = || ones(rows * columns);
        let (mut x, mut y, mut sum, residual) = (matrix()?, matrix()?, matrix()?, matrix()?);
        let (mut weights, biases) = (ones(columns)?, ones(columns)?);
        let targets = device.buffer_from(&vec![1i64; rows as usize])?;
        let mut losses = device.zeros::<f32>(rows as usize)?;
        let mut totals = Vec::new();
        for _ in 0..2 {
            operations.softmax(&stream, &x, shape, &mut y)?;
            operations.softmax(&stream, &biases, (1, columns), &mut weights)?;
            operations.layer_norm(&stream, (&y, shape), (&weights, &biases), 1e-6, &mut x)?;
            operations.rms_norm(&stream, (&x, shape), (&weights, Gain::ZeroCentred), 1e-6, &mut y)?;
            operations.add_rms_norm(
                &stream,
                (&y, &residual, shape),
                (&weights, Gain::Weight),
                1e-6,
                (&mut sum, &mut x),
            )?;
            operations.cross_entropy(&stream, (&sum, shape), &targets, &mut losses)?;
            totals.push(operations.reduce(&stream, &sum, Sum)?);
        }
        assert!(losses.to_vec()?.iter().all(|loss| loss.is_finite()), "{rows} x {columns}");
        for total in totals {
            assert!(total.to_vec()?[0].to_f32().is_finite(), "{rows} x {columns}");
        }
    }
    Ok(())
}

#[test]
fn decode_attention_waits() -> Outcome {
    let (device, _, stream) = checked()?;
    let mut options = workload("decode-attention").expect("the library has it");
    options.set("keys", "200")?;
    options.set("ctas", "5")?;
    launch_twice(&*options, &device, &stream)?;
    Ok(())
}

/// A cache that is settled but for the newest keys, which the launch in front writes.
#[test]
fn attention_to_a_settled_cache_waits_for_the_newest_keys() -> Outcome {
    let (device, operations, stream) = checked()?;
    let heads = Heads { query_heads: 4, key_heads: 2, head_dim: 64 };
    let (queries, page_size, pages_per_sequence) = (2, 16, 9);
    let lengths = [1, 2, 33, 130, 96];
    let (batch, capacity) = (lengths.len() as u32, pages_per_sequence * page_size);
    let cache = PagedCache { page_size, pages: pages_per_sequence * batch, pages_per_sequence };
    let shape = DecodeShape { heads, batch, queries, cache };
    let random = |count: usize, seed| {
        let values: Vec<bf16> =
            whole(count, seed).into_iter().map(|value| bf16::from_f32(value / 8.0)).collect();
        device.buffer_from(&values)
    };
    let of_keys = shape.query_elements() / heads.group() as usize;
    let (q, k) = (random(shape.query_elements(), 1)?, random(of_keys, 2)?);
    let rope = RopeShape {
        query_heads: heads.query_heads,
        key_heads: heads.key_heads,
        head_dim: heads.head_dim,
        rotary_dim: 16,
        pairing: Pairing::default(),
    };
    let rotations = device.buffer_from(&[0.5f32; 16])?;
    let positions = device.zeros(shape.query_rows() / heads.query_heads as usize)?;
    // Where the last tokens' keys are; the first sequence has one.
    let slot = |token: u32| {
        let (sequence, query) = (token / queries, token % queries);
        let key = (lengths[sequence as usize] + query).checked_sub(queries);
        key.map_or(NO_SLOT, |key| sequence * capacity + key)
    };
    let slots = device.buffer_from(&(0..batch * queries).map(slot).collect::<Vec<_>>())?;
    let table = device.buffer_from(&(0..cache.pages).collect::<Vec<u32>>())?;
    let lengths = device.buffer_from(&lengths)?;
    let attended = |is_settled: bool| -> warpwright_harness::Result<Vec<bf16>> {
        let (mut keys, mut values) = (random(shape.pool_elements(), 3)?, random(shape.pool_elements(), 4)?);
        let mut rotated = device.zeros::<bf16>(shape.query_elements())?;
        let mut output = device.zeros::<bf16>(shape.query_elements())?;
        let mut lse = device.zeros::<f32>(shape.query_rows())?;
        let buffers = RopeBuffers {
            queries: HeadRows::dense(&q, heads.query_heads, heads.head_dim),
            keys: HeadRows::dense(&k, heads.key_heads, heads.head_dim),
            values: HeadRows::dense(&k, heads.key_heads, heads.head_dim),
            norm: None,
            rotations: &rotations,
            positions: &positions,
            slots: &slots,
            output: &mut rotated,
            key_cache: &mut keys,
            value_cache: &mut values,
        };
        operations.rope(&stream, &rope, buffers)?;
        let buffers = DecodeBuffers {
            queries: &rotated,
            keys: &keys,
            values: &values,
            table: &table,
            lengths: &lengths,
            gates: None,
            output: &mut output,
            lse: &mut lse,
        };
        let options = DecodeOptions { is_settled, ..DecodeOptions::default() };
        operations.decode_attention(&stream, &shape, options, buffers)?;
        Ok(output.to_vec()?)
    };
    assert_eq!(attended(true)?, attended(false)?);
    Ok(())
}

/// The caller's promise that nothing writes older keys, lengths or the table is checked.
#[test]
fn a_settled_cache_that_a_predecessor_writes_is_found() -> Outcome {
    let device = Device::with_schedule("emu:h200", Schedule::Random(11))?.checked_behind_writers()?;
    let mut options = workload("decode-attention").expect("the library has it");
    options.set("settled", "true")?;
    let mut prepared = options.prepare(&Setup::new(&device))?;
    let refused = prepared.launch(&device.stream()?).expect_err("lengths may be written");
    assert!(refused.to_string().contains("predecessor"), "{refused}");
    Ok(())
}

#[test]
fn products_wait() -> Outcome {
    let (device, operations, stream) = checked()?;
    let problem = Problem::new(136, 264, 264);
    let ones = |count: u32| -> Result<Buffer<bf16>, _> {
        device.buffer_from(&vec![bf16::from_f32(1.0); count as usize])
    };
    let (mut x, b) = (ones(136 * 264)?, ones(264 * 264)?);
    let one_row = ones(264)?;
    let (mut y, mut row) = (device.zeros::<bf16>(136 * 264)?, device.zeros::<f32>(264)?);
    let algorithms = operations.gemm_algorithms::<bf16, bf16>(&Gemm::from(problem), None);
    for algorithm in one_in(131, algorithms) {
        operations.gemm(&stream, &Gemm::from(problem).algorithm(algorithm), &x, &b, &mut y)?;
        operations.gemm(&stream, &Gemm::from(problem).algorithm(algorithm), &y, &b, &mut x)?;
    }
    // The bias, and what C holds before.
    operations.gemm(&stream, &Gemm::from(Problem::new(1, 264, 264)), &one_row, &b, &mut row)?;
    let linear = Linear { bias: Some(&row), activation: Activation::Relu, beta: 0.5, ..Linear::default() };
    operations.gemm(&stream, &Gemm::from(problem).epilogue(linear), &y, &b, &mut x)?;
    operations.gemm(&stream, &Gemm::from(problem).epilogue(linear), &x, &b, &mut y)?;
    assert_eq!(y.to_vec()?.len(), 136 * 264);
    Ok(())
}

#[test]
fn products_of_quantized_weights_wait() -> Outcome {
    let (device, operations, stream) = checked()?;
    const SIDE: u32 = 2560;
    const GROUP: u32 = 128;
    fn square<'l>(
        weights: &'l Buffer<u8>,
        scales: &'l Buffer<bf16>,
        constant: bool,
    ) -> QuantizedWeights<'l, bf16> {
        let (n, k, group, format) = (SIDE, SIDE, GROUP, WeightFormat::Int4);
        QuantizedWeights { n, k, format, weights, group, scales, zero_points: None, constant }
    }
    let groups = (SIDE * SIDE / GROUP) as usize;
    let bytes = device.buffer_from(&vec![0x99u8; (SIDE * SIDE / 2) as usize])?;
    let mut scales = device.buffer_from(&vec![bf16::from_f32(0.5); groups])?;
    let logits = device.buffer_from(&vec![bf16::from_f32(1.0); groups])?;
    let ones = device.buffer_from(&vec![bf16::from_f32(1.0); 2 * SIDE as usize])?;
    let mut y = [device.zeros::<bf16>(ones.len())?, device.zeros::<bf16>(ones.len())?];
    for _ in 0..2 {
        let [first, second] = &mut y;
        operations.weight_only_gemv(&stream, square(&bytes, &scales, true), &ones, first)?;
        operations.weight_only_gemv(&stream, square(&bytes, &scales, true), first, second)?;
        operations.weight_only_gemv(&stream, square(&bytes, &scales, true), second, first)?;
    }
    // Scales that the predecessor writes.
    operations.softmax(&stream, &logits, (SIDE, SIDE / GROUP), &mut scales)?;
    operations.weight_only_gemv(&stream, square(&bytes, &scales, false), &ones, &mut y[0])?;
    assert_eq!(y[0].to_vec()?[0].to_f32(), 128.0);
    Ok(())
}

#[test]
fn products_of_other_kinds_wait() -> Outcome {
    let (device, _, stream) = checked()?;
    let gemm = workload("gemm").expect("the library has it");
    for (grouping, scales) in
        [("along-m", "none"), ("unlike", "none"), ("none", "1x128"), ("unlike", "1x128")]
    {
        let mut options = gemm.clone();
        options.set("grouping", grouping)?;
        options.set("scales", scales)?;
        for (name, extent) in [("m", "136"), ("n", "136"), ("k", "136"), ("groups", "3")] {
            options.set(name, extent)?;
        }
        launch_twice(&*options, &device, &stream)?;
    }
    Ok(())
}

/// Weights that are loaded before the predecessor ends give what they give after it.
#[test]
fn preloaded_products_wait_and_are_right() -> Outcome {
    let (device, operations, stream) = checked()?;
    for (m, n, k) in [(136, 264, 264), (16, 264, 1032), (1, 136, 8)] {
        let problem = Problem::new(m, n, k);
        let matrix = |count: u32, seed| {
            let values: Vec<bf16> = whole(count as usize, seed).into_iter().map(bf16::from_f32).collect();
            device.buffer_from(&values)
        };
        let (before, b) = (matrix(m * k, 1)?, matrix(n * k, 2)?);
        let ones = matrix(k, 3)?;
        let mut x = device.zeros::<bf16>((m * k) as usize)?;
        let (mut y, mut expected) =
            (device.zeros::<f32>((m * n) as usize)?, device.zeros::<f32>((m * n) as usize)?);
        let algorithms = operations.gemm_algorithms::<bf16, f32>(&Gemm::from(problem), None);
        for algorithm in one_in(61, algorithms) {
            let gemm = Gemm::from(problem).algorithm(algorithm).beta(1.0);
            for (gemm, c) in [(gemm, &mut expected), (gemm.preload_b(), &mut y)] {
                stream.fill_zero(c)?;
                operations.rms_norm(&stream, (&before, (m, k)), (&ones, Gain::ZeroCentred), 1.0, &mut x)?;
                operations.gemm(&stream, &gemm, &x, &b, c)?;
                operations.gemm(&stream, &gemm, &x, &b, c)?;
            }
            assert_eq!(y.to_vec()?, expected.to_vec()?, "{algorithm}");
        }
    }
    Ok(())
}

#[test]
fn preloaded_products_with_block_scales_are_right() -> Outcome {
    let (device, _, stream) = checked()?;
    let mut options = workload("gemm").expect("the library has it").clone();
    options.set("scales", "1x128")?;
    options.set("b-scales", "128x128")?;
    options.set("preload-b", "true")?;
    for m in ["136", "16"] {
        for (name, extent) in [("m", m), ("n", "136"), ("k", "528")] {
            options.set(name, extent)?;
        }
        launch_twice(&*options, &device, &stream)?;
    }
    Ok(())
}

/// The caller's promise that nothing writes B is checked.
#[test]
fn a_preloaded_operand_that_a_predecessor_writes_is_found() -> Outcome {
    let device = Device::with_schedule("emu:h200", Schedule::Random(11))?.checked_behind_writers()?;
    let mut options = workload("gemm").expect("the library has it");
    for (name, value) in [("preload-b", "true"), ("m", "136"), ("n", "264"), ("k", "264")] {
        options.set(name, value)?;
    }
    let mut prepared = options.prepare(&Setup::new(&device))?;
    let refused = prepared.launch(&device.stream()?).expect_err("B may be written");
    assert!(refused.to_string().contains("asynchronous read"), "{refused}");
    Ok(())
}
