//! The routing's kernels as workloads.

use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Work, Workload, compare,
    data_types, exactly,
};

use warpwright_kernels::moe::{ExpertRows, Routing, Scoring};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;

data_types! {
    /// Types of logits and rows.
    pub(crate) enum MoeType by with_moe_type { bf16, f16, f32 }
}

/// Chooses the experts of each token.
#[derive(Clone, Debug, Options)]
pub(crate) struct RouteWorkload {
    /// Tokens.
    #[option(default = 7, max = 1 << 20)]
    tokens: u32,
    /// Experts.
    #[option(default = 128, max = 1 << 16)]
    experts: u32,
    /// Experts of a token.
    #[option(default = 8, max = 1 << 10)]
    choices: u32,
    /// What a weight is before it is scaled.
    scoring: Scoring,
    /// Leave the weights of a token as they are; else they are divided by their sum.
    keep_sum: bool,
    /// Data type of the logits.
    #[option(name = "type")]
    element: MoeType,
}

/// The buffers of a routing.
struct RouteSet<T> {
    logits: Buffer<T>,
    experts: Buffer<u32>,
    weights: Buffer<f32>,
}

/// Multiplies all weights.
const SCALE: f32 = 2.5;

impl RouteWorkload {
    /// The experts of a token and their weights, the highest logit first.
    fn expected(&self, logits: &[f64]) -> Vec<(u32, f64)> {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        let maximum = logits[order[0]];
        let score = |logit: f64| match self.scoring {
            Scoring::Softmax => (logit - maximum).exp(),
            Scoring::Sigmoid => 1.0 / (1.0 + (-logit).exp()),
        };
        let total: f64 = logits.iter().map(|logit| score(*logit)).sum();
        order.truncate(self.choices as usize);
        let chosen: f64 = order.iter().map(|expert| score(logits[*expert])).sum();
        let divisor = match (self.keep_sum, self.scoring) {
            (false, _) => chosen,
            (true, Scoring::Softmax) => total,
            (true, Scoring::Sigmoid) => 1.0,
        };
        let weight = |expert: usize| score(logits[expert]) / divisor * f64::from(SCALE);
        order.into_iter().map(|expert| (expert as u32, weight(expert))).collect()
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let Self { tokens, experts, choices, scoring, keep_sum, .. } = *self;
        let routing = Routing { experts, choices, scoring, renormalizes: !keep_sum, scale: SCALE };
        let (all, count) = (tokens as usize * choices as usize, tokens as usize * experts as usize);
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            Ok(RouteSet {
                logits: setup.values::<T>(Values::Normal, seed, count)?,
                experts: setup.output(all)?,
                weights: setup.output(all)?,
            })
        })?;
        let this = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut RouteSet<T>| {
                let to = (&mut set.experts, &mut set.weights);
                Ok(operations.route_tokens(stream, routing, &set.logits, to)?)
            })
            .verify(move |set| {
                let logits: Vec<f64> = set.logits.to_vec()?.into_iter().map(T::exact).collect();
                let found = (set.experts.to_vec()?, set.weights.to_vec()?);
                let mut compared = vec![];
                for (token, logits) in logits.chunks(experts as usize).enumerate() {
                    let size = logits.iter().fold(0.0, |most: f64, logit| most.max(logit.abs()));
                    for (choice, (expert, weight)) in this.expected(logits).into_iter().enumerate() {
                        let at = token * choices as usize + choice;
                        let exact = (f64::from(found.0[at]), f64::from(expert), 0.0);
                        let tolerance = f32::ROUNDING * (96.0 + 32.0 * size) * weight;
                        let near = (f64::from(found.1[at]), weight, tolerance);
                        compared.extend([exact, near].map(|(found, expected, tolerance)| Compared {
                            found,
                            expected,
                            tolerance,
                        }));
                    }
                }
                Ok(compare(compared, |element| vec![element as usize / 2])?)
            }))
    }
}

impl Workload for RouteWorkload {
    const NAME: &'static str = "moe-route";

    /// Logits are read once; experts and weights are written once.
    fn work(&self) -> Work {
        let (tokens, bytes) = (f64::from(self.tokens), with_moe_type!(self.element, T => size_of::<T>()));
        let logits = tokens * f64::from(self.experts);
        Work {
            operations: 2.0 * logits,
            bytes: logits * bytes as f64 + 8.0 * tokens * f64::from(self.choices),
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_moe_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}

/// Distinct experts of each token, some of which are more popular than others.
fn random_experts(seed: u64, tokens: u32, (experts, choices): (u32, u32)) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut all = Vec::with_capacity(tokens as usize * choices as usize);
    for _ in 0..tokens {
        let begin = all.len();
        while all.len() < begin + choices.min(experts) as usize {
            let most = 1 + random.below(experts.into());
            let expert = random.below(most) as u32;
            if !all[begin..].contains(&expert) {
                all.push(expert);
            }
        }
    }
    all.resize(tokens as usize * choices as usize, 0);
    all
}

/// Orders the choices of tokens by expert.
#[derive(Clone, Debug, Options)]
pub(crate) struct PermuteWorkload {
    /// Tokens.
    #[option(default = 60, max = 1 << 20)]
    tokens: u32,
    /// Experts.
    #[option(default = 128, min = 1, max = 1 << 10)]
    experts: u32,
    /// Experts of a token.
    #[option(default = 8, max = 1 << 6)]
    choices: u32,
}

/// The buffers of a permutation.
struct PermuteSet {
    experts: Buffer<u32>,
    offsets: Buffer<u32>,
    tokens: Buffer<i32>,
    rows: Buffer<u32>,
}

impl Workload for PermuteWorkload {
    const NAME: &'static str = "moe-permute";

    /// Experts are read once; tokens and rows are written once.
    fn work(&self) -> Work {
        let choices = f64::from(self.tokens) * f64::from(self.choices);
        Work { operations: choices, bytes: 12.0 * choices }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let Self { tokens, experts, choices } = *self;
        let all = tokens as usize * choices as usize;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            Ok(PermuteSet {
                experts: setup.input(all, |_| random_experts(seed, tokens, (experts, choices)))?,
                offsets: setup.output(experts as usize + 1)?,
                tokens: setup.output(all)?,
                rows: setup.output(all)?,
            })
        })?;
        Ok(buffers
            .launch(move |stream, set: &mut PermuteSet| {
                let PermuteSet { experts: chosen, offsets, tokens, rows } = set;
                let to = ExpertRows { offsets, tokens, rows };
                Ok(operations.permute_by_expert(stream, chosen, (experts, choices), to)?)
            })
            .verify(move |set| {
                let chosen = set.experts.to_vec()?;
                let mut order: Vec<usize> = (0..all).collect();
                order.sort_by_key(|choice| chosen[*choice]);
                let mut rows = vec![0; all];
                order.iter().enumerate().for_each(|(row, choice)| rows[*choice] = row);
                let before =
                    |expert: usize| order.partition_point(|at| (chosen[*at] as usize) < expert) as f64;
                let offsets = (0..=experts as usize).map(before).collect::<Vec<_>>();
                exactly(&set.offsets.to_vec()?, |expert| offsets[expert])?;
                exactly(&set.tokens.to_vec()?, |row| (order[row] / choices as usize) as f64)?;
                exactly(&set.rows.to_vec()?, |choice| rows[choice] as f64)
            }))
    }
}

/// Adds up the weighted rows of each token.
#[derive(Clone, Debug, Options)]
pub(crate) struct CombineWorkload {
    /// Tokens.
    #[option(default = 5, max = 1 << 20)]
    tokens: u32,
    /// Columns.
    #[option(default = 1000, max = 1 << 16)]
    hidden: u32,
    /// Experts of a token.
    #[option(default = 8, max = 1 << 6)]
    choices: u32,
    /// Data type of the rows.
    #[option(name = "type")]
    element: MoeType,
}

/// The buffers of a combination.
struct CombineSet<T> {
    x: Buffer<T>,
    rows: Buffer<u32>,
    weights: Buffer<f32>,
    y: Buffer<T>,
}

impl CombineWorkload {
    /// A permutation of all rows.
    fn rows(&self, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let mut rows: Vec<u32> = (0..self.tokens * self.choices).collect();
        for last in (1..rows.len()).rev() {
            rows.swap(last, random.below(last as u64 + 1) as usize);
        }
        rows
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (tokens, columns) = (self.tokens as usize, self.hidden as usize);
        let k = self.choices as usize;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            Ok(CombineSet {
                x: setup.values::<T>(Values::Normal, seed, tokens * k * columns)?,
                rows: setup.input(tokens * k, |_| self.rows(seed))?,
                weights: setup.values(Values::Normal, !seed, tokens * k)?,
                y: setup.output(tokens * columns)?,
            })
        })?;
        let shape = (self.tokens, self.hidden);
        Ok(buffers
            .launch(move |stream, set: &mut CombineSet<T>| {
                let choices = (&set.rows, &set.weights);
                Ok(operations.combine_rows(stream, &set.x, choices, shape, &mut set.y)?)
            })
            .verify(move |set| {
                let (x, rows, weights) = (set.x.to_vec()?, set.rows.to_vec()?, set.weights.to_vec()?);
                let compared = set.y.to_vec()?.into_iter().enumerate().map(|(at, found)| {
                    let (token, column) = (at / columns, at % columns);
                    let term = |choice: usize| {
                        x[rows[choice] as usize * columns + column].exact() * f64::from(weights[choice])
                    };
                    let (expected, size) = (token * k..(token + 1) * k)
                        .map(term)
                        .fold((0.0, 0.0), |(sum, size): (f64, f64), term| (sum + term, size + term.abs()));
                    let rounding = 1.01 * T::ROUNDING * expected.abs() + T::SMALLEST;
                    let tolerance = rounding + k as f64 * f32::ROUNDING * size;
                    Compared { found: found.exact(), expected, tolerance }
                });
                Ok(compare(compared, |index| vec![index as usize / columns, index as usize % columns])?)
            }))
    }
}

impl Workload for CombineWorkload {
    const NAME: &'static str = "moe-combine";

    /// Rows are read once and the result is written once.
    fn work(&self) -> Work {
        let elements = f64::from(self.tokens) * f64::from(self.hidden);
        let bytes = with_moe_type!(self.element, T => size_of::<T>()) as f64;
        let choices = f64::from(self.choices);
        Work { operations: 2.0 * choices * elements, bytes: (choices + 1.0) * bytes * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_moe_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}

/// Adds the routed experts and the gated shared one to a residual.
#[derive(Clone, Debug, Options)]
pub(crate) struct SharedExpertWorkload {
    /// Tokens.
    #[option(default = 5, max = 1 << 16)]
    tokens: u32,
    /// Columns.
    #[option(default = 1000, max = 1 << 16)]
    hidden: u32,
    /// Data type of the rows.
    #[option(name = "type")]
    element: MoeType,
}

/// The buffers of a sum, and how often it was launched on them.
struct SumSet<T> {
    routed: Buffer<T>,
    shared: Buffer<T>,
    gates: Buffer<T>,
    y: Buffer<T>,
    seed: u64,
    launches: u32,
}

impl SharedExpertWorkload {
    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (shape, columns) = ((self.tokens, self.hidden), self.hidden as usize);
        let elements = self.tokens as usize * columns;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let numbers = |which: u64, count| setup.values::<T>(Values::Normal, seed ^ which, count);
            Ok(SumSet {
                routed: numbers(1, elements)?,
                shared: numbers(2, elements)?,
                gates: numbers(3, self.tokens as usize)?,
                y: numbers(4, elements)?,
                seed,
                launches: 0,
            })
        })?;
        Ok(buffers
            .launch(move |stream, set: &mut SumSet<T>| {
                set.launches += 1;
                let from = (&set.routed, &set.shared, &set.gates);
                Ok(operations.add_shared_expert(stream, shape, from, &mut set.y)?)
            })
            .verify(move |set| {
                let (routed, shared, gates) =
                    (set.routed.to_vec()?, set.shared.to_vec()?, set.gates.to_vec()?);
                let before = Values::Normal.numbers::<T>(set.seed ^ 4, elements);
                let times = f64::from(set.launches);
                let compared = set.y.to_vec()?.into_iter().enumerate().map(|(at, found)| {
                    let gate = 1.0 / (1.0 + (-gates[at / columns].exact()).exp());
                    let (routed, shared) = (routed[at].exact(), gate * shared[at].exact());
                    let expected = before[at].exact() + times * (routed + shared);
                    let size = before[at].exact().abs() + times * (routed.abs() + shared.abs());
                    let tolerance = times * (1.01 * T::ROUNDING + 1e-6) * size + T::SMALLEST;
                    Compared { found: found.exact(), expected, tolerance }
                });
                Ok(compare(compared, |index| vec![index as usize / columns, index as usize % columns])?)
            }))
    }
}

impl Workload for SharedExpertWorkload {
    const NAME: &'static str = "moe-shared-expert";

    /// Rows are read once and written once.
    fn work(&self) -> Work {
        let elements = f64::from(self.tokens) * f64::from(self.hidden);
        let bytes = with_moe_type!(self.element, T => size_of::<T>()) as f64;
        Work { operations: 3.0 * elements, bytes: 4.0 * bytes * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_moe_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}
