//! Matrices for tests of products: what is in them, and where.

use warpwright_kernels::gemm::problem::types::MatrixLayout;

/// Whole numbers from -2 to 2: every product and sum of them is exact in every type, so results
/// must be what the reference rounds to.
pub(crate) fn whole(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 60) as f32 % 5.0 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

/// Where element (row, column) of a matrix of those extents is.
pub(crate) fn element_index(
    order: MatrixLayout,
    row: usize,
    column: usize,
    (rows, columns): (usize, usize),
) -> usize {
    match order {
        MatrixLayout::RowMajor => row * columns + column,
        MatrixLayout::ColumnMajor => column * rows + row,
    }
}
