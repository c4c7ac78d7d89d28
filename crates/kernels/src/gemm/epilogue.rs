//! Epilogues: what becomes of a sum before it is rounded and stored.
//!
//! An epilogue is a closure over device values, from a sum and its place in C to a value; small ones compose. In a kernel of one's own,
//! `compute` takes one; [`multiply_with`](crate::operations::Operations::multiply_with) stages one into the library's own kernels.
//!
//! ```
//! use warpwright::prelude::*;
//! use warpwright_kernels::gemm::Gemm;
//! use warpwright_kernels::gemm::epilogue::{Epilogue, relu, scaled};
//! use warpwright_kernels::gemm::multiply::Product;
//!
//! struct ScaledSquares {
//!     gemm: Gemm,
//! }
//!
//! impl ScaledSquares {
//!     /// C = relu(alpha · A·B)².
//!     #[kernel]
//!     fn run(&self, a: &Global<bf16>, b: &Global<bf16>, c: &mut Global<f32>, alpha: f32, m: u32, n: u32, k: u32) {
//!         let epilogue = scaled(alpha).then(relu()).then(|value: Reg<f32>, _| value * value);
//!         self.gemm.compute(a, b, c, (m, n, k), &epilogue);
//!     }
//! }
//!
//! let squares = ScaledSquares { gemm: Gemm::for_product(Product::new(256, 256, 64)) };
//! assert!(squares.run().is_ok());
//! ```

use warpwright::prelude::*;

use super::GemmOutput;

/// Where a sum belongs in C.
#[derive(Clone, Copy, DeviceValue)]
pub struct Place {
    /// Its row; outside of C where the tile is.
    pub row: Reg<u32>,
    /// Its column.
    pub column: Reg<u32>,
    /// C's rows and columns.
    pub extents: (Reg<u32>, Reg<u32>),
    /// Where C begins in what the products of a launch share; `None` of a single one.
    pub origin: Option<Origin>,
}

/// Where one of several products begins in what they share.
#[derive(Clone, Copy, DeviceValue)]
pub struct Origin {
    /// Rows of all before its first.
    pub row: Reg<u32>,
    /// Columns of all before its first.
    pub column: Reg<u32>,
    /// Elements before its C.
    pub element: Reg<u64>,
}

impl Place {
    /// The place in the transpose.
    pub fn transposed(self) -> Self {
        let (rows, columns) = self.extents;
        let origin = self.origin.map(|origin| Origin { row: origin.column, column: origin.row, ..origin });
        Self { row: self.column, column: self.row, extents: (columns, rows), origin }
    }

    /// The nearest row inside of C, to read something there.
    #[track_caller]
    fn inner_row(self) -> Reg<u32> {
        self.row.min(self.extents.0 - 1u32)
    }

    /// The nearest column inside of C.
    #[track_caller]
    fn inner_column(self) -> Reg<u32> {
        self.column.min(self.extents.1 - 1u32)
    }

    /// Its row, or the nearest one inside of C, counted through the rows of all products: where a vector has its number.
    #[track_caller]
    pub fn row_of_all(self) -> Reg<u32> {
        let row = self.inner_row();
        self.origin.map_or(row, |origin| origin.row + row)
    }

    /// Its column, or the nearest one inside of C, counted through the columns of all products.
    #[track_caller]
    pub fn column_of_all(self) -> Reg<u32> {
        let column = self.inner_column();
        self.origin.map_or(column, |origin| origin.column + column)
    }
}

/// What becomes of a sum. Any closure of that form is one.
pub trait Epilogue {
    /// The value to store for the sum that belongs at `at`.
    #[track_caller]
    fn apply(&self, sum: Reg<f32>, at: Place) -> Reg<f32>;

    /// This one, and what `next` makes of it.
    fn then(self, next: impl Epilogue) -> impl Epilogue
    where
        Self: Sized,
    {
        move |sum: Reg<f32>, at: Place| next.apply(self.apply(sum, at), at)
    }
}

impl<F: Fn(Reg<f32>, Place) -> Reg<f32>> Epilogue for F {
    #[track_caller]
    fn apply(&self, sum: Reg<f32>, at: Place) -> Reg<f32> {
        self(sum, at)
    }
}

/// The sum.
pub fn as_it_is() -> impl Epilogue {
    |sum: Reg<f32>, _: Place| sum
}

/// Times a factor, the same for all.
pub fn scaled(factor: Reg<f32>) -> impl Epilogue {
    move |sum: Reg<f32>, _: Place| sum * factor
}

/// Times the factor of its row.
pub fn scaled_by_row(factors: Global<f32>) -> impl Epilogue {
    move |sum: Reg<f32>, at: Place| sum * factors.at(at.row_of_all()).load_read_only()
}

/// Times the factor of its column.
pub fn scaled_by_column(factors: Global<f32>) -> impl Epilogue {
    move |sum: Reg<f32>, at: Place| sum * factors.at(at.column_of_all()).load_read_only()
}

/// Plus the bias of its column.
pub fn biased(bias: Global<f32>) -> impl Epilogue {
    move |sum: Reg<f32>, at: Place| sum + bias.at(at.column_of_all()).load_read_only()
}

/// Plus `factor` times the element of a row-major matrix of C's shape: a residual, or what C held.
pub fn plus<C: GemmOutput>(factor: Reg<f32>, matrix: Global<C>) -> impl Epilogue {
    move |sum: Reg<f32>, at: Place| factor.mul_add(element(matrix, at), sum)
}

/// An element of a matrix that lies as C does, and 0 outside of it: what another thread writes there must not be read.
#[device]
pub fn element<C: GemmOutput>(matrix: Global<C>, at: Place) -> Reg<f32> {
    let (rows, columns) = at.extents;
    let mut value = constant(0f32);
    if at.row < rows && at.column < columns {
        let place = at.row.convert::<u64>() * columns.convert::<u64>() + at.column.convert::<u64>();
        let place = at.origin.map_or(place, |origin| origin.element + place);
        value = C::to_sum(matrix.at(place).load());
    }
    value
}

/// At least zero.
pub fn relu() -> impl Epilogue {
    |sum: Reg<f32>, _: Place| sum.max_nan(0f32)
}

/// x·Φ(x), by its tanh approximation: x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))).
pub fn gelu() -> impl Epilogue {
    |x: Reg<f32>, _: Place| {
        let inner = x * (x * x).mul_add(0.797_884_6 * 0.044_715, 0.797_884_6f32);
        let half = x * 0.5f32;
        half.mul_add(inner.tanh_approx(), half)
    }
}

/// x/(1 + e⁻ˣ), as x/2 · (1 + tanh(x/2)).
pub fn silu() -> impl Epilogue {
    |x: Reg<f32>, _: Place| {
        let half = x * 0.5f32;
        half.mul_add(half.tanh_approx(), half)
    }
}
