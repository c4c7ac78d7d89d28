//! Models: for each family a file that builds its decoder of shared layers.

mod llama;
mod qwen3_5;
mod qwen3_5_moe;

use crate::config::{Config, Family, Mixer};
use crate::error::Result;
use crate::layers::block::Block;
use crate::layers::decoder::Decoder;
use crate::layers::linear::Linear;
use crate::layers::mtp::Mtp;
use crate::layers::norm::Norm;
use crate::number::Number;
use crate::weights::Loader;

/// The decoder that the configuration describes.
pub(crate) fn build<T: Number>(config: &Config, loader: &mut Loader<'_>) -> Result<Decoder<T>> {
    match config.family {
        Family::Llama | Family::Qwen2 | Family::Qwen3 => llama::build(config, loader),
        Family::Qwen35 => qwen3_5::build(config, loader),
        Family::Qwen35Moe => qwen3_5_moe::build(config, loader),
    }
}

/// The embedding, the last norm and the head around blocks.
fn decoder<T: Number>(
    config: &Config,
    loader: &mut Loader<'_>,
    block: impl Fn(&str, Mixer, &mut Loader<'_>) -> Result<Block<T>>,
) -> Result<Decoder<T>> {
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
    let blocks = layers.map(|(layer, mixer)| block(&format!("layers.{layer}"), *mixer, loader));
    let blocks = blocks.collect::<Result<_>>()?;
    let mtp = if config.has_mtp {
        let block = block("mtp.layers.0", Mixer::Attention, loader)?;
        Some(Mtp::new(config, loader, block)?)
    } else {
        loader.ignore("mtp.");
        None
    };
    Ok(Decoder { embedding, head, norm, blocks, mtp })
}
