//! One instruction against the rows of the instruction table.

use std::collections::HashMap;

use warpwright_arch::instructions::{self, Form, Signature};

use super::names::{Meaning, Names};
use super::operand::{Class, Place, class};
use super::value;
use crate::syntax::{Address, AddressBase, Instruction, Operand, StateSpace, Type};

/// The newest PTX version whose instructions the table has in full. A module of a later one may have
/// others.
const NEWEST: (u32, u32) = (9, 0);

/// Letters of an instruction's name that a message shows, at most.
const OPCODE_SHOWN: usize = 200;

/// Spellings that a message suggests, at most.
const SUGGESTIONS: usize = 3;

/// What the instruction table says of a name.
pub(super) enum Spelling {
    Unknown,
    /// The module's version or target does not have it.
    Unavailable(String),
    Available(Vec<Signature>),
}

/// The names of instructions met so far.
pub(super) type Spellings<'m> = HashMap<&'m str, Spelling>;

impl<'m> Names<'_, 'm> {
    /// Checks an instruction.
    pub(super) fn instruction(
        &self,
        i: &'m Instruction,
        spellings: &mut Spellings<'m>,
    ) -> Result<(), String> {
        if let Some(guard) = &i.guard {
            self.predicate(&guard.predicate)?;
            self.unguarded(i)?;
        }
        match i.opcode.base() {
            base @ ("bra" | "brx" | "call") => {
                let own = |word: &str| word == "uni" || word == "idx" && base == "brx";
                if let Some(word) = i.opcode.modifiers().find(|word| !own(word) && self.version <= NEWEST) {
                    return Err(has_no_modifier(i, word));
                }
                return if base == "call" { self.call(i) } else { self.branch(i) };
            }
            base if !instructions::is_known(base) => {
                self.declared(&i.operands)?;
                let exists = self.version > NEWEST || instructions::WITHOUT_ROWS.contains(&base);
                return if exists { Ok(()) } else { Err(self.no_instruction(base)) };
            }
            _ => {}
        }
        self.declared(&i.operands)?;
        let opcode = i.opcode.as_str();
        match spellings.entry(opcode).or_insert_with(|| self.spelling(opcode)) {
            Spelling::Unknown => self.unknown_spelling(i),
            Spelling::Unavailable(message) => Err(message.clone()),
            Spelling::Available(signatures) => {
                self.operands(i, signatures)?;
                value::check(i)
            }
        }
    }

    /// What the table says of a name.
    fn spelling(&self, opcode: &str) -> Spelling {
        let forms = rows(opcode);
        let Some((first, _)) = forms.first() else { return Spelling::Unknown };
        let is_available = |form: &Form| {
            let availability = form.availability(opcode);
            self.target.is_none_or(|target| availability.includes(self.version, target))
        };
        let message = self.unavailable(opcode, first);
        let available: Vec<Signature> = forms
            .into_iter()
            .filter(|(form, _)| is_available(form))
            .map(|(_, signature)| signature)
            .collect();
        if available.is_empty() { Spelling::Unavailable(message) } else { Spelling::Available(available) }
    }

    fn unavailable(&self, opcode: &str, form: &Form) -> String {
        let (major, minor) = self.version;
        let target = self.target.map_or(String::new(), |target| format!(" for {target}"));
        format!(
            "`{opcode}` exists in {}, and the module is PTX {major}.{minor}{target}.",
            form.availability(opcode)
        )
    }

    /// Refuses an instruction that no version of PTX has so far.
    fn no_instruction(&self, base: &str) -> String {
        let (major, minor) = self.version;
        let near = nearest(base, instructions::names());
        let hint = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
        format!("PTX {major}.{minor} has no instruction `{base}`.{hint}")
    }

    /// Refuses a name that the table does not have. It may be of a later version of PTX.
    fn unknown_spelling(&self, i: &Instruction) -> Result<(), String> {
        let base = i.opcode.base();
        if self.version > NEWEST {
            return Ok(());
        }
        if let Some(shape) =
            i.opcode.modifiers().find(|word| is_shape(word) && !instructions::has_word(base, word))
        {
            let rule = if base == "wgmma" { "; n is a multiple of 8 up to 256" } else { "" };
            return Err(format!(
                "`{}` does not exist: `{base}` has no shape .{shape}{rule}.",
                i.opcode.as_str()
            ));
        }
        if let Some(word) = i.opcode.modifiers().find(|word| !instructions::has_word(base, word)) {
            return Err(has_no_modifier(i, word));
        }
        let opcode = i.opcode.as_str();
        let words: Vec<&str> = i.opcode.modifiers().collect();
        if let ("cvt", [.., to, from]) = (base, words.as_slice()) {
            let conversions = instructions::conversions(to, from);
            return Err(match conversions.as_slice() {
                [] => format!("PTX has no conversion from .{from} to .{to}."),
                all => format!(
                    "`{opcode}` does not exist. The conversions from .{from} to .{to}: `{}`.",
                    all.join("`, `")
                ),
            });
        }
        let near = instructions::spellings_near(opcode, SUGGESTIONS);
        Err(match near.as_slice() {
            [] => format!("`{opcode}` does not exist: PTX does not combine these modifiers of `{base}`."),
            near => format!("`{opcode}` does not exist. PTX has `{}`.", near.join("`, `")),
        })
    }

    /// Refuses operands that no signature has.
    fn operands(&self, i: &Instruction, signatures: &[Signature]) -> Result<(), String> {
        let count = i.operands.len();
        let mut first = None;
        for signature in signatures {
            if !(signature.required..=signature.operands.len()).contains(&count) {
                continue;
            }
            let mismatch =
                i.operands.iter().zip(&signature.operands).enumerate().find_map(|(index, (own, form))| {
                    let is_destination = index < signature.destinations;
                    let is_address = |operand: &&Operand| matches!(operand, Operand::Address(_));
                    let address = i.operands[..index].iter().filter(is_address).count();
                    let place = Place { opcode: &i.opcode, address, is_destination };
                    Some((index, self.fits(own, form, place).err()?))
                });
            match mismatch {
                None => return Ok(()),
                // The signature that fits furthest is most probably the one that is meant.
                Some((index, said)) if first.as_ref().is_none_or(|(furthest, _)| index > *furthest) => {
                    first = Some((index, said));
                }
                Some(_) => {}
            }
        }
        Err(match first {
            Some((index, said)) => format!("Operand {} of `{}`: {said}", index + 1, i.opcode.as_str()),
            None => {
                let mut counts: Vec<String> = signatures.iter().map(count_of).collect();
                counts.sort();
                counts.dedup();
                format!("The instruction takes {} operands, and has {count}.", counts.join(" or "))
            }
        })
    }

    fn predicate(&self, name: &str) -> Result<(), String> {
        match self.meaning(name) {
            Some(Meaning::Register(Type::Pred)) => Ok(()),
            Some(_) => Err(format!("`{name}` is not a predicate.")),
            None => Err(format!("`{name}` is not declared.")),
        }
    }

    /// Refuses a guard of a load or store of a call's arguments, which the call makes in any case.
    fn unguarded(&self, i: &Instruction) -> Result<(), String> {
        if !matches!(i.opcode.base(), "ld" | "st") {
            return Ok(());
        }
        let named = i.operands.iter().find_map(|operand| match operand {
            Operand::Address(Address { base: AddressBase::Name(name), .. }) => Some(name),
            _ => None,
        });
        let is_argument = |name: &&String| {
            !self.is_formal(name) && self.variable(name).is_some_and(|own| own.space == StateSpace::Parameter)
        };
        match named.filter(is_argument) {
            Some(name) => Err(format!(
                "`{name}` is an argument or a result of calls, and such a load or store takes no guard: branch around it."
            )),
            None => Ok(()),
        }
    }

    /// Checks the index of `brx.idx`.
    fn index(&self, index: &Operand) -> Result<(), String> {
        let Operand::Name(name) = index else { return Ok(()) };
        self.declared_name(name)?;
        match self.meaning(name) {
            Some(Meaning::Register(ty)) if ty.bytes() == 4 && class(ty) != Class::Float => Ok(()),
            Some(other) => Err(format!("`{name}` is {}, not an index of 32 bits.", other.describe())),
            None => Ok(()),
        }
    }

    fn branch(&self, i: &Instruction) -> Result<(), String> {
        let target = match (i.opcode.base(), i.operands.as_slice()) {
            ("bra", [Operand::Name(label)]) => label,
            ("brx", [index, Operand::Name(targets)]) => {
                self.index(index)?;
                targets
            }
            ("brx", _) => return Err("`brx.idx` takes an index and a `.branchtargets` list.".to_owned()),
            (_, operands) => {
                return Err(format!("`bra` takes 1 label, and has {} operands.", operands.len()));
            }
        };
        match (self.meaning(target), i.opcode.base()) {
            (Some(Meaning::Label), "bra") | (Some(Meaning::BranchTargets), "brx") => Ok(()),
            (None, _) => Err(format!("`{target}` is not declared.")),
            (Some(other), "bra") => Err(format!("`{target}` is {}, not a label.", other.describe())),
            (Some(other), _) => {
                Err(format!("`{target}` is {}, not a `.branchtargets` list.", other.describe()))
            }
        }
    }
}

fn has_no_modifier(i: &Instruction, word: &str) -> String {
    let (opcode, base) = (i.opcode.as_str(), i.opcode.base());
    let near = nearest(word, instructions::words(base));
    let hint = near.map_or(String::new(), |near| format!(" Did you mean `.{near}`?"));
    format!("`{opcode:.OPCODE_SHOWN$}` does not exist: `{base}` has no modifier `.{word}`.{hint}")
}

/// Whether a modifier is the shape of an MMA, as `m16n8k16` is.
fn is_shape(word: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let extents = word.strip_prefix('m').and_then(|rest| rest.split_once('n'));
    extents
        .and_then(|(m, rest)| Some((m, rest.split_once('k')?)))
        .is_some_and(|(m, (n, k))| [m, n, k].into_iter().all(is_number))
}

/// The name that one with a typing error was most probably meant to be.
fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let distance = |name: &str| strsim::osa_distance(wrong, name);
    let near = names.filter(|name| distance(name) == 1 && name.len() > 1);
    near.min_by_key(|name| (name.len().abs_diff(wrong.len()), *name))
}

/// The rows of the instruction table that a name has, each with its operands. ptxas takes some words twice,
/// such as `.sat.sat`.
pub fn rows(opcode: &str) -> Vec<(&'static Form, Signature)> {
    let found = instructions::forms_of(opcode);
    if !found.is_empty() {
        return found;
    }
    let mut once: Vec<&str> = Vec::new();
    for word in opcode.split('.') {
        let is_repeated = once.contains(&word) && TWICE.contains(&word);
        once.extend((!is_repeated).then_some(word));
    }
    instructions::forms_of(&once.join("."))
}

/// Words that ptxas 13.0 takes more than once.
const TWICE: [&str; 14] = [
    "NaN",
    "all",
    "any",
    "approx",
    "ballot",
    "cc",
    "oob",
    "po",
    "relu",
    "sat",
    "satfinite",
    "shiftamt",
    "sync",
    "uni",
];

/// The number of operands, in words.
fn count_of(signature: &Signature) -> String {
    match (signature.required, signature.operands.len()) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}
