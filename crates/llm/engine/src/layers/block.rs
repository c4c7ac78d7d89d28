//! A block: a mixer of tokens and a feed-forward layer around a residual stream.

use warpwright::runtime::{Buffer, Device};

use super::attention::Attention;
use super::cache::{Cache, DeltaStates, KeyValues};
use super::delta_net::DeltaNet;
use super::experts::MixtureOfExperts;
use super::mlp::Mlp;
use super::norm::Norm;
use super::pass::Pass;
use crate::error::Result;
use crate::number::Number;

/// x += mixing(norm(x)); x += feed_forward(norm(x)).
pub(crate) struct Block<T> {
    pub(crate) before_mixing: Norm<T>,
    pub(crate) mixing: Mixing<T>,
    pub(crate) before_feed_forward: Norm<T>,
    pub(crate) feed_forward: FeedForward<T>,
}

/// What combines the tokens of a sequence.
pub(crate) enum Mixing<T> {
    Attention(Attention<T>),
    DeltaNet(DeltaNet<T>),
}

/// What computes each token alone.
pub(crate) enum FeedForward<T> {
    Mlp(Mlp<T>),
    Experts(Box<MixtureOfExperts<T>>),
}

impl<T: Number> Block<T> {
    /// Elements of a slot of the convolution, and words of one of the delta rule.
    pub(crate) fn state_lengths(&self) -> Option<(usize, usize)> {
        match &self.mixing {
            Mixing::DeltaNet(layer) => Some(layer.state_lengths()),
            Mixing::Attention(_) => None,
        }
    }

    /// The cache of the layer: pools of `keys` keys, or `slots` states of zeros.
    pub(super) fn cache(&self, device: &Device, keys: usize, slots: usize) -> Result<Cache<T>> {
        Ok(match &self.mixing {
            Mixing::Attention(layer) => Cache::KeyValues(KeyValues {
                keys: device.zeros(keys * layer.key_columns())?,
                values: device.zeros(keys * layer.key_columns())?,
            }),
            Mixing::DeltaNet(layer) => {
                let (conv, rule) = layer.state_lengths();
                Cache::States(DeltaStates {
                    conv: device.zeros(slots * conv)?,
                    rule: device.zeros(slots * rule)?,
                })
            }
        })
    }

    /// Both layers on the residual stream of all tokens.
    pub(crate) fn add(&self, pass: &mut Pass<'_, T>, x: &mut Buffer<T>, cache: &mut Cache<T>) -> Result<()> {
        let norm = &self.before_mixing;
        match (&self.mixing, cache) {
            (Mixing::Attention(layer), Cache::KeyValues(cache)) => layer.add(pass, norm, x, cache)?,
            (Mixing::DeltaNet(layer), Cache::States(cache)) => layer.add(pass, norm, x, cache)?,
            _ => unreachable!("a layer's cache is made for it"),
        }
        let norm = &self.before_feed_forward;
        match &self.feed_forward {
            FeedForward::Mlp(layer) => layer.add(pass, norm, x),
            FeedForward::Experts(layer) => layer.add(pass, norm, x),
        }
    }

    /// Bytes of weights that a decode of that many tokens reads.
    pub(super) fn bytes_of_decode(&self, tokens: u32) -> usize {
        let mixing = match &self.mixing {
            Mixing::Attention(layer) => layer.bytes(),
            Mixing::DeltaNet(layer) => layer.bytes(),
        };
        let feed_forward = match &self.feed_forward {
            FeedForward::Mlp(layer) => layer.bytes(),
            FeedForward::Experts(layer) => layer.bytes(tokens),
        };
        mixing + feed_forward
    }
}
