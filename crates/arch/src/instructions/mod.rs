//! The PTX instructions as data: spelling, operands, and the targets that have them.
//!
//! Each row of the table is a [`Form`]: the dotted name of an instruction with its alternatives,
//! its operands with their widths:
//!
//! ```text
//! form(IntegerMultiply, "mad.wide .T:u16|s16|u32|s32", "2T = T, T, 2T").operations(2)
//! form(Compare, "setp .C:lt|gt .ftz? .f32", "pred/pred = f32, f32")
//! ```
//!
//! and its [`Class`], the [`Pipe`] that it occupies, its arithmetic operations, and the first PTX version
//! and target.
//!
//! **Names.** The beginning may have alternatives, of one or more words (`mul.lo|mul.hi`). Each further
//! element begins with a dot: its alternatives are separated by `|` and may have several words
//! (`.xorsign.abs`), `$rounding` is a named set of them, a `?` makes the element optional, and a
//! capital letter before a `:` names it for the operands. The words of the beginning come first in this
//! order; elements come in any order, as ptxas takes them, but types, state spaces,
//! layouts and priorities in L2 keep theirs.
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

mod availability;
mod class;
mod convert;
mod float;
mod integer;
mod matrix;
mod memory;
mod multimem;
mod pattern;
mod synchronize;
mod tensor_memory;
mod transfer;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use availability::{Availability, Since};
pub use class::{Class, Pipe};
pub use pattern::{Address, AddressWidth, Kind, Operand, Scalar, Signature};
use pattern::{NamePattern, OperandPatterns};

/// One spelling of an instruction with its operands: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The dotted name, with its alternatives.
    pub name: &'static str,
    /// The operands.
    pub operands: &'static str,
    /// The first PTX ISA version and architecture that have it. Some words of a name are newer.
    pub since: Since,
    /// The targets whose features include it, for family- and architecture-specific instructions;
    /// empty if all later architectures have it.
    pub only_on: &'static [&'static str],
    /// From when on it no longer exists.
    pub until: Option<Since>,
    /// What kind of instruction it is.
    pub class: Class,
    /// The pipe that it occupies.
    pub pipe: Pipe,
    /// Arithmetic operations on each element of a lane: 2 for a multiply-add. Those of MMAs follow from
    /// their shape.
    pub operations: u32,
}

/// A form that PTX has always had.
const fn form(class: Class, name: &'static str, operands: &'static str) -> Form {
    Form {
        name,
        operands,
        since: Since::ALWAYS,
        only_on: &[],
        until: None,
        class,
        pipe: class.pipe(),
        operations: class.operations(),
    }
}

impl Form {
    /// The form with the first PTX version and architecture that have it.
    const fn since(self, ptx_version: (u32, u32), sm: u32) -> Self {
        Self { since: Since { ptx_version, sm }, ..self }
    }

    /// The form, restricted to the features of some `a` and `f` targets.
    const fn only_on(self, ptx_version: (u32, u32), targets: &'static [&'static str]) -> Self {
        Self { since: Since { ptx_version, ..Since::ALWAYS }, only_on: targets, ..self }
    }

    /// The form, removed from a PTX version and architecture on.
    const fn until(self, ptx_version: (u32, u32), sm: u32) -> Self {
        Self { until: Some(Since { ptx_version, sm }), ..self }
    }

    /// The form on another pipe than most of its class.
    const fn on(self, pipe: Pipe) -> Self {
        Self { pipe, ..self }
    }

    /// The form with this many arithmetic operations.
    const fn operations(self, operations: u32) -> Self {
        Self { operations, ..self }
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

/// The forms of every instruction but the MMAs, by family.
const FAMILIES: [&[Form]; 9] = [
    integer::FORMS,
    float::FORMS,
    convert::FORMS,
    memory::FORMS,
    multimem::FORMS,
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

impl ParsedForm {
    fn of(form: &'static Form) -> Self {
        let (name, operands) = (NamePattern::parse(form.name), OperandPatterns::parse(form.operands));
        Self { form, name, operands }
    }
}

/// The rows by the first word of their names.
static INDEX: LazyLock<HashMap<&'static str, Vec<ParsedForm>>> = LazyLock::new(|| {
    let mut index: HashMap<&'static str, Vec<ParsedForm>> = HashMap::new();
    for form in forms() {
        for first in NamePattern::parse(form.name).first_words() {
            index.entry(first).or_default().push(ParsedForm::of(form));
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
    let words: Vec<&str> = opcode.split('.').collect();
    let candidates = INDEX.get(words[0]).map_or(&[][..], Vec::as_slice);
    fitting(candidates, &words)
}

/// The same of the forms of later PTX versions than the table has in full.
pub fn later_forms_of(opcode: &str) -> Vec<(&'static Form, Signature)> {
    static LATER: LazyLock<Vec<ParsedForm>> =
        LazyLock::new(|| convert::LATER.iter().map(ParsedForm::of).collect());
    fitting(&LATER, &opcode.split('.').collect::<Vec<_>>())
}

fn fitting(candidates: &[ParsedForm], words: &[&str]) -> Vec<(&'static Form, Signature)> {
    let fits = |candidate: &ParsedForm| {
        let bound = candidate.name.matches(words)?;
        Some((candidate.form, candidate.operands.resolve(&bound)?))
    };
    candidates.iter().filter_map(fits).collect()
}

/// Whether any instruction's first word is `base`.
pub fn is_known(base: &str) -> bool {
    INDEX.contains_key(base)
}

/// Whether any instruction whose first word is `base` has the modifier `word`.
pub fn has_word(base: &str, word: &str) -> bool {
    INDEX.get(base).is_some_and(|forms| forms.iter().any(|parsed| parsed.name.has_word(base, word)))
}

/// Instructions of PTX without rows: branches, which have labels; textures and surfaces; and one that
/// ptxas takes without documentation.
pub const WITHOUT_ROWS: [&str; 12] =
    ["bra", "brx", "call", "cctl", "istypep", "suld", "suq", "sured", "sust", "tex", "tld4", "txq"];

/// The first words of all instructions.
pub fn names() -> impl Iterator<Item = &'static str> {
    INDEX.keys().copied().chain(WITHOUT_ROWS)
}

/// The modifiers of the instructions whose first word is `base`.
pub fn words(base: &str) -> impl Iterator<Item = &'static str> {
    let forms = INDEX.get(base).map_or(&[][..], Vec::as_slice);
    forms.iter().flat_map(move |parsed| parsed.name.words(base))
}

/// The spellings of the instructions whose first word is `base`, in the notation of the PTX ISA
/// (`{.sat}` is optional), for messages about unknown names.
pub fn spellings(base: &str) -> Vec<String> {
    let forms = INDEX.get(base).map_or(&[][..], Vec::as_slice);
    let mut spellings: Vec<String> = forms.iter().flat_map(|parsed| parsed.name.spellings(base)).collect();
    spellings.dedup();
    spellings
}

/// The spellings that an instruction's dotted name is closest to, at most `limit`, in the notation of
/// [`spellings`]: those that have its words and others, else those with its last word, its type.
///
/// ```
/// let near = warpwright_arch::instructions::spellings_near("mul.u32", 1);
/// assert_eq!(near, ["mul.lo(.u16|.u32|.u64|.s16|.s32|.s64)"]);
/// ```
pub fn spellings_near(opcode: &str, limit: usize) -> Vec<String> {
    let words: Vec<&str> = opcode.split('.').collect();
    let forms = INDEX.get(words[0]).map_or(&[][..], Vec::as_slice);
    let having = |wanted: &[&str]| -> Vec<String> {
        let has_all = |parsed: &&ParsedForm| wanted.iter().all(|word| parsed.name.has_word(words[0], word));
        let having: Vec<&ParsedForm> = forms.iter().filter(has_all).collect();
        // Those that need the fewest words beside the given ones.
        let fewest = having.iter().map(|parsed| parsed.name.least_words()).min();
        let near = having.into_iter().filter(|parsed| Some(parsed.name.least_words()) == fewest);
        let mut spelled: Vec<String> = near.flat_map(|parsed| parsed.name.spellings(words[0])).collect();
        spelled.dedup();
        spelled.truncate(limit);
        spelled
    };
    let near = having(&words[1..]);
    if near.is_empty() { having(&words[words.len() - 1..]) } else { near }
}

/// The spellings of the conversions between two types, in the notation of [`spellings`].
///
/// ```
/// let spellings = warpwright_arch::instructions::conversions("f32", "f16");
/// assert_eq!(spellings, ["cvt{.ftz}{.sat}.f32.f16"]);
/// ```
pub fn conversions(to: &str, from: &str) -> Vec<String> {
    let forms = INDEX.get("cvt").map_or(&[][..], Vec::as_slice);
    let mut found: Vec<String> =
        forms.iter().filter_map(|parsed| parsed.name.spelling_ending("cvt", &[to, from])).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
                assert!(form.availability(&name).since >= form.since);
            }
        }
    }

    #[test]
    fn no_row_stands_twice() {
        let mut seen = HashSet::new();
        for form in forms() {
            // Some architectures have a row since another version than those before them.
            let since = (form.since.ptx_version, form.since.sm);
            assert!(seen.insert((form.name, form.operands, since)), "{} {}", form.name, form.operands);
        }
    }

    #[test]
    fn names_that_are_no_instruction_fit_nothing() {
        for wrong in [
            "",
            "add",
            "add.f23",
            "add.u32.sat",
            "mad.u16.wide",
            "cvt.f64.bf16.f32",
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
    fn words_come_in_any_order_but_types_in_theirs() {
        for name in
            ["add.f32.sat.rn", "ld.v2.u32.global", "tcgen05.shift.down.cta_group::1", "min.abs.xorsign.f32"]
        {
            assert_eq!(forms_of(name).len(), 1, "{name}");
        }
        assert_eq!(forms_of("cvt.f32.rn.s64")[0].1.to_string(), "b32 = b64");
    }

    #[test]
    fn availability_depends_on_version_and_target() {
        let exists = |name: &str, version, target: &str| {
            forms_of(name).iter().any(|(form, _)| form.availability(name).exists_on(version, target))
        };
        let all = [
            ("add.f32", (1, 4), "sm_10", true),
            ("add.f32", (9, 0), "sm_121f", true),
            ("cvt.rn.f16.f32", (6, 3), "sm_75", true),
            ("cvt.rn.relu.f16.f32", (9, 0), "sm_75", false),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", (6, 5), "sm_75", true),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", (6, 4), "sm_75", false),
            ("mapa.u64", (7, 8), "sm_89", false),
            ("mapa.u64", (7, 8), "sm_90", true),
            ("ld.shared::cta.u32", (7, 7), "sm_80", false),
            ("ld.acquire.gpu.global.u32", (6, 0), "sm_62", false),
            ("wgmma.fence.sync.aligned", (8, 0), "sm_90a", true),
            ("wgmma.fence.sync.aligned", (8, 0), "sm_90", false),
            ("wgmma.fence.sync.aligned", (8, 6), "sm_100a", false),
            ("tcgen05.wait::ld.sync.aligned", (8, 8), "sm_103f", true),
            ("tcgen05.wait::ld.sync.aligned", (9, 0), "sm_120a", false),
            ("tcgen05.wait::ld.sync.aligned", (8, 6), "sm_101a", true),
            ("redux.sync.min.f32", (8, 8), "sm_100", false),
            ("vote.all.pred", (6, 3), "sm_75", true),
            ("vote.all.pred", (6, 4), "sm_75", false),
            ("vote.all.pred", (9, 0), "sm_62", true),
        ];
        for (name, version, target, expected) in all {
            assert_eq!(exists(name, version, target), expected, "{name} {version:?} {target}");
        }
        let words = |name: &str| forms_of(name)[0].0.availability(name).to_string();
        assert_eq!(words("wgmma.fence.sync.aligned"), "PTX 8.0 or later on sm_90a");
        assert_eq!(words("mapa.u64"), "PTX 7.8 or later on sm_90 or later");
    }
}
