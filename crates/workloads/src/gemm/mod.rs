//! The GEMM on the command line: its options, and which algorithm they choose.

mod baseline;
mod inputs;
mod reference;
mod search;

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::{Capability, DataType};
use warpwright_harness::{
    Options, Prepared, Random, Refused, Result, Search, Setup, Work, Workload, data_types,
};

use inputs::{Case, Set};
use warpwright_kernels::gemm::device::staging::StagedBatch;
use warpwright_kernels::gemm::host::config::{Algorithm, TmaInstruction};
use warpwright_kernels::gemm::host::{choice, heuristic, tune};
use warpwright_kernels::gemm::problem::batching::{Batch, GemmProblem, Problem};
use warpwright_kernels::gemm::problem::epilogue::Activation;
use warpwright_kernels::gemm::problem::error::GemmError;
use warpwright_kernels::gemm::problem::scales::{Granularities, Granularity};
use warpwright_kernels::gemm::problem::types::{GemmOutput, GemmTypes, MatrixLayout, Operand};
use warpwright_kernels::operations::Operations;

/// C = A·B on tensor cores with an epilogue: single, batched or grouped, with or without scales.
#[derive(Clone, Debug, Options)]
pub(super) struct GemmWorkload {
    /// Rows of A and C. With groups along m, the total over all groups; with unlike problems, the
    /// maximum.
    #[option(default = 512, min = 1, max = 1 << 30)]
    m: u32,
    /// Columns of B and C. With unlike problems, the maximum.
    #[option(default = 512, min = 1, max = 1 << 30)]
    n: u32,
    /// Columns of A and rows of B. With unlike problems, the maximum.
    #[option(default = 256, min = 1, max = 1 << 30)]
    k: u32,
    /// The problems of one launch.
    grouping: Grouping,
    /// Problems of a batch, or groups.
    #[option(default = 8, min = 1, max = 1 << 16)]
    groups: u32,
    /// How rows are assigned to groups along m.
    routing: Routing,
    /// Extents of unlike problems.
    sizes: Sizes,
    /// Layout of A.
    a: MatrixLayout,
    /// Layout of B.
    #[option(default = MatrixLayout::ColumnMajor)]
    b: MatrixLayout,
    /// Data type of A and B. By default bf16, or e4m3 with blockwise scales.
    input: Option<InputType>,
    /// Data type of B, if it differs from A's: e4m3 and e5m2 can be mixed.
    b_input: Option<InputType>,
    /// Data type of C. By default f32, or bf16 with blockwise scales.
    output: Option<OutputType>,
    /// Scales of A and B.
    scales: Scales,
    /// Blockwise scales of B, with blockwise scales of A: 128x128.
    b_scales: Option<Granularity>,
    /// Scale of A·B.
    #[option(default = 1.0)]
    alpha: f32,
    /// Scale of the old C, which is added to the result.
    #[option(default = 0.0, min = -0.5, max = 0.5)]
    beta: f32,
    /// Add a bias to each column.
    bias: bool,
    /// Function of each element, before C is added.
    activation: Activation,
    /// Of each 16 columns of A·B, multiply the second 8 by this function of the first: C has n / 2
    /// columns.
    gate: Option<Activation>,
    /// Load B before the launch in front ends, as the weights of a layer: on Hopper, for one problem.
    preload_b: bool,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Routing {
    /// A random group.
    #[default]
    Random,
    /// Groups of equal size.
    Even,
    /// The first group.
    First,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Sizes {
    /// Between half of the maximum and the maximum, in multiples of 16.
    #[default]
    Random,
    /// Between half of the maximum and the maximum.
    Odd,
    /// The maximum.
    Alike,
}

data_types! {
    /// Types of operands.
    enum InputType by with_input { bf16, f16, tf32, e4m3, e5m2 }
}

data_types! {
    /// Types of C.
    enum OutputType by with_output_type { f32, bf16, f16 }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Scales {
    /// None.
    #[default]
    None,
    /// A scale for each operand, by the epilogue's alpha.
    Tensor,
    /// A scale for each row of A and each column of B, by the epilogue.
    RowColumn,
    /// Blockwise scales: one per 128 elements along k of a row of A.
    #[strum(serialize = "1x128")]
    Row1x128,
    /// Blockwise scales: one per 128 rows of A and 128 elements along k.
    #[strum(serialize = "128x128")]
    Block128x128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Instruction {
    /// `mma.sync`.
    MmaSync,
    /// `wgmma`.
    #[default]
    Wgmma,
    /// `tcgen05.mma`.
    Tcgen05,
}

impl Instruction {
    /// That of an algorithm.
    fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::MmaSync(_) => Self::MmaSync,
            Algorithm::Wgmma(_) => Self::Wgmma,
            Algorithm::Tcgen05(_) => Self::Tcgen05,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum PlanOption {
    /// The tuned result, or else the cost model.
    #[default]
    Tuned,
    /// The cost model.
    Model,
}

impl GemmWorkload {
    fn granularities(&self) -> Option<Granularities> {
        let a = match self.scales {
            Scales::None | Scales::Tensor | Scales::RowColumn => return None,
            Scales::Row1x128 => Granularity::Row,
            Scales::Block128x128 => Granularity::Block,
        };
        Some((a, self.b_scales.unwrap_or_default()))
    }

    /// The types of A and B, and of C, that the options name.
    fn type_options(&self) -> (InputType, InputType, OutputType) {
        let (input, output) = match self.granularities() {
            Some(_) => (InputType::e4m3, OutputType::bf16),
            None => (InputType::bf16, OutputType::f32),
        };
        let a = self.input.unwrap_or(input);
        (a, self.b_input.unwrap_or(a), self.output.unwrap_or(output))
    }

    /// The types of A, B and C, whether or not they can be multiplied.
    fn data_types(&self) -> GemmTypes {
        let (a, b, c) = self.type_options();
        let input = |input: InputType| with_input!(input, T => <T as Operand>::DATA_TYPE);
        let c = with_output_type!(c, T => <T as GemmOutput>::DATA_TYPE);
        GemmTypes::new(input(a), input(b), c).with(self.granularities())
    }

    /// The types of A, B and C.
    fn types(&self) -> Result<GemmTypes> {
        let ((a, b, _), types) = (self.type_options(), self.data_types());
        let is_narrow = |input| matches!(input, DataType::E4m3 | DataType::E5m2);
        let are_narrow = is_narrow(types.a) && is_narrow(types.b);
        if self.granularities().is_some() && !is_narrow(types.a) {
            let reason = format!("--input {a}: blockwise scales need e4m3 or e5m2");
            return Err(Refused::new(reason).into());
        }
        if types.a != types.b && !are_narrow {
            let reason = format!(
                "--input {} --b-input {}: operands have one type, or one is e4m3 and the other e5m2",
                a, b
            );
            return Err(Refused::new(reason).into());
        }
        Ok(types)
    }

    /// The problem of those extents, in the layouts of the options.
    fn problem(&self, m: u32, n: u32, k: u32) -> Problem {
        Problem { m, n, k, a: self.a, b: self.b }
    }

    /// What one launch computes: several cases are members of a group.
    fn cases(&self, seed: u64) -> Vec<Case> {
        let (problem, mut random) = (self.problem(self.m, self.n, self.k), Random::new(seed));
        match self.grouping {
            Grouping::None => vec![Case { batch: problem.into(), groups: None }],
            Grouping::Batched => vec![Case { batch: Batch::new(problem, self.groups), groups: None }],
            Grouping::AlongM => {
                let groups = self.rows_of_groups(&mut random);
                vec![Case { batch: Batch::along_m(problem, self.groups), groups: Some(groups) }]
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
                let mut case = || self.problem(size(self.m), size(self.n), size(self.k));
                (0..self.groups).map(|_| Case { batch: case().into(), groups: None }).collect()
            }
        }
    }

    /// The rows of each group along m.
    fn rows_of_groups(&self, random: &mut Random) -> Vec<u32> {
        /// Rows that are assigned one by one. Further rows are spread evenly, so that the time of
        /// their assignment is bounded.
        const DRAWN: u32 = 1 << 20;
        let drawn = match self.routing {
            Routing::Random => self.m.min(DRAWN),
            Routing::Even => 0,
            Routing::First => self.m,
        };
        let even = self.m - drawn;
        let share = |group| even / self.groups + u32::from(group < even % self.groups);
        let mut rows: Vec<u32> = (0..self.groups).map(share).collect();
        match self.routing {
            Routing::Random => {
                (0..drawn).for_each(|_| rows[random.below(self.groups.into()) as usize] += 1);
            }
            Routing::Even | Routing::First => rows[0] += drawn,
        }
        rows
    }

    /// A case with its types.
    fn described(&self, case: &Case, types: GemmTypes) -> GemmProblem {
        let along_m = case.groups.is_some();
        let (preloads_b, gate) = (self.preload_b, self.gate);
        GemmProblem { along_m, preloads_b, gate, ..GemmProblem::new(case.batch, types) }
    }

    /// Alpha, with the tensors' scales.
    fn alpha(&self) -> f32 {
        const TENSOR_SCALES: f32 = 0.75 * 0.5;
        if self.scales == Scales::Tensor { self.alpha * TENSOR_SCALES } else { self.alpha }
    }

    /// Refuses an epilogue where `what` has none.
    fn expect_identity(&self, what: &str) -> Result<()> {
        let is_identity = self.alpha() == 1.0 && self.beta == 0.0 && !self.bias && self.gate.is_none();
        if is_identity && self.activation == Activation::Identity && self.scales != Scales::RowColumn {
            return Ok(());
        }
        let flags = "--alpha, --beta, --bias, --activation, --gate and --scales";
        Err(Refused::new(format!("{what} has no epilogue: remove {flags}")).into())
    }

    /// The algorithms that the options allow, the cheapest first.
    fn algorithms(
        &self,
        cases: &[Case],
        types: GemmTypes,
        capability: &'static Capability,
        sms: u32,
    ) -> Vec<Algorithm> {
        let mut algorithms = match self.grouping {
            Grouping::Unlike => {
                let problems: Vec<_> = cases.iter().map(|case| case.batch.problem).collect();
                heuristic::grouped_algorithms(&problems, types, capability, sms)
            }
            _ => heuristic::algorithms(&self.described(&cases[0], types), capability, sms),
        };
        algorithms.retain(|algorithm| self.allows(*algorithm));
        algorithms
    }

    fn allows(&self, algorithm: Algorithm) -> bool {
        self.instruction.is_none_or(|instruction| instruction == Instruction::of(algorithm))
    }

    /// Why no algorithm has the instruction that the options name.
    fn no_instruction(&self, types: GemmTypes, capability: &Capability) -> Refused {
        let instruction = <&str>::from(self.instruction.unwrap_or_default());
        let reason = match self.instruction {
            Some(Instruction::MmaSync) => {
                let scales = if self.granularities().is_some() { " with blockwise scales" } else { "" };
                format!("its kernel takes bf16 and f16 operands, not {}{scales}", types.inputs())
            }
            Some(Instruction::Tcgen05) => {
                format!("it needs sm_100a or sm_103a, and the device is {}", capability.target)
            }
            _ => format!("it needs sm_90a, and the device is {}", capability.target),
        };
        Refused::new(format!("--instruction {instruction}: {reason}; remove --instruction"))
    }

    /// The algorithm on a device, and the reason.
    fn algorithm(&self, cases: &[Case], setup: &Setup) -> Result<(Algorithm, String)> {
        let (types, capability) = (self.types()?, setup.capability());
        let problem = self.described(&cases[0], types);
        if self.gate.is_some() && self.grouping == Grouping::Unlike {
            return Err(GemmError::GatedBatch.into());
        }
        problem.expect_gate(self.beta != 0.0)?;
        choice::expect_kernel(&problem, capability)?;
        let algorithms = self.algorithms(cases, types, capability, setup.sm_count());
        if algorithms.is_empty() {
            return Err(self.no_instruction(types, capability).into());
        }
        let past = || format!("--rank {}: the ranks are 0 to {}", self.rank, algorithms.len() - 1);
        let algorithm = *algorithms.get(self.rank as usize).ok_or_else(|| Refused::new(past()))?;
        let by_model = heuristic::reason(algorithm, capability);
        let reason = if self.rank != 0 {
            "chosen by --rank".to_owned()
        } else if matches!(self.grouping, Grouping::AlongM | Grouping::Unlike) {
            by_model.to_owned()
        } else if self.plan == PlanOption::Model {
            "chosen by --plan".to_owned()
        } else if let Ok(file) = tune::default_file()
            && let Some(tuned) = choice::tuned(&problem, setup.device().properties(), &file)?
            && self.allows(tuned)
        {
            let file = file.display();
            return Ok((tuned, format!("tuned: the fastest that `warpwright tune` timed ({file})")));
        } else if self.instruction == Some(Instruction::MmaSync) {
            "chosen by --instruction".to_owned()
        } else if algorithm.configuration().is_some() {
            format!("{by_model}; no tuned result is cached")
        } else {
            by_model.to_owned()
        };
        Ok((algorithm, reason))
    }
}

impl Workload for GemmWorkload {
    const NAME: &'static str = "gemm";

    fn work(&self) -> Work {
        let types = self.data_types();
        let [a_bytes, b_bytes, c_bytes] =
            [types.a, types.b, types.c].map(|data_type| f64::from(data_type.bits() / 8));
        let mut work = Work::default();
        for Case { batch, groups } in self.cases(1) {
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
            work.bytes += a_count * m_all * k_f * a_bytes + b_count * k_f * n_f * b_bytes;
            let stored = if self.gate.is_some() { n_f / 2.0 } else { n_f };
            work.bytes += c_count * m_all * stored * c_bytes + scales;
        }
        work
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let cases = self.cases(setup.seed());
        let (algorithm, _) = self.algorithm(&cases, setup)?;
        let operations = Operations::new(setup.device());
        let sets = setup.buffers(self.work(), |seed| self.sets(setup, &cases, seed))?;
        let (launched, verified) = (self.clone(), self.clone());
        let launch =
            move |stream: &_, sets: &mut Vec<Set>| launched.launch(&operations, stream, algorithm, sets);
        Ok(sets.launch(launch).verify(move |sets| verified.verify(sets)))
    }

    fn baseline(&self, name: &str, setup: &Setup) -> Option<Result<Box<dyn Prepared>>> {
        (name == "cublas").then(|| self.cublas(setup))
    }

    fn search(&self, setup: &Setup) -> Option<Result<Box<dyn Search>>> {
        Some(self.algorithm_search(setup))
    }

    fn explain(&self, setup: &Setup) -> Option<Result<String>> {
        let explain = || {
            let cases = self.cases(setup.seed());
            let (algorithm, reason) = self.algorithm(&cases, setup)?;
            let (problem, sms) = (self.described(&cases[0], self.types()?), setup.sm_count());
            let Some(instruction) =
                TmaInstruction::of(setup.capability()).filter(|_| algorithm.configuration().is_some())
            else {
                return Ok(format!("{algorithm}: {reason}"));
            };
            let (of, costs, copies) = match self.grouping {
                Grouping::Unlike => {
                    let problems: Vec<_> = cases.iter().map(|case| case.batch.problem).collect();
                    let average = heuristic::average(&problems, problem.types);
                    let copied =
                        cases.iter().map(|case| StagedBatch::of(&self.described(case, problem.types)));
                    let copied = copied.filter(|staged| !staged.is_unstaged()).count();
                    let copies = (copied > 0).then(|| {
                        let all = cases.len();
                        format!(
                            "operands of {copied} of the {all} problems are copied first: TMA cannot read them"
                        )
                    });
                    let Batch { problem: Problem { m, n, k, .. }, count, .. } = average.batch;
                    let of = format!(" for {count} problems of {m} x {n} x {k} on average");
                    (of, heuristic::rank_grouped(&average, instruction, sms), copies.into_iter().collect())
                }
                _ => {
                    let equal = heuristic::equal_groups(&problem);
                    let Batch { problem: Problem { m, n, k, .. }, count, .. } = equal.batch;
                    let of = match self.grouping {
                        Grouping::AlongM => format!(" for {count} equal groups of {m} x {n} x {k}"),
                        _ => String::new(),
                    };
                    (of, heuristic::rank(&problem, instruction, sms), StagedBatch::of(&problem).describe())
                }
            };
            let types =
                if of.is_empty() { String::new() } else { format!(", of {}", problem.types.inputs()) };
            Ok(heuristic::explain(&(of + &types), &costs, algorithm, copies, &reason))
        };
        Some(explain())
    }
}
