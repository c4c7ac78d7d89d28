//! PTX names for what the IR numbers or the author named.

use std::collections::HashMap;

use warpwright_ir::{Register, RegisterClass};

use crate::syntax::Type;

/// Words that ptxas does not take as identifiers. (Instructions and directives are not among them.)
const RESERVED: [&str; 4] = ["WARP_SZ", "function_name", "inlined_at", "_"];

/// The PTX identifier for a name of the author's: the name itself wherever PTX allows it.
///
/// What PTX does not allow becomes `$` and its code in hexadecimal, so that two names never become
/// one.
pub(super) fn symbol(name: &str) -> String {
    let mut identifier = String::with_capacity(name.len());
    for (index, character) in name.chars().enumerate() {
        let is_legal = character == '_'
            || character == '$'
            || character.is_ascii_alphabetic()
            || (index > 0 && character.is_ascii_digit());
        if is_legal {
            identifier.push(character)
        } else {
            identifier += &format!("${:x}$", u32::from(character))
        }
    }
    if RESERVED.contains(&identifier.as_str()) {
        identifier.push('$');
    }
    identifier
}

/// Every register class with the prefix of its names (those of nvcc) and its PTX type.
const CLASSES: [(RegisterClass, &str, Type); 5] = [
    (RegisterClass::Predicate, "%p", Type::Pred),
    (RegisterClass::B16, "%rs", Type::B16),
    (RegisterClass::B32, "%r", Type::B32),
    (RegisterClass::B64, "%rd", Type::B64),
    (RegisterClass::B128, "%rq", Type::B128),
];

/// Names registers by class, numbered in the order the text first mentions them.
pub(super) struct RegisterNames<'kernel> {
    classes: &'kernel [RegisterClass],
    numbers: HashMap<Register, u32>,
    counts: [u32; CLASSES.len()],
}

impl<'kernel> RegisterNames<'kernel> {
    pub(super) fn new(classes: &'kernel [RegisterClass]) -> Self {
        Self { classes, numbers: HashMap::new(), counts: [0; CLASSES.len()] }
    }

    pub(super) fn class(&self, register: Register) -> RegisterClass {
        self.classes[register.0 as usize]
    }

    pub(super) fn name(&mut self, register: Register) -> String {
        let class = self.class(register) as usize;
        let number = *self.numbers.entry(register).or_insert_with(|| {
            let number = self.counts[class];
            self.counts[class] += 1;
            number
        });
        format!("{}{number}", CLASSES[class].1)
    }

    /// Prefix, type and count of each class in use.
    pub(super) fn declarations(&self) -> impl Iterator<Item = (&'static str, Type, u32)> {
        let counted = CLASSES.iter().zip(self.counts);
        counted.filter(|(_, count)| *count > 0).map(|((_, prefix, ty), count)| (*prefix, *ty, count))
    }
}
