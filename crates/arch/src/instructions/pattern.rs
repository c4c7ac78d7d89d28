//! The patterns of the instruction table: names with alternatives, and operands.

use std::collections::BTreeSet;
use std::fmt;

/// The values of named elements in one instruction, and all words of its name.
///
/// Elements that the instruction omits are missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound {
    elements: Vec<(char, String)>,
    words: Vec<String>,
}

impl Bound {
    fn word(&self, name: char) -> Option<&str> {
        self.elements.iter().find(|(element, _)| *element == name).map(|(_, word)| word.as_str())
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }
}

/// The dotted name of a form.
pub(super) struct NamePattern {
    /// The alternatives of the name's beginning, each of one or more words.
    bases: Vec<&'static str>,
    elements: Vec<Element>,
}

struct Element {
    name: Option<char>,
    alternatives: Vec<&'static str>,
    optional: bool,
}

/// Named sets of alternatives: `$name` in a pattern.
const SETS: [(&str, &str); 29] = [
    ("memory", "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"),
    // Of which four or eight are 256 bits.
    ("wide", "b32|u32|s32|f32|b64|u64|s64|f64"),
    ("registers", "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"),
    ("integers8", "u8|u16|u32|u64|s8|s16|s32|s64"),
    ("integers16", "u16|u32|u64|s16|s32|s64"),
    ("float_order", "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"),
    ("unsigned_order", "eq|ne|lt|le|gt|ge|lo|ls|hi|hs"),
    ("signed_order", "eq|ne|lt|le|gt|ge"),
    ("scope", "cta|cluster|gpu|sys"),
    ("order", "relaxed|acquire|release|acq_rel"),
    // Shared memory: of the CTA, by either name, or of any CTA of the cluster.
    ("window", "shared|shared::cta|shared::cluster"),
    ("rounding", "rn|rz|rm|rp"),
    ("integral", "rni|rzi|rmi|rpi"),
    ("satfinite", "satfinite|relu.satfinite|satfinite.relu"),
    ("level1", "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"),
    ("level2", "L2::evict_normal|L2::evict_first|L2::evict_last"),
    ("policy", "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"),
    ("prefetch", "L2::64B|L2::128B|L2::256B"),
    ("counts", "x1|x2|x4|x8|x16|x32|x64|x128"),
    ("tensor_kinds", "kind::f16|kind::tf32|kind::f8f6f4"),
    ("scaled_kinds", "kind::mxf8f6f4.block_scale.scale_vec::1X|kind::mxf4.block_scale.scale_vec::2X"),
    ("packed_kinds", "kind::mxf4nvf4.block_scale.scale_vec::2X|kind::mxf4nvf4.block_scale.scale_vec::4X"),
    ("mixed_kinds", "kind::mxf8f6f4.block_scale|kind::mxf8f6f4.block_scale.block32"),
    (
        "narrow_kinds",
        "kind::mxf4.block_scale|kind::mxf4.block_scale.block32|kind::mxf4nvf4.block_scale.block16|kind::mxf4nvf4.block_scale.block32",
    ),
    ("small_floats", "e4m3|e5m2|e2m1|e2m3|e3m2"),
    ("collector", "collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard"),
    // ptxas takes the two in any order.
    (
        "shifted",
        "ashift|ashift.collector::a::lastuse|ashift.collector::a::discard|collector::a::lastuse.ashift|collector::a::discard.ashift",
    ),
    (
        "collector_of_b",
        "collector::b0::fill|collector::b0::use|collector::b0::lastuse|collector::b0::discard|collector::b1::fill|collector::b1::use|collector::b1::lastuse|collector::b1::discard|collector::b2::fill|collector::b2::use|collector::b2::lastuse|collector::b2::discard|collector::b3::fill|collector::b3::use|collector::b3::lastuse|collector::b3::discard",
    ),
    ("decompression", "b8x16.b6x16_p32|b8x16.b4x16_p64"),
];

impl Element {
    fn parse(text: &'static str) -> Self {
        let text = text.strip_prefix('.').unwrap_or(text);
        let (text, optional) = match text.strip_suffix('?') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let first = text.chars().next();
        let is_named = text[1..].starts_with(':') && !text[1..].starts_with("::");
        let (name, text) = if is_named { (first, &text[2..]) } else { (None, text) };
        let expand = |alternative: &'static str| {
            let set = SETS.iter().find(|(name, _)| alternative.strip_prefix('$') == Some(name));
            set.map_or(alternative, |(_, alternatives)| alternatives).split('|')
        };
        Self { name, alternatives: text.split('|').flat_map(expand).collect(), optional }
    }

    /// The element as the PTX ISA writes it: `.f32`, `(.lo|.hi)`, `{.sat}`.
    fn spelling(&self) -> String {
        let alternatives: Vec<String> = self.alternatives.iter().map(|word| format!(".{word}")).collect();
        let alternatives = match alternatives.as_slice() {
            // The shapes of `wgmma`.
            [first, second, .., last] if alternatives.len() > 16 => format!("{first}|{second}|...|{last}"),
            all => all.join("|"),
        };
        match (self.optional, self.alternatives.len()) {
            (true, _) => format!("{{{alternatives}}}"),
            (false, 1) => alternatives,
            (false, _) => format!("({alternatives})"),
        }
    }

    /// The number of choices: the alternatives, and none if optional.
    fn choices(&self) -> usize {
        self.alternatives.len() + usize::from(self.optional)
    }
}

impl NamePattern {
    pub(super) fn parse(text: &'static str) -> Self {
        let mut parts = text.split_whitespace();
        let bases = parts.next().unwrap_or("").split('|').collect();
        Self { bases, elements: parts.map(Element::parse).collect() }
    }

    /// The first words of the names.
    pub(super) fn first_words(&self) -> impl Iterator<Item = &'static str> {
        let first: BTreeSet<&str> = self.bases.iter().filter_map(|base| base.split('.').next()).collect();
        first.into_iter()
    }

    /// The beginnings whose first word is `first`.
    fn bases_of<'a>(&'a self, first: &'a str) -> impl Iterator<Item = &'static str> + 'a {
        self.bases.iter().copied().filter(move |base| base.split('.').next() == Some(first))
    }

    /// The names that begin with `first`, as the PTX ISA writes them: `add{.ftz}{.sat}.f32`.
    pub(super) fn spellings(&self, first: &str) -> Vec<String> {
        let rest: String = self.elements.iter().map(Element::spelling).collect();
        self.bases_of(first).map(|base| format!("{base}{rest}")).collect()
    }

    /// The words that every name of the pattern has after the first, at least.
    pub(super) fn least_words(&self) -> usize {
        let in_base = self.bases.first().map_or(0, |base| base.split('.').count() - 1);
        in_base + self.elements.iter().filter(|element| !element.optional).count()
    }

    /// Whether a name that begins with `first` has the word after it.
    pub(super) fn has_word(&self, first: &str, word: &str) -> bool {
        self.words(first).contains(&word)
    }

    /// The words that names that begin with `first` may have after it.
    pub(super) fn words(&self, first: &str) -> Vec<&'static str> {
        let alternatives = self.elements.iter().flat_map(|element| &element.alternatives);
        let later = self.bases_of(first).filter_map(|base| base.split_once('.')).map(|(_, later)| later);
        alternatives.copied().chain(later).flat_map(|words| words.split('.')).collect()
    }

    /// The spelling with `base` and these words for the last elements, if they have them.
    pub(super) fn spelling_ending(&self, base: &str, last: &[&str]) -> Option<String> {
        let (first, ending) = self.elements.split_at(self.elements.len().checked_sub(last.len())?);
        let fits = ending.iter().zip(last).all(|(element, word)| element.alternatives.contains(word));
        let words = last.iter().map(|word| format!(".{word}"));
        let spelled =
            std::iter::once(base.to_owned()).chain(first.iter().map(Element::spelling)).chain(words);
        fits.then(|| spelled.collect())
    }

    /// The values of the elements for a name of these words; `None` if it does not match.
    ///
    /// ptxas takes the words of the elements in any order, but for words of one [`Class`], and so does
    /// this.
    pub(super) fn matches(&self, words: &[&str]) -> Option<Bound> {
        let rest = self.bases.iter().find_map(|base| {
            let length = base.split('.').count();
            (words.len() >= length && base.split('.').eq(words[..length].iter().copied()))
                .then(|| words[length..].to_vec())
        })?;
        let mut elements = Vec::new();
        if !match_elements(&self.elements, rest, &mut elements) {
            return None;
        }
        Some(Bound { elements, words: words[1..].iter().map(|word| (*word).to_owned()).collect() })
    }

    /// Names of the pattern with the values of their elements: all, or about `limit`.
    pub(super) fn instances(&self, limit: usize) -> Vec<(String, Bound)> {
        let radices: Vec<usize> =
            std::iter::once(self.bases.len()).chain(self.elements.iter().map(Element::choices)).collect();
        let total = radices.iter().fold(1usize, |product, radix| product.saturating_mul(*radix));
        let mut choices: Vec<Vec<usize>> = Vec::new();
        // Each alternative of each element, with the first alternative of the others.
        for (position, radix) in radices.iter().enumerate() {
            choices.extend((0..*radix).map(|choice| {
                (0..=self.elements.len()).map(|at| if at == position { choice } else { 0 }).collect()
            }));
        }
        let stride = total.div_ceil(limit.max(1));
        choices.extend((0..total).step_by(stride).map(|index| mixed_radix(index, &radices)));
        choices.sort();
        choices.dedup();
        choices.iter().map(|choice| self.instance(choice)).collect()
    }

    fn instance(&self, choice: &[usize]) -> (String, Bound) {
        let mut name = self.bases[choice[0]].to_owned();
        let words = name.split('.').skip(1).map(str::to_owned).collect();
        let mut bound = Bound { words, ..Bound::default() };
        for (element, choice) in self.elements.iter().zip(&choice[1..]) {
            let Some(alternative) = element.alternatives.get(*choice) else { continue };
            name = format!("{name}.{alternative}");
            bound.words.extend(alternative.split('.').map(str::to_owned));
            bound.elements.extend(element.name.map(|letter| (letter, (*alternative).to_owned())));
        }
        (name, bound)
    }
}

fn mixed_radix(mut index: usize, radices: &[usize]) -> Vec<usize> {
    let mut digits = Vec::with_capacity(radices.len());
    for radix in radices {
        digits.push(index % radix);
        index /= radix;
    }
    digits
}

/// Words that mean something by their order among themselves: `.f32.f16` converts to f32.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Type,
    Space,
    /// The order of a matrix in memory.
    Layout,
    /// A priority in L2: `createpolicy` takes two.
    Priority,
}

const TYPES: [&str; 53] = [
    "pred",
    "b1",
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "b1024",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "s2",
    "s4",
    "s8",
    "s16",
    "s32",
    "s64",
    "u8x4",
    "s8x4",
    "u16x2",
    "s16x2",
    "f16",
    "f16x2",
    "bf16",
    "bf16x2",
    "tf32",
    "f32",
    "f32x2",
    "f64",
    "e4m3",
    "e5m2",
    "e2m1",
    "e2m3",
    "e3m2",
    "ue8m0",
    "ue4m3",
    "e4m3x2",
    "e5m2x2",
    "e2m1x2",
    "e2m3x2",
    "e3m2x2",
    "ue8m0x2",
    "e4m3x4",
    "e5m2x4",
    "e2m1x4",
    "e2m3x4",
    "e3m2x4",
    "b8x16",
    "b6x16_p32",
    "b4x16_p64",
];

impl Class {
    fn of(word: &str) -> Option<Self> {
        match word {
            "global" | "shared" | "shared::cta" | "shared::cluster" | "local" | "const" | "param"
            | "param::entry" | "param::func" => Some(Self::Space),
            "row" | "col" => Some(Self::Layout),
            _ if word.starts_with("L2::evict") => Some(Self::Priority),
            _ if TYPES.contains(&word) => Some(Self::Type),
            _ => None,
        }
    }
}

/// Removes a word that is not preceded by another of its class.
fn take_word(words: &mut Vec<&str>, word: &str) -> bool {
    let Some(at) = words.iter().position(|own| *own == word) else { return false };
    let class = Class::of(word);
    if class.is_some() && words[..at].iter().any(|before| Class::of(before) == class) {
        return false;
    }
    words.remove(at);
    true
}

/// Whether each word belongs to an element, with the values of the named elements.
fn match_elements(elements: &[Element], words: Vec<&str>, bound: &mut Vec<(char, String)>) -> bool {
    let Some((element, later)) = elements.split_first() else {
        return words.is_empty();
    };
    for alternative in &element.alternatives {
        let mut rest = words.clone();
        if alternative.split('.').all(|word| take_word(&mut rest, word)) {
            let before = bound.len();
            bound.extend(element.name.map(|letter| (letter, (*alternative).to_owned())));
            if match_elements(later, rest, bound) {
                return true;
            }
            bound.truncate(before);
        }
    }
    element.optional && match_elements(later, words, bound)
}

/// The operands an instruction takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The operands in order, destinations first.
    pub operands: Vec<Operand>,
    /// The number of destinations.
    pub destinations: usize,
    /// The number of operands that are not optional.
    pub required: usize,
    /// Whether the destination is also read: the accumulator of `wgmma`.
    pub accumulates: bool,
}

/// One operand of a [`Signature`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register, or what [`Scalar`] allows instead.
    Scalar(Scalar),
    /// Two registers `a|b`; the second is optional if `optional`.
    Pair {
        /// The first.
        first: Scalar,
        /// The second.
        second: Scalar,
        /// Whether the second may be omitted.
        optional: bool,
    },
    /// `{a, b, ...}`
    Vector {
        /// The elements.
        element: Scalar,
        /// The number of elements.
        count: usize,
    },
    /// `[...]`
    Address(Address),
    /// An integer literal.
    Literal,
    /// The address of a symbol, or a special register.
    Symbol,
    /// `_` only.
    Sink,
}

/// A register operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// Its width in bits; 1 is a predicate.
    pub bits: u32,
    /// The types of register that it accepts.
    pub kind: Kind,
    /// Whether a wider register is accepted.
    pub or_wider: bool,
    /// Whether a literal is accepted.
    pub literal: bool,
    /// Whether `!p` is accepted.
    pub negatable: bool,
    /// Whether `_` is accepted.
    pub sink: bool,
}

/// What an instruction's type says of its registers and literals (PTX ISA, "Operand Type Checking").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `pred`.
    Predicate,
    /// `b32`: registers of any type.
    Bits,
    /// `u32`: registers of integer and bit types.
    Integer,
    /// `f32`: registers of floating-point and bit types.
    Float,
    /// `f16x2`, which registers may have as their type; other packed types need registers of bit types.
    HalfPair,
    /// `bf16x2`: registers of bit types.
    Packed,
}

/// An address operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Coordinates inside the brackets, 0 for a plain address.
    pub coordinates: usize,
    /// The accepted width of the base register.
    pub width: AddressWidth,
}

/// The width of the base register of an [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressWidth {
    /// 64 bits.
    Wide,
    /// 64 or 32 bits: the name has a state space of 32-bit addresses.
    Either,
    /// 32 bits: tensor memory.
    Narrow,
}

impl Operand {
    /// The operand as the table writes it: `b32`, `{b32*4}`, `[]`.
    fn spelling(&self) -> String {
        let plain = |scalar: &Scalar| match scalar.bits {
            1 => "pred".to_owned(),
            bits => format!("b{bits}"),
        };
        match self {
            Self::Scalar(scalar) => plain(scalar),
            Self::Pair { first, second, optional } => {
                format!("{}{}{}", plain(first), if *optional { "/" } else { "|" }, plain(second))
            }
            Self::Vector { element, count } => format!("{{{}*{count}}}", plain(element)),
            Self::Address(Address { coordinates: 0, .. }) => "[]".to_owned(),
            Self::Address(address) => format!("[*{}]", address.coordinates),
            Self::Literal => "#".to_owned(),
            Self::Symbol => "sym".to_owned(),
            Self::Sink => "_".to_owned(),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling())
    }
}

impl fmt::Display for Signature {
    /// As the table writes it: `b32 = b32, b32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelled: Vec<String> = (self.operands.iter().enumerate())
            .map(|(index, operand)| format!("{operand}{}", if index < self.required { "" } else { "?" }))
            .collect();
        let (written, read) = spelled.split_at(self.destinations);
        if !written.is_empty() {
            write!(f, "{} {} ", written.join(", "), if self.accumulates { "+=" } else { "=" })?;
        }
        f.write_str(&read.join(", "))
    }
}

/// The operands of a form, before its elements are known.
pub(super) struct OperandPatterns {
    destinations: Vec<&'static str>,
    sources: Vec<&'static str>,
    accumulates: bool,
}

impl OperandPatterns {
    pub(super) fn parse(text: &'static str) -> Self {
        let (destinations, sources) = text.split_once('=').unwrap_or(("", text));
        let (destinations, accumulates) = strip(destinations, '+');
        let list =
            |text: &'static str| text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        Self { destinations: list(destinations), sources: list(sources), accumulates }
    }

    /// The operands of one instruction; `None` if its vector is too large for the form.
    pub(super) fn resolve(&self, bound: &Bound) -> Option<Signature> {
        let mut signature =
            Signature { operands: Vec::new(), destinations: 0, required: 0, accumulates: self.accumulates };
        for (patterns, is_source) in [(&self.destinations, false), (&self.sources, true)] {
            for pattern in patterns {
                let (pattern, condition) = match pattern.split_once('@') {
                    Some((pattern, word)) => (pattern, Some(word)),
                    None => (*pattern, None),
                };
                if condition.is_some_and(|word| !bound.has(word)) {
                    continue;
                }
                let (pattern, optional) = match pattern.strip_suffix('?') {
                    Some(pattern) => (pattern, true),
                    None => (pattern, false),
                };
                signature.operands.push(operand(pattern, is_source, bound)?);
                signature.destinations += usize::from(!is_source);
                if !optional {
                    signature.required = signature.operands.len();
                }
            }
        }
        Some(signature)
    }
}

fn operand(pattern: &str, is_source: bool, bound: &Bound) -> Option<Operand> {
    let between = |open, close| pattern.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    match pattern {
        "#" => return Some(Operand::Literal),
        "sym" => return Some(Operand::Symbol),
        "_" => return Some(Operand::Sink),
        _ => {}
    }
    if let Some(inside) = between('[', ']') {
        let coordinates = inside.strip_prefix('*').and_then(|count| self::count(count, bound)).unwrap_or(0);
        // A state space in the name applies to the operand; a name with two spaces accepts both
        // widths.
        let is_narrow = bound.words.iter().any(|word| NARROW_SPACES.contains(&word.as_str()));
        let width = match (inside, is_narrow) {
            ("tensor", _) => AddressWidth::Narrow,
            (_, true) => AddressWidth::Either,
            (_, false) => AddressWidth::Wide,
        };
        return Some(Operand::Address(Address { coordinates, width }));
    }
    if let Some(inside) = between('{', '}') {
        return vector(inside, is_source, bound);
    }
    for (separator, optional) in [('|', false), ('/', true)] {
        if let Some((first, second)) = pattern.split_once(separator) {
            let [first, second] = [first, second].map(|part| scalar(part, is_source, bound));
            return Some(Operand::Pair { first, second, optional });
        }
    }
    Some(Operand::Scalar(scalar(pattern, is_source, bound)))
}

/// State spaces whose addresses fit 32 bits.
const NARROW_SPACES: [&str; 8] =
    ["shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "param::func", "const"];

/// The inside of `{element*count}`, `{element*count:most_bits}` or `{element*count:bits!}`.
fn vector(pattern: &str, is_source: bool, bound: &Bound) -> Option<Operand> {
    let (pattern, bits) = pattern.split_once(':').unwrap_or((pattern, ""));
    let (element, count) = pattern.split_once('*').unwrap_or((pattern, "1"));
    let element = scalar(element, is_source, bound);
    let Some(count) = self::count(count, bound) else {
        return Some(Operand::Scalar(element));
    };
    let (bits, is_exact) = strip(bits, '!');
    let own = count * element.bits as usize;
    if bits.parse().is_ok_and(|bits: usize| if is_exact { own != bits } else { own > bits }) {
        return None;
    }
    Some(Operand::Vector { element: Scalar { literal: false, ..element }, count })
}

/// `4`, an element (`V` is 4 for `v4`), or the number after a letter of one, divided or multiplied
/// (`M.n/2`, `N.x*2`).
///
/// `None` if the element is absent.
fn count(text: &str, bound: &Bound) -> Option<usize> {
    if let Ok(count) = text.parse() {
        return Some(count);
    }
    let word = bound.word(text.chars().next()?)?;
    let Some(numbered) = text[1..].strip_prefix('.') else {
        return word.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok();
    };
    let (letter, divides, factor) = match (numbered.split_once('/'), numbered.split_once('*')) {
        (Some((letter, divisor)), _) => (letter, true, divisor),
        (None, Some((letter, factor))) => (letter, false, factor),
        (None, None) => return None,
    };
    let digits = word.split_once(letter)?.1;
    let number = digits.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()?;
    let factor = factor.parse::<usize>().ok()?;
    Some(if divides { number / factor } else { number * factor })
}

fn scalar(pattern: &str, is_source: bool, bound: &Bound) -> Scalar {
    let (pattern, or_wider) = strip(pattern, '+');
    let (pattern, sink) = strip(pattern, '_');
    let (pattern, register_only) = strip(pattern, '!');
    let (pattern, negatable) = match pattern.strip_prefix('~') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let (pattern, doubled) = match pattern.strip_prefix('2') {
        Some(rest) => (rest, 2),
        None => (pattern, 1),
    };
    let mut letters = pattern.chars();
    let word = match (letters.next(), letters.next()) {
        (Some(name), None) => bound.word(name).unwrap_or(""),
        _ => pattern,
    };
    let (bits, kind) = type_of(word);
    let has_literals = match kind {
        Kind::Bits | Kind::Integer => true,
        Kind::Float => bits > 16,
        Kind::Predicate | Kind::HalfPair | Kind::Packed => false,
    };
    let literal = is_source && !register_only && has_literals;
    Scalar { bits: bits * doubled, kind, or_wider, literal, negatable, sink }
}

fn strip(text: &str, suffix: char) -> (&str, bool) {
    match text.strip_suffix(suffix) {
        Some(rest) => (rest, true),
        None => (text, false),
    }
}

/// The register width and the kind of a type word.
///
/// # Panics
/// If the word is not a type. Tests cover every word of the table.
fn type_of(word: &str) -> (u32, Kind) {
    match word {
        "pred" => (1, Kind::Predicate),
        "e2m1x2" => (8, Kind::Packed),
        "b8" => (8, Kind::Bits),
        "u8" | "s8" => (8, Kind::Integer),
        "b16" => (16, Kind::Bits),
        "u16" | "s16" => (16, Kind::Integer),
        "b32" => (32, Kind::Bits),
        "u32" | "s32" => (32, Kind::Integer),
        "b64" => (64, Kind::Bits),
        "u64" | "s64" => (64, Kind::Integer),
        "f16" => (16, Kind::Float),
        "f32" => (32, Kind::Float),
        "f64" => (64, Kind::Float),
        "bf16" | "e4m3x2" | "e5m2x2" | "e2m3x2" | "e3m2x2" | "ue8m0x2" | "e2m1x4" => (16, Kind::Packed),
        "f16x2" | "u16x2" | "s16x2" => (32, Kind::HalfPair),
        "bf16x2" | "tf32" | "e4m3x4" | "e5m2x4" | "e2m3x4" | "e3m2x4" => (32, Kind::Packed),
        "f32x2" => (64, Kind::Packed),
        "b128" => (128, Kind::Bits),
        other => panic!("`{other}` in the instruction table is not a type"),
    }
}
