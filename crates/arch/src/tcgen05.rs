//! `tcgen05.mma`: the kinds, data types and shapes that exist (PTX ISA, "Instruction descriptor"
//! and "Kind", sm_100a).

use crate::DataType::{self, *};

/// The `.kind` of a `tcgen05.mma`: which data types its operands may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// f16 or bf16.
    F16,
    /// tf32.
    Tf32,
    /// 8-, 6- and 4-bit floats, in any combination.
    F8f6f4,
    /// 8-bit integers, in any combination.
    I8,
    /// 8-, 6- and 4-bit floats, in any combination, with scales of blocks of 32.
    Mxf8f6f4,
    /// 4-bit floats with scales of blocks of 32.
    Mxf4,
    /// 4-bit floats with scales of blocks of 16 or 32.
    Mxf4nvf4,
}

/// The types of an operand with their numbers in the instruction descriptor.
type Numbered = &'static [(DataType, u32)];

impl Kind {
    /// All kinds; those without scales first.
    pub const ALL: [Kind; 7] =
        [Kind::F16, Kind::Tf32, Kind::F8f6f4, Kind::I8, Kind::Mxf8f6f4, Kind::Mxf4, Kind::Mxf4nvf4];

    /// The word after `kind::`.
    pub const fn ptx(self) -> &'static str {
        match self {
            Kind::F16 => "f16",
            Kind::Tf32 => "tf32",
            Kind::F8f6f4 => "f8f6f4",
            Kind::I8 => "i8",
            Kind::Mxf8f6f4 => "mxf8f6f4",
            Kind::Mxf4 => "mxf4",
            Kind::Mxf4nvf4 => "mxf4nvf4",
        }
    }

    /// The kind of a PTX word: `kind::f16`.
    pub fn from_ptx(word: &str) -> Option<Kind> {
        let name = word.strip_prefix("kind::")?;
        Kind::ALL.into_iter().find(|kind| kind.ptx() == name)
    }

    /// The types of A and B, each with its number in the instruction descriptor.
    pub const fn inputs(self) -> Numbered {
        match self {
            Kind::F16 => &[(F16, 0), (Bf16, 1)],
            Kind::Tf32 => &[(Tf32, 2)],
            Kind::F8f6f4 | Kind::Mxf8f6f4 => &[(E4m3, 0), (E5m2, 1), (E2m3, 3), (E3m2, 4), (E2m1, 5)],
            Kind::I8 => &[(U8, 0), (S8, 1)],
            Kind::Mxf4 | Kind::Mxf4nvf4 => &[(E2m1, 1)],
        }
    }

    /// The types of the scales, each with its number in the instruction descriptor; none without
    /// scales. As a scale e4m3 has no sign (`ue4m3`).
    pub const fn scales(self) -> Numbered {
        match self {
            Kind::F16 | Kind::Tf32 | Kind::F8f6f4 | Kind::I8 => &[],
            Kind::Mxf8f6f4 | Kind::Mxf4 => &[(Ue8m0, 1)],
            Kind::Mxf4nvf4 => &[(E4m3, 0), (Ue8m0, 1)],
        }
    }

    /// Whether A and B have 4 bits without padding, so that an instruction is 64 deep.
    pub const fn is_packed(self) -> bool {
        matches!(self, Kind::Mxf4 | Kind::Mxf4nvf4)
    }

    /// The elements along k that have a scale in common, by the word after `.block_scale`, or by the
    /// default without one.
    pub fn block(self, word: Option<&str>) -> Option<u32> {
        match (self, word) {
            (Kind::Mxf8f6f4, None | Some("scale_vec::1X" | "block32")) => Some(32),
            (Kind::Mxf4, None | Some("scale_vec::2X" | "block32")) => Some(32),
            (Kind::Mxf4nvf4, Some("scale_vec::2X" | "block32")) => Some(32),
            (Kind::Mxf4nvf4, Some("scale_vec::4X" | "block16")) => Some(16),
            _ => None,
        }
    }

    /// The types of D, each with its number in the instruction descriptor.
    pub const fn accumulators(self) -> Numbered {
        match self {
            Kind::F16 | Kind::F8f6f4 => &[(F16, 0), (F32, 1)],
            Kind::Tf32 | Kind::Mxf8f6f4 | Kind::Mxf4 | Kind::Mxf4nvf4 => &[(F32, 1)],
            Kind::I8 => &[(S32, 2)],
        }
    }

    /// The kind that multiplies A by B into D, if one does. Both 16-bit operands have one type, and
    /// bf16 accumulates in f32.
    pub fn of(a: DataType, b: DataType, d: DataType) -> Option<Kind> {
        let mixes = a == b || a.bits() <= 8;
        let kind = Kind::ALL.into_iter().find(|kind| number(kind.inputs(), a).is_some())?;
        let exists = mixes
            && number(kind.inputs(), b).is_some()
            && number(kind.accumulators(), d).is_some()
            && (a, d) != (Bf16, F16);
        exists.then_some(kind)
    }
}

/// The number of a type in a list of [`Kind::inputs`] or [`Kind::accumulators`].
pub fn number(types: Numbered, data_type: DataType) -> Option<u32> {
    types.iter().find(|(own, _)| *own == data_type).map(|(_, number)| *number)
}

/// The type of a number in a list of [`Kind::inputs`] or [`Kind::accumulators`].
pub fn data_type(types: Numbered, number: u32) -> Option<DataType> {
    types.iter().find(|(_, own)| *own == number).map(|(data_type, _)| *data_type)
}

/// Bytes of a row of A, and of a column of B, that one instruction reads: k times the element size.
pub const DEPTH_BYTES: u32 = 32;

/// The numbers of rows that D has in a multiply of one CTA, or of a pair of CTAs, with scales or
/// without.
pub const fn rows(ctas: u32, has_scales: bool) -> &'static [u32] {
    match (ctas, has_scales) {
        (1, false) => &[64, 128],
        (1, true) => &[128],
        _ => &[128, 256],
    }
}

/// D has a multiple of this many columns, and at most [`MAX_COLUMNS`].
pub const fn column_step(ctas: u32, rows: u32, has_scales: bool) -> u32 {
    match (ctas, rows, has_scales) {
        (_, 64, _) | (1, _, true) => 8,
        _ => 16,
    }
}

/// The numbers of rows that D has in a weight-stationary multiply (`.ws`), which one CTA does.
pub const STATIONARY_ROWS: &[u32] = &[32, 64, 128];

/// The numbers of columns that D has in a weight-stationary multiply.
pub const STATIONARY_COLUMNS: &[u32] = &[64, 128, 256];

/// The most columns D has.
pub const MAX_COLUMNS: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instructions::forms_of;

    #[test]
    fn the_instruction_table_has_every_kind() {
        for kind in Kind::ALL {
            let scaled = if kind.scales().is_empty() { "" } else { ".block_scale.block32" };
            assert!(!forms_of(&format!("tcgen05.mma.cta_group::1.kind::{}{scaled}", kind.ptx())).is_empty());
        }
    }

    #[test]
    fn types_choose_the_kind() {
        assert_eq!(Kind::of(F16, F16, F16), Some(Kind::F16));
        assert_eq!(Kind::of(Bf16, Bf16, F16), None);
        assert_eq!(Kind::of(F16, Bf16, F32), None);
        assert_eq!(Kind::of(E4m3, E5m2, F32), Some(Kind::F8f6f4));
        assert_eq!(Kind::of(U8, S8, S32), Some(Kind::I8));
        assert_eq!(Kind::of(U8, E4m3, S32), None);
        assert_eq!(Kind::of(F32, F32, F32), None);
    }
}
