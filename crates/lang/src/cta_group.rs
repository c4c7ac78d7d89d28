//! How many CTAs work together in tensor memory.

/// The number of CTAs of a cluster that an instruction is for: one, or two neighbors that multiply
/// together. It is the same throughout a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtaGroup {
    /// The CTA alone.
    One,
    /// The CTA and the one whose rank differs in the last bit.
    Two,
}

impl CtaGroup {
    /// The CTAs of a group.
    pub fn ctas(self) -> u32 {
        match self {
            CtaGroup::One => 1,
            CtaGroup::Two => 2,
        }
    }

    /// The modifier of an instruction, without the dot.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CtaGroup::One => "cta_group::1",
            CtaGroup::Two => "cta_group::2",
        }
    }

    /// The modifier of an instruction.
    pub(crate) fn word(self) -> String {
        format!(".{}", self.name())
    }
}
