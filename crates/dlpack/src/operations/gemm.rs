//! GEMM: the strides of A and B say which axis is contiguous.

use warpwright::prelude::{bf16, e4m3, e5m2, f16};
use warpwright::runtime::Storable;
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::epilogue::Activation;
use warpwright_kernels::gemm::problem::types::{MatrixLayout, MultipliesWith};
use warpwright_kernels::gemm::{Gemm, GemmOutput};

use crate::call::{Call, Given};
use crate::error::Error;
use crate::tensor::{ElementType, HostElement};

/// A matrix of each problem of a batch.
struct Matrices {
    count: Option<u32>,
    rows: u32,
    columns: u32,
    layout: MatrixLayout,
    /// Elements from one matrix to the next.
    stride: u64,
}

impl Matrices {
    fn of(given: Given<'_>) -> Result<Self, Error> {
        let (count, [rows, columns]) = match given.tensor.extents().len() {
            3 => {
                let [count, rows, columns] = given.extents()?;
                (Some(count), [rows, columns])
            }
            _ => (None, given.extents()?),
        };
        let strides = given.tensor.strides();
        let [.., of_row, of_column] = strides[..] else { unreachable!("two axes at least") };
        // An axis of one element may have any stride.
        let is = |stride: i64, expected: u32, extent: u32| extent <= 1 || stride == i64::from(expected);
        let layout = if is(of_column, 1, columns) && is(of_row, columns, rows) {
            MatrixLayout::RowMajor
        } else if is(of_row, 1, rows) && is(of_column, rows, columns) {
            MatrixLayout::ColumnMajor
        } else {
            let shape = given.tensor.extents();
            return Err(given.refused(format!(
                "has the strides {strides:?} for the shape {shape:?}; pass contiguous matrices, or their transposes"
            )));
        };
        let stride = match count {
            Some(2..) => u64::try_from(strides[0]).map_err(|_| given.refused("has a negative stride"))?,
            _ => u64::from(rows) * u64::from(columns),
        };
        Ok(Self { count, rows, columns, layout, stride })
    }
}

/// Evaluates an expression with `$A` and `$B` as the types of operands that multiply each other.
macro_rules! with_operands {
    ($a:expr, $b:expr, $A:ident, $B:ident => $body:expr, [$($a_type:ident $a_element:ident, $b_type:ident $b_element:ident;)*]) => {
        match ($a.element()?, $b.element()?) {
            $((ElementType::$a_element, ElementType::$b_element) => {
                type $A = $a_type;
                type $B = $b_type;
                $body
            })*
            (a, b) => Err($b.refused(format!(
                "has elements of {b}, and {} of {a}; pass two of float16, two of bfloat16, or two 8-bit floats",
                $a.parameter
            ))),
        }
    };
}

/// The operands of a call, the output, and the problem that they are.
struct Operands<'c> {
    a: Given<'c>,
    b: Given<'c>,
    c: Given<'c>,
    batch: Batch,
    alpha: f32,
    beta: f32,
}

pub(crate) fn gemm(call: &Call<'_>) -> Result<(), Error> {
    let [a, b, c] = ["a", "b", "c"].map(|name| call.tensor(name));
    let (of_a, of_b) = (Matrices::of(a)?, Matrices::of(b)?);
    let (m, n, k) = (of_a.rows, of_b.columns, of_a.columns);
    if of_b.rows != k {
        return Err(b.refused(format!("has {} rows, and a has {k} columns; pass as many", of_b.rows)));
    }
    if of_a.count != of_b.count {
        return Err(b.refused("has another number of matrices than a; pass as many"));
    }
    match of_a.count {
        Some(count) => c.expect_extents([count, m, n])?,
        None => c.expect_extents([m, n])?,
    }
    let problem = Problem { a: of_a.layout, b: of_b.layout, ..Problem::new(m, n, k) };
    let batch = Batch::new(problem, of_a.count.unwrap_or(1));
    let batch = Batch { a_stride: of_a.stride, b_stride: of_b.stride, ..batch };
    let (alpha, beta) = (call.float("alpha"), call.float("beta"));
    of_types(call, &Operands { a, b, c, batch, alpha, beta })
}

pub(crate) fn linear(call: &Call<'_>) -> Result<(), Error> {
    let [x, weight, y] = ["x", "weight", "y"].map(|name| call.tensor(name));
    let [n, k] = weight.extents()?;
    let (m, columns) = x.rows_and_columns()?;
    if columns != k {
        return Err(weight.refused(format!("has rows of {k} elements, and x of {columns}; pass as many")));
    }
    let (rows, of_x) = (|extents: &[i64]| extents[..extents.len() - 1].to_vec(), x.tensor.extents());
    if y.rows_and_columns()? != (m, n) || rows(y.tensor.extents()) != rows(of_x) {
        let expected = [rows(of_x), vec![i64::from(n)]].concat();
        return Err(y.refused(format!("has the shape {:?}; pass {expected:?}", y.tensor.extents())));
    }
    x.expect_contiguous()?;
    weight.expect_contiguous()?;
    let batch = Batch::from(Problem::new(m, n, k));
    of_types(call, &Operands { a: x, b: weight, c: y, batch, alpha: 1.0, beta: 0.0 })
}

fn of_types(call: &Call<'_>, operands: &Operands<'_>) -> Result<(), Error> {
    with_operands!(operands.a, operands.b, A, B => into_output::<A, B>(call, operands), [
        bf16 Bf16, bf16 Bf16;
        f16 F16, f16 F16;
        e4m3 E4m3, e4m3 E4m3;
        e4m3 E4m3, e5m2 E5m2;
        e5m2 E5m2, e4m3 E4m3;
        e5m2 E5m2, e5m2 E5m2;
    ])
}

fn into_output<A, B>(call: &Call<'_>, operands: &Operands<'_>) -> Result<(), Error>
where
    A: MultipliesWith<B> + Storable + HostElement,
    B: MultipliesWith<A> + Storable + HostElement,
{
    match operands.c.element()? {
        ElementType::F32 => multiply::<A, B, f32>(call, operands),
        ElementType::Bf16 => multiply::<A, B, bf16>(call, operands),
        ElementType::F16 => multiply::<A, B, f16>(call, operands),
        _ => Err(operands.c.not_among("float32, bfloat16 or float16")),
    }
}

fn multiply<A, B, C>(call: &Call<'_>, operands: &Operands<'_>) -> Result<(), Error>
where
    A: MultipliesWith<B> + Storable + HostElement,
    B: MultipliesWith<A> + Storable + HostElement,
    C: GemmOutput + HostElement,
{
    let Operands { a, b, c, batch, alpha, beta } = *operands;
    let activations = [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Silu];
    let activation = call.one_of("activation", &activations)?;
    let bias = call.optional("bias").map(|bias| {
        bias.expect_extents([batch.problem.n])?;
        bias.buffer::<f32>()
    });
    let bias = bias.transpose()?;
    let gemm = Gemm::from(batch).alpha(alpha).beta(beta).activation(activation);
    let gemm = bias.as_ref().map_or(gemm, |bias| gemm.bias(bias));
    let (a, b, mut c) = (a.memory::<A>()?, b.memory::<B>()?, c.buffer::<C>()?);
    call.operations().gemm(call.stream(), &gemm, &a, &b, &mut c)?;
    Ok(())
}
