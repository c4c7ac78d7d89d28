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
                "has elements of {b}, and a of {a}; pass two of float16, two of bfloat16, or two 8-bit floats"
            ))),
        }
    };
}

pub(crate) fn gemm(call: &Call<'_>) -> Result<(), Error> {
    let [a, b] = ["a", "b"].map(|name| call.tensor(name));
    with_operands!(a, b, A, B => into_output::<A, B>(call, [a, b]), [
        bf16 Bf16, bf16 Bf16;
        f16 F16, f16 F16;
        e4m3 E4m3, e4m3 E4m3;
        e4m3 E4m3, e5m2 E5m2;
        e5m2 E5m2, e4m3 E4m3;
        e5m2 E5m2, e5m2 E5m2;
    ])
}

fn into_output<A, B>(call: &Call<'_>, operands: [Given<'_>; 2]) -> Result<(), Error>
where
    A: MultipliesWith<B> + Storable + HostElement,
    B: MultipliesWith<A> + Storable + HostElement,
{
    let c = call.tensor("c");
    match c.element()? {
        ElementType::F32 => multiply::<A, B, f32>(call, operands),
        ElementType::Bf16 => multiply::<A, B, bf16>(call, operands),
        ElementType::F16 => multiply::<A, B, f16>(call, operands),
        _ => Err(c.not_among("float32, bfloat16 or float16")),
    }
}

fn multiply<A, B, C>(call: &Call<'_>, [a, b]: [Given<'_>; 2]) -> Result<(), Error>
where
    A: MultipliesWith<B> + Storable + HostElement,
    B: MultipliesWith<A> + Storable + HostElement,
    C: GemmOutput + HostElement,
{
    let (c, bias) = (call.tensor("c"), call.optional("bias"));
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
    let activations = [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Silu];
    let activation = call.one_of("activation", &activations)?;
    let problem = Problem { a: of_a.layout, b: of_b.layout, ..Problem::new(m, n, k) };
    let batch = Batch::new(problem, of_a.count.unwrap_or(1));
    let batch = Batch { a_stride: of_a.stride, b_stride: of_b.stride, ..batch };
    let bias = bias
        .map(|bias| {
            bias.expect_extents([n])?;
            bias.buffer::<f32>()
        })
        .transpose()?;
    let gemm = Gemm::from(batch).alpha(call.float("alpha")).beta(call.float("beta")).activation(activation);
    let gemm = bias.as_ref().map_or(gemm, |bias| gemm.bias(bias));
    let (a, b, mut c) = (a.memory::<A>()?, b.memory::<B>()?, c.buffer::<C>()?);
    call.operations().gemm(call.stream(), &gemm, &a, &b, &mut c)?;
    Ok(())
}
