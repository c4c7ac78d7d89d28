//! Qwen 3.5: three layers of the gated delta rule for each of gated attention.
//!
//! ```text
//! x += mixer(norm(x));  x += mlp(norm(x))        norms are zero-centred, but not in GGUF
//! ```

use super::decoder;
use crate::config::{Config, Mixer};
use crate::error::{EngineError, Result};
use crate::layers::attention::Attention;
use crate::layers::block::{Block, FeedForward, Mixing};
use crate::layers::decoder::Decoder;
use crate::layers::delta_net::DeltaNet;
use crate::layers::mlp::Mlp;
use crate::layers::norm::Norm;
use crate::number::Number;
use crate::weights::Loader;

pub(super) fn build<T: Number>(config: &Config, loader: &mut Loader<'_>) -> Result<Decoder<T>> {
    build_with(config, loader, |name, loader| {
        Ok(FeedForward::Mlp(Mlp::new(loader, name, config.hidden, config.intermediate)?))
    })
}

/// The decoder with a feed-forward layer of the name in each block.
pub(super) fn build_with<T: Number>(
    config: &Config,
    loader: &mut Loader<'_>,
    feed_forward: impl Fn(&str, &mut Loader<'_>) -> Result<FeedForward<T>>,
) -> Result<Decoder<T>> {
    let heads = config
        .delta
        .ok_or_else(|| EngineError::Config("the heads of the delta rule are missing".to_owned()))?;
    let gain = config.gain;
    decoder(config, loader, |layer, mixer, loader| {
        let name = |part: &str| format!("{layer}.{part}");
        let norm = |part: &str, loader: &mut Loader<'_>| {
            Norm::new(loader, &name(part), config.hidden, config.epsilon, gain)
        };
        Ok(Block {
            before_mixing: norm("input_layernorm.weight", loader)?,
            mixing: match mixer {
                Mixer::Attention => {
                    Mixing::Attention(Attention::new(config, loader, &name("self_attn"), Some(gain), true)?)
                }
                Mixer::DeltaNet => {
                    let (hidden, epsilon) = (config.hidden, config.epsilon);
                    Mixing::DeltaNet(DeltaNet::new(loader, &name("linear_attn"), heads, hidden, epsilon)?)
                }
            },
            before_feed_forward: norm("post_attention_layernorm.weight", loader)?,
            feed_forward: feed_forward(&name("mlp"), loader)?,
        })
    })
}
