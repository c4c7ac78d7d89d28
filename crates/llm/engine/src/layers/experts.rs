//! A mixture of experts with a shared one.
//!
//! ```text
//! y = Σ weight_e · expert_e(x) + sigmoid(shared gate · x) · shared(x)      over the chosen experts e
//!
//! few choices, f32    each reads the weights of its expert
//! many, bf16          rows in the order of experts, and a grouped GEMM: an expert's weights are read once
//! ```

use warpwright::prelude::bf16;
use warpwright::runtime::Buffer;
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemv::GemvShape;
use warpwright_kernels::moe::{ExpertRows, Routing, Scoring};

use super::linear::Linear;
use super::mlp::Mlp;
use super::norm::Norm;
use super::pass::Pass;
use super::quantized::Quantized;
use super::swiglu::swiglu;
use crate::config::Experts;
use crate::error::Result;
use crate::number::Number;
use crate::weights::Loader;

/// The numbers of rows in their order, which are kept for each count.
struct InOrder;

/// The weights of a mixture.
pub(crate) struct MixtureOfExperts<T> {
    experts: Experts,
    hidden: u32,
    router: Linear<T>,
    /// (experts, [gate | up], hidden).
    gate_up: ExpertMatrix<T>,
    /// (experts, hidden, intermediate).
    down: ExpertMatrix<T>,
    shared: Mlp<T>,
    shared_gate: Linear<T>,
}

/// Weights (experts, n, k).
enum ExpertMatrix<T> {
    Exact(Buffer<T>),
    Quantized(Quantized),
}

impl<T: Number> ExpertMatrix<T> {
    fn new(loader: &mut Loader<'_>, name: &str, [experts, n, k]: [usize; 3]) -> Result<Self> {
        let rows = experts * n;
        match Quantized::of_experts(loader, experts, &[(name, rows)], (rows, k))? {
            Some(quantized) => Ok(Self::Quantized(quantized)),
            None => Ok(Self::Exact(loader.all(name, &[experts, n, k])?)),
        }
    }

    /// Rows for each expert from which it is faster to multiply all rows of an expert at once. Quantized weights
    /// are read, written in bf16 and read again for that.
    fn many(&self) -> u32 {
        match self {
            Self::Exact(_) => 1,
            Self::Quantized(_) => 8,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Exact(weights) => weights.bytes(),
            Self::Quantized(weights) => weights.bytes(),
        }
    }

    /// Row r of y = row r / `choices` of x with the weights of expert `chosen[r]`, one of `experts`.
    fn multiply(
        &self,
        pass: &mut Pass<'_, T>,
        experts: u32,
        (x, chosen, choices): (&Buffer<T>, &Buffer<u32>, u32),
        shape: GemvShape,
    ) -> Result<Buffer<T>> {
        let mut y = pass.memory.take(shape.rows as usize * shape.n as usize)?;
        match self {
            Self::Exact(weights) => {
                pass.operations.expert_gemv(pass.stream, (shape, choices), weights, (x, chosen), &mut y)?;
            }
            Self::Quantized(weights) => {
                weights.multiply_experts(pass, experts, (x.cast(), chosen, choices), y.cast_mut())?;
            }
        }
        Ok(y)
    }

    /// Rows `offsets[e]` to `offsets[e + 1]` of y = those of x with the weights of expert e.
    fn multiply_groups(
        &self,
        pass: &mut Pass<'_, T>,
        (x, offsets): (&Buffer<T>, &Buffer<u32>),
        GemvShape { rows, n, k }: GemvShape,
    ) -> Result<Buffer<T>> {
        let mut y = pass.memory.take(rows as usize * n as usize)?;
        let gemm = Gemm::new(rows, n, k).along_m(offsets);
        let (x, of_y) = (x.cast::<bf16>(), y.cast_mut::<bf16>());
        match self {
            Self::Exact(weights) => {
                pass.operations.gemm(pass.stream, &gemm, x, weights.cast::<bf16>(), of_y)?;
            }
            Self::Quantized(weights) => {
                let exact = weights.dequantized(pass)?;
                pass.operations.gemm(pass.stream, &gemm, x, exact.cast::<bf16>(), of_y)?;
                pass.memory.give(exact);
            }
        }
        Ok(y)
    }
}

impl<T: Number> MixtureOfExperts<T> {
    pub(crate) fn new(loader: &mut Loader<'_>, name: &str, hidden: usize, experts: Experts) -> Result<Self> {
        let Experts { count, intermediate, shared_intermediate, .. } = experts;
        let (count, columns) = (count as usize, intermediate as usize);
        let name = |part: &str| format!("{name}.{part}");
        Ok(Self {
            experts,
            hidden: hidden as u32,
            router: Linear::exact(loader, &[(&name("gate.weight"), count)], hidden)?,
            gate_up: ExpertMatrix::new(loader, &name("experts.gate_up_proj"), [count, 2 * columns, hidden])?,
            down: ExpertMatrix::new(loader, &name("experts.down_proj"), [count, hidden, columns])?,
            shared: Mlp::new(loader, &name("shared_expert"), hidden, shared_intermediate)?,
            shared_gate: Linear::exact(loader, &[(&name("shared_expert_gate.weight"), 1)], hidden)?,
        })
    }

    /// Bytes of the weights that `tokens` tokens read, if no two choose the same expert.
    pub(crate) fn bytes(&self, tokens: u32) -> usize {
        let Experts { count, chosen, .. } = self.experts;
        let of_experts = self.gate_up.bytes() + self.down.bytes();
        let read = of_experts / count as usize * (chosen * tokens).min(count) as usize;
        self.router.bytes() + read + self.shared.bytes() + self.shared_gate.bytes()
    }

    /// Notes a product of chosen experts.
    fn note(
        &self,
        pass: &mut Pass<'_, T>,
        operation: &str,
        weights: &ExpertMatrix<T>,
        GemvShape { rows, n, k }: GemvShape,
    ) {
        let read = weights.bytes() / self.experts.count as usize * rows.min(self.experts.count) as usize;
        pass.note(operation, read, 2 * u64::from(rows) * u64::from(n) * u64::from(k));
    }

    /// x += the result for the normalized rows.
    pub(crate) fn add(&self, pass: &mut Pass<'_, T>, norm: &Norm<T>, residual: &mut Buffer<T>) -> Result<()> {
        let normalized = norm.apply(pass, residual)?;
        let x = &normalized;
        let Experts { count, chosen, .. } = self.experts;
        let tokens = (x.len() / self.hidden as usize) as u32;
        let rows = tokens * chosen;
        // Nothing is allocated or freed between the launches of a pass: to free memory waits for kernels, which may
        // wait for those of another device.
        let (mut experts, mut weights) = (pass.floats.take(rows as usize)?, pass.floats.take(rows as usize)?);
        let logits = self.router.apply(pass, x)?;
        let scoring = Scoring::Softmax;
        let routing = Routing { experts: count, choices: chosen, scoring, renormalizes: true, scale: 1.0 };
        pass.operations.route_tokens(pass.stream, routing, &logits, (experts.cast_mut(), &mut weights))?;
        pass.memory.give(logits);

        let routed = match T::IS_BF16 && rows >= self.gate_up.many() * count {
            true => self.by_expert(pass, x, (experts.cast(), &weights))?,
            false => self.by_row(pass, x, (experts.cast(), &weights))?,
        };
        [experts, weights].into_iter().for_each(|buffer| pass.floats.give(buffer));

        let (shared, gates) = (self.shared.apply(pass, x)?, self.shared_gate.apply(pass, x)?);
        let (shape, experts) = ((tokens, self.hidden), (&routed, &shared, &gates));
        match pass.communicator {
            None => {
                pass.operations.add_shared_expert(pass.stream, shape, experts, residual)?;
            }
            Some(communicator) => {
                let mut part = pass.memory.take(x.len())?;
                pass.stream.fill_zero(&mut part)?;
                pass.operations.add_shared_expert(pass.stream, shape, experts, &mut part)?;
                pass.add_of_all_ranks(communicator, &part, residual)?;
                pass.memory.give(part);
            }
        }
        pass.note("sum of experts", 4 * residual.bytes(), 4 * residual.len() as u64);
        [normalized, routed, shared, gates].into_iter().for_each(|buffer| pass.memory.give(buffer));
        Ok(())
    }

    /// The weighted sum of the chosen experts, each of which multiplies a row.
    fn by_row(
        &self,
        pass: &mut Pass<'_, T>,
        x: &Buffer<T>,
        (chosen, weights): (&Buffer<u32>, &Buffer<f32>),
    ) -> Result<Buffer<T>> {
        let Experts { count, chosen: choices, intermediate, .. } = self.experts;
        let (tokens, rows) = ((x.len() / self.hidden as usize) as u32, chosen.len() as u32);
        let shape = GemvShape { rows, n: 2 * intermediate, k: self.hidden };
        let gate_up = self.gate_up.multiply(pass, count, (x, chosen, choices), shape)?;
        self.note(pass, "experts.gate_up_proj", &self.gate_up, shape);
        let activated = swiglu(pass, &gate_up, intermediate, 2 * intermediate)?;
        pass.memory.give(gate_up);
        let shape = GemvShape { rows, n: self.hidden, k: intermediate };
        let results = self.down.multiply(pass, count, (&activated, chosen, 1), shape)?;
        self.note(pass, "experts.down_proj", &self.down, shape);
        pass.memory.give(activated);
        let in_order = pass.operations.remembered::<InOrder, _, _>(rows, |rows| {
            Ok(pass.operations.device().buffer_from(&(0..*rows).collect::<Vec<u32>>())?)
        })?;
        let mut routed = pass.memory.take(x.len())?;
        let shape = (tokens, self.hidden);
        pass.operations.combine_rows(pass.stream, &results, (&in_order, weights), shape, &mut routed)?;
        pass.memory.give(results);
        Ok(routed)
    }

    /// The same, where an expert multiplies all of its rows.
    fn by_expert(
        &self,
        pass: &mut Pass<'_, T>,
        x: &Buffer<T>,
        (chosen, weights): (&Buffer<u32>, &Buffer<f32>),
    ) -> Result<Buffer<T>> {
        let Experts { count, chosen: choices, intermediate, .. } = self.experts;
        let (tokens, rows) = ((x.len() / self.hidden as usize) as u32, chosen.len() as u32);
        let mut offsets = pass.floats.take(count as usize + 1)?;
        let (mut of_rows, mut of_choices) =
            (pass.floats.take(rows as usize)?, pass.floats.take(rows as usize)?);
        let to = ExpertRows {
            offsets: offsets.cast_mut(),
            tokens: of_rows.cast_mut(),
            rows: of_choices.cast_mut(),
        };
        pass.operations.permute_by_expert(pass.stream, chosen, (count, choices), to)?;
        let mut gathered = pass.memory.take(rows as usize * self.hidden as usize)?;
        let from = (x, self.hidden);
        pass.operations.gather_rows(pass.stream, from, (of_rows.cast(), 0), &mut gathered)?;
        pass.note("rows of experts", 2 * gathered.bytes(), 0);

        let shape = GemvShape { rows, n: 2 * intermediate, k: self.hidden };
        let gate_up = self.gate_up.multiply_groups(pass, (&gathered, offsets.cast()), shape)?;
        self.note(pass, "experts.gate_up_proj", &self.gate_up, shape);
        let activated = swiglu(pass, &gate_up, intermediate, 2 * intermediate)?;
        let shape = GemvShape { rows, n: self.hidden, k: intermediate };
        let results = self.down.multiply_groups(pass, (&activated, offsets.cast()), shape)?;
        self.note(pass, "experts.down_proj", &self.down, shape);
        let mut routed = pass.memory.take(x.len())?;
        let (rows, shape) = ((of_choices.cast(), weights), (tokens, self.hidden));
        pass.operations.combine_rows(pass.stream, &results, rows, shape, &mut routed)?;
        [gathered, gate_up, activated, results].into_iter().for_each(|buffer| pass.memory.give(buffer));
        [offsets, of_rows, of_choices].into_iter().for_each(|buffer| pass.floats.give(buffer));
        Ok(routed)
    }
}
