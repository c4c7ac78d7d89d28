//! How numbers are stored: plain types, and the block formats of GGML.

/// How a tensor's numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the formats")]
pub enum Kind {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Iq4Nl,
    Iq4Xs,
    Mxfp4,
}

impl Kind {
    /// The kinds by GGML's numbers and names.
    pub(super) const GGML: [(u32, Self, &'static str); 16] = [
        (0, Self::F32, "F32"),
        (1, Self::F16, "F16"),
        (30, Self::Bf16, "BF16"),
        (2, Self::Q4_0, "Q4_0"),
        (3, Self::Q4_1, "Q4_1"),
        (6, Self::Q5_0, "Q5_0"),
        (7, Self::Q5_1, "Q5_1"),
        (8, Self::Q8_0, "Q8_0"),
        (10, Self::Q2K, "Q2_K"),
        (11, Self::Q3K, "Q3_K"),
        (12, Self::Q4K, "Q4_K"),
        (13, Self::Q5K, "Q5_K"),
        (14, Self::Q6K, "Q6_K"),
        (20, Self::Iq4Nl, "IQ4_NL"),
        (23, Self::Iq4Xs, "IQ4_XS"),
        (39, Self::Mxfp4, "MXFP4"),
    ];

    /// The kind of GGML's number.
    pub(super) fn of_ggml(number: u32) -> Option<Self> {
        Self::GGML.iter().find(|(of_kind, ..)| *of_kind == number).map(|(_, kind, _)| *kind)
    }

    /// Elements of a block, and its bytes.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 | Self::Iq4Nl => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Mxfp4 => (32, 17),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
            Self::Iq4Xs => (256, 136),
        }
    }

    /// The bytes of that many elements; `None` if they end inside a block, or there are too many.
    pub(crate) fn bytes(self, elements: usize) -> Option<usize> {
        let (block, bytes) = self.block();
        (elements / block).checked_mul(bytes).filter(|_| elements.is_multiple_of(block))
    }
}
