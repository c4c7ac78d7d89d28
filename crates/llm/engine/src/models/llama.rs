//! Llama 2 and 3, SmolLM2, Mistral; Qwen 2, which adds a bias to Q, K and V; Qwen 3, which normalizes the heads of Q and K.
//!
//! ```text
//! x += attention(norm(x));  x += mlp(norm(x))
//! ```

use super::decoder;
use crate::config::{Config, Family};
use crate::error::Result;
use crate::layers::attention::Attention;
use crate::layers::block::{Block, FeedForward, Mixing};
use crate::layers::decoder::Decoder;
use crate::layers::mlp::Mlp;
use crate::layers::norm::Norm;
use crate::number::Number;
use crate::weights::Loader;

pub(super) fn build<T: Number>(config: &Config, loader: &mut Loader<'_>) -> Result<Decoder<T>> {
    let gain = config.gain;
    let head_norm = (config.family == Family::Qwen3).then_some(gain);
    decoder(config, loader, |layer, _, loader| {
        let name = |part: &str| format!("{layer}.{part}");
        let norm = |part: &str, loader: &mut Loader<'_>| {
            Norm::new(loader, &name(part), config.hidden, config.epsilon, gain)
        };
        Ok(Block {
            before_mixing: norm("input_layernorm.weight", loader)?,
            mixing: Mixing::Attention(Attention::new(config, loader, &name("self_attn"), head_norm, false)?),
            before_feed_forward: norm("post_attention_layernorm.weight", loader)?,
            feed_forward: FeedForward::Mlp(Mlp::new(
                loader,
                &name("mlp"),
                config.hidden,
                config.intermediate,
            )?),
        })
    })
}
