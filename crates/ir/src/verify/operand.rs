//! Checks instructions against the instruction table: spelling, operands, target.

use warpwright_arch::Capability;
use warpwright_arch::instructions::{self, AddressWidth, Form, Kind, Operand as Slot, Scalar, Signature};

use super::fault::Fault;
use crate::access;
use crate::kernel::{Instruction, Kernel, Operand, Register, RegisterClass};

impl RegisterClass {
    /// Bits of a register of the class, as the instruction table counts them: 1 for a predicate.
    pub fn bits(self) -> u32 {
        match self {
            Self::Predicate => 1,
            Self::B16 => 16,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }
}

/// The rows of the instruction table that match a name, each with its operands.
pub(super) type Forms = Vec<(&'static Form, Signature)>;

/// Checks an instruction against the `forms` of its name.
pub(super) fn check_instruction(
    kernel: &Kernel,
    instruction: &Instruction,
    forms: &Forms,
    capability: &'static Capability,
) -> Result<(), Fault> {
    if forms.is_empty() {
        let base = instruction.opcode.split('.').next().unwrap_or("");
        return Err(Fault::UnknownInstruction {
            opcode: instruction.opcode.to_string(),
            spellings: instructions::spellings(base),
        });
    }
    let fitting: Vec<_> =
        forms.iter().filter(|(_, signature)| fits(kernel, instruction, signature)).collect();
    if fitting.is_empty() {
        let mut expected: Vec<String> = forms.iter().map(|(_, signature)| format!("`{signature}`")).collect();
        expected.dedup();
        let found = describe(kernel, instruction);
        return Err(Fault::WrongOperands { opcode: instruction.opcode.to_string(), expected, found });
    }
    let exists = |form: &Form| exists_on(form, &instruction.opcode, capability.target);
    if fitting.iter().any(|(form, _)| exists(form)) {
        return Ok(());
    }
    let has_others = forms.iter().any(|(form, _)| exists(form));
    Err(Fault::NotOnTarget {
        instruction: named(instruction, has_others),
        target: capability.target,
        availability: fitting[0].0.availability(&instruction.opcode).targets(),
    })
}

/// The name of an instruction, with what distinguishes its form: the size of a vector, and the number
/// of operands where the target has the name with others.
fn named(instruction: &Instruction, has_others: bool) -> String {
    let opcode = &instruction.opcode;
    match access::vector_bytes(opcode) {
        Some(bytes) => format!("`{opcode}`, an access of {bytes} bytes,"),
        None if has_others => {
            format!("`{opcode}` of {} operands", instruction.operands.len() - instruction.destinations)
        }
        None => format!("`{opcode}`"),
    }
}

/// Whether a target has a form. The module declares the PTX version that it needs.
fn exists_on(form: &Form, opcode: &str, target: &str) -> bool {
    let availability = form.availability(opcode);
    availability.until.is_none() && availability.exists_on(availability.since.ptx_version, target)
}

/// The row of the table that an instruction of `kernel` is, if it is one on `target`.
pub(crate) fn form_of(kernel: &Kernel, instruction: &Instruction, target: &str) -> Option<&'static Form> {
    let forms = instructions::forms_of(&instruction.opcode).into_iter();
    let mut fitting = forms.filter(|(form, signature)| {
        exists_on(form, &instruction.opcode, target) && fits(kernel, instruction, signature)
    });
    fitting.next().map(|(form, _)| form)
}

fn fits(kernel: &Kernel, instruction: &Instruction, signature: &Signature) -> bool {
    let given = &instruction.operands;
    instruction.destinations == signature.destinations
        && (signature.required..=signature.operands.len()).contains(&given.len())
        && given.iter().zip(&signature.operands).all(|(operand, slot)| fits_slot(kernel, operand, slot))
}

fn fits_slot(kernel: &Kernel, operand: &Operand, slot: &Slot) -> bool {
    match (slot, operand) {
        (Slot::Scalar(scalar), operand) => fits_scalar(kernel, operand, scalar),
        (Slot::Pair { first, second, .. }, Operand::Pair(a, b)) => {
            fits_register(kernel, *a, first) && fits_register(kernel, *b, second)
        }
        (Slot::Pair { first, optional, .. }, operand) => *optional && fits_scalar(kernel, operand, first),
        (Slot::Vector { element, count }, Operand::Vector(elements)) => {
            elements.len() == *count
                && elements.iter().all(|operand| fits_scalar(kernel, operand, element))
                && same_class(kernel, elements)
        }
        (Slot::Vector { element, count: 1 }, operand) => fits_scalar(kernel, operand, element),
        (Slot::Address(address), Operand::Address { base, rest, .. }) => {
            let base_fits = match &**base {
                Operand::Register(register) => match class(kernel, *register) {
                    Some(RegisterClass::B64) => address.width != AddressWidth::Narrow,
                    Some(RegisterClass::B32) => address.width != AddressWidth::Wide,
                    _ => false,
                },
                Operand::Symbol(_) | Operand::Integer(_) => true,
                _ => false,
            };
            base_fits && fits_coordinates(kernel, rest, address.coordinates)
        }
        (Slot::Literal, Operand::Integer(_)) => true,
        (Slot::Symbol, Operand::Symbol(_) | Operand::Special(_)) => true,
        (Slot::Sink, Operand::Sink) => true,
        _ => false,
    }
}

fn class(kernel: &Kernel, register: Register) -> Option<RegisterClass> {
    kernel.registers.get(register.0 as usize).copied()
}

fn fits_coordinates(kernel: &Kernel, rest: &[Operand], count: usize) -> bool {
    let coordinate =
        Scalar { bits: 32, kind: Kind::Bits, or_wider: false, literal: true, negatable: false, sink: false };
    match rest {
        [] => count == 0,
        [Operand::Vector(coordinates)] => {
            coordinates.len() == count
                && coordinates.iter().all(|operand| fits_scalar(kernel, operand, &coordinate))
        }
        _ => false,
    }
}

/// A vector's registers are all as wide as each other.
fn same_class(kernel: &Kernel, elements: &[Operand]) -> bool {
    let mut classes = elements.iter().filter_map(|operand| match operand {
        Operand::Register(register) => class(kernel, *register),
        _ => None,
    });
    let first = classes.next();
    classes.all(|class| Some(class) == first)
}

fn fits_scalar(kernel: &Kernel, operand: &Operand, scalar: &Scalar) -> bool {
    match operand {
        Operand::Register(register) => fits_register(kernel, *register, scalar),
        Operand::Not(register) => scalar.negatable && fits_register(kernel, *register, scalar),
        Operand::Integer(value) => {
            scalar.literal && scalar.kind != Kind::Float && fits_bits(*value, scalar.bits)
        }
        Operand::F32(_) => scalar.literal && scalar.bits == 32,
        Operand::F64(_) => scalar.literal && (scalar.bits == 64 || scalar.kind == Kind::Float),
        Operand::Sink => scalar.sink,
        _ => false,
    }
}

/// Whether `bits` hold a literal, be it meant signed or unsigned: PTX would cut it off without a
/// word.
fn fits_bits(value: i128, bits: u32) -> bool {
    (-(1i128 << (bits - 1))..1i128 << bits).contains(&value)
}

fn fits_register(kernel: &Kernel, register: Register, scalar: &Scalar) -> bool {
    let Some(bits) = class(kernel, register).map(RegisterClass::bits) else { return false };
    bits == scalar.bits || (scalar.or_wider && scalar.bits > 1 && (scalar.bits..=64).contains(&bits))
}

/// The operands an instruction was given, as the table writes them.
fn describe(kernel: &Kernel, instruction: &Instruction) -> String {
    let spelled: Vec<String> = instruction.operands.iter().map(|operand| spelling(kernel, operand)).collect();
    let (written, read) = spelled.split_at(instruction.destinations.min(spelled.len()));
    let equals = if written.is_empty() { "" } else { " = " };
    format!("`{}{equals}{}`", written.join(", "), read.join(", "))
}

fn spelling(kernel: &Kernel, operand: &Operand) -> String {
    let class = |register: &Register| match class(kernel, *register) {
        Some(RegisterClass::Predicate) => "pred".to_owned(),
        Some(class) => format!("b{}", class.bits()),
        None => "?".to_owned(),
    };
    match operand {
        Operand::Register(register) => class(register),
        Operand::Integer(value) => value.to_string(),
        Operand::F32(bits) => format!("{:?}", f32::from_bits(*bits)),
        Operand::F64(bits) => format!("{:?}", f64::from_bits(*bits)),
        Operand::Special(name) => name.to_string(),
        Operand::Symbol(name) => name.clone(),
        Operand::Address { base, rest, .. } => {
            let parts: Vec<String> =
                std::iter::once(&**base).chain(rest).map(|part| spelling(kernel, part)).collect();
            format!("[{}]", parts.join(", "))
        }
        Operand::Vector(elements) => match elements.first() {
            Some(first) => format!("{{{}*{}}}", spelling(kernel, first), elements.len()),
            None => "{}".to_owned(),
        },
        Operand::Not(register) => format!("!{}", class(register)),
        Operand::Pair(first, second) => format!("{}|{}", class(first), class(second)),
        Operand::Sink => "_".to_owned(),
    }
}
