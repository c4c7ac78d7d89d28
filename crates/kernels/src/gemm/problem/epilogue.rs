//! Arguments of the epilogue: of the linear one, and of the caller's.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::{Buffer, Storable};

use super::batching::Batch;
use crate::operations::{Result, expect_length};

/// Numbers that an epilogue is given.
pub const NUMBERS: usize = 4;

/// Columns of A·B of which the first half are gates and the second half values, in a gated GEMM: a
/// thread has the gate and the value of each of its elements, whether it has rows or columns of the
/// fragments of an MMA.
pub const GATED_COLUMNS: u32 = 16;

/// An epilogue operation and the arguments of one launch.
#[derive(Clone, Copy)]
pub struct EpilogueArguments<'a, C, E> {
    /// The epilogue operation: what a kernel is built for.
    pub epilogue: E,
    /// Numbers, whose meaning the operation defines.
    pub numbers: [f32; NUMBERS],
    /// A number for each row of C: m of them, or those of all problems of a batch one after
    /// another.
    pub rows: Option<&'a Buffer<f32>>,
    /// Numbers for each column of C: n of them, or those of all problems of a batch one after
    /// another.
    pub columns: [Option<&'a Buffer<f32>>; 2],
    /// A matrix with C's layout, such as a residual.
    pub matrix: Option<&'a Buffer<C>>,
}

impl<'a, C: Storable, E> EpilogueArguments<'a, C, E> {
    /// An epilogue operation without arguments.
    pub fn new(epilogue: E) -> Self {
        Self { epilogue, numbers: [0.0; NUMBERS], rows: None, columns: [None; 2], matrix: None }
    }

    /// The operation, and the arguments without it and without C's type.
    pub fn untyped(self) -> (E, EpilogueValues<'a>) {
        let Self { epilogue, numbers, rows, columns, matrix } = self;
        let matrix = matrix.map(Buffer::cast);
        (epilogue, EpilogueArguments { epilogue: (), numbers, rows, columns, matrix })
    }

    /// Which arguments there are.
    pub(crate) fn present(&self) -> PresentArguments {
        PresentArguments {
            rows: self.rows.is_some(),
            columns: self.columns.map(|vector| vector.is_some()),
            matrix: self.matrix.is_some(),
            is_gated: false,
        }
    }

    /// Refuses arguments of another length than `batch` needs. Groups along m have one vector over
    /// all rows.
    pub(crate) fn check(
        &self,
        batch: Batch,
        along_m: bool,
        names: [&'static str; 3],
        c_length: usize,
    ) -> Result<()> {
        let count = batch.count as usize;
        let rows = batch.problem.m as usize * if along_m { 1 } else { count };
        let columns = batch.problem.n as usize * count;
        let [first, second] = self.columns;
        for (name, vector, length) in
            [(names[0], self.rows, rows), (names[1], first, columns), (names[2], second, columns)]
        {
            if let Some(vector) = vector {
                expect_length(name, length, vector.len())?;
            }
        }
        self.matrix.map_or(Ok(()), |matrix| expect_length("the epilogue's matrix", c_length, matrix.len()))
    }
}

/// The arguments of an epilogue, whose types are known elsewhere.
pub(crate) type EpilogueValues<'a> = EpilogueArguments<'a, u8, ()>;

/// Which optional arguments an epilogue is given: a kernel is built for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PresentArguments {
    pub(crate) rows: bool,
    pub(crate) columns: [bool; 2],
    pub(crate) matrix: bool,
    /// Whether C has half of the columns that the operation sees.
    pub(crate) is_gated: bool,
}

/// An epilogue as [`Gemm`](crate::gemm::Gemm) has it.
pub trait Epilogue<C> {
    /// The epilogue operation that is staged into the kernel.
    type Operation;
    /// The names of the vectors, for messages: the rows', and both of the columns.
    const VECTORS: [&'static str; 3];

    /// The operation and its arguments.
    fn arguments(&self) -> EpilogueArguments<'_, C, Self::Operation>;

    /// Whether it stores the accumulators unchanged.
    fn is_identity(&self) -> bool {
        false
    }

    /// Whether it adds what C holds.
    fn adds_c(&self) -> bool {
        false
    }
}

impl<C: Storable, E: Clone> Epilogue<C> for EpilogueArguments<'_, C, E> {
    type Operation = E;
    const VECTORS: [&'static str; 3] = [
        "the epilogue's vector of rows",
        "the epilogue's first vector of columns",
        "the epilogue's second vector of columns",
    ];

    fn arguments(&self) -> EpilogueArguments<'_, C, E> {
        EpilogueArguments { epilogue: self.epilogue.clone(), ..*self }
    }
}

/// Function of each element, before C is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Activation {
    /// None.
    #[default]
    #[strum(serialize = "none")]
    Identity,
    /// max(x, 0).
    Relu,
    /// x·Φ(x), by its tanh approximation.
    Gelu,
    /// x·σ(x).
    Silu,
}

/// C = activation(alpha · row scale · A·B · column scale + bias) + beta · C.
#[derive(Clone, Copy)]
pub struct Linear<'a> {
    /// Multiplies every accumulator, such as the product of the tensors' scales.
    pub alpha: f32,
    /// Multiplies what C holds, which is added last.
    pub beta: f32,
    /// Multiplies the accumulators of a row: m of them.
    pub row_scales: Option<&'a Buffer<f32>>,
    /// Multiplies the accumulators of a column: n of them.
    pub column_scales: Option<&'a Buffer<f32>>,
    /// Added to the accumulators of a column: n of them.
    pub bias: Option<&'a Buffer<f32>>,
    /// Applied before C is added.
    pub activation: Activation,
}

impl Default for Linear<'_> {
    fn default() -> Self {
        let (row_scales, column_scales, bias) = (None, None, None);
        Self { alpha: 1.0, beta: 0.0, row_scales, column_scales, bias, activation: Activation::Identity }
    }
}

/// The parts of a [`Linear`] that a kernel is built for, beside its [`PresentArguments`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinearParts {
    pub(crate) alpha: bool,
    pub(crate) beta: bool,
    pub(crate) activation: Activation,
}

impl<'a> Linear<'a> {
    /// The parts, and the arguments of the launch.
    pub fn of_type<C: Storable>(self) -> EpilogueArguments<'a, C, LinearParts> {
        let Self { alpha, beta, activation, .. } = self;
        EpilogueArguments {
            numbers: [alpha, beta, 0.0, 0.0],
            rows: self.row_scales,
            columns: [self.column_scales, self.bias],
            ..EpilogueArguments::new(LinearParts { alpha: alpha != 1.0, beta: beta != 0.0, activation })
        }
    }
}

impl<C: Storable> Epilogue<C> for Linear<'_> {
    type Operation = LinearParts;
    const VECTORS: [&'static str; 3] = ["the row scales", "the column scales", "the bias"];

    fn arguments(&self) -> EpilogueArguments<'_, C, LinearParts> {
        self.of_type()
    }

    fn is_identity(&self) -> bool {
        let arguments = self.of_type::<C>();
        (arguments.epilogue, arguments.present()) == Default::default()
    }

    fn adds_c(&self) -> bool {
        self.beta != 0.0
    }
}
