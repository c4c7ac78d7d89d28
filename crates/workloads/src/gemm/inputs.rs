//! Inputs of the workload, their launch, and the comparison with the reference.

use rayon::prelude::*;
use warpwright::arch::DataType;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};
use warpwright_harness::{HostNumber, Refused, Result, Setup, Verified, merge, normal};

use super::reference::{self, Operands, Part};
use super::{GemmWorkload, Grouping, Scales};
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::host::grouped;
use warpwright_kernels::gemm::host::launch::{self, Buffers, Call};
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::epilogue::{Activation, Linear, LinearParts};
use warpwright_kernels::gemm::problem::scales::{BLOCK, BlockwiseScales, Granularity};
use warpwright_kernels::gemm::problem::types::{
    BlockwiseOperand, GemmTypes, MatrixLayout, with_operand, with_output, with_type,
};
use warpwright_kernels::operations::Operations;

/// Problems of one launch: a batch, or groups along m.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) batch: Batch,
    /// The rows of each group along m.
    pub(super) groups: Option<Vec<u32>>,
}

impl Case {
    /// The problems as parts of A and B.
    fn parts(&self) -> Vec<Part> {
        let Some(groups) = &self.groups else { return reference::parts_of(self.batch) };
        let Problem { n, k, .. } = self.batch.problem;
        let mut row = 0;
        let part = |(group, &m): (usize, &u32)| {
            let part = Part {
                problem: Problem { m, ..self.batch.problem },
                a: row * k as usize,
                b: group * n as usize * k as usize,
            };
            row += m as usize;
            part
        };
        groups.iter().enumerate().map(part).collect()
    }

    /// The problem of each row of all C.
    fn problems_of_rows(&self) -> Vec<usize> {
        let Batch { problem: Problem { m, .. }, count, .. } = self.batch;
        let all = vec![m; count as usize];
        let rows = self.groups.as_ref().unwrap_or(&all).iter().enumerate();
        rows.flat_map(|(problem, &rows)| vec![problem; rows as usize]).collect()
    }

    /// Elements of C.
    fn c_length(&self) -> usize {
        let Problem { m, n, .. } = self.batch.problem;
        let count = if self.groups.is_some() { 1 } else { self.batch.count as usize };
        count.saturating_mul(m as usize * n as usize)
    }
}

/// An operand of several problems on a device, one matrix after another.
pub(super) struct OperandSet {
    pub(super) values: Buffer<u8>,
    data_type: DataType,
    scales: Option<(Buffer<f32>, Granularity)>,
    /// (rows, k) of each.
    operand: (u32, u32),
}

impl OperandSet {
    /// Random normal numbers; with blockwise scales, divided in each block by what makes the largest of
    /// them the type's largest.
    fn new(
        setup: &Setup,
        (data_type, granularity): (DataType, Option<Granularity>),
        operand: (u32, u32),
        count: u32,
        seed: u64,
    ) -> Result<Self> {
        let (device, (rows, k)) = (setup.device(), operand);
        let elements = rows as usize * k as usize;
        let length = (count as usize).saturating_mul(elements);
        let bytes = length.saturating_mul(data_type.bits() as usize / 8);
        let mut values = setup.output::<u8>(bytes)?;
        let each = granularity.map_or(0, |granularity| granularity.count(operand));
        let scale_count = count as usize * each;
        let mut scales = Vec::new();
        if !device.is_dry_run() {
            scales.resize(scale_count, 0f32);
            let numbers: Vec<f32> = normal(seed, length, |number| number);
            if let Some(granularity) = granularity {
                let largest = with_type!(data_type, T in [E4m3 e4m3, E5m2 e5m2] => T::LARGEST);
                for (numbers, scales) in numbers.chunks(elements.max(1)).zip(scales.chunks_mut(each.max(1))) {
                    scale_blocks(granularity, operand, numbers, largest, scales);
                }
            }
            let number = |at: usize| match granularity {
                Some(granularity) => numbers[at] / scales[scale_of(granularity, at, operand)],
                None => numbers[at],
            };
            with_operand!(data_type, T => {
                let elements: Vec<T> = (0..length).into_par_iter().map(|at| T::round(number(at))).collect();
                values.cast_mut().copy_from(&elements)?;
            });
        }
        let scales = match granularity {
            Some(granularity) => Some((setup.input(scale_count, |_| scales)?, granularity)),
            None => None,
        };
        Ok(Self { values, data_type, scales, operand })
    }

    fn scales(&self) -> Option<BlockwiseScales<'_>> {
        self.scales
            .as_ref()
            .map(|(scales, granularity)| BlockwiseScales { scales, granularity: *granularity })
    }

    /// The elements with their scales.
    fn scaled(&self) -> Result<Vec<f32>> {
        let scales = match &self.scales {
            Some((scales, granularity)) => Some((scales.to_vec()?, *granularity)),
            None => None,
        };
        let scale = |at: usize| match &scales {
            Some((scales, granularity)) => scales[scale_of(*granularity, at, self.operand)],
            None => 1.0,
        };
        with_operand!(self.data_type, T => {
            let values = self.values.cast::<T>().to_vec()?;
            Ok(values.par_iter().enumerate().map(|(at, value)| value.exact() as f32 * scale(at)).collect())
        })
    }
}

/// Writes the scales of an operand (rows, k): of each block, the ratio of its largest number to
/// `largest`.
fn scale_blocks(
    granularity: Granularity,
    operand: (u32, u32),
    numbers: &[f32],
    largest: f32,
    scales: &mut [f32],
) {
    let k = operand.1;
    for (group, numbers) in numbers.chunks((granularity.rows() * k) as usize).enumerate() {
        for block in 0..k.div_ceil(BLOCK) {
            let columns = (block * BLOCK) as usize..k.min((block + 1) * BLOCK) as usize;
            let of_block = numbers.chunks(k as usize).flat_map(|row| &row[columns.clone()]);
            let found = of_block.fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
            let element = (group as u32 * granularity.rows(), block * BLOCK);
            scales[granularity.index(element, operand)] = found / largest;
        }
    }
}

/// The index of the scale of element `at` of several operands.
fn scale_of(granularity: Granularity, at: usize, operand: (u32, u32)) -> usize {
    let (rows, k) = (operand.0 as usize, operand.1 as usize);
    let (number, row, column) = (at / (rows * k), at / k % rows, at % k);
    number * granularity.count(operand) + granularity.index((row as u32, column as u32), operand)
}

/// The buffers of a case.
pub(super) struct Set {
    pub(super) case: Case,
    types: GemmTypes,
    pub(super) a: OperandSet,
    pub(super) b: OperandSet,
    pub(super) c: Buffer<u8>,
    offsets: Option<Buffer<u32>>,
    bias: Option<Buffer<f32>>,
    row_scales: Option<Buffer<f32>>,
    column_scales: Option<Buffer<f32>>,
    /// What C held before the first launch, if it is read.
    before: Vec<f32>,
    launches: u32,
}

impl GemmWorkload {
    /// The buffers of all cases.
    pub(super) fn sets(&self, setup: &Setup, cases: &[Case], seed: u64) -> Result<Vec<Set>> {
        let seed_of =
            |number: usize| if cases.len() == 1 { seed } else { (seed << 10).wrapping_add(number as u64) };
        let set = |(number, case): (usize, &Case)| self.set(setup, case, seed_of(number));
        cases.iter().enumerate().map(set).collect()
    }

    fn set(&self, setup: &Setup, case: &Case, seed: u64) -> Result<Set> {
        let Batch { problem: Problem { m, n, k, .. }, count, .. } = case.batch;
        let [(a_count, _), _] = case.batch.matrices();
        let (types, (a_scales, b_scales)) = (self.types()?, self.granularities().unzip());
        if self.granularities().is_some()
            && (self.a, self.b) != (MatrixLayout::RowMajor, MatrixLayout::ColumnMajor)
        {
            return Err(Refused::new("blockwise scales are generated for --a row and --b column").into());
        }
        let seed_of = |input: u64| seed.wrapping_mul(2).wrapping_add(input << 20);
        let vector = |is_used: bool, input: u64, count: u32, length: u32| {
            let numbers = |length| normal(seed_of(input), length, |number| number);
            is_used.then(|| setup.input(count as usize * length as usize, numbers)).transpose()
        };
        let row_count = if case.groups.is_some() { 1 } else { count };
        let has_vectors = self.scales == Scales::RowColumn;
        let c_length = case.c_length() / if self.gate.is_some() { 2 } else { 1 };
        let mut c = setup.output::<u8>(c_length.saturating_mul(types.output_bytes() as usize))?;
        let mut before = Vec::new();
        if self.beta != 0.0 && !setup.device().is_dry_run() {
            with_output!(types.c, C => {
                let elements = normal(seed_of(2), c_length, C::round);
                c.cast_mut().copy_from(&elements)?;
                before = elements.into_iter().map(|element| element.exact() as f32).collect();
            });
        }
        let offsets = case.groups.as_ref().map(|groups| {
            let mut offsets = vec![0];
            groups.iter().for_each(|rows| offsets.push(offsets[offsets.len() - 1] + rows));
            setup.device().buffer_from(&offsets)
        });
        Ok(Set {
            case: case.clone(),
            types,
            a: OperandSet::new(setup, (types.a, a_scales), (m, k), a_count, seed_of(0))?,
            b: OperandSet::new(setup, (types.b, b_scales), (n, k), count, seed_of(0).wrapping_add(1))?,
            c,
            offsets: offsets.transpose()?,
            bias: vector(self.bias, 1, count, n)?,
            row_scales: vector(has_vectors, 3, row_count, m)?,
            column_scales: vector(has_vectors, 4, count, n)?,
            before,
            launches: 0,
        })
    }

    /// Launches the kernel on the buffers of all cases.
    pub(super) fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        algorithm: Algorithm,
        sets: &mut [Set],
    ) -> Result<LaunchCounts> {
        let mut calls = sets.iter_mut().map(|set| self.call(set, algorithm));
        match (self.grouping, calls.next()) {
            (Grouping::Unlike, first) => {
                Ok(grouped::run(operations, stream, first.into_iter().chain(calls).collect())?)
            }
            (_, Some(call)) => {
                Ok(with_output!(call.problem.types.c, C => launch::launch::<C, _>(operations, stream, call))?)
            }
            (_, None) => Ok(LaunchCounts::default()),
        }
    }

    fn call<'s>(&self, set: &'s mut Set, algorithm: Algorithm) -> Call<'s, LinearParts> {
        set.launches += 1;
        let problem = self.described(&set.case, set.types);
        let Set { a, b, c, offsets, bias, row_scales, column_scales, .. } = set;
        let linear = Linear {
            alpha: self.alpha(),
            beta: self.beta,
            row_scales: row_scales.as_ref(),
            column_scales: column_scales.as_ref(),
            bias: bias.as_ref(),
            activation: self.activation,
        };
        let (operation, epilogue) = linear.of_type::<u8>().untyped();
        let scales = a.scales().zip(b.scales()).map(|(a, b)| [a.scales.cast(), b.scales.cast()]);
        let buffers = Buffers { a: &a.values, b: &b.values, c, scales, offsets: offsets.as_ref() };
        Call { problem, algorithm: Some(algorithm), buffers, operation, epilogue }
    }

    /// Compares every element with the reference.
    pub(super) fn verify(&self, sets: &[Set]) -> Result<Verified> {
        let verify = |set: &Set| with_output!(set.types.c, C => self.verify_set::<C>(set, set.c.cast()));
        let verified = sets.iter().map(verify).collect::<Result<Vec<_>>>()?;
        Ok(merge(verified.into_iter().map(Ok))?)
    }

    fn verify_set<C: HostNumber + Storable>(&self, set: &Set, c: &Buffer<C>) -> Result<Verified> {
        let vector = |vector: &Option<Buffer<f32>>| vector.as_ref().map_or(Ok(Vec::new()), Buffer::to_vec);
        let (bias, rows, columns) =
            (vector(&set.bias)?, vector(&set.row_scales)?, vector(&set.column_scales)?);
        let (n, problems) = (set.case.batch.problem.n as usize, set.case.problems_of_rows());
        let epilogue = |index: usize, sum: f64, error: f64| {
            let (row, column) = (index / n, problems[index / n] * n + index % n);
            let factor = |vector: &[f32], at: usize| vector.get(at).map_or(1.0, |&value| f64::from(value));
            let scale = factor(&rows, row) * factor(&columns, column);
            let bias = bias.get(column).map_or(0.0, |&bias| f64::from(bias));
            let (value, error) = self.of_accumulator(scale * sum, scale.abs() * error, bias);
            set.before.get(index).map_or((value, error), |&before| {
                self.added_to::<C>((value, error), before.into(), set.launches)
            })
        };
        let (a, b, is_scaled) = (set.a.scaled()?, set.b.scaled()?, self.granularities().is_some());
        let operands = Operands { a, b, input_bytes: set.types.input_bytes() as usize, is_scaled };
        let gate = self.gate.map(|activation| move |gate, value| gated(activation, gate, value));
        reference::verify(&set.case.parts(), operands, c, epilogue, gate)
    }

    /// What an accumulator becomes before C is added, and its error, when the accumulator is off by
    /// `error`.
    fn of_accumulator(&self, sum: f64, error: f64, bias: f64) -> (f64, f64) {
        let alpha = f64::from(self.alpha());
        let scaled = alpha * sum;
        let x = scaled + bias;
        let has_roundings = bias != 0.0 || self.scales == Scales::RowColumn;
        let roundings = 2.0 * f32::ROUNDING * (scaled.abs() + x.abs());
        let error = error * alpha.abs() + if has_roundings { roundings } else { 0.0 };
        // `tanh.approx` is off by 2^-11 of one (PTX ISA,
        // "tanh"), and multiplies half of x; other roundings are far smaller.
        let value = activated(self.activation, x);
        match self.activation {
            Activation::Identity | Activation::Relu => (value, error),
            Activation::Gelu | Activation::Silu => (value, STEEPEST * error + x.abs() / 2048.0),
        }
    }

    /// What C holds after `launches` that each add it, and its error.
    fn added_to<C: HostNumber>(&self, (value, error): (f64, f64), before: f64, launches: u32) -> (f64, f64) {
        // Nothing is left of what C held more launches ago than this: beta is 0.5 at most.
        const REMEMBERED: u32 = 64;
        let beta = f64::from(self.beta);
        (0..launches.min(REMEMBERED)).fold((before, 0.0), |(held, held_error), _| {
            let sum = value + beta * held;
            let rounding = (C::ROUNDING + 2.0 * f32::ROUNDING) * (sum.abs() + value.abs()) * 1.01;
            (sum, error + beta.abs() * held_error + rounding)
        })
    }
}

/// No activation is steeper.
const STEEPEST: f64 = 1.2;

fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => x / 2.0 * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// A value times its activated gate, each with its error.
fn gated(activation: Activation, (gate, of_gate): (f64, f64), (value, error): (f64, f64)) -> (f64, f64) {
    /// Roundings of the activation and of the product, and what a fast exponential loses.
    const ROUNDINGS: f64 = 16.0 * f32::ROUNDING;
    let (factor, of_factor) = (activated(activation, gate), STEEPEST * of_gate);
    let product = factor * value;
    let lost = of_factor * (value.abs() + error) + factor.abs() * error;
    (product, lost + ROUNDINGS * (product.abs() + (gate * value).abs() / 16.0))
}
