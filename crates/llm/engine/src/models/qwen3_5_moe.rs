//! Qwen 3.5 with experts: the MLP of a layer is a few of many experts and a shared one.

use super::qwen3_5;
use crate::config::Config;
use crate::error::{EngineError, Result};
use crate::layers::block::FeedForward;
use crate::layers::decoder::Decoder;
use crate::layers::experts::MixtureOfExperts;
use crate::number::Number;
use crate::weights::Loader;

pub(super) fn build<T: Number>(config: &Config, loader: &mut Loader<'_>) -> Result<Decoder<T>> {
    let experts = config.experts.ok_or_else(|| EngineError::Config("the experts are missing".to_owned()))?;
    qwen3_5::build_with(config, loader, |name, loader| {
        Ok(FeedForward::Experts(Box::new(MixtureOfExperts::new(loader, name, config.hidden, experts)?)))
    })
}
