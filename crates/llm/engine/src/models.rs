//! The decoder that a configuration describes, of shared layers.
//!
//! ```text
//! x += mixer(norm(x));  x += feed_forward(norm(x))        for each layer
//! ```

use crate::config::{Config, Mixer};
use crate::error::{EngineError, Result};
use crate::layers::attention::Attention;
use crate::layers::block::{Block, FeedForward, Mixing};
use crate::layers::decoder::Decoder;
use crate::layers::delta_net::DeltaNet;
use crate::layers::experts::MixtureOfExperts;
use crate::layers::linear::Linear;
use crate::layers::mlp::Mlp;
use crate::layers::mtp::Mtp;
use crate::layers::norm::Norm;
use crate::number::Number;
use crate::weights::Loader;

/// Builds the decoder: the embedding, the last norm and the head around blocks.
pub(crate) fn build<T: Number>(config: &Config, loader: &mut Loader<'_>) -> Result<Decoder<T>> {
    let (hidden, vocabulary) = (config.hidden, config.vocabulary);
    let embedding = Linear::exact(loader, &[("embed_tokens.weight", vocabulary)], hidden)?;
    let of_head = if config.is_tied { "embed_tokens.weight" } else { "lm_head.weight" };
    let is_stored = !config.is_tied || loader.format.is_some();
    let head = is_stored.then(|| Linear::new(loader, &[(of_head, config.head_rows)], hidden)).transpose()?;
    if config.is_tied {
        loader.ignore("lm_head.weight");
    }
    let norm = Norm::new(loader, "norm.weight", hidden, config.epsilon, config.gain)?;
    let layers = config.layers.iter().enumerate();
    let blocks = layers.map(|(layer, mixer)| block(config, loader, &format!("layers.{layer}"), *mixer));
    let blocks = blocks.collect::<Result<_>>()?;
    let mtp = if config.has_mtp {
        let block = block(config, loader, "mtp.layers.0", Mixer::Attention)?;
        Some(Mtp::new(config, loader, block)?)
    } else {
        loader.ignore("mtp.");
        None
    };
    Ok(Decoder { embedding, head, norm, blocks, mtp })
}

/// The block whose tensors have names after `layer`.
fn block<T: Number>(config: &Config, loader: &mut Loader<'_>, layer: &str, mixer: Mixer) -> Result<Block<T>> {
    let Config { hidden, epsilon, gain, .. } = *config;
    let name = |part: &str| format!("{layer}.{part}");
    let norm = |part: &str, loader: &mut Loader<'_>| Norm::new(loader, &name(part), hidden, epsilon, gain);
    Ok(Block {
        before_mixing: norm("input_layernorm.weight", loader)?,
        mixing: match mixer {
            Mixer::Attention => Mixing::Attention(Attention::new(config, loader, &name("self_attn"))?),
            Mixer::DeltaNet => {
                let missing = || EngineError::Config("the heads of the delta rule are missing".to_owned());
                let heads = config.delta.ok_or_else(missing)?;
                Mixing::DeltaNet(DeltaNet::new(loader, &name("linear_attn"), heads, hidden, epsilon)?)
            }
        },
        before_feed_forward: norm("post_attention_layernorm.weight", loader)?,
        feed_forward: match config.experts {
            Some(experts) => {
                FeedForward::Experts(Box::new(MixtureOfExperts::new(loader, &name("mlp"), hidden, experts)?))
            }
            None => FeedForward::Mlp(Mlp::new(loader, &name("mlp"), hidden, config.intermediate)?),
        },
    })
}
