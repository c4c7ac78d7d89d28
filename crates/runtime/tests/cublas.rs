//! cuBLAS, the benchmarks' baseline, computes the same products as the host for every layout of A
//! and B.

use half::bf16;
use warpwright_runtime::cublas::{CublasMatmul, MatmulShape, MatrixLayout};
use warpwright_runtime::{Device, Error};

#[test]
fn products_of_every_order_are_right() {
    let Some(device) = warpwright_testing::gpu(Device::named("cuda:0")) else { return };
    let stream = device.stream().expect("a stream");
    let (m, n, k) = (64usize, 96usize, 32usize);
    let value = |row: usize, column: usize, seed: usize| ((row * 7 + column * 3 + seed) % 9) as f32 - 4.0;
    let stored = |order, rows: usize, columns: usize, seed| -> Vec<bf16> {
        let at = |index: usize| match order {
            MatrixLayout::RowMajor => value(index / columns, index % columns, seed),
            MatrixLayout::ColumnMajor => value(index % rows, index / rows, seed),
        };
        (0..rows * columns).map(|index| bf16::from_f32(at(index))).collect()
    };
    for a_order in [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor] {
        for b_order in [MatrixLayout::RowMajor, MatrixLayout::ColumnMajor] {
            let a = device.buffer_from(&stored(a_order, m, k, 1)).expect("it fits");
            let b = device.buffer_from(&stored(b_order, k, n, 5)).expect("it fits");
            let mut c = device.zeros::<f32>(m * n).expect("it fits");
            let shape = MatmulShape { m, n, k, a: a_order, b: b_order, batch: 1 };
            let product = match CublasMatmul::new(&stream, shape, &a, &b, &mut c) {
                Err(Error::NoCublas { reason }) => {
                    eprintln!("not run: {reason}");
                    return;
                }
                product => product.expect("it can be prepared"),
            };
            product.launch(&stream, &a, &b, &mut c).expect("it fits");
            let c = c.to_vec().expect("readable");
            for row in 0..m {
                for column in 0..n {
                    let expected: f32 = (0..k).map(|i| value(row, i, 1) * value(i, column, 5)).sum();
                    assert_eq!(c[row * n + column], expected, "{a_order:?} {b_order:?} ({row}, {column})");
                }
            }
        }
    }
}
