//! The gated delta rule of Qwen 3.5.
//!
//! ```text
//! [qkv | z | b | a] = projection(x);  qkv = silu(conv(qkv));  o = delta rule(qkv, b, a)
//! y = output(norm(o) · silu(z))
//! ```

use warpwright::runtime::Buffer;

use super::Pass;
use super::linear::Linear;
use super::norm::Norm;
use crate::error::Result;
use crate::kernels::causal_conv::SlotConv;
use crate::kernels::delta_rule::{DeltaGates, SlotDeltaRule};
use crate::kernels::product::Epilogue;
use crate::models::DeltaHeads;
use crate::number::Number;
use crate::weights::Loader;

/// The weights of a layer.
pub(crate) struct DeltaNet<T> {
    rule: SlotDeltaRule,
    conv: SlotConv,
    epsilon: f32,
    projection: Linear<T>,
    conv_weights: Buffer<T>,
    // In f32 also in bf16 models: rounded to bf16, A_log changes greedy tokens within 21 to 39 steps.
    a_log: Buffer<f32>,
    dt_bias: Buffer<f32>,
    norm: Buffer<f32>,
    output: Linear<T>,
}

/// The states of all slots.
pub(crate) struct DeltaStates<T> {
    /// (slots, conv - 1, channels).
    pub(crate) conv: Buffer<T>,
    /// (slots, value heads, key_dim, value_dim).
    pub(crate) rule: Buffer<f32>,
}

impl<T: Number> DeltaNet<T> {
    pub(crate) fn new(
        loader: &mut Loader<'_>,
        name: &str,
        heads: DeltaHeads,
        hidden: usize,
        epsilon: f32,
    ) -> Result<Self> {
        let DeltaHeads { keys, values, key_dim, value_dim, conv } = heads;
        let rule = SlotDeltaRule { key_heads: keys, value_heads: values, key_dim, value_dim };
        let name = |part: &str| format!("{name}.{part}");
        let (of_values, values) = ((values * value_dim) as usize, values as usize);
        let parts = [
            (&*name("in_proj_qkv.weight"), rule.columns() as usize),
            (&name("in_proj_z.weight"), of_values),
            (&name("in_proj_b.weight"), values),
            (&name("in_proj_a.weight"), values),
        ];
        let conv_weights = loader.all(&name("conv1d.weight"), &[rule.columns() as usize, conv as usize])?;
        Ok(Self {
            rule,
            conv: SlotConv { channels: rule.columns(), width: conv },
            epsilon,
            projection: Linear::new(loader, &parts, hidden)?,
            conv_weights,
            a_log: loader.vector(&name("A_log"), values)?,
            dt_bias: loader.vector(&name("dt_bias"), values)?,
            norm: loader.vector(&name("norm.weight"), value_dim as usize)?,
            output: Linear::new(loader, &[(&name("out_proj.weight"), hidden)], of_values)?,
        })
    }

    /// Elements of a slot of the convolution, and of the rule.
    pub(crate) fn state_lengths(&self) -> (usize, usize) {
        ((self.conv.width as usize - 1) * self.conv.channels as usize, self.rule.state())
    }

    /// x += the result for the normalized tokens, whose sequences' states are updated.
    pub(crate) fn add(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &mut Buffer<T>,
        states: &mut DeltaStates<T>,
    ) -> Result<()> {
        let SlotDeltaRule { value_heads, value_dim, .. } = self.rule;
        let (channels, values) = (self.conv.channels, value_heads * value_dim);
        let stride = self.projection.n;
        let projected = self.projection.apply_to_normalized(pass, norm, x)?;
        let mut qkv = pass.rows_of(channels)?;
        let sequences = pass.batch.packed();
        self.conv.launch(
            pass.on(),
            (&projected, stride),
            &self.conv_weights,
            sequences,
            &mut states.conv,
            &mut qkv,
        )?;
        let mut gated = pass.rows_of(values)?;
        let of_b = channels + values;
        let gates = DeltaGates {
            buffer: &projected,
            columns: [channels, of_b, of_b + value_heads, stride],
            a_log: &self.a_log,
            dt_bias: &self.dt_bias,
            norm: &self.norm,
            epsilon: self.epsilon,
        };
        self.rule.launch(pass.on(), &qkv, gates, sequences, &mut states.rule, &mut gated)?;
        self.output.apply_to(pass, &gated, (x, Epilogue::Add))?;
        [projected, qkv, gated].into_iter().for_each(|buffer| pass.memory.give(buffer));
        Ok(())
    }
}
