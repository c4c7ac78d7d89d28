//! The extents of the gated delta rule.

use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::operations::{OperationError, Result};

/// The extents of a head's keys and values.
pub const HEAD: u32 = 128;
/// Tokens of a chunk of a prefill.
pub const CHUNK: u32 = 64;
/// What is added to the sum of squares of a query or a key before the root.
pub const EPSILON: f32 = 1e-6;

/// The heads of a layer.
///
/// A token is a row of `qkv`: the queries of all key heads, their keys, then the values of all value
/// heads. Value head j uses the query and the key of key head j / (values / keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Heads of queries and of keys.
    pub keys: u32,
    /// Heads of values: a multiple of `keys`. Each has a state.
    pub values: u32,
}

impl Heads {
    /// Elements of a token's queries, keys and values.
    pub fn columns(self) -> u32 {
        (2 * self.keys + self.values) * HEAD
    }

    /// Value heads that share a key head.
    pub fn values_per_key(self) -> u32 {
        self.values / self.keys
    }

    /// Elements of the states of a sequence.
    pub fn state(self) -> usize {
        (self.values * HEAD * HEAD) as usize
    }

    /// Refuses value heads that key heads cannot share equally.
    pub(crate) fn check(self) -> Result<()> {
        let Self { keys, values } = self;
        if keys > 0 && values > 0 && values.is_multiple_of(keys) && values <= 1 << 10 {
            return Ok(());
        }
        let reason = format!(
            "{values} value heads cannot share {keys} key heads equally; pass 1 to 1024 value heads, a multiple of the key heads"
        );
        Err(OperationError::Shape { what: "the gated delta rule", reason })
    }
}

/// What the products of a prefill multiply. Sums are f32 in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Precision {
    /// Numbers rounded to bf16. The final state has a relative error of 2e-3 (root mean square), and outputs
    /// one of 3e-3.
    #[default]
    Bf16,
    /// Sums of two bf16: a number's rounding and what that lost. The final state has a relative error of less
    /// than 1e-5 (3e-6 of random inputs), and outputs that of their rounding to bf16, 1.7e-3. A chunk takes 12
    /// products of bf16 in place of 5, and the workspace is 21 KiB per chunk and value head in place of 11.
    F32,
}

impl Precision {
    /// bf16 that stand for a number.
    pub(crate) fn parts(self) -> u32 {
        match self {
            Self::Bf16 => 1,
            Self::F32 => 2,
        }
    }
}
