//! Whether an operand is what a row of the instruction table has in its place.

use warpwright_arch::SpecialRegister;
use warpwright_arch::instructions::{Address as AddressForm, AddressWidth, Kind, Operand as Form, Scalar};

use super::names::{Meaning, Names};
use super::space::Space;
use crate::syntax::{Address, AddressBase, Number, Opcode, Operand, StateSpace, Type};

/// Where an operand stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) opcode: &'a Opcode,
    /// The addresses before it.
    pub(super) address: usize,
    pub(super) is_destination: bool,
}

impl Names<'_, '_> {
    /// Compares an operand with its form.
    pub(super) fn fits(&self, operand: &Operand, form: &Form, place: Place<'_>) -> Result<(), String> {
        match (form, operand) {
            // Compilers write a vector of one element for a scalar.
            (Form::Scalar(scalar), Operand::Vector(elements)) if elements.len() == 1 => {
                self.element(&elements[0], scalar, place)
            }
            (Form::Scalar(scalar), operand) => self.scalar(operand, scalar, place),
            (Form::Pair { first, second, .. }, Operand::Pair(a, b)) => {
                // `_` ignores one of two results.
                let result = |operand: &Operand, scalar| match operand {
                    Operand::Sink if place.is_destination => Ok(()),
                    operand => self.scalar(operand, scalar, place),
                };
                result(a, first)?;
                result(b, second)
            }
            (Form::Pair { first, optional: true, .. }, operand) => self.scalar(operand, first, place),
            (Form::Pair { .. }, operand) => Err(format!("`{operand}` is not a pair `a|b`.")),
            (Form::Vector { element, count }, Operand::Vector(elements)) => {
                if elements.len() != *count {
                    return Err(format!(
                        "The vector `{operand}` has {} elements, not {count}.",
                        elements.len()
                    ));
                }
                elements.iter().try_for_each(|own| self.element(own, element, place))?;
                self.alike(elements, element, place.opcode)
            }
            // A special register such as `%tid`.
            (Form::Vector { count: 4, .. }, Operand::Name(name))
                if self.meaning(name).is_none()
                    && SpecialRegister::named(name).is_some_and(|special| special.is_vector)
                    && place.opcode.base() == "mov"
                    && !place.is_destination =>
            {
                Ok(())
            }
            (Form::Vector { element, count }, Operand::Name(name)) => match self.meaning(name) {
                Some(Meaning::VectorRegister(ty, own)) if own as usize == *count => {
                    width_fits(ty, element).then_some(()).ok_or_else(|| wrong_register(name, ty, element))
                }
                _ => Err(format!("`{name}` is not a vector of {count} registers.")),
            },
            (Form::Vector { count, .. }, operand) => {
                Err(format!("`{operand}` is not a vector of {count} registers, `{{a, b}}`."))
            }
            (Form::Address(form), Operand::Address(address)) => self.address(address, form, place),
            (Form::Address(_), operand) => {
                Err(format!("`{operand}` is not an address: write `[{operand}]`."))
            }
            (Form::Literal, Operand::Number(Number::Integer(_))) => Ok(()),
            (Form::Literal, operand) => Err(format!("`{operand}` is not an integer literal.")),
            (Form::Symbol, Operand::Name(name) | Operand::Offset(name, _)) => match self.meaning(name) {
                Some(Meaning::Function(_)) => Ok(()),
                Some(Meaning::Variable(space)) => address_of(name, space, place),
                None if SpecialRegister::named(name).is_some() => special_fits(name, bits_of(place.opcode)),
                _ => Err(format!("`{name}` is neither a variable nor a special register.")),
            },
            (Form::Symbol, operand) => Err(format!("`{operand}` is not a variable.")),
            (Form::Sink, Operand::Sink) => Ok(()),
            (Form::Sink, operand) => Err(format!("`{operand}` is not `_`, which this form requires here.")),
        }
    }

    fn scalar(&self, operand: &Operand, form: &Scalar, place: Place<'_>) -> Result<(), String> {
        match operand {
            Operand::Name(name) => self.named(name, form, place),
            Operand::Offset(name, _) if !place.is_destination => match self.meaning(name) {
                Some(Meaning::Variable(space)) if matches!(form.kind, Kind::Integer | Kind::Bits) => {
                    address_of(name, space, place)
                }
                Some(Meaning::Variable(_)) => {
                    Err(format!("`{operand}` is an address, not {}.", expected(form)))
                }
                _ => self.named(name, form, place),
            },
            Operand::Number(_) if place.is_destination => {
                Err(format!("`{operand}` is a literal, and the result needs a register."))
            }
            Operand::Number(number) if literal_fits(*number, form) => Ok(()),
            Operand::Number(_) => Err(format!("`{operand}` is not {}.", expected(form))),
            Operand::Not(name) if form.kind == Kind::Predicate && !place.is_destination => {
                self.named(name, form, place)
            }
            Operand::Sink if form.sink => Ok(()),
            Operand::Sink if place.is_destination && matches!(place.opcode.base(), "setp" | "lop3") => Ok(()),
            operand => Err(format!("`{operand}` is not {}.", expected(form))),
        }
    }

    fn named(&self, name: &str, form: &Scalar, place: Place<'_>) -> Result<(), String> {
        let base = place.opcode.base();
        match self.meaning(name) {
            Some(Meaning::Register(ty)) if register_fits(ty, form) => Ok(()),
            // `cvt` takes wider registers of bit types also for floating-point values.
            Some(Meaning::Register(ty))
                if base == "cvt" && class(ty) == Class::Bits && ty.bytes() * 8 > form.bits =>
            {
                Ok(())
            }
            Some(Meaning::Register(ty)) => Err(wrong_register(name, ty, form)),
            Some(Meaning::Function(_)) if !place.is_destination => Ok(()),
            Some(Meaning::Variable(space))
                if matches!(base, "mov" | "cvta" | "mapa")
                    && form.kind != Kind::Float
                    && !place.is_destination =>
            {
                address_of(name, space, place)
            }
            Some(Meaning::Variable(_)) if !place.is_destination => {
                Err(format!("`{name}` is a variable: move its address to a register with `mov` first."))
            }
            Some(other) => Err(format!("`{name}` is {}, not {}.", other.describe(), expected(form))),
            None => self.special(name, form, place),
        }
    }

    fn special(&self, name: &str, form: &Scalar, place: Place<'_>) -> Result<(), String> {
        let Some(special) = SpecialRegister::named(name) else { return Ok(()) };
        if place.is_destination {
            return Err(format!("`{name}` is a special register, which can only be read."));
        }
        if special.is_vector {
            return Err(format!("`{name}` is a vector: name a component, `{name}.x`."));
        }
        match place.opcode.base() {
            "cvt" => Ok(()),
            "mov" => special_fits(name, form.bits),
            _ => Err(format!("`{name}` is a special register: move it to a register with `mov` first.")),
        }
    }

    /// An element of a vector, whose register may be of any type of its width.
    fn element(&self, operand: &Operand, form: &Scalar, place: Place<'_>) -> Result<(), String> {
        match operand {
            // The accumulators of `wgmma` are read, too.
            Operand::Sink if place.is_destination && place.opcode.base() != "wgmma" => Ok(()),
            Operand::Number(_) if !place.is_destination => Ok(()),
            Operand::Name(name) => match self.meaning(name) {
                Some(Meaning::Register(ty)) if width_fits(ty, form) => Ok(()),
                Some(Meaning::Register(ty)) => Err(wrong_register(name, ty, form)),
                Some(other) => Err(format!("`{name}` is {}, not {}.", other.describe(), expected(form))),
                None => Ok(()),
            },
            Operand::Offset(..) if !place.is_destination => Ok(()),
            operand => Err(format!("`{operand}` is not {}.", expected(form))),
        }
    }

    /// Refuses a vector whose registers are of two widths, or of integers and of floating-point values, or
    /// all of another class than its elements. Registers of bit types stand beside any.
    fn alike(&self, elements: &[Operand], form: &Scalar, opcode: &Opcode) -> Result<(), String> {
        let registers: Vec<(&str, Type)> = elements
            .iter()
            .filter_map(|element| match element {
                Operand::Name(name) => match self.meaning(name)? {
                    Meaning::Register(ty) => Some((name.as_str(), ty)),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        let Some(first) = registers.first() else { return Ok(()) };
        let of = |wanted: Class| registers.iter().find(|(_, ty)| class(*ty) == wanted);
        let wider = registers.iter().find(|own| own.1.bytes() != first.1.bytes());
        let mixed = of(Class::Float).zip(of(Class::Integer)).or(wider.map(|other| (first, other)));
        if let Some((a, b)) = mixed {
            return Err(format!(
                "`{}` is a .{} register and `{}` a .{} register: those of a vector have one width, and are all \
                 integers or all floating-point.",
                a.0,
                a.1.word(),
                b.0,
                b.1.word()
            ));
        }
        let is_matrix = matches!(opcode.base(), "mma" | "wmma" | "wgmma");
        let wrong = match form.kind {
            Kind::Integer => Class::Float,
            Kind::Bits if is_matrix => Class::Float,
            Kind::Float if is_matrix && form.bits == 32 => Class::Integer,
            _ => return Ok(()),
        };
        if registers.iter().all(|(_, ty)| class(*ty) == wrong) {
            return Err(wrong_register(first.0, first.1, form));
        }
        Ok(())
    }

    fn address(&self, address: &Address, form: &AddressForm, place: Place<'_>) -> Result<(), String> {
        let coordinates = match address.rest.as_slice() {
            [] => 0,
            [Operand::Vector(elements)] => elements.len(),
            [_] => 1,
            _ => return Err("The address has more than a base and coordinates.".to_owned()),
        };
        if coordinates != form.coordinates {
            return Err(format!("The address has {coordinates} coordinates, not {}.", form.coordinates));
        }
        let space = Space::of(place.opcode, place.address);
        let is_store = place.opcode.base() == "st";
        let name = match &address.base {
            AddressBase::Name(name) => name,
            AddressBase::Absolute(_) if space == Space::Named(StateSpace::Local) => return Ok(()),
            AddressBase::Absolute(_) => {
                return Err("A number is an address in .local only: move it to a register with `mov` first."
                    .to_owned());
            }
        };
        match self.meaning(name) {
            Some(Meaning::Register(ty)) => {
                let is_integer = !matches!(class(ty), Class::Predicate | Class::Float) && ty != Type::B128;
                // The registers of coordinates' bases are of any type.
                match form.width {
                    _ if form.coordinates > 0 => Ok(()),
                    AddressWidth::Narrow if ty.bytes() != 4 => Err(format!(
                        "`{name}` is a .{} register; an address of tensor memory has 32 bits.",
                        ty.word()
                    )),
                    _ if is_integer && ty.bytes() < 8 && space.is_wide(place.opcode.base()) => Err(format!(
                        "`{name}` is a .{} register; an address of .global and a generic address have 64 bits.",
                        ty.word()
                    )),
                    _ if is_integer => Ok(()),
                    _ => Err(format!(
                        "`{name}` is a .{} register; an address is a register of an integer or bit type.",
                        ty.word()
                    )),
                }
            }
            Some(Meaning::Variable(StateSpace::Parameter)) if is_store && self.is_formal(name) => {
                Err(format!("`{name}` is a parameter of the function, which can only be read."))
            }
            Some(Meaning::Variable(own)) => space.check(name, own),
            Some(other) => Err(format!("`{name}` is {}, not an address.", other.describe())),
            None if SpecialRegister::named(name).is_some() => {
                Err(format!("`{name}` is a special register: move it to a register with `mov` first."))
            }
            None => Ok(()),
        }
    }
}

/// The width of the last type that an opcode names.
fn bits_of(opcode: &Opcode) -> u32 {
    opcode.modifiers().filter_map(Type::from_word).last().map_or(32, |ty| ty.bytes() * 8)
}

/// Refuses the address of a variable as a value where the instruction takes none of its space.
fn address_of(name: &str, space: StateSpace, place: Place<'_>) -> Result<(), String> {
    match place.opcode.base() {
        "cvta" if place.opcode.has("to") => {
            Err(format!("`{name}` is a variable: `cvta.to` takes a register with a generic address."))
        }
        "cvta" | "mapa" => match Space::of(place.opcode, place.address) {
            Space::Generic if space != StateSpace::Shared => {
                Err(format!("`{name}` is in .{}, and `mapa` takes an address of .shared.", space.word()))
            }
            own => own.check(name, space),
        },
        "mov" if space == StateSpace::Global && bits_of(place.opcode) == 32 => Err(format!(
            "`{name}` is in .global, whose addresses have 64 bits: write `mov.u64` and a register of 64 bits."
        )),
        _ => Ok(()),
    }
}

/// Whether `mov` of a width reads a special register; one of 16 bits reads those of 32, as ptxas takes
/// it.
fn special_fits(name: &str, bits: u32) -> Result<(), String> {
    match SpecialRegister::named(name) {
        Some(special) if special.is_vector => {
            Err(format!("`{name}` is a vector: name a component, `{name}.x`."))
        }
        // `%gridid` had 32 bits before PTX 3.0.
        Some(_) if name == "%gridid" && bits == 32 => Ok(()),
        Some(special) if special.bits != bits && !(bits == 16 && special.bits == 32) => {
            Err(format!("`{name}` has {} bits, not {bits}.", special.bits))
        }
        _ => Ok(()),
    }
}

/// What registers of a type hold.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Class {
    Predicate,
    Bits,
    Integer,
    Float,
    HalfPair,
}

pub(super) fn class(ty: Type) -> Class {
    match ty {
        Type::Pred => Class::Predicate,
        Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::B128 => Class::Bits,
        Type::F16x2 => Class::HalfPair,
        Type::F16 | Type::Bf16 | Type::F32 | Type::F64 => Class::Float,
        _ => Class::Integer,
    }
}

/// Whether a register of a type has the width of a form.
fn width_fits(ty: Type, form: &Scalar) -> bool {
    let bits = if ty == Type::Pred { 1 } else { ty.bytes() * 8 };
    bits == form.bits || form.or_wider && bits > form.bits
}

/// Whether a register of a type is what a form takes: PTX ISA, "Operand Type Checking" and "Operand
/// Size Exceeding Instruction-Type Size"; ptxas 13.0 also takes `.f16x2` registers for integers.
fn register_fits(ty: Type, form: &Scalar) -> bool {
    let is_exact = ty.bytes() * 8 == form.bits;
    let class = class(ty);
    let has_class = match form.kind {
        Kind::Predicate => return class == Class::Predicate,
        Kind::Bits => class != Class::Predicate,
        Kind::Integer => matches!(class, Class::Bits | Class::Integer | Class::HalfPair),
        Kind::Float => class == Class::Bits || class == Class::Float && is_exact,
        Kind::HalfPair => matches!(class, Class::Bits | Class::HalfPair),
        Kind::Packed => class == Class::Bits,
    };
    has_class && width_fits(ty, form)
}

fn literal_fits(number: Number, form: &Scalar) -> bool {
    match (number, form.kind) {
        (Number::Integer(_), Kind::Integer | Kind::Bits | Kind::Predicate) => true,
        (Number::F32(_) | Number::F64(_), Kind::Float) => form.bits > 16,
        (Number::F32(_), Kind::Bits) => form.bits == 32,
        (Number::F64(_), Kind::Bits) => form.bits == 64,
        _ => false,
    }
}

fn wrong_register(name: &str, ty: Type, form: &Scalar) -> String {
    format!("`{name}` is a .{} register, not {}.", ty.word(), expected(form))
}

/// What a form takes, for messages: `a register of type .u32, .s32 or .b32`.
fn expected(form: &Scalar) -> String {
    let bits = form.bits;
    let types = match form.kind {
        Kind::Predicate => return "a predicate".to_owned(),
        Kind::Bits => format!("of {bits} bits"),
        Kind::Integer => format!("of type .u{bits}, .s{bits} or .b{bits}"),
        Kind::Float => format!("of type .f{bits} or .b{bits}"),
        Kind::HalfPair => "of type .f16x2 or .b32".to_owned(),
        Kind::Packed => format!("of type .b{bits}"),
    };
    let wider = if form.or_wider { " or wider" } else { "" };
    let literal = match (form.literal, form.kind) {
        (true, Kind::Float) => ", or a floating-point literal such as 0f3F800000",
        (true, _) => ", or an integer literal",
        _ => "",
    };
    format!("a register {types}{wider}{literal}")
}
