//! Epilogues from outside of the library: closures and types of one's own, in every kernel that
//! takes one.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Schedule, Storable, Stream};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::device::epilogue::{
    Coordinate, EpilogueInputs, EpilogueOp, FusedEpilogue, Inline, biased, element, plus, relu, scaled,
    scaled_by_row,
};
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::epilogue::EpilogueArguments;
use warpwright_kernels::gemm::problem::types::{GemmOutput, MatrixLayout, MultipliesWith};
use warpwright_kernels::operations::{OperationError, Operations};

use crate::matrices::{element_index, whole};
use warpwright_testing::one_in;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A·B of each problem of a batch without gaps, on the host.
fn accumulators(batch: Batch, a: &[f32], b: &[f32]) -> Vec<f32> {
    let Problem { m, n, k, .. } = batch.problem;
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let mut all = Vec::with_capacity(batch.count as usize * m * n);
    for (a, b) in a.chunks(m * k).zip(b.chunks(k * n)) {
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let term = |step| {
                a[element_index(batch.problem.a, row, step, (m, k))]
                    * b[element_index(batch.problem.b, step, column, (k, n))]
            };
            all.push((0..k).map(term).sum());
        }
    }
    all
}

/// The matrices and vectors of a batch, on the host and on a device.
struct Case<T, C> {
    batch: Batch,
    accumulators: Vec<f32>,
    before: Vec<f32>,
    residual: Vec<f32>,
    rows: Vec<f32>,
    bias: Vec<f32>,
    device_a: Buffer<T>,
    device_b: Buffer<T>,
    device_c: Buffer<C>,
    device_residual: Buffer<C>,
    device_rows: Buffer<f32>,
    device_bias: Buffer<f32>,
}

impl<T: MultipliesWith<T>, C: GemmOutput + Storable> Case<T, C> {
    fn new(
        device: &Device,
        batch: Batch,
        input: impl Fn(f32) -> T,
        output: impl Fn(f32) -> C,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let Problem { m, n, k, .. } = batch.problem;
        let [m, n, k, count] = [m, n, k, batch.count].map(|extent| extent as usize);
        let (a, b) = (whole(count * m * k, 1), whole(count * k * n, 2));
        let (before, residual) = (whole(count * m * n, 3), whole(count * m * n, 4));
        let (rows, bias) = (whole(count * m, 5), whole(count * n, 6));
        let inputs = |values: &[f32]| {
            device.buffer_from(&values.iter().map(|&value| input(value)).collect::<Vec<_>>())
        };
        let outputs = |values: &[f32]| {
            device.buffer_from(&values.iter().map(|&value| output(value)).collect::<Vec<_>>())
        };
        Ok(Self {
            batch,
            accumulators: accumulators(batch, &a, &b),
            device_a: inputs(&a)?,
            device_b: inputs(&b)?,
            device_c: outputs(&before)?,
            device_residual: outputs(&residual)?,
            device_rows: device.buffer_from(&rows)?,
            device_bias: device.buffer_from(&bias)?,
            before,
            residual,
            rows,
            bias,
        })
    }

    /// Computes the batch on the device, with all that an epilogue can be given.
    fn with_epilogue<E: FusedEpilogue<C>>(
        &mut self,
        operations: &Operations,
        stream: &Stream,
        epilogue: E,
    ) -> Result<Vec<C>, Box<dyn std::error::Error>> {
        let epilogue = EpilogueArguments {
            numbers: [0.5, 2.0, 3.0, -1.0],
            rows: Some(&self.device_rows),
            columns: [None, Some(&self.device_bias)],
            matrix: Some(&self.device_residual),
            ..EpilogueArguments::new(epilogue)
        };
        operations.gemm(
            stream,
            &Gemm::from(self.batch).epilogue(epilogue),
            &self.device_a,
            &self.device_b,
            &mut self.device_c,
        )?;
        Ok(self.device_c.to_vec()?)
    }

    /// What a function of accumulator, row, column and index makes of the accumulators.
    fn expected(&self, of: impl Fn(&Self, f32, usize, usize, usize) -> f32) -> Vec<f32> {
        let (m, n) = (self.batch.problem.m as usize, self.batch.problem.n as usize);
        let each = self.accumulators.iter().enumerate();
        // Rows and columns are counted through all problems.
        let one = |(index, &sum): (usize, &f32)| {
            let (problem, within) = (index / (m * n), index % (m * n));
            of(self, sum, problem * m + within / n, problem * n + within % n, index)
        };
        each.map(one).collect()
    }
}

/// relu(alpha · rows · A·B + bias + residual) + beta · C, of the functions there are.
fn whole_layer<C: GemmOutput>(given: EpilogueInputs<C>) -> impl EpilogueOp + use<C> {
    let one = constant(1.0f32);
    scaled_by_row(given.rows())
        .then(scaled(given.number(0)))
        .then(biased(given.columns(1)))
        .then(plus(one, given.matrix()))
        .then(relu())
        .then(plus(given.number(1), given.c()))
}

/// A triangle of C times a number of its index, from a closure over coordinates; elsewhere the
/// residual.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Triangle {
    /// Whether the lower one is taken.
    is_lower: bool,
}

impl<C: GemmOutput> FusedEpilogue<C> for Triangle {
    fn operation(&self, given: EpilogueInputs<C>) -> impl EpilogueOp {
        let (is_lower, factor, matrix) = (self.is_lower, given.number(2), given.matrix());
        move |sum: Reg<f32>, at: Coordinate| {
            let is_inside = if is_lower { at.row.ge(at.column) } else { at.row.le(at.column) };
            is_inside.select(sum * factor, element(matrix, at))
        }
    }
}

/// From a number to the operands' type and to C's, and from C's.
type Conversions<T, C> = (fn(f32) -> T, fn(f32) -> C, fn(C) -> f32);

/// The batch on a device, by a closure and by a type.
fn check<T, C>(device: &Device, batch: Batch, (input, output, value): Conversions<T, C>) -> Outcome
where
    T: MultipliesWith<T>,
    C: GemmOutput + Storable,
{
    let (operations, stream) = (Operations::new(device), device.stream()?);
    let (m, n) = (batch.problem.m as usize, batch.problem.n as usize);
    let compare = |found: Vec<C>, expected: Vec<f32>, what: &str| {
        let found = found.into_iter().map(value);
        let expected = expected.into_iter().map(|expected| value(output(expected)));
        let wrong = found.zip(expected).enumerate().find(|(_, (found, expected))| found != expected);
        assert_eq!(wrong, None, "{what} of {batch:?} into {} on {device:?}", C::NAME);
    };
    let mut case = Case::<T, C>::new(device, batch, input, output)?;
    let found = case.with_epilogue(&operations, &stream, Inline::new(whole_layer::<C>))?;
    let layer = |case: &Case<T, C>, sum: f32, row: usize, column: usize, index: usize| {
        (0.5 * case.rows[row] * sum + case.bias[column] + case.residual[index]).max(0.0)
            + 2.0 * case.before[index]
    };
    compare(found, case.expected(layer), "a layer");
    for is_lower in [false, true] {
        let found = case.with_epilogue(&operations, &stream, Triangle { is_lower })?;
        let triangle = |case: &Case<T, C>, sum: f32, row: usize, column: usize, index: usize| {
            let (row, column) = (row % m, column % n);
            let is_inside = if is_lower { row >= column } else { row <= column };
            if is_inside { 3.0 * sum } else { case.residual[index] }
        };
        compare(found, case.expected(triangle), "a triangle");
    }
    Ok(())
}

fn itself(value: f32) -> f32 {
    value
}

/// A batch into f32, stored element by element, and into bf16, by TMA where it can.
fn check_outputs(device: &Device, batch: impl Into<Batch>) -> Outcome {
    let batch = batch.into();
    check::<bf16, f32>(device, batch, (bf16::from_f32, itself, itself))?;
    check::<bf16, bf16>(device, batch, (bf16::from_f32, bf16::from_f32, bf16::to_f32))
}

/// The three schedules of asynchronous work, with the checkers on.
fn devices() -> Result<Vec<Device>, Box<dyn std::error::Error>> {
    let schedules = [Schedule::Eager, Schedule::Latest, Schedule::Random(7)];
    let device = |schedule| Ok(Device::with_schedule("emu:h200", schedule)?.checked()?);
    schedules.into_iter().map(device).collect()
}

/// The algorithm that the library takes.
fn algorithm(device: &Device, batch: impl Into<Batch>) -> Algorithm {
    Operations::new(device).gemm_algorithms::<bf16, f32>(&Gemm::from(batch.into()), None)[0]
}

#[test]
fn a_single_problem_has_its_epilogue() -> Outcome {
    let (a, b) = (MatrixLayout::ColumnMajor, MatrixLayout::RowMajor);
    // One that TMA stores, one that it can neither read nor store, and one of columns.
    let columns = Problem { a, b, ..Problem::new(72, 200, 40) };
    let problems = [Problem::new(130, 136, 72), Problem::new(67, 45, 31), columns];
    let devices = devices()?;
    let cases = devices.iter().flat_map(|device| problems.map(|problem| (device, problem)));
    one_in(2, cases).try_for_each(|(device, problem)| check_outputs(device, problem))
}

#[test]
fn coordinates_are_those_of_c_where_its_transpose_is_computed() -> Outcome {
    for device in devices()? {
        let problem = Problem::new(3, 264, 128);
        assert!(
            matches!(algorithm(&device, problem), Algorithm::Wgmma(configuration) if configuration.transposed)
        );
        check_outputs(&device, problem)?;
        check_outputs(&device, Batch::new(problem, 3))?;
    }
    Ok(())
}

#[test]
fn split_tiles_have_their_epilogue_once() -> Outcome {
    for device in devices()? {
        let is_split = |problem: &Problem| matches!(algorithm(&device, *problem), Algorithm::Wgmma(configuration) if configuration.stream_k);
        let products = [512, 1024, 2048, 4096].map(|k| Problem::new(72, 40, k));
        let problem = products.into_iter().find(is_split).expect("few tiles and long k are split");
        check_outputs(&device, problem)?;
    }
    Ok(())
}

#[test]
fn each_product_of_a_batch_has_its_own_vectors_and_matrix() -> Outcome {
    for (device, (m, n, k)) in devices()?.iter().zip([(66, 72, 40), (33, 35, 37), (66, 72, 40)]) {
        check_outputs(device, Batch::new(Problem::new(m, n, k), 3))?;
    }
    Ok(())
}

#[test]
fn mma_sync_takes_them_too() -> Outcome {
    let device = Device::named("emu:a100")?.checked()?;
    check_outputs(&device, Problem::new(130, 67, 45))?;
    check_outputs(&device, Batch::new(Problem::new(64, 33, 40), 3))
}

#[test]
fn other_operand_types_take_them_too() -> Outcome {
    let device = Device::named("emu:h200")?;
    let batch = Batch::new(Problem::new(40, 72, 64), 2);
    check::<f16, f16>(&device, batch, (f16::from_f32, f16::from_f32, f16::to_f32))?;
    check::<e4m3, bf16>(&device, batch, (e4m3::from_f32, bf16::from_f32, bf16::to_f32))
}

#[test]
fn what_an_epilogue_lacks_is_said_at_its_line() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let ones = device.buffer_from(&[bf16::ONE; 64])?;
    let three = device.buffer_from(&[1.0f32; 3])?;
    let mut c = device.buffer_from(&[0.0f32; 64])?;
    let problem = Problem::new(8, 8, 8);
    let refused =
        |outcome: Result<_, OperationError>| outcome.map(|_| ()).expect_err("it is refused").to_string();
    let closure = Inline::new(|given: EpilogueInputs<f32>| plus(given.number(0), given.matrix()));
    let epilogue = EpilogueArguments::new(closure);
    let words =
        refused(operations.gemm(&stream, &Gemm::from(problem).epilogue(epilogue), &ones, &ones, &mut c));
    assert!(
        words.contains("the epilogue does not have a matrix: set `EpilogueArguments::matrix`"),
        "{words}"
    );
    assert!(words.contains(file!()), "{words}");
    let epilogue = EpilogueArguments { matrix: Some(&three), ..EpilogueArguments::new(closure) };
    let words =
        refused(operations.gemm(&stream, &Gemm::from(problem).epilogue(epilogue), &ones, &ones, &mut c));
    assert!(words.contains("the epilogue's matrix: expected a length of 64, found 3"), "{words}");
    let epilogue = EpilogueArguments { columns: [Some(&three), None], ..EpilogueArguments::new(closure) };
    let words =
        refused(operations.gemm(&stream, &Gemm::from(problem).epilogue(epilogue), &ones, &ones, &mut c));
    assert!(words.contains("the epilogue's first vector of columns: expected a length of 8"), "{words}");
    let nothing = device.uninitialized::<bf16>(0)?;
    let flat = Problem::new(8, 8, 0);
    let words = refused(operations.gemm(
        &stream,
        &Gemm::from(flat).epilogue(EpilogueArguments::new(closure)),
        &nothing,
        &nothing,
        &mut c,
    ));
    assert!(words.contains("k is 0"), "{words}");
    Ok(())
}
