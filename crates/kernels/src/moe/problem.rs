//! How tokens are routed, and what is refused.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::Buffer;

use crate::operations::{OperationError, Result};

/// Experts at most.
pub(super) const MAX_EXPERTS: u32 = 512;
/// Experts of a token at most: a lane of a warp has each.
pub(super) const MAX_CHOICES: u32 = 32;

/// What a weight is before it is scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Scoring {
    /// The softmax over all experts.
    #[default]
    Softmax,
    /// The sigmoid of the expert's logit.
    Sigmoid,
}

/// How the experts of a token are chosen and weighted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// Experts: 1 to 512.
    pub experts: u32,
    /// Experts of a token, k: 1 to 32, and at most all.
    pub choices: u32,
    /// What a weight is before it is scaled.
    pub scoring: Scoring,
    /// Divide the weights of a token by their sum.
    pub renormalizes: bool,
    /// Multiplies all weights.
    pub scale: f32,
}

/// The rows of all choices in the order of experts; rows of one expert are in the order of tokens.
pub struct ExpertRows<'l> {
    /// (experts + 1): expert e has the rows from `offsets[e]` to `offsets[e + 1]`, as
    /// [`Gemm::along_m`](crate::gemm::Gemm::along_m) takes them.
    pub offsets: &'l mut Buffer<u32>,
    /// (rows): the token of each row, as the indices of
    /// [`gather_rows`](crate::operations::Operations::gather_rows).
    pub tokens: &'l mut Buffer<i32>,
    /// (tokens, k): the row of each choice.
    pub rows: &'l mut Buffer<u32>,
}

/// Refuses more experts than there may be, or more experts of a token.
pub(super) fn check(what: &'static str, experts: u32, choices: u32) -> Result<()> {
    let refuse = |reason| Err(OperationError::Shape { what, reason });
    if !(1..=MAX_EXPERTS).contains(&experts) {
        return refuse(format!("{experts} experts; give 1 to {MAX_EXPERTS}"));
    }
    if choices == 0 || choices > MAX_CHOICES.min(experts) {
        let most = MAX_CHOICES.min(experts);
        return refuse(format!("{choices} of {experts} experts for a token; give 1 to {most}"));
    }
    Ok(())
}
