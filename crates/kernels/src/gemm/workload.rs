//! The GEMM on the command line: its options, inputs, baseline and search.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use rayon::prelude::*;
use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::cublas::{self, CublasMatmul, MatmulShape};
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};
use warpwright_harness::{
    Candidate, OptionValue, Options, Prepared, Random, Refused, Result, Rounded, Search, Setup, Verified,
    Work, Workload, data_types, merge, normal,
};

use super::Gemm;
use super::device::staging::StagedBatch;
use super::host::config::Algorithm;
use super::host::grouped::{self, Member};
use super::host::heuristic::{self, Reason};
use super::host::launch::{self, HostScales, Planned};
use super::host::reference::{self, Operands, Part};
use super::host::tune::{self, Key};
use super::problem::batching::{Batch, Problem};
use super::problem::epilogue::{Activation, Linear};
use super::problem::scales::{
    BLOCK, BlockScaled, BlockScales, Granularities, Granularity, OperandArgument, Scaled, Unscaled,
};
use super::problem::types::{self, BlockScaledOperand, GemmOutput, MatrixLayout, MultipliesWith, Operand};
use crate::operations::Operations;

/// C = A·B on tensor cores with an epilogue: single, batched or grouped, with or without scales.
#[derive(Clone, Debug, Options)]
pub struct GemmWorkload {
    /// Rows of A and C. With groups along m, the total over all groups; with unlike problems, the
    /// maximum.
    #[option(default = 512, min = 1)]
    m: u32,
    /// Columns of B and C. With unlike problems, the maximum.
    #[option(default = 512, min = 1)]
    n: u32,
    /// Columns of A and rows of B. With unlike problems, the maximum.
    #[option(default = 256, min = 1)]
    k: u32,
    /// The problems of one launch.
    grouping: Grouping,
    /// Problems of a batch, or groups.
    #[option(default = 8, min = 1)]
    groups: u32,
    /// How rows are assigned to groups along m.
    routing: Routing,
    /// Extents of unlike problems.
    sizes: Sizes,
    /// Layout of A.
    a: ALayout,
    /// Layout of B.
    b: BLayout,
    /// Data type of A and B. By default bf16, or e4m3 with block scales.
    input: Option<InputType>,
    /// Data type of B, if it differs from A's: e4m3 and e5m2 can be mixed.
    b_input: Option<InputType>,
    /// Data type of C. By default f32, or bf16 with block scales.
    output: Option<OutputType>,
    /// Scales of A and B.
    scales: Scales,
    /// Block scales of B, with block scales of A: 128x128.
    b_scales: Option<BlockScaleOption>,
    /// Scale of A·B.
    #[option(default = 1.0)]
    alpha: f32,
    /// Scale of the old C, which is added to the result.
    #[option(default = 0.0, min = -0.5, max = 0.5)]
    beta: f32,
    /// Add a bias to each column.
    bias: bool,
    /// Function of each element, before C is added.
    activation: ActivationOption,
    /// The tensor-core instruction.
    instruction: Option<Instruction>,
    /// Rank of the algorithm in the heuristic's list, from 0, the cheapest. `--explain` prints the
    /// list.
    #[option(default = 0)]
    rank: u32,
    /// How the algorithm is chosen.
    plan: PlanOption,
}

/// How problems form one launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum Grouping {
    /// One problem.
    #[default]
    None,
    /// Problems of one shape.
    Batched,
    /// Groups of rows of A, each with a B of its own: a mixture of experts.
    AlongM,
    /// Problems of unlike extents.
    Unlike,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum Routing {
    /// A random group.
    #[default]
    Random,
    /// Groups of equal size.
    Even,
    /// The first group.
    First,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum Sizes {
    /// Between half of the maximum and the maximum, in multiples of 16.
    #[default]
    Random,
    /// Between half of the maximum and the maximum.
    Odd,
    /// The largest.
    Alike,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum ALayout {
    /// Row-major.
    #[default]
    Row,
    /// Column-major.
    Column,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum BLayout {
    /// Column-major.
    #[default]
    Column,
    /// Row-major.
    Row,
}

data_types! {
    /// Types of operands.
    enum InputType by with_input { bf16, f16, tf32, e4m3, e5m2 }
}

data_types! {
    /// Types of C.
    enum OutputType by with_output { f32, bf16, f16 }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum Scales {
    /// None.
    #[default]
    None,
    /// A scale for each operand, by the epilogue's alpha.
    Tensor,
    /// A scale for each row of A and each column of B, by the epilogue.
    RowColumn,
    /// Block scales: one for 128 of k of a row of A.
    #[option(name = "1x128")]
    Row1x128,
    /// Block scales: one for 128 of k of 128 rows of A.
    #[option(name = "128x128")]
    Block128x128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum BlockScaleOption {
    /// One for 128 of k of a column of B.
    #[option(name = "1x128")]
    Row1x128,
    /// One for 128 of k of 128 columns of B.
    #[default]
    #[option(name = "128x128")]
    Block128x128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum ActivationOption {
    /// None.
    #[default]
    None,
    /// max(x, 0).
    Relu,
    /// x·Φ(x), by its tanh approximation.
    Gelu,
    /// x·σ(x).
    Silu,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum Instruction {
    /// `mma.sync`.
    MmaSync,
    /// `wgmma`.
    #[default]
    Wgmma,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, OptionValue)]
enum PlanOption {
    /// The tuned result, or else the cost model.
    #[default]
    Tuned,
    /// The cost model.
    Model,
}

/// Calls a generic function of `GemmWorkload` with the types of A, B and C and their scales.
macro_rules! with_types {
    ($options:expr, $function:ident($($argument:expr),*)) => {{
        let options: &GemmWorkload = $options;
        macro_rules! with_operands {
            ($scales:ident, $a:ident, $b:ident) => {
                with_output!(options.output_type(), C => options.$function::<$scales, $a, $b, C>($($argument),*))
            };
        }
        match (options.granularities().is_some(), options.input_type(), options.b_input_type()) {
            (true, InputType::e4m3, InputType::e4m3) => with_operands!(BlockScaled, e4m3, e4m3),
            (true, InputType::e4m3, InputType::e5m2) => with_operands!(BlockScaled, e4m3, e5m2),
            (true, InputType::e5m2, InputType::e4m3) => with_operands!(BlockScaled, e5m2, e4m3),
            (true, InputType::e5m2, InputType::e5m2) => with_operands!(BlockScaled, e5m2, e5m2),
            (true, input, _) => {
                Err(Refused::new(format!("--input {}: block scales need e4m3 or e5m2", input.text())).into())
            }
            (false, InputType::bf16, InputType::bf16) => with_operands!(Unscaled, bf16, bf16),
            (false, InputType::f16, InputType::f16) => with_operands!(Unscaled, f16, f16),
            (false, InputType::tf32, InputType::tf32) => with_operands!(Unscaled, tf32, tf32),
            (false, InputType::e4m3, InputType::e4m3) => with_operands!(Unscaled, e4m3, e4m3),
            (false, InputType::e4m3, InputType::e5m2) => with_operands!(Unscaled, e4m3, e5m2),
            (false, InputType::e5m2, InputType::e4m3) => with_operands!(Unscaled, e5m2, e4m3),
            (false, InputType::e5m2, InputType::e5m2) => with_operands!(Unscaled, e5m2, e5m2),
            (false, a, b) => Err(Refused::new(format!(
                "--input {} --b-input {}: operands have one type, or one is e4m3 and the other e5m2",
                a.text(),
                b.text()
            ))
            .into()),
        }
    }};
}

/// One call's problems: a batch, or groups along m.
#[derive(Clone)]
struct Call {
    batch: Batch,
    /// The rows of each group along m.
    groups: Option<Vec<u32>>,
}

impl Call {
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

    /// Elements of C.
    fn c_length(&self) -> usize {
        let Problem { m, n, .. } = self.batch.problem;
        let count = if self.groups.is_some() { 1 } else { self.batch.count as usize };
        count * m as usize * n as usize
    }
}

impl GemmWorkload {
    fn granularities(&self) -> Option<Granularities> {
        let a = match self.scales {
            Scales::None | Scales::Tensor | Scales::RowColumn => return None,
            Scales::Row1x128 => Granularity::Row,
            Scales::Block128x128 => Granularity::Block,
        };
        let b = match self.b_scales.unwrap_or_default() {
            BlockScaleOption::Row1x128 => Granularity::Row,
            BlockScaleOption::Block128x128 => Granularity::Block,
        };
        Some((a, b))
    }

    fn input_type(&self) -> InputType {
        let own = if self.granularities().is_some() { InputType::e4m3 } else { InputType::bf16 };
        self.input.unwrap_or(own)
    }

    fn b_input_type(&self) -> InputType {
        self.b_input.unwrap_or(self.input_type())
    }

    fn output_type(&self) -> OutputType {
        let own = if self.granularities().is_some() { OutputType::bf16 } else { OutputType::f32 };
        self.output.unwrap_or(own)
    }

    /// The problem of those extents, in the layouts of the options.
    fn problem(&self, m: u32, n: u32, k: u32) -> Problem {
        let a = if self.a == ALayout::Row { MatrixLayout::RowMajor } else { MatrixLayout::ColumnMajor };
        let b = if self.b == BLayout::Row { MatrixLayout::RowMajor } else { MatrixLayout::ColumnMajor };
        Problem { m, n, k, a, b }
    }

    /// What one launch computes: several calls are members of a group.
    fn calls(&self, seed: u64) -> Vec<Call> {
        let (problem, mut random) = (self.problem(self.m, self.n, self.k), Random::new(seed));
        match self.grouping {
            Grouping::None => vec![Call { batch: problem.into(), groups: None }],
            Grouping::Batched => vec![Call { batch: Batch::new(problem, self.groups), groups: None }],
            Grouping::AlongM => {
                let mut groups = vec![0; self.groups as usize];
                for row in 0..self.m {
                    let group = match self.routing {
                        Routing::Random => random.below(self.groups.into()) as usize,
                        Routing::Even => (row % self.groups) as usize,
                        Routing::First => 0,
                    };
                    groups[group] += 1;
                }
                vec![Call { batch: Batch::along_m(problem, self.groups), groups: Some(groups) }]
            }
            Grouping::Unlike => {
                // Elements of which rows of all types are multiples of 16 bytes.
                const ALIGNED: u32 = 16;
                let mut below = |most: u32| most - random.below(u64::from(most / 2 + 1)) as u32;
                let mut size = |most: u32| match self.sizes {
                    Sizes::Random => below(most).next_multiple_of(ALIGNED).min(most),
                    Sizes::Odd => below(most),
                    Sizes::Alike => most,
                };
                let mut call = || self.problem(size(self.m), size(self.n), size(self.k));
                (0..self.groups).map(|_| Call { batch: call().into(), groups: None }).collect()
            }
        }
    }

    fn activation(&self) -> Activation {
        match self.activation {
            ActivationOption::None => Activation::Identity,
            ActivationOption::Relu => Activation::Relu,
            ActivationOption::Gelu => Activation::Gelu,
            ActivationOption::Silu => Activation::Silu,
        }
    }

    /// Alpha, with the tensors' scales.
    fn alpha(&self) -> f32 {
        const TENSOR_SCALES: f32 = 0.75 * 0.5;
        if self.scales == Scales::Tensor { self.alpha * TENSOR_SCALES } else { self.alpha }
    }

    /// Refuses an epilogue where `what` has none.
    fn expect_identity(&self, what: &str) -> Result<()> {
        let is_identity = self.alpha() == 1.0 && self.beta == 0.0 && !self.bias;
        if is_identity && self.activation == ActivationOption::None && self.scales != Scales::RowColumn {
            return Ok(());
        }
        let flags = "--alpha, --beta, --bias, --activation and --scales";
        Err(Refused::new(format!("{what} has no epilogue: remove {flags}")).into())
    }

    /// The algorithms that the options allow, the cheapest first.
    fn algorithms<A: Operand, C: Element>(
        &self,
        calls: &[Call],
        capability: &'static Capability,
        sms: u32,
    ) -> Vec<Algorithm> {
        let scales = self.granularities();
        let mut algorithms = match (self.grouping, calls) {
            (Grouping::Unlike, calls) => {
                let problems: Vec<_> = calls.iter().map(|call| call.batch.problem).collect();
                heuristic::grouped_algorithms::<A, C>(&problems, scales, capability, sms)
            }
            (Grouping::AlongM, calls) => heuristic::algorithms::<A, C>(
                heuristic::equal_groups(calls[0].batch),
                scales,
                capability,
                sms,
            ),
            (_, calls) => heuristic::algorithms::<A, C>(calls[0].batch, scales, capability, sms),
        };
        algorithms.retain(|algorithm| self.allows(*algorithm));
        algorithms
    }

    fn allows(&self, algorithm: Algorithm) -> bool {
        self.instruction.is_none_or(|instruction| algorithm.is_wgmma() == (instruction == Instruction::Wgmma))
    }

    fn planned(&self, call: &Call) -> Planned {
        let along_m = call.groups.is_some();
        Planned { batch: call.batch, along_m, scales: self.granularities(), algorithm: None }
    }

    /// The algorithm on a device, and why.
    fn algorithm<S, A, B, C>(&self, calls: &[Call], setup: &Setup) -> Result<(Algorithm, Reason)>
    where
        S: HostScales,
        A: MultipliesWith<B>,
        B: MultipliesWith<A>,
        C: GemmOutput + Storable,
    {
        let capability = setup.capability();
        let algorithms = self.algorithms::<A, C>(calls, capability, setup.sm_count());
        if algorithms.is_empty() {
            // What refuses the problem says why.
            launch::choose::<A, B, C, S>(self.planned(&calls[0]), setup.device().properties(), None)?;
            return Err(launch::no_wgmma::<A, B>(capability).into());
        }
        let past = || format!("--rank {}: the ranks are 0 to {}", self.rank, algorithms.len() - 1);
        let algorithm = *algorithms.get(self.rank as usize).ok_or_else(|| Refused::new(past()))?;
        if self.rank != 0 {
            return Ok((algorithm, Reason::Flag("--rank")));
        }
        if matches!(self.grouping, Grouping::AlongM | Grouping::Unlike) {
            return Ok((algorithm, Reason::ModelAlone));
        }
        if self.plan == PlanOption::Model {
            return Ok((algorithm, Reason::Flag("--plan")));
        }
        if let Ok(file) = tune::default_file()
            && let properties = setup.device().properties()
            && let Some(tuned) = launch::tuned::<A, B, C, S>(self.planned(&calls[0]), properties, &file)?
            && self.allows(tuned)
        {
            return Ok((tuned, Reason::Tuned(file)));
        }
        let is_named = self.instruction == Some(Instruction::MmaSync);
        Ok((algorithm, if is_named { Reason::Flag("--instruction") } else { Reason::Model }))
    }

    fn explain_typed<S, A, B, C>(&self, setup: &Setup) -> Result<String>
    where
        S: HostScales,
        A: MultipliesWith<B>,
        B: MultipliesWith<A>,
        C: GemmOutput + Storable,
    {
        let (calls, scales, sms) = (self.calls(setup.seed()), self.granularities(), setup.sm_count());
        let (algorithm, reason) = self.algorithm::<S, A, B, C>(&calls, setup)?;
        if !algorithm.is_wgmma() {
            let why = heuristic::why_mma_sync(setup.capability()).to_owned();
            return Ok(match reason {
                Reason::Model | Reason::ModelAlone => format!("{algorithm}: {why}"),
                reason => format!("{algorithm}: {reason}"),
            });
        }
        let copies = StagedBatch::of::<A>(calls[0].batch).describe();
        let types = types::names::<A, B>();
        Ok(match self.grouping {
            Grouping::None | Grouping::Batched => {
                let costs = heuristic::rank(calls[0].batch.size::<A, C>(scales), sms);
                heuristic::explain("", &costs, algorithm, copies, &reason)
            }
            Grouping::AlongM => {
                let equal = heuristic::equal_groups(calls[0].batch);
                let Problem { m, n, k, .. } = equal.problem;
                let of = format!(" for {} equal groups of {m} x {n} x {k}, of {types}", equal.count);
                let costs = heuristic::rank(equal.size::<A, C>(scales), sms);
                heuristic::explain(&of, &costs, algorithm, copies, &reason)
            }
            Grouping::Unlike => {
                let problems: Vec<_> = calls.iter().map(|call| call.batch.problem).collect();
                let average = heuristic::average::<A, C>(&problems, scales);
                let of = format!(
                    " for {} problems of {} x {} x {} on average, of {types}",
                    average.batch, average.m, average.n, average.k
                );
                let is_copied = |call: &&Call| !StagedBatch::of::<A>(call.batch).is_unstaged();
                let copied = calls.iter().filter(is_copied).count();
                let copies = (copied > 0).then(|| {
                    format!(
                        "operands of {copied} of the {} problems are copied first: TMA cannot read them",
                        calls.len()
                    )
                });
                heuristic::explain(&of, &heuristic::rank_grouped(average, sms), algorithm, copies, &reason)
            }
        })
    }

    fn prepare_typed<S, A, B, C>(&self, setup: &Setup) -> Result<Box<dyn Prepared>>
    where
        S: HostScales + Mode<A> + Mode<B>,
        A: MultipliesWith<B> + Rounded,
        B: MultipliesWith<A> + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let calls = self.calls(setup.seed());
        let (algorithm, _) = self.algorithm::<S, A, B, C>(&calls, setup)?;
        let operations = Operations::new(setup.device());
        let sets = setup.buffers(self.work(), |seed| self.sets::<S, A, B, C>(setup, &calls, seed))?;
        let options = self.clone();
        let launch = move |stream: &Stream, sets: &mut Vec<Set<A, B, C>>| {
            options.launch::<S, A, B, C>(&operations, stream, algorithm, sets)
        };
        let options = self.clone();
        Ok(sets.launch(launch).verify(move |sets| options.verify(sets)))
    }

    /// The buffers of all calls.
    fn sets<S, A, B, C>(&self, setup: &Setup, calls: &[Call], seed: u64) -> Result<Vec<Set<A, B, C>>>
    where
        S: Mode<A> + Mode<B>,
        A: Operand + Rounded,
        B: Operand + Rounded,
        C: Storable + Rounded,
    {
        let seed_of =
            |number: usize| if calls.len() == 1 { seed } else { (seed << 10).wrapping_add(number as u64) };
        let set = |(number, call): (usize, &Call)| self.set::<S, A, B, C>(setup, call, seed_of(number));
        calls.iter().enumerate().map(set).collect()
    }

    fn set<S, A, B, C>(&self, setup: &Setup, call: &Call, seed: u64) -> Result<Set<A, B, C>>
    where
        S: Mode<A> + Mode<B>,
        A: Operand + Rounded,
        B: Operand + Rounded,
        C: Storable + Rounded,
    {
        let Batch { problem: Problem { m, n, k, .. }, count, .. } = call.batch;
        let [(a_count, _), _] = call.batch.matrices();
        let (a_scales, b_scales) = self.granularities().unzip();
        if self.granularities().is_some() && (self.a, self.b) != (ALayout::Row, BLayout::Column) {
            return Err(Refused::new("block scales are generated for --a row and --b column").into());
        }
        let numbers = |stream: u64, length: usize| {
            let seed = seed.wrapping_mul(2).wrapping_add(stream << 20);
            setup.input(length, |length| normal(seed, length, f32::round))
        };
        let vectors = if call.groups.is_some() { 1 } else { count as usize };
        let has_vectors = self.scales == Scales::RowColumn;
        let mut c = setup.output::<C>(call.c_length())?;
        let mut before = Vec::new();
        if self.beta != 0.0 && !setup.device().is_dry_run() {
            before = normal(seed.wrapping_mul(2).wrapping_add(2 << 20), c.len(), C::round);
            c.copy_from(&before)?;
        }
        let offsets = call.groups.as_ref().map(|groups| {
            let mut offsets = vec![0];
            groups.iter().for_each(|rows| offsets.push(offsets[offsets.len() - 1] + rows));
            setup.device().buffer_from(&offsets)
        });
        Ok(Set {
            call: call.clone(),
            a: OperandSet::new::<S>(setup, a_scales, (m, k), a_count, seed.wrapping_mul(2))?,
            b: OperandSet::new::<S>(setup, b_scales, (n, k), count, seed.wrapping_mul(2).wrapping_add(1))?,
            c,
            offsets: offsets.transpose()?,
            bias: self.bias.then(|| numbers(1, count as usize * n as usize)).transpose()?,
            row_scales: has_vectors.then(|| numbers(3, vectors * m as usize)).transpose()?,
            column_scales: has_vectors.then(|| numbers(4, count as usize * n as usize)).transpose()?,
            before,
            launches: 0,
        })
    }

    fn launch<S, A, B, C>(
        &self,
        operations: &Operations,
        stream: &Stream,
        algorithm: Algorithm,
        sets: &mut [Set<A, B, C>],
    ) -> Result<LaunchCounts>
    where
        S: HostScales + Mode<A> + Mode<B>,
        A: MultipliesWith<B>,
        B: MultipliesWith<A>,
        C: GemmOutput + Storable,
    {
        sets.iter_mut().for_each(|set| set.launches += 1);
        let (alpha, beta, activation) = (self.alpha(), self.beta, self.activation());
        if self.grouping == Grouping::Unlike {
            let members =
                sets.iter_mut().map(|Set { call, a, b, c, bias, row_scales, column_scales, .. }| Member {
                    problem: call.batch.problem,
                    a: &a.values,
                    b: &b.values,
                    c,
                    linear: Linear {
                        alpha,
                        beta,
                        row_scales: row_scales.as_ref(),
                        column_scales: column_scales.as_ref(),
                        bias: bias.as_ref(),
                        activation,
                    },
                    scales: a.scales().zip(b.scales()).map(<[_; 2]>::from),
                    algorithm: Some(algorithm),
                });
            return Ok(grouped::run::<S, A, B, C>(operations, stream, members.collect())?);
        }
        let Set { call, a, b, c, offsets, bias, row_scales, column_scales, .. } = &mut sets[0];
        let epilogue = Linear {
            alpha,
            beta,
            row_scales: row_scales.as_ref(),
            column_scales: column_scales.as_ref(),
            bias: bias.as_ref(),
            activation,
        };
        let gemm =
            Gemm { batch: call.batch, offsets: offsets.as_ref(), epilogue, algorithm: Some(algorithm) };
        let (a, b) = (<S as Mode<A>>::argument(a), <S as Mode<B>>::argument(b));
        Ok(operations.gemm(stream, &gemm, a, b, c)?)
    }

    /// Compares every element with the reference.
    fn verify<A, B, C>(&self, sets: &[Set<A, B, C>]) -> Result<Verified>
    where
        A: Storable + Rounded + Sync,
        B: Storable + Rounded + Sync,
        C: Storable + Rounded,
    {
        let verified = sets.iter().map(|set| self.verify_set(set)).collect::<Result<Vec<_>>>()?;
        Ok(merge(verified.into_iter().map(Ok))?)
    }

    fn verify_set<A, B, C>(&self, set: &Set<A, B, C>) -> Result<Verified>
    where
        A: Storable + Rounded + Sync,
        B: Storable + Rounded + Sync,
        C: Storable + Rounded,
    {
        let vector = |vector: &Option<Buffer<f32>>| vector.as_ref().map_or(Ok(Vec::new()), Buffer::to_vec);
        let (bias, rows, columns) =
            (vector(&set.bias)?, vector(&set.row_scales)?, vector(&set.column_scales)?);
        let n = set.call.batch.problem.n as usize;
        // The problem of each row of all C.
        let owners: Vec<usize> = match &set.call.groups {
            Some(groups) => {
                groups.iter().enumerate().flat_map(|(group, &rows)| vec![group; rows as usize]).collect()
            }
            None => {
                let m = set.call.batch.problem.m as usize;
                (0..set.call.batch.count as usize).flat_map(|problem| vec![problem; m]).collect()
            }
        };
        let epilogue = |index: usize, sum: f64, error: f64| {
            let (row, column) = (index / n, owners[index / n] * n + index % n);
            let factor = |vector: &[f32], at: usize| vector.get(at).map_or(1.0, |&value| f64::from(value));
            let scale = factor(&rows, row) * factor(&columns, column);
            let bias = bias.get(column).map_or(0.0, |&bias| f64::from(bias));
            let (value, error) = self.of_accumulator(scale * sum, scale.abs() * error, bias);
            set.before.get(index).map_or((value, error), |before| {
                self.added_to::<C>((value, error), before.exact(), set.launches)
            })
        };
        let (a, b) = (set.a.meant()?, set.b.meant()?);
        let is_scaled = self.granularities().is_some();
        let operands = Operands { a, b, input_bytes: size_of::<A>(), is_scaled };
        reference::verify(&set.call.parts(), operands, &set.c, epilogue)
    }

    /// What an accumulator becomes before C is added, and its error, when the accumulator is off by `error`.
    fn of_accumulator(&self, sum: f64, error: f64, bias: f64) -> (f64, f64) {
        let alpha = f64::from(self.alpha());
        let scaled = alpha * sum;
        let x = scaled + bias;
        let has_roundings = bias != 0.0 || self.scales == Scales::RowColumn;
        let roundings = 2.0 * f32::ROUNDING * (scaled.abs() + x.abs());
        let error = error * alpha.abs() + if has_roundings { roundings } else { 0.0 };
        // No activation is steeper than this; `tanh.approx` is off by 2^-11 of one (PTX ISA, "tanh"), and multiplies half of x;
        // other roundings are far smaller.
        let approximate = |value: f64| (value, 1.2 * error + x.abs() / 2048.0);
        match self.activation {
            ActivationOption::None => (x, error),
            ActivationOption::Relu => (x.max(0.0), error),
            ActivationOption::Gelu => {
                approximate(x / 2.0 * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()))
            }
            ActivationOption::Silu => approximate(x / (1.0 + (-x).exp())),
        }
    }

    /// What C holds after `launches` that each add it, and its error.
    fn added_to<C: Rounded>(&self, (value, error): (f64, f64), before: f64, launches: u32) -> (f64, f64) {
        // Nothing is left of what C held more launches ago than this: beta is 0.5 at most.
        const REMEMBERED: u32 = 64;
        let beta = f64::from(self.beta);
        (0..launches.min(REMEMBERED)).fold((before, 0.0), |(held, held_error), _| {
            let sum = value + beta * held;
            let rounding = (C::ROUNDING + 2.0 * f32::ROUNDING) * (sum.abs() + value.abs()) * 1.01;
            (sum, error + beta.abs() * held_error + rounding)
        })
    }

    /// The same by cuBLASLt: a batch in one launch, groups in one launch after another.
    fn cublas<S, A, B, C>(&self, setup: &Setup) -> Result<Box<dyn Prepared>>
    where
        S: HostScales + Mode<A> + Mode<B>,
        A: MultipliesWith<B> + Rounded,
        B: MultipliesWith<A> + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        self.expect_identity("cuBLASLt's GEMM here")?;
        if self.input_type() != self.b_input_type() || self.granularities().is_some() {
            return Err("cuBLASLt is timed with operands of one type without block scales".into());
        }
        let mut calls = self.calls(setup.seed());
        if let [Call { batch, groups: Some(groups) }] = &calls[..] {
            let rows = groups.iter().filter(|rows| **rows > 0);
            calls =
                rows.map(|&m| Call { batch: Problem { m, ..batch.problem }.into(), groups: None }).collect();
        }
        let stream = setup.device().stream()?;
        // Problems of one shape have one algorithm.
        let mut known: Vec<(Batch, Arc<CublasMatmul<A, C>>)> = Vec::new();
        for Call { batch, .. } in &calls {
            if known.iter().all(|(other, _)| other != batch) {
                let [a, b, c] = batch.lengths();
                let device = setup.device();
                let (a, b, mut c) =
                    (device.zeros::<A>(a)?, device.zeros::<A>(b)?, device.uninitialized::<C>(c)?);
                let Problem { m, n, k, a: a_layout, b: b_layout } = batch.problem;
                let [m, n, k] = [m, n, k].map(|extent| extent as usize);
                let order = |layout| match layout {
                    MatrixLayout::RowMajor => cublas::MatrixLayout::RowMajor,
                    MatrixLayout::ColumnMajor => cublas::MatrixLayout::ColumnMajor,
                };
                let (a_order, b_order, count) = (order(a_layout), order(b_layout), batch.count as usize);
                let shape = MatmulShape { m, n, k, a: a_order, b: b_order, batch: count };
                known.push((*batch, Arc::new(CublasMatmul::new(&stream, shape, &a, &b, &mut c)?)));
            }
        }
        let of = |call: &Call| {
            known.iter().find(|(batch, _)| *batch == call.batch).expect("it is known").1.clone()
        };
        let theirs: Vec<_> = calls.iter().map(of).collect();
        let sets = setup.buffers(self.work(), |seed| self.sets::<Unscaled, A, A, C>(setup, &calls, seed))?;
        let launch = move |stream: &Stream, sets: &mut Vec<Set<A, A, C>>| {
            for (theirs, Set { a, b, c, .. }) in theirs.iter().zip(sets) {
                theirs.launch(stream, &a.values, &b.values, c)?;
            }
            Ok(LaunchCounts::default())
        };
        let options = self.clone();
        Ok(sets.launch(launch).verify(move |sets| options.verify(sets)))
    }

    fn search_typed<S, A, B, C>(&self, setup: &Setup) -> Result<Box<dyn Search>>
    where
        S: HostScales + Mode<A> + Mode<B>,
        A: MultipliesWith<B> + Rounded,
        B: MultipliesWith<A> + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        self.expect_identity("a search")?;
        if matches!(self.grouping, Grouping::AlongM | Grouping::Unlike) {
            return Err(
                "groups take the heuristic's algorithm: search with --grouping none or batched".into()
            );
        }
        if self.instruction.is_some() {
            return Err("a search times every instruction: remove --instruction".into());
        }
        let calls = self.calls(setup.seed());
        self.algorithm::<S, A, B, C>(&calls, setup)?;
        let (scales, capability, sms) = (self.granularities(), setup.capability(), setup.sm_count());
        if heuristic::searched::<A, C>(calls[0].batch, scales, capability, sms).is_empty() {
            return Err(launch::no_wgmma::<A, B>(capability).into());
        }
        // The search times its candidates on sets of buffers that all share.
        let made = RefCell::new(Vec::new());
        setup.buffers(self.work(), |seed| {
            made.borrow_mut().push(self.sets::<S, A, B, C>(setup, &calls, seed)?);
            Ok(())
        })?;
        let bench = Rc::new(Bench::<A, B, C> {
            options: self.clone(),
            setup: setup.clone(),
            operations: Operations::new(setup.device()),
            sets: made,
            launches: Cell::new(0),
        });
        Ok(Box::new(AlgorithmSearch::<S, A, B, C> {
            bench,
            tried: Vec::new(),
            scales: std::marker::PhantomData,
        }))
    }
}

impl Workload for GemmWorkload {
    const NAME: &'static str = "gemm";

    fn work(&self) -> Work {
        let bytes_of = |input: InputType| with_input!(input, T => size_of::<T>());
        let (a_bytes, b_bytes) = (bytes_of(self.input_type()), bytes_of(self.b_input_type()));
        let c_bytes = with_output!(self.output_type(), T => size_of::<T>());
        let mut work = Work::default();
        for Call { batch, groups } in self.calls(1) {
            let Problem { m, n, k, .. } = batch.problem;
            let [m_all, n_f, k_f] = [m, n, k].map(f64::from);
            // Every element is moved once; the B of a group without rows not at all.
            let (a_count, b_count, c_count) = match &groups {
                Some(groups) => (1.0, groups.iter().filter(|rows| **rows > 0).count() as f64, 1.0),
                None => (f64::from(batch.count), f64::from(batch.count), f64::from(batch.count)),
            };
            let scales = self.granularities().map_or(0.0, |(a, b)| {
                4.0 * (a_count * a.count((m, k)) as f64 + b_count * b.count((n, k)) as f64)
            });
            work.operations += 2.0 * c_count * m_all * n_f * k_f;
            work.bytes += a_count * m_all * k_f * a_bytes as f64 + b_count * k_f * n_f * b_bytes as f64;
            work.bytes += c_count * m_all * n_f * c_bytes as f64 + scales;
        }
        work
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_types!(self, prepare_typed(setup))
    }

    fn baseline(&self, name: &str, setup: &Setup) -> Option<Result<Box<dyn Prepared>>> {
        let prepare = || with_types!(self, cublas(setup));
        (name == "cublas").then(prepare)
    }

    fn search(&self, setup: &Setup) -> Option<Result<Box<dyn Search>>> {
        let search = || with_types!(self, search_typed(setup));
        Some(search())
    }

    fn explain(&self, setup: &Setup) -> Option<Result<String>> {
        let explain = || with_types!(self, explain_typed(setup));
        Some(explain())
    }
}

/// How an operand's buffers are an argument.
trait Mode<T: Operand> {
    type Argument<'a>: OperandArgument<Element = T, Scales = Self>
    where
        T: 'a;

    fn argument(set: &OperandSet<T>) -> Self::Argument<'_>;

    /// The largest finite value of a type whose blocks have scales.
    fn largest() -> f32;
}

impl<T: Operand> Mode<T> for Unscaled {
    type Argument<'a>
        = &'a Buffer<T>
    where
        T: 'a;

    fn argument(set: &OperandSet<T>) -> &Buffer<T> {
        &set.values
    }

    fn largest() -> f32 {
        1.0
    }
}

impl<T: BlockScaledOperand> Mode<T> for BlockScaled {
    type Argument<'a>
        = Scaled<'a, T>
    where
        T: 'a;

    fn argument(set: &OperandSet<T>) -> Scaled<'_, T> {
        Scaled { values: &set.values, scales: set.scales().expect("the operands have block scales") }
    }

    fn largest() -> f32 {
        T::LARGEST
    }
}

/// An operand of several problems on a device, one matrix after another.
struct OperandSet<T> {
    values: Buffer<T>,
    scales: Option<(Buffer<f32>, Granularity)>,
    /// (rows, k) of each.
    operand: (u32, u32),
}

impl<T: Operand + Rounded> OperandSet<T> {
    /// Random normal numbers; with block scales, divided in each block by what makes the largest of them the type's largest.
    fn new<S: Mode<T>>(
        setup: &Setup,
        granularity: Option<Granularity>,
        operand: (u32, u32),
        count: u32,
        seed: u64,
    ) -> Result<Self> {
        let (rows, k) = operand;
        let (elements, count) = (rows as usize * k as usize, count as usize);
        let Some(granularity) = granularity else {
            let values = setup.input(count * elements, |length| normal(seed, length, T::round))?;
            return Ok(Self { values, scales: None, operand });
        };
        let each = granularity.count(operand);
        if setup.device().is_dry_run() {
            let (values, scales) = (setup.output(count * elements)?, setup.output(count * each)?);
            return Ok(Self { values, scales: Some((scales, granularity)), operand });
        }
        let numbers: Vec<f32> = normal(seed, count * elements, |number| number);
        let mut scales = vec![0f32; count * each];
        for (numbers, scales) in numbers.chunks(elements.max(1)).zip(scales.chunks_mut(each.max(1))) {
            for (group, numbers) in numbers.chunks((granularity.rows() * k) as usize).enumerate() {
                for block in 0..k.div_ceil(BLOCK) {
                    let columns = (block * BLOCK) as usize..k.min((block + 1) * BLOCK) as usize;
                    let of_block = numbers.chunks(k as usize).flat_map(|row| &row[columns.clone()]);
                    let largest =
                        of_block.fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
                    let element = (group as u32 * granularity.rows(), block * BLOCK);
                    scales[granularity.index(element, operand)] = largest / S::largest();
                }
            }
        }
        let round =
            |(at, number): (usize, &f32)| T::round(number / scales[scale_of(granularity, at, operand)]);
        let values: Vec<T> = numbers.par_iter().enumerate().map(round).collect();
        let scales = Some((setup.device().buffer_from(&scales)?, granularity));
        Ok(Self { values: setup.device().buffer_from(&values)?, scales, operand })
    }
}

impl<T> OperandSet<T> {
    fn scales(&self) -> Option<BlockScales<'_>> {
        self.scales.as_ref().map(|(scales, granularity)| BlockScales { scales, granularity: *granularity })
    }

    /// The numbers that the elements stand for.
    fn meant(&self) -> Result<Vec<f32>>
    where
        T: Storable + Rounded + Sync,
    {
        let values = self.values.to_vec()?;
        let Some((scales, granularity)) = &self.scales else {
            return Ok(values.par_iter().map(|value| value.exact() as f32).collect());
        };
        let scales = scales.to_vec()?;
        let meant = |(at, value): (usize, &T)| {
            value.exact() as f32 * scales[scale_of(*granularity, at, self.operand)]
        };
        Ok(values.par_iter().enumerate().map(meant).collect())
    }
}

/// The index of the scale of element `at` of several operands.
fn scale_of(granularity: Granularity, at: usize, operand: (u32, u32)) -> usize {
    let (rows, k) = (operand.0 as usize, operand.1 as usize);
    let (number, row, column) = (at / (rows * k), at / k % rows, at % k);
    number * granularity.count(operand) + granularity.index((row as u32, column as u32), operand)
}

/// The buffers of a call.
struct Set<A, B, C> {
    call: Call,
    a: OperandSet<A>,
    b: OperandSet<B>,
    c: Buffer<C>,
    offsets: Option<Buffer<u32>>,
    bias: Option<Buffer<f32>>,
    row_scales: Option<Buffer<f32>>,
    column_scales: Option<Buffer<f32>>,
    /// What C held before the first launch, if it is read.
    before: Vec<C>,
    launches: u32,
}

/// The sets of buffers that all candidates use in rotation, so that no launch finds in a cache what the one before it used.
struct Bench<A, B, C> {
    options: GemmWorkload,
    setup: Setup,
    operations: Operations,
    sets: RefCell<Vec<Vec<Set<A, B, C>>>>,
    launches: Cell<usize>,
}

/// A search for the fastest algorithm.
struct AlgorithmSearch<S, A, B, C> {
    bench: Rc<Bench<A, B, C>>,
    tried: Vec<Algorithm>,
    scales: std::marker::PhantomData<S>,
}

/// One algorithm on the bench.
struct Point<S, A, B, C> {
    bench: Rc<Bench<A, B, C>>,
    algorithm: Algorithm,
    scales: std::marker::PhantomData<S>,
}

impl<S, A, B, C> Prepared for Point<S, A, B, C>
where
    S: HostScales + Mode<A> + Mode<B>,
    A: MultipliesWith<B> + Rounded,
    B: MultipliesWith<A> + Rounded,
    C: GemmOutput + Storable + Rounded,
{
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        let Bench { options, operations, sets, launches, .. } = &*self.bench;
        let mut sets = sets.borrow_mut();
        let turn = launches.get() % sets.len();
        launches.set(launches.get() + 1);
        options.launch::<S, A, B, C>(operations, stream, self.algorithm, &mut sets[turn])
    }

    /// Compares what the last launch left with the reference.
    fn verify(&mut self) -> Result<Verified> {
        let Bench { options, sets, launches, .. } = &*self.bench;
        let sets = sets.borrow();
        options.verify(&sets[(launches.get() - 1) % sets.len()])
    }
}

impl<S, A, B, C> AlgorithmSearch<S, A, B, C>
where
    S: HostScales + Mode<A> + Mode<B>,
    A: MultipliesWith<B> + Rounded,
    B: MultipliesWith<A> + Rounded,
    C: GemmOutput + Storable + Rounded,
{
    fn batch(&self) -> Batch {
        self.bench.sets.borrow()[0][0].call.batch
    }

    fn candidates(&mut self, algorithms: Vec<Algorithm>) -> Vec<Candidate> {
        let candidate = |&algorithm: &Algorithm| {
            let (bench, scales) = (Rc::clone(&self.bench), std::marker::PhantomData);
            let prepared = Box::new(Point::<S, A, B, C> { bench, algorithm, scales });
            Candidate { name: algorithm.to_string(), prepared }
        };
        let candidates = algorithms.iter().map(candidate).collect();
        self.tried.extend(algorithms);
        candidates
    }
}

impl<S, A, B, C> Search for AlgorithmSearch<S, A, B, C>
where
    S: HostScales + Mode<A> + Mode<B>,
    A: MultipliesWith<B> + Rounded,
    B: MultipliesWith<A> + Rounded,
    C: GemmOutput + Storable + Rounded,
{
    fn first(&mut self, limit: usize) -> Vec<Candidate> {
        let Bench { options, setup, .. } = &*self.bench;
        let (scales, capability, sms) = (options.granularities(), setup.capability(), setup.sm_count());
        let mut algorithms = heuristic::searched::<A, C>(self.batch(), scales, capability, sms);
        algorithms.truncate(limit);
        self.candidates(algorithms)
    }

    fn around(&mut self, fastest: usize) -> Vec<Candidate> {
        let Bench { options, setup, .. } = &*self.bench;
        let size = self.batch().size::<A, C>(options.granularities());
        let mut algorithms = heuristic::around(self.tried[fastest], size, setup.capability());
        algorithms.retain(|algorithm| !self.tried.contains(algorithm));
        self.candidates(algorithms)
    }

    fn keep(&self, fastest: usize, seconds: f64) -> Result<Option<PathBuf>> {
        let Bench { options, setup, sets, .. } = &*self.bench;
        let planned = options.planned(&sets.borrow()[0][0].call);
        let (algorithm, file) = (self.tried[fastest], tune::default_file()?);
        let hash = launch::ptx_hash::<A, B, C, S>(planned, algorithm, setup.capability())?;
        let key = Key::of::<A, B, C>(&setup.device().properties().product, planned.batch, planned.scales);
        tune::keep(&file, &key, algorithm, hash, seconds)?;
        Ok(Some(file))
    }
}
