//! The gated delta rule as workloads.

mod decode;
mod decode_reference;
pub mod layer;
pub mod reference;

use warpwright::arch::Capability;
use warpwright::prelude::bf16;
use warpwright::runtime::Storable;
use warpwright_harness::{HostNumber, Options, Prepared, Result, Setup, Work, Workload, data_types};

use self::layer::{Layer, Tolerance, verify};
use warpwright_kernels::delta_rule::{HEAD, Heads, Precision};
use warpwright_kernels::delta_rule::{InitialState, Prefill};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;

pub(crate) use self::decode::DeltaRuleDecodeWorkload;

data_types! {
    /// Types of states.
    pub(crate) enum StateType by with_state_type { f32, bf16, f16 }
}

/// The heads of a layer.
#[derive(Clone, Debug, Options)]
pub(crate) struct LayerHeads {
    /// Heads of queries and keys.
    #[option(default = 1, min = 1, max = 1 << 8)]
    key_heads: u32,
    /// Heads of values: a multiple of the key heads.
    #[option(default = 2, min = 1, max = 1 << 8)]
    value_heads: u32,
}

impl LayerHeads {
    fn heads(&self) -> Heads {
        Heads { keys: self.key_heads, values: self.value_heads }
    }
}

/// The work of that many tokens, and of reading and writing states of `state_bytes` in all.
fn work(heads: Heads, tokens: f64, state_bytes: f64) -> Work {
    let values = f64::from(heads.values);
    let of_token = f64::from(heads.columns()) + values * (f64::from(HEAD) + 2.0);
    // Two products with the state, and its update.
    let operations = 7.0 * f64::from(HEAD * HEAD) * values * tokens;
    Work { operations, bytes: 2.0 * of_token * tokens + state_bytes }
}

/// A gated delta rule over the tokens of packed sequences, in chunks of 64.
#[derive(Clone, Debug, Options)]
pub(crate) struct DeltaRuleWorkload {
    /// The heads.
    #[option(flatten)]
    layer: LayerHeads,
    /// Sequences.
    #[option(default = 2, max = 1 << 10)]
    sequences: u32,
    // Chunks are more than stages, so that `check` sees a stage filled again.
    /// Tokens of a sequence.
    #[option(default = 300, max = 1 << 18)]
    tokens: u32,
    /// Data type of the states.
    state: StateType,
    /// What the products multiply: numbers rounded to bf16, or sums of two bf16.
    precision: Precision,
    /// Warpgroups of a CTA, of half of a head's columns each: 1 or 2.
    #[option(min = 1, max = 2, search = [1, 2])]
    consumers: Option<u32>,
}

impl DeltaRuleWorkload {
    fn prepare_of<S: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (heads, sequences, tokens) = (self.layer.heads(), self.sequences, self.tokens);
        let starts: Vec<u32> = (0..=sequences).map(|sequence| sequence * tokens).collect();
        let length = sequences as usize * heads.state();
        let starts = setup.device().buffer_from(&starts)?;
        let precision = self.precision;
        let prefill = Prefill::new(precision, heads, sequences as usize, setup.device().properties());
        let prefill = Prefill { consumers: self.consumers.unwrap_or(prefill.consumers), ..prefill };
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let layer = Layer::random(setup, heads, sequences * tokens, seed)?;
            let o = setup.output::<bf16>((sequences * tokens * heads.values * HEAD) as usize)?;
            Ok((layer, setup.output::<S>(length)?, o))
        })?;
        Ok(buffers
            .launch(move |stream, (layer, states, o)| {
                let (inputs, states) = (layer.inputs(), (states, InitialState::Zero));
                Ok(operations.delta_rule_by(prefill, stream, inputs, &starts, states, o)?)
            })
            .verify(move |(layer, states, o)| {
                let tokens = tokens as usize;
                let sequences: Vec<_> =
                    (0..sequences as usize).map(|at| at * tokens..(at + 1) * tokens).collect();
                let expected = layer.reference()?.heads(&sequences, &vec![0.0; length]);
                let tolerance = Tolerance::of_prefill::<S>(precision);
                Ok(verify(heads, (o, states), &sequences, &expected, tolerance)?.0)
            }))
    }
}

impl Workload for DeltaRuleWorkload {
    const NAME: &'static str = "delta-rule";

    fn supports(capability: &Capability) -> bool {
        capability.target == "sm_90a"
    }

    fn work(&self) -> Work {
        let (heads, sequences) = (self.layer.heads(), f64::from(self.sequences));
        let bytes = with_state_type!(self.state, S => size_of::<S>()) as f64;
        work(heads, sequences * f64::from(self.tokens), bytes * sequences * heads.state() as f64)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_state_type!(self.state, S => self.prepare_of::<S>(setup))
    }
}
