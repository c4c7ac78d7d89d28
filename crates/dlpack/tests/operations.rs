//! Results of each operation, beside sums in f64.

use std::ptr::null_mut;

use warpwright::prelude::{bf16, f16};
use warpwright_dlpack::{Argument, Error, OPERATIONS, Operation, Tensor};

pub(crate) fn named(name: &str) -> &'static Operation {
    OPERATIONS.iter().find(|operation| operation.name == name).expect("a row of the table")
}

/// Calls an operation with tensors of the host.
pub(crate) fn call(name: &str, arguments: &[Argument<'_>]) -> Result<(), Error> {
    // SAFETY: the tensors of tests are vectors that live to the end of the test.
    unsafe { named(name).call(arguments, null_mut()) }
}

/// Numbers between -1 and 1 that a 16-bit float holds.
fn numbers(length: usize, seed: u32) -> Vec<f64> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from((state >> 24) as i32 - 128) / 128.0
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn bf16s(numbers: &[f64]) -> Vec<bf16> {
    numbers.iter().map(|number| bf16::from_f64(*number)).collect()
}

fn f32s(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|number| *number as f32).collect()
}

#[track_caller]
fn assert_close<T: Copy + Into<f64>>(given: &[T], expected: &[f64], tolerance: f64) {
    assert_eq!(given.len(), expected.len());
    for (at, (given, expected)) in given.iter().zip(expected).enumerate() {
        let given: f64 = (*given).into();
        // NaN is no result.
        assert!(
            (given - expected).abs() <= tolerance * (1.0 + expected.abs()),
            "{at}: {given}, not {expected}"
        );
    }
}

use Argument::{Float, Integer, None as Absent, Tensor as Given};

const ROWS: usize = 5;
const COLUMNS: usize = 40;
const SHAPE: [i64; 2] = [ROWS as i64, COLUMNS as i64];

/// A result of each row.
fn by_rows(x: &[f64], of_row: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    x.chunks(COLUMNS).flat_map(of_row).collect()
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<_> = row.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

#[test]
fn softmax_and_its_logarithm() {
    let x = numbers(ROWS * COLUMNS, 1);
    let (of_f32, of_bf16) = (f32s(&x), bf16s(&x));
    let mut y = vec![f32::NAN; x.len()];
    for given in [Tensor::of_host(&of_f32, &SHAPE), Tensor::of_host(&of_bf16, &SHAPE)] {
        y.fill(f32::NAN);
        call("softmax", &[Given(&given), Given(&Tensor::of_host_mut(&mut y, &SHAPE))]).unwrap();
        assert_close(&y, &by_rows(&x, softmax), 1e-6);
        y.fill(f32::NAN);
        call("log_softmax", &[Given(&given), Given(&Tensor::of_host_mut(&mut y, &SHAPE))]).unwrap();
        assert_close(&y, &by_rows(&x, |row| softmax(row).iter().map(|p| p.ln()).collect()), 1e-5);
    }
}

#[test]
fn norms() {
    let (x, weight, bias) = (numbers(ROWS * COLUMNS, 2), numbers(COLUMNS, 3), numbers(COLUMNS, 4));
    let [of_x, of_weight, of_bias] = [&x, &weight, &bias].map(|numbers| f32s(numbers));
    let columns = [COLUMNS as i64];
    let x_tensor = Tensor::of_host(&of_x, &SHAPE);
    let [weights, biases] = [&of_weight, &of_bias].map(|vector| Tensor::of_host(vector, &columns));
    let mut y = vec![f32::NAN; x.len()];
    let scaled = |row: &[f64], zero_centred: f64| {
        let root = (row.iter().map(|x| x * x).sum::<f64>() / COLUMNS as f64 + 1e-5).sqrt();
        row.iter().zip(&weight).map(|(x, w)| x / root * (w + zero_centred)).collect::<Vec<_>>()
    };
    for zero_centred in [0, 1] {
        let y_tensor = Tensor::of_host_mut(&mut y, &SHAPE);
        let arguments =
            [Given(&x_tensor), Given(&weights), Given(&y_tensor), Float(1e-5), Integer(zero_centred)];
        call("rms_norm", &arguments).unwrap();
        assert_close(&y, &by_rows(&x, |row| scaled(row, zero_centred as f64)), 1e-5);
    }
    let y_tensor = Tensor::of_host_mut(&mut y, &SHAPE);
    let arguments = [Given(&x_tensor), Given(&weights), Given(&biases), Given(&y_tensor), Float(1e-5)];
    call("layer_norm", &arguments).unwrap();
    let normalized = by_rows(&x, |row| {
        let mean = row.iter().sum::<f64>() / COLUMNS as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / COLUMNS as f64;
        let root = (variance + 1e-5).sqrt();
        row.iter().zip(weight.iter().zip(&bias)).map(|(x, (w, b))| (x - mean) / root * w + b).collect()
    });
    assert_close(&y, &normalized, 1e-5);

    let residual = f32s(&numbers(ROWS * COLUMNS, 5));
    let mut sum = vec![f32::NAN; x.len()];
    let [residuals, sums] = [Tensor::of_host(&residual, &SHAPE), Tensor::of_host_mut(&mut sum, &SHAPE)];
    let y_tensor = Tensor::of_host_mut(&mut y, &SHAPE);
    let inputs = [Given(&x_tensor), Given(&residuals), Given(&weights)];
    let rest = [Given(&sums), Given(&y_tensor), Float(1e-5), Integer(0)];
    call("add_rms_norm", &[&inputs[..], &rest].concat()).unwrap();
    let sums: Vec<f64> = x.iter().zip(&residual).map(|(x, r)| x + f64::from(*r)).collect();
    assert_close(&sum, &sums, 1e-6);
    assert_close(&y, &by_rows(&sums, |row| scaled(row, 0.0)), 1e-5);
}

#[test]
fn cross_entropy_and_swiglu() {
    let x = numbers(ROWS * COLUMNS, 6);
    let (of_x, target) = (bf16s(&x), [0i64, 39, -100, 7, 20]);
    let mut loss = vec![f32::NAN; ROWS];
    let (rows, target) = ([ROWS as i64], target.to_vec());
    let [x_tensor, targets] = [Tensor::of_host(&of_x, &SHAPE), Tensor::of_host(&target, &rows)];
    let losses = Tensor::of_host_mut(&mut loss, &rows);
    call("cross_entropy", &[Given(&x_tensor), Given(&targets), Given(&losses)]).unwrap();
    let expected = x
        .chunks(COLUMNS)
        .zip(&target)
        .map(|(row, target)| usize::try_from(*target).map_or(0.0, |target| -softmax(row)[target].ln()));
    assert_close(&loss, &expected.collect::<Vec<_>>(), 1e-5);

    let value = numbers(ROWS * COLUMNS, 7);
    let (of_value, mut y) = (bf16s(&value), vec![bf16::NAN; x.len()]);
    let [values, y_tensor] = [Tensor::of_host(&of_value, &SHAPE), Tensor::of_host_mut(&mut y, &SHAPE)];
    call("swiglu", &[Given(&x_tensor), Given(&values), Given(&y_tensor)]).unwrap();
    let expected: Vec<_> = x.iter().zip(&value).map(|(g, v)| g / (1.0 + (-g).exp()) * v).collect();
    assert_close(&y, &expected, 1.0 / 128.0);
}

/// A matrix (rows, columns) of `numbers`, transposed in memory or not.
fn placed<T: Copy>(numbers: &[T], [rows, columns]: [usize; 2], transposed: bool) -> (Vec<T>, [i64; 2]) {
    let strides = if transposed { [1, rows as i64] } else { [columns as i64, 1] };
    let mut placed = numbers.to_vec();
    for (at, number) in numbers.iter().enumerate() {
        placed[(at / columns) * strides[0] as usize + (at % columns) * strides[1] as usize] = *number;
    }
    (placed, strides)
}

fn product(a: &[f64], b: &[f64], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let element = |at: usize| (0..k).map(|i| a[at / n * k + i] * b[i * n + at % n]).sum();
    (0..m * n).map(element).collect()
}

#[test]
fn gemm_of_every_layout() {
    let [m, n, k] = [19, 24, 40];
    let (a, b, bias) = (numbers(m * k, 8), numbers(k * n, 9), numbers(n, 10));
    let of_bias = f32s(&bias);
    let bias_shape = [n as i64];
    let biases = Tensor::of_host(&of_bias, &bias_shape);
    let shapes = [[m as i64, k as i64], [k as i64, n as i64], [m as i64, n as i64]];
    let product = product(&a, &b, [m, n, k]);
    let expected = product.iter().enumerate().map(|(at, sum)| (0.5 * sum + bias[at % n]).max(0.0));
    let expected: Vec<_> = expected.collect();
    for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
        let (a, a_strides) = placed(&bf16s(&a), [m, k], a_transposed);
        let (b, b_strides) = placed(&bf16s(&b), [k, n], b_transposed);
        let mut c = vec![f32::NAN; m * n];
        let [a, b] = [(&a, &shapes[0], &a_strides), (&b, &shapes[1], &b_strides)]
            .map(|(matrix, shape, strides)| Tensor::of_host(matrix, shape).strided(strides));
        let c_tensor = Tensor::of_host_mut(&mut c, &shapes[2]);
        let tensors = [Given(&a), Given(&b), Given(&biases), Given(&c_tensor)];
        call("gemm", &[&tensors[..], &[Float(0.5), Float(0.0), Integer(1)]].concat()).unwrap();
        assert_close(&c, &expected, 1e-5);
    }
}

#[test]
fn linear_of_rows() {
    let [m, n, k] = [6, 20, 40];
    let (x, weight, bias) = (numbers(m * k, 16), numbers(n * k, 17), numbers(n, 18));
    let (of_x, of_weight, of_bias) = (bf16s(&x), bf16s(&weight), f32s(&bias));
    let mut y = vec![bf16::NAN; m * n];
    let (x_shape, shape, columns, y_shape) = ([2, 3, 40], [20, 40], [20], [2, 3, 20]);
    let [x_tensor, weights] = [Tensor::of_host(&of_x, &x_shape), Tensor::of_host(&of_weight, &shape)];
    let [biases, y_tensor] = [Tensor::of_host(&of_bias, &columns), Tensor::of_host_mut(&mut y, &y_shape)];
    call("linear", &[Given(&x_tensor), Given(&weights), Given(&biases), Given(&y_tensor), Integer(1)])
        .unwrap();
    let element = |at: usize| (0..k).map(|i| x[at / n * k + i] * weight[at % n * k + i]).sum::<f64>();
    let expected: Vec<_> = (0..m * n).map(|at| (element(at) + bias[at % n]).max(0.0)).collect();
    assert_close(&y, &expected, 1.0 / 128.0);
}

#[test]
fn gemm_of_a_batch_adds_c() {
    let [count, m, n, k] = [3, 8, 16, 32];
    let (a, b) = (numbers(count * m * k, 11), numbers(count * n * k, 12));
    let [a_half, b_half] =
        [&a, &b].map(|numbers| numbers.iter().map(|x| f16::from_f64(*x)).collect::<Vec<_>>());
    let mut c = vec![f16::from_f64(2.0); count * m * n];
    let shapes = [[count, m, k], [count, k, n], [count, m, n]].map(|shape| shape.map(|extent| extent as i64));
    let strides = [(k * n) as i64, 1, k as i64];
    let a_tensor = Tensor::of_host(&a_half, &shapes[0]);
    let b_tensor = Tensor::of_host(&b_half, &shapes[1]).strided(&strides);
    let c_tensor = Tensor::of_host_mut(&mut c, &shapes[2]);
    let tensors = [Given(&a_tensor), Given(&b_tensor), Absent, Given(&c_tensor)];
    call("gemm", &[&tensors[..], &[Float(1.0), Float(0.5), Integer(0)]].concat()).unwrap();
    let expected = (0..count).flat_map(|problem| {
        let (a, b) = (&a[problem * m * k..][..m * k], &b[problem * n * k..][..n * k]);
        // B is (n, k) in memory.
        (0..m * n)
            .map(|at| 1.0 + (0..k).map(|i| a[at / n * k + i] * b[at % n * k + i]).sum::<f64>())
            .collect::<Vec<_>>()
    });
    assert_close(&c, &expected.collect::<Vec<_>>(), 1e-3);
}

/// Attention in f64: (batch, queries, heads, d) and (batch, keys, kv_heads, d), causal.
fn attended(
    q: &[f64],
    k: &[f64],
    v: &[f64],
    [batch, queries, keys, heads, kv_heads, d]: [usize; 6],
) -> Vec<f64> {
    let mut o = vec![0.0; batch * queries * heads * d];
    for (at, row) in o.chunks_mut(d).enumerate() {
        let (sequence, query, head) = (at / heads / queries, at / heads % queries, at % heads);
        let of_key = |key: usize| ((sequence * keys + key) * kv_heads + head * kv_heads / heads) * d;
        let visible = query + keys - queries + 1;
        let score = |key| (0..d).map(|i| q[at * d + i] * k[of_key(key) + i]).sum::<f64>() / (d as f64).sqrt();
        let weights = softmax(&(0..visible).map(score).collect::<Vec<_>>());
        for (key, weight) in weights.iter().enumerate() {
            row.iter_mut().zip(&v[of_key(key)..]).for_each(|(o, v)| *o += weight * v);
        }
    }
    o
}

#[test]
fn attention_of_any_strides() {
    let extents @ [batch, queries, keys, heads, kv_heads, d] = [2, 70, 90, 4, 2, 64];
    let q = numbers(batch * queries * heads * d, 13);
    let [k, v] = [14, 15].map(|seed| numbers(batch * keys * kv_heads * d, seed));
    let shapes = [[batch, queries, heads, d], [batch, keys, kv_heads, d]]
        .map(|shape| shape.map(|extent| extent as i64));
    // (batch, heads, queries, d) in memory.
    let strides = [queries * heads * d, d, queries * d, 1].map(|stride| stride as i64);
    let mut by_heads = vec![bf16::NAN; q.len()];
    for (at, number) in q.iter().enumerate() {
        let (row, i) = (at / d, at % d);
        let (sequence, query, head) = (row / heads / queries, row / heads % queries, row % heads);
        by_heads[((sequence * heads + head) * queries + query) * d + i] = bf16::from_f64(*number);
    }
    let [of_q, of_k, of_v] = [&q, &k, &v].map(|numbers| bf16s(numbers));
    let expected = attended(&q, &k, &v, extents);
    let (mut o, mut lse) = (vec![bf16::NAN; q.len()], vec![f32::NAN; batch * heads * queries]);
    let [k, v] = [&of_k, &of_v].map(|matrix| Tensor::of_host(matrix, &shapes[1]));
    let lse_shape = [batch as i64, heads as i64, queries as i64];
    let numbers = [Absent, Absent, Float(0.0), Float(0.0), Integer(-1), Integer(0)];
    for q in [Tensor::of_host(&of_q, &shapes[0]), Tensor::of_host(&by_heads, &shapes[0]).strided(&strides)] {
        o.fill(bf16::NAN);
        let [o_tensor, lse] =
            [Tensor::of_host_mut(&mut o, &shapes[0]), Tensor::of_host_mut(&mut lse, &lse_shape)];
        let tensors = [Given(&q), Given(&k), Given(&v), Given(&o_tensor), Given(&lse)];
        call("attention", &[&tensors[..], &numbers].concat()).unwrap();
        assert_close(&o, &expected, 1.0 / 64.0);
    }

    // The gradient of V for a gradient of O of one query is that query's weights.
    let [q_tensor, o_tensor] = [&of_q, &o].map(|matrix| Tensor::of_host(matrix, &shapes[0]));
    let lse_tensor = Tensor::of_host(&lse, &lse_shape);
    let mut d_o = vec![bf16::ZERO; q.len()];
    d_o[(queries - 1) * heads * d] = bf16::ONE;
    let d_o_tensor = Tensor::of_host(&d_o, &shapes[0]);
    let mut d_q = vec![bf16::NAN; q.len()];
    let [mut d_k, mut d_v] = [(); 2].map(|()| vec![bf16::NAN; of_k.len()]);
    let d_q_tensor = Tensor::of_host_mut(&mut d_q, &shapes[0]);
    let [d_k_tensor, d_v_tensor] = [&mut d_k, &mut d_v].map(|matrix| Tensor::of_host_mut(matrix, &shapes[1]));
    let inputs =
        [Given(&q_tensor), Given(&k), Given(&v), Given(&o_tensor), Given(&lse_tensor), Given(&d_o_tensor)];
    let outputs = [Given(&d_q_tensor), Given(&d_k_tensor), Given(&d_v_tensor)];
    let numbers = [Absent, Float(0.0), Float(0.0), Integer(-1), Integer(0), Integer(1)];
    call("attention_gradients", &[&inputs[..], &outputs, &numbers].concat()).unwrap();
    let of_first_column: f64 = d_v.iter().step_by(d).map(|gradient| f64::from(*gradient)).sum();
    assert!((of_first_column - 1.0).abs() < 0.02, "weights of a query sum to {of_first_column}");
    assert!([d_q, d_k].concat().iter().all(|gradient| gradient.is_finite()));
}

#[test]
fn every_row_of_the_table_is_tried() {
    let tried = [
        "gemm",
        "linear",
        "softmax",
        "log_softmax",
        "rms_norm",
        "add_rms_norm",
        "layer_norm",
        "cross_entropy",
        "swiglu",
        "attention",
        "attention_gradients",
    ];
    let names: Vec<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
    assert_eq!(names, tried, "each operation has a test of its results in this file");
}
