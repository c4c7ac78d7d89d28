//! Epilogue operations: what an accumulator becomes before it is rounded and stored.
//!
//! An operation is a closure over device values, from an accumulator and its coordinate in C to a
//! value; small ones compose. In a kernel of one's own, `compute` takes one. A [`FusedEpilogue`] is
//! staged into the library's own kernels: it is called once, with the registers that hold the
//! arguments of a launch, and returns the operation.
//!
//! ```
//! use warpwright::prelude::*;
//! use warpwright_kernels::gemm::device::epilogue::{EpilogueOp, relu, scaled};
//! use warpwright_kernels::gemm::device::mainloop::mma_sync::MmaSyncGemm;
//! use warpwright_kernels::gemm::problem::batching::{GemmProblem, Problem};
//! use warpwright_kernels::gemm::problem::types::GemmTypes;
//!
//! struct ScaledSquares {
//!     gemm: MmaSyncGemm,
//! }
//!
//! impl ScaledSquares {
//!     /// C = relu(alpha · A·B)².
//!     #[kernel]
//!     fn run(&self, a: &Global<bf16>, b: &Global<bf16>, c: &mut Global<f32>, alpha: f32, m: u32, n: u32, k: u32) {
//!         let epilogue = scaled(alpha).then(relu()).then(|value: Reg<f32>, _| value * value);
//!         self.gemm.compute(a, b, &|| *c, (m, n, k), &epilogue);
//!     }
//! }
//!
//! let types = GemmTypes::of::<bf16, bf16, f32>();
//! let problem = GemmProblem::new(Problem::new(256, 256, 64), types);
//! let squares = ScaledSquares { gemm: MmaSyncGemm::new(&problem, Default::default()) };
//! assert!(squares.run().is_ok());
//! ```

use std::hash::{Hash, Hasher};
use std::panic::Location;

use warpwright::ir;
use warpwright::lang::recorder;
use warpwright::prelude::*;

use crate::gemm::problem::epilogue::{Activation, LinearParts, NUMBERS, PresentArguments};
use crate::gemm::problem::types::GemmOutput;

/// The position of an accumulator in C.
#[derive(Clone, Copy, DeviceValue)]
pub struct Coordinate {
    /// Its row; past C's last where the tile reaches past it.
    pub row: Reg<u32>,
    /// Its column.
    pub column: Reg<u32>,
    /// C's rows and columns.
    pub extents: (Reg<u32>, Reg<u32>),
    /// Where C begins in what the problems of a launch share; `None` for a single problem.
    pub origin: Option<Origin>,
}

/// Where one of several problems begins in what they share.
#[derive(Clone, Copy, DeviceValue)]
pub struct Origin {
    /// Rows of all problems before its first.
    pub row: Reg<u32>,
    /// Columns of all problems before its first.
    pub column: Reg<u32>,
    /// Elements before its C.
    pub element: Reg<u64>,
}

impl Coordinate {
    /// The coordinate in the transpose.
    pub fn transposed(self) -> Self {
        let (rows, columns) = self.extents;
        let origin = self.origin.map(|origin| Origin { row: origin.column, column: origin.row, ..origin });
        Self { row: self.column, column: self.row, extents: (columns, rows), origin }
    }

    /// Its row, or C's last, counted through the rows of all problems: the index into a vector of
    /// rows.
    #[track_caller]
    pub fn row_of_all(self) -> Reg<u32> {
        let row = self.row.min(self.extents.0 - 1u32);
        self.origin.map_or(row, |origin| origin.row + row)
    }

    /// Its column, or C's last, counted through the columns of all problems.
    #[track_caller]
    pub fn column_of_all(self) -> Reg<u32> {
        let column = self.column.min(self.extents.1 - 1u32);
        self.origin.map_or(column, |origin| origin.column + column)
    }
}

/// The function of an accumulator that the epilogue stores. Any closure of that form is one.
pub trait EpilogueOp {
    /// The value to store for the accumulator at a coordinate of C.
    #[track_caller]
    fn apply(&self, accumulator: Reg<f32>, at: Coordinate) -> Reg<f32>;

    /// This operation, then `next`.
    fn then(self, next: impl EpilogueOp) -> impl EpilogueOp
    where
        Self: Sized,
    {
        move |accumulator: Reg<f32>, at: Coordinate| next.apply(self.apply(accumulator, at), at)
    }
}

impl<F: Fn(Reg<f32>, Coordinate) -> Reg<f32>> EpilogueOp for F {
    #[track_caller]
    fn apply(&self, accumulator: Reg<f32>, at: Coordinate) -> Reg<f32> {
        self(accumulator, at)
    }
}

/// The accumulator.
pub fn identity() -> impl EpilogueOp {
    |value: Reg<f32>, _: Coordinate| value
}

/// Times a factor, the same for all.
pub fn scaled(factor: Reg<f32>) -> impl EpilogueOp {
    move |value: Reg<f32>, _: Coordinate| value * factor
}

/// Times the factor of its row.
pub fn scaled_by_row(factors: Global<f32>) -> impl EpilogueOp {
    move |value: Reg<f32>, at: Coordinate| value * factors.at(at.row_of_all()).load()
}

/// Times the factor of its column.
pub fn scaled_by_column(factors: Global<f32>) -> impl EpilogueOp {
    move |value: Reg<f32>, at: Coordinate| value * factors.at(at.column_of_all()).load()
}

/// Plus the bias of its column.
pub fn biased(bias: Global<f32>) -> impl EpilogueOp {
    move |value: Reg<f32>, at: Coordinate| value + bias.at(at.column_of_all()).load()
}

/// Plus `factor` times the element of a matrix with C's layout: a residual, or what C held.
pub fn plus<C: GemmOutput>(factor: Reg<f32>, matrix: Global<C>) -> impl EpilogueOp {
    move |value: Reg<f32>, at: Coordinate| factor.mul_add(element(matrix, at), value)
}

/// An element of a matrix with C's layout, and 0 outside of it: what another thread writes there
/// must not be read.
#[device]
pub fn element<C: GemmOutput>(matrix: Global<C>, at: Coordinate) -> Reg<f32> {
    let (rows, columns) = at.extents;
    let mut value = constant(0f32);
    if at.row < rows && at.column < columns {
        let index = at.row.convert::<u64>() * columns.convert::<u64>() + at.column.convert::<u64>();
        let index = at.origin.map_or(index, |origin| origin.element + index);
        value = C::to_accumulator(matrix.at(index).load());
    }
    value
}

/// At least zero.
pub fn relu() -> impl EpilogueOp {
    |value: Reg<f32>, _: Coordinate| value.max_nan(0f32)
}

/// x·Φ(x), by its tanh approximation: x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))).
pub fn gelu() -> impl EpilogueOp {
    |x: Reg<f32>, _: Coordinate| {
        let inner = x * (x * x).mul_add(0.797_884_6 * 0.044_715, 0.797_884_6f32);
        let half = x * 0.5f32;
        half.mul_add(inner.tanh_approx(), half)
    }
}

/// x/(1 + e⁻ˣ), as x/2 · (1 + tanh(x/2)).
pub fn silu() -> impl EpilogueOp {
    |x: Reg<f32>, _: Coordinate| {
        let half = x * 0.5f32;
        half.mul_add(half.tanh_approx(), half)
    }
}

/// A value times its activated gate, for a C. Unlike [`silu`] and [`gelu`], it has no error of
/// `tanh.approx`, which is large beside what large negative gates leave.
#[track_caller]
pub(crate) fn gated<C: GemmOutput>(activation: Activation, gate: Reg<f32>, value: Reg<f32>) -> Reg<f32> {
    let is_exact = C::BYTES == 4;
    let gate = match activation {
        Activation::Identity => gate,
        Activation::Relu => gate.max_nan(0f32),
        Activation::Gelu if is_exact => gate.gelu_tanh(),
        Activation::Silu if is_exact => gate.silu(),
        Activation::Gelu => {
            // (1 + tanh(u))/2 is the sigmoid of 2u.
            let gate = gate.max_nan(LEAST_GATE);
            gate * near_sigmoid(
                gate * (gate * gate).mul_add(2.0 * 0.797_884_6 * 0.044_715, 2.0 * 0.797_884_6f32),
            )
        }
        Activation::Silu => {
            let gate = gate.max_nan(LEAST_GATE);
            gate * near_sigmoid(gate)
        }
    };
    gate * value
}

/// Gates below it leave nothing, and minus infinity times zero would be NaN.
const LEAST_GATE: f32 = -200.0;

/// 1/(1 + e⁻ˣ) in five instructions, with a relative error far below a rounding to 16 bits: 2⁻²¹, and
/// |x|·2⁻²³ of the exponent.
#[track_caller]
fn near_sigmoid(x: Reg<f32>) -> Reg<f32> {
    fast::recip(fast::exp2(x * -std::f32::consts::LOG2_E) + 1f32)
}

/// An epilogue operation that a GEMM into `C` stages into its kernel.
///
/// A kernel is built for each value of it (by `Eq` and `Hash`), so its fields are what the kernel's
/// text depends on; what differs from launch to launch is in
/// [`EpilogueArguments`](crate::gemm::problem::epilogue::EpilogueArguments). [`Inline`] makes a
/// closure one.
pub trait FusedEpilogue<C>: Clone + Eq + Hash + Send + Sync + 'static {
    /// The operation, from the arguments of a launch.
    fn operation(&self, inputs: EpilogueInputs<C>) -> impl EpilogueOp;
}

/// A closure from [`EpilogueInputs`] to an operation, as a [`FusedEpilogue`]. It captures nothing:
/// it is known by its type.
///
/// ```
/// use warpwright::prelude::*;
/// use warpwright::runtime::Device;
/// use warpwright_kernels::gemm::Gemm;
/// use warpwright_kernels::gemm::device::epilogue::{EpilogueInputs, EpilogueOp, Inline, biased, plus, relu, scaled};
/// use warpwright_kernels::gemm::problem::epilogue::EpilogueArguments;
/// use warpwright_kernels::operations::Operations;
///
/// let device = Device::named("emu:h200")?;
/// let (operations, stream) = (Operations::new(&device), device.stream()?);
/// let a = device.buffer_from(&[bf16::from_f32(1.0); 16 * 8])?;
/// let b = device.buffer_from(&[bf16::from_f32(-0.5); 8 * 24])?;
/// let bias = device.buffer_from(&[1.0f32; 24])?;
/// let residual: Vec<f32> = (0..16 * 24).map(|index| (index % 7) as f32).collect();
/// let shortcut = device.buffer_from(&residual)?;
/// let mut c = device.uninitialized::<f32>(16 * 24)?;
/// // C = relu(alpha * A·B + bias + residual)
/// let block = Inline::new(|inputs: EpilogueInputs<f32>| {
///     let one = constant(1.0f32);
///     scaled(inputs.number(0)).then(biased(inputs.columns(0))).then(plus(one, inputs.matrix())).then(relu())
/// });
/// let arguments = EpilogueArguments {
///     numbers: [2.0, 0.0, 0.0, 0.0],
///     columns: [Some(&bias), None],
///     matrix: Some(&shortcut),
///     ..EpilogueArguments::new(block)
/// };
/// operations.gemm(&stream, &Gemm::new(16, 24, 8).epilogue(arguments), &a, &b, &mut c)?;
/// let expected: Vec<f32> = residual.iter().map(|value| (2.0 * -4.0 + 1.0 + value).max(0.0)).collect();
/// assert_eq!(c.to_vec()?, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Inline<F>(F);

impl<F> Inline<F> {
    /// Of a closure that captures nothing.
    pub fn new(closure: F) -> Self {
        const { assert!(size_of::<F>() == 0, "an epilogue is known by its type: pass values as arguments") }
        Self(closure)
    }
}

impl<F> PartialEq for Inline<F> {
    /// Closures of one type that capture nothing are one.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<F> Eq for Inline<F> {}

impl<F> Hash for Inline<F> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<C, E, F> FusedEpilogue<C> for Inline<F>
where
    E: EpilogueOp,
    F: Fn(EpilogueInputs<C>) -> E + Clone + Send + Sync + 'static,
{
    fn operation(&self, inputs: EpilogueInputs<C>) -> impl EpilogueOp {
        (self.0)(inputs)
    }
}

/// The arguments of a launch on the device.
#[derive(Clone, Copy, DeviceValue)]
pub struct EpilogueInputs<C> {
    numbers: [Reg<f32>; NUMBERS],
    rows: Option<Global<f32>>,
    columns: [Option<Global<f32>>; 2],
    matrix: Option<Global<C>>,
    c: Option<Global<C>>,
}

/// The arguments of a launch, as kernels take them: what is absent has some address.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct EpilogueParameters<C: Element> {
    pub(crate) matrix: Global<C>,
    pub(crate) numbers: [Reg<f32>; NUMBERS],
    pub(crate) rows: Global<f32>,
    pub(crate) columns: Global<f32>,
    pub(crate) more_columns: Global<f32>,
}

impl<C: Element> EpilogueInputs<C> {
    pub(crate) fn new(present: PresentArguments, parameters: EpilogueParameters<C>, c: Global<C>) -> Self {
        let EpilogueParameters { matrix, numbers, rows, columns, more_columns } = parameters;
        let [first, second] = present.columns;
        Self {
            numbers,
            rows: present.rows.then_some(rows),
            columns: [first.then_some(columns), second.then_some(more_columns)],
            matrix: present.matrix.then_some(matrix),
            c: (!present.is_gated).then_some(c),
        }
    }

    /// Number 0 to 3.
    #[track_caller]
    pub fn number(&self, index: usize) -> Reg<f32> {
        if index >= NUMBERS {
            refuse(
                Location::caller(),
                format!("number {index} does not exist: an epilogue has numbers 0 to 3"),
            );
        }
        self.numbers[index % NUMBERS]
    }

    /// The vector of rows, for [`scaled_by_row`] and its like.
    #[track_caller]
    pub fn rows(&self) -> Global<f32> {
        given(self.rows, "a vector of rows: set `EpilogueArguments::rows`")
    }

    /// The first or second vector of columns, for [`biased`] and its like.
    #[track_caller]
    pub fn columns(&self, index: usize) -> Global<f32> {
        let vector = self.columns.get(index).copied().flatten();
        given(vector, &format!("vector {index} of columns: set `EpilogueArguments::columns`, which has two"))
    }

    /// The matrix, for [`plus`] and its like.
    #[track_caller]
    pub fn matrix(&self) -> Global<C> {
        given(self.matrix, "a matrix: set `EpilogueArguments::matrix`")
    }

    /// What C holds before, for [`plus`]; not of a gated GEMM.
    #[track_caller]
    pub fn c(&self) -> Global<C> {
        given(self.c, "C: a gated GEMM stores half of its columns")
    }
}

/// The argument, or an error at the caller's line.
#[track_caller]
fn given<E: Element>(there: Option<Global<E>>, what: &str) -> Global<E> {
    let location = Location::caller();
    there.unwrap_or_else(|| {
        refuse(location, format!("the epilogue does not have {what}"));
        Global::from_address(constant(0u64))
    })
}

fn refuse(location: &'static Location<'static>, message: String) {
    recorder::with(|recorder| recorder.error(ir::Location::from(location), message));
}

impl<C: GemmOutput> FusedEpilogue<C> for LinearParts {
    fn operation(&self, inputs: EpilogueInputs<C>) -> impl EpilogueOp {
        let [column_scales, bias] = inputs.columns;
        let [alpha_value, beta_value] = [inputs.number(0), inputs.number(1)];
        let steps = [
            self.alpha.then(|| boxed(scaled(alpha_value))),
            inputs.rows.map(|scales| boxed(scaled_by_row(scales))),
            column_scales.map(|scales| boxed(scaled_by_column(scales))),
            bias.map(|bias| boxed(biased(bias))),
            match self.activation {
                Activation::Identity => None,
                Activation::Relu => Some(boxed(relu())),
                Activation::Gelu => Some(boxed(gelu())),
                Activation::Silu => Some(boxed(silu())),
            },
            self.beta.then(|| boxed(plus(beta_value, inputs.c()))),
        ];
        move |value: Reg<f32>, at: Coordinate| {
            steps.iter().flatten().fold(value, |value, step| step(value, at))
        }
    }
}

fn boxed(operation: impl EpilogueOp + 'static) -> Box<dyn Fn(Reg<f32>, Coordinate) -> Reg<f32>> {
    Box::new(move |value, at| operation.apply(value, at))
}

/// A main loop with an epilogue operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fused<G, E> {
    pub(crate) gemm: G,
    pub(crate) epilogue: E,
    /// The arguments that the epilogue is given.
    pub(crate) present: PresentArguments,
    /// Whether the kernel computes C's transpose.
    pub(crate) transposed: bool,
}

impl<G, E> Fused<G, E> {
    /// The operation for coordinates of the kernel's own C.
    pub(crate) fn operation<C: GemmOutput>(
        &self,
        parameters: EpilogueParameters<C>,
        c: Global<C>,
    ) -> impl EpilogueOp
    where
        E: FusedEpilogue<C>,
    {
        let operation = self.epilogue.operation(EpilogueInputs::new(self.present, parameters, c));
        let transposed = self.transposed;
        move |value: Reg<f32>, at: Coordinate| {
            operation.apply(value, if transposed { at.transposed() } else { at })
        }
    }
}
