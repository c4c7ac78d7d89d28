//! What weights, activations and states are stored in.

/// The type of activations and weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataType {
    /// 32-bit floats, for exact comparisons. No tensor cores.
    F32,
    /// 16-bit floats with 8 exponent bits.
    #[default]
    Bf16,
    /// Weights in e4m3 with a scale for each 128 x 128, activations in bf16.
    Fp8,
    /// Weights of four bits with a scale and a zero point for each 32 of a row, activations in bf16.
    Int4,
}

impl DataType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::F32, Self::Bf16, Self::Fp8, Self::Int4];

    /// The name, as options spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int4 => "int4",
        }
    }
}

/// The type of the gated delta rule's states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateType {
    /// As models are trained and released.
    #[default]
    F32,
    /// Half of the bytes. States are computed in f32 and rounded after each token of an answer, and after
    /// each chunk of a prompt: errors add up while a state decays slowly.
    Bf16,
}

impl StateType {
    /// Both types.
    pub const ALL: [Self; 2] = [Self::F32, Self::Bf16];

    /// The name, as options spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// The name in a configuration.
    pub(crate) fn config_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
        }
    }

    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}
