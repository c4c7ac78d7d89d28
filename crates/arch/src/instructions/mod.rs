//! The PTX instructions as data: spelling, operands, and the targets that have them.
//!
//! Each row of the table is a [`Form`]: the dotted name of an instruction with its alternatives,
//! and its operands with their widths:
//!
//! ```text
//! form("mad .wide .T:u16|s16|u32|s32", "2T = T, T, 2T")
//! form("setp .C:lt|gt .ftz? .f32",      "pred/pred = f32, f32")
//! ```
//!
//! **Names.** The first word may have alternatives (`add|sub`). Each further element begins with a
//! dot: its alternatives are separated by `|` and may have several words (`.xorsign.abs`),
//! `$rounding` is a named set of them, a `?` makes the element optional, and a capital letter
//! before a `:` names it for the operands.
//!
//! **Operands.** Those before `=` are written; those before `+=` are read and written. Each is
//! - a type (`b32`, `f64`, `pred`), the name of an element that is one (`T`), or twice its width
//!   (`2T`); a source may also be a literal, except of a type PTX has no literals for, or after
//!   `!`, which demands a register;
//! - `T+`: a register at least as wide as `T`, as loads, stores and conversions allow;
//! - `~pred`: a predicate or its negation;
//! - `T_`: a register or `_`;
//! - `a|b`: a pair; `a/b`: `a` or a pair;
//! - `{b32*4}`: a vector; the count may be an element (`{T*V}`, 4 for `v4`, a scalar where the
//!   element is absent) or the number after a letter of an element, divided or multiplied
//!   (`{f32*M.n/2}`, 64 for `m64n128k16`); `:128` after it is the most bits that the whole may
//!   have, `:256!` the bits that it has;
//! - `[]`: an address; `[tensor]`: one in tensor memory; `[*N]`: a tensor map and as many
//!   coordinates;
//! - `#`: an integer literal; `sym`: the address of a symbol, or a special register; `_`: just
//!   that;
//! - any of these with `?`: optional, with all after it; with `@word`: present if `word` is in the
//!   name.

mod convert;
mod float;
mod integer;
mod matrix;
mod memory;
mod pattern;
mod synchronize;
mod tensor_memory;
mod transfer;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use pattern::{Address, AddressWidth, Operand, Scalar, Signature};
use pattern::{NamePattern, OperandPatterns};

/// One spelling of an instruction with its operands: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The dotted name, with its alternatives.
    pub name: &'static str,
    /// The operands.
    pub operands: &'static str,
    /// The first PTX ISA version that has it, as (major, minor).
    pub ptx_version: (u32, u32),
    /// The first architecture that has it: `80` for sm_80.
    pub first_sm: u32,
    /// The targets that have it, for architecture-specific instructions; empty if all later
    /// architectures have it.
    pub only_on: &'static [&'static str],
}

/// A form that every sm_80 has.
const fn form(name: &'static str, operands: &'static str) -> Form {
    Form { name, operands, ptx_version: (7, 0), first_sm: 80, only_on: &[] }
}

impl Form {
    /// The form with the first PTX version and architecture that have it.
    const fn since(self, ptx_version: (u32, u32), first_sm: u32) -> Self {
        Self { ptx_version, first_sm, ..self }
    }

    /// The form, restricted to some `a` targets.
    const fn only_on(self, ptx_version: (u32, u32), targets: &'static [&'static str]) -> Self {
        Self { ptx_version, only_on: targets, ..self }
    }

    /// The first PTX ISA version that accepts the spelling `name`: some words are newer than their
    /// forms.
    pub fn ptx_version_of(&self, name: &str) -> (u32, u32) {
        let words =
            name.split('.').flat_map(|word| LATER_WORDS.iter().filter(move |(later, _)| *later == word));
        words.map(|(_, version)| *version).fold(self.ptx_version, std::cmp::max)
    }

    /// Whether `target` (`sm_90a`) has it.
    pub fn exists_on(&self, target: &str) -> bool {
        if !self.only_on.is_empty() {
            // What an `f` target has, its `a` target has too.
            let own = target.replace('f', "a");
            return self.only_on.contains(&own.as_str());
        }
        let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
        digits.parse::<u32>().is_ok_and(|sm| sm >= self.first_sm)
    }

    /// The targets that have it, in words: `sm_90 or later`, `sm_90a`.
    pub fn availability(&self) -> String {
        match self.only_on {
            [] => format!("sm_{} or later", self.first_sm),
            targets => targets.join(" or "),
        }
    }

    /// The spellings of the name with their operands: at most about `limit`, evenly distributed,
    /// including each alternative of each element.
    pub fn instances(&self, limit: usize) -> Vec<(String, Signature)> {
        let pattern = NamePattern::parse(self.name);
        let operands = OperandPatterns::parse(self.operands);
        let instances = pattern.instances(limit).into_iter();
        instances.filter_map(|(name, bound)| Some((name, operands.resolve(&bound)?))).collect()
    }
}

/// Words that a PTX version added to existing forms, with that version.
const LATER_WORDS: [(&str, (u32, u32)); 6] = [
    ("sp::ordered_metadata", (8, 5)),
    ("shared::cta", (7, 8)),
    ("L2::cache_hint", (7, 4)),
    ("L2::64B", (7, 4)),
    ("L2::128B", (7, 4)),
    ("L2::256B", (7, 4)),
];

/// The forms of every instruction but the MMAs, by family.
const FAMILIES: [&[Form]; 8] = [
    integer::FORMS,
    float::FORMS,
    convert::FORMS,
    memory::FORMS,
    transfer::FORMS,
    synchronize::FORMS,
    matrix::FORMS,
    tensor_memory::FORMS,
];

/// Every row of the table.
pub fn forms() -> impl Iterator<Item = &'static Form> {
    static MMA_FORMS: LazyLock<Vec<Form>> =
        LazyLock::new(|| [matrix::mma_forms(), tensor_memory::multiply_forms()].concat());
    FAMILIES.into_iter().flatten().chain(MMA_FORMS.iter())
}

/// A row with its patterns parsed.
struct ParsedForm {
    form: &'static Form,
    name: NamePattern,
    operands: OperandPatterns,
}

/// The rows by the first word of their names.
static INDEX: LazyLock<HashMap<&'static str, Vec<ParsedForm>>> = LazyLock::new(|| {
    let mut index: HashMap<&'static str, Vec<ParsedForm>> = HashMap::new();
    for form in forms() {
        for base in NamePattern::parse(form.name).bases {
            index.entry(base).or_default().push(ParsedForm {
                form,
                name: NamePattern::parse(form.name),
                operands: OperandPatterns::parse(form.operands),
            });
        }
    }
    index
});

/// The forms that match an instruction's dotted name, each with its operands.
///
/// Several forms match if only the operands distinguish them: `mov.b32` moves a register, or packs
/// two halves.
///
/// ```
/// let forms = warpwright_arch::instructions::forms_of("mad.wide.u16");
/// assert_eq!(forms.len(), 1);
/// assert_eq!(forms[0].1.to_string(), "b32 = b16, b16, b32");
/// ```
pub fn forms_of(opcode: &str) -> Vec<(&'static Form, Signature)> {
    let mut words = opcode.split('.');
    let base = words.next().unwrap_or("");
    let words: Vec<&str> = words.collect();
    let candidates = INDEX.get(base).map_or(&[][..], Vec::as_slice);
    let fitting = candidates.iter().filter_map(|candidate| {
        let bound = candidate.name.matches(&words)?;
        Some((candidate.form, candidate.operands.resolve(&bound)?))
    });
    fitting.collect()
}

/// The forms with the words of an instruction's dotted name in any order, as ptxas takes them.
///
/// ```
/// let forms = warpwright_arch::instructions::forms_in_any_order("tcgen05.shift.down.cta_group::1");
/// assert_eq!(forms.len(), 1);
/// ```
pub fn forms_in_any_order(opcode: &str) -> Vec<&'static Form> {
    let mut words = opcode.split('.');
    let base = words.next().unwrap_or("");
    let words: Vec<&str> = words.collect();
    let candidates = INDEX.get(base).map_or(&[][..], Vec::as_slice);
    let fitting = candidates.iter().filter(|candidate| candidate.name.matches_in_any_order(&words));
    fitting.map(|candidate| candidate.form).collect()
}

/// Whether any instruction's first word is `base`.
pub fn is_known(base: &str) -> bool {
    INDEX.contains_key(base)
}

/// Whether any instruction whose first word is `base` has the modifier `word`.
pub fn has_word(base: &str, word: &str) -> bool {
    INDEX.get(base).is_some_and(|forms| forms.iter().any(|parsed| parsed.name.has_word(word)))
}

/// The spellings of the instructions whose first word is `base`, in the notation of the PTX ISA
/// (`{.sat}` is optional), for messages about unknown names.
pub fn spellings(base: &str) -> Vec<String> {
    let forms = INDEX.get(base).map_or(&[][..], Vec::as_slice);
    let mut spellings: Vec<String> = forms.iter().map(|parsed| parsed.name.spelling(base)).collect();
    spellings.dedup();
    spellings
}

/// The spellings of the conversions between two types, in the notation of [`spellings`].
///
/// ```
/// let spellings = warpwright_arch::instructions::conversions("f32", "f16");
/// assert_eq!(spellings, ["cvt{.ftz}{.sat}.f32.f16"]);
/// ```
pub fn conversions(to: &str, from: &str) -> Vec<String> {
    let forms = INDEX.get("cvt").map_or(&[][..], Vec::as_slice);
    forms.iter().filter_map(|parsed| parsed.name.spelling_ending("cvt", &[to, from])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_spelling_of_every_row_is_found_again() {
        for form in forms() {
            let instances = form.instances(200);
            assert!(!instances.is_empty(), "{}", form.name);
            for (name, signature) in instances {
                assert!(!name.contains('$'), "{name}: no set of that name");
                let found = forms_of(&name);
                assert!(found.iter().any(|(row, _)| *row == form), "{name} of {}", form.name);
                let same = found.iter().filter(|(_, other)| *other == signature).count();
                assert!(same >= 1, "{name}: {signature}");
                assert!(signature.destinations <= signature.required, "{name}: {signature}");
                assert!(form.ptx_version_of(&name) >= form.ptx_version);
            }
        }
    }

    #[test]
    fn no_row_stands_twice() {
        let mut seen = HashSet::new();
        for form in forms() {
            assert!(seen.insert((form.name, form.operands)), "{} {}", form.name, form.operands);
        }
    }

    #[test]
    fn names_that_are_no_instruction_fit_nothing() {
        for wrong in [
            "",
            "add",
            "add.f23",
            "add.u32.sat",
            "fma.f32",
            "ld.u24",
            "ld.shared.v4.f64",
            "mov.u32.u32",
            "frobnicate",
        ] {
            assert_eq!(forms_of(wrong), [], "{wrong}");
        }
        assert!(spellings("frobnicate").is_empty());
        assert_eq!(spellings("addc").last().map(String::as_str), Some("addc(.u32|.s32|.u64|.s64)"));
        assert_eq!(spellings("tanh")[0], "tanh.approx.f32");
        assert!(spellings("rcp").contains(&"rcp(.approx|.rn|.rz|.rm|.rp){.ftz}.f32".to_owned()));
    }

    #[test]
    fn operands_follow_the_name() {
        let signature = |name: &str| -> Vec<String> {
            forms_of(name).iter().map(|(_, signature)| signature.to_string()).collect()
        };
        assert_eq!(signature("add.f32"), ["b32 = b32, b32"]);
        assert_eq!(signature("mul.wide.s32"), ["b64 = b32, b32"]);
        assert_eq!(signature("setp.lt.and.u64"), ["pred/pred = b64, b64, pred"]);
        assert_eq!(signature("ld.shared.v4.f32"), ["{b32*4} = []"]);
        assert_eq!(signature("ld.global.L2::cache_hint.f32"), ["b32 = [], b64"]);
        assert_eq!(signature("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16").len(), 2);
        assert_eq!(
            signature("wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16")[0],
            "{b32*32} += b64, b64, pred, #, #, #, #"
        );
        assert_eq!(
            signature("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"),
            ["[], [*2], []"]
        );
        assert_eq!(signature("bar.sync"), ["b32, b32?"]);
    }

    #[test]
    fn availability_depends_on_the_target() {
        let row = |name: &str| forms_of(name)[0].0;
        assert!(row("add.f32").exists_on("sm_80") && row("add.f32").exists_on("sm_120a"));
        assert!(!row("mapa.u64").exists_on("sm_89") && row("mapa.u64").exists_on("sm_90"));
        let fence = row("wgmma.fence.sync.aligned");
        assert!(fence.exists_on("sm_90a") && !fence.exists_on("sm_90") && !fence.exists_on("sm_100a"));
        assert_eq!(fence.availability(), "sm_90a");
        assert_eq!(row("mapa.u64").availability(), "sm_90 or later");
        assert_eq!(row("ld.shared::cta.u32").ptx_version_of("ld.shared::cta.u32"), (7, 8));
    }
}
