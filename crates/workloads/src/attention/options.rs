//! The options that attention's forward pass and its gradients have in common.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright_harness::{Options, data_types};

use warpwright_kernels::attention::{Attention, Mask, Shape};
use warpwright_kernels::attention::{HeadMatrix, Strides};

data_types! {
    /// Types of Q, K, V and O.
    pub(super) enum AttentionType by with_attention_type { bf16, f16 }
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum MaskOption {
    /// Every key.
    #[default]
    Full,
    /// Those up to its own position.
    Causal,
    /// Those around its own position.
    Window,
}

impl MaskOption {
    fn of(self, left: u32, right: u32) -> Mask {
        match self {
            Self::Full => Mask::Full,
            Self::Causal => Mask::Causal,
            Self::Window => Mask::Window { left, right },
        }
    }
}

/// How Q, K, V and O are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum LayoutOption {
    /// (batch, rows, heads, d).
    #[default]
    Rows,
    /// (batch, heads, rows, d).
    Heads,
    /// Q, K and V as columns of one matrix: (batch, rows, heads of all, d).
    Qkv,
}

impl LayoutOption {
    pub(super) fn of(self, attention: Attention) -> Attention {
        let matrices = attention.matrices();
        let columns = matrices.map(|HeadMatrix { heads, d, .. }| heads * d);
        let strides = |i: usize| {
            let HeadMatrix { rows, heads, d, .. } = matrices[i];
            match self {
                Self::Heads => Strides::by_heads(rows, heads, d),
                Self::Qkv if i < 3 => {
                    let first = columns[..i].iter().sum();
                    Strides::in_rows(rows, columns[..3].iter().sum(), first, d)
                }
                Self::Rows | Self::Qkv => Strides::in_rows(rows, columns[i], 0, d),
            }
        };
        match self {
            Self::Rows => attention,
            Self::Heads | Self::Qkv => attention.strided(std::array::from_fn(strides)),
        }
    }
}

/// What an attention computes.
#[derive(Clone, Debug, Options)]
pub(super) struct AttentionOptions {
    /// Sequences.
    #[option(default = 1, max = 1 << 16)]
    batch: u32,
    // Blocks of keys are more than stages, so that `check` sees a stage filled again.
    /// Queries of a sequence.
    #[option(default = 600, max = 1 << 20)]
    queries: u32,
    /// Keys of a sequence. By default as many as queries.
    #[option(max = 1 << 20)]
    keys: Option<u32>,
    /// Heads of Q and O.
    #[option(default = 2, min = 1, max = 1 << 10)]
    heads: u32,
    /// Heads of K and V. By default as many as Q has.
    #[option(max = 1 << 10)]
    kv_heads: Option<u32>,
    /// Elements of a head of Q and K.
    #[option(default = 128, max = 1 << 10)]
    head_dim: u32,
    /// Elements of a head of V and O. By default as many as Q and K have.
    #[option(max = 1 << 10)]
    value_dim: Option<u32>,
    /// Which keys a query sees.
    mask: MaskOption,
    /// Keys that a query sees before its position (window).
    #[option(default = 128)]
    left: u32,
    /// Keys that a query sees after its position (window).
    #[option(default = 0)]
    right: u32,
    /// Data type of the matrices.
    #[option(name = "type")]
    pub(super) element: AttentionType,
    /// Sequences of random lengths up to `queries` and `keys`, without gaps between them.
    pub(super) packed: bool,
    /// What scores are multiplied by. By default 1 / sqrt(head_dim).
    scale: Option<f64>,
    /// The bound of the scores (softcap).
    bound: Option<f64>,
    /// Add a bias by distance (ALiBi).
    biased: bool,
    /// Give each head a sink.
    sinks: bool,
    /// How Q, K, V and O, and their gradients, are laid out.
    pub(super) layout: LayoutOption,
}

impl AttentionOptions {
    /// The attention of sequences of one length.
    pub(super) fn attention(&self) -> Attention {
        let shape = Shape {
            batch: self.batch,
            queries: self.queries,
            keys: self.keys(),
            heads: self.heads,
            kv_heads: self.kv_heads.unwrap_or(self.heads),
            head_dim: self.head_dim,
            value_dim: self.value_dim.unwrap_or(self.head_dim),
        };
        Attention {
            shape,
            mask: self.mask.of(self.left, self.right),
            scale: self.scale.map(|scale| scale as f32),
            bound: self.bound.map(|bound| bound as f32),
            biased: self.biased,
            sinks: self.sinks,
            ..Attention::new(0, 0, 0, 0)
        }
    }

    /// Keys of a sequence.
    pub(super) fn keys(&self) -> u32 {
        self.keys.unwrap_or(self.queries)
    }

    /// The first query and the first key of each sequence if they are packed, and their numbers in all.
    /// Some sequences are empty, some have one row.
    pub(super) fn offsets(&self, is_packed: bool) -> [Vec<u32>; 2] {
        [self.queries, self.keys()].map(|most| {
            let mut offsets = vec![0];
            for sequence in 0..if is_packed { self.batch } else { 0 } {
                let length = match sequence % 8 {
                    5 => 0,
                    6 => most.min(1),
                    number => most - (u64::from(most) * u64::from(number) / 7) as u32,
                };
                offsets.push(u32::saturating_add(offsets[sequence as usize], length));
            }
            offsets
        })
    }

    /// Slopes as ALiBi has them: powers of two, from 1/2 down to 1/256.
    pub(super) fn slopes(&self) -> Vec<f32> {
        (1..=self.heads).map(|head| (-8.0 * head as f32 / self.heads as f32).exp2()).collect()
    }

    pub(super) fn sink_values(&self) -> Vec<f32> {
        (0..self.heads).map(|head| head as f32 - 2.0).collect()
    }
}
