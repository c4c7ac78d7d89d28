//! Operands: from text to register slots.

use warpwright_ptx::syntax::{Address, AddressBase, Number, Operand, Type};

use super::decoder::FunctionDecoder;
use super::error::DecodeError;
use super::implicit::{frame_address, read_clock};
use super::names::{File, Register, Symbol};
use super::row::Row;
use super::variables::number_bits;
use crate::kernel::image::{PreloadPlace, PreloadValue};
use crate::kernel::special::Special;
use crate::lanes::{Operands, one};
use crate::memory::{AddressOperand, BaseOperand, Space, function_address};
use crate::operation::kind::Kind;
use crate::registers::Slot;

impl FunctionDecoder<'_, '_> {
    /// The slot of a destination of the row's type, by position.
    pub(crate) fn destination_at(&mut self, i: &Row<'_>, index: usize) -> Result<Slot, DecodeError> {
        self.destination(i.operand(index)?, i.operand_type(index).unwrap_or(Type::B32))
    }

    /// The slot of a source of the row's type, by position.
    pub(crate) fn source_at(&mut self, i: &Row<'_>, index: usize) -> Result<Slot, DecodeError> {
        self.source(i.operand(index)?, i.operand_type(index).unwrap_or(Type::B32))
    }

    /// The slots of a vector of destinations, or of one.
    pub(crate) fn destinations_at(&mut self, i: &Row<'_>, index: usize) -> Result<Vec<Slot>, DecodeError> {
        let ty = i.operand_type(index).unwrap_or(Type::B32);
        elements(i.operand(index)?).iter().map(|element| self.destination(element, ty)).collect()
    }

    /// The slots of a vector of sources, or of one.
    pub(crate) fn sources_at(&mut self, i: &Row<'_>, index: usize) -> Result<Vec<Slot>, DecodeError> {
        let ty = i.operand_type(index).unwrap_or(Type::B32);
        elements(i.operand(index)?).iter().map(|element| self.source(element, ty)).collect()
    }

    /// A memory operand, by position.
    pub(crate) fn memory_at(&mut self, i: &Row<'_>, index: usize) -> Result<AddressOperand, DecodeError> {
        self.memory(i.operand(index)?)
    }

    /// The register an operand names.
    pub(crate) fn register(&mut self, operand: &Operand) -> Result<Register, DecodeError> {
        let Operand::Name(name) = operand else {
            return Err(DecodeError::new(format!("`{operand}` is not a register.")));
        };
        match self.symbol(name)? {
            Symbol::Register(register) => Ok(register),
            _ => Err(DecodeError::new(format!("`{name}` is not a register."))),
        }
    }

    /// The slot of a destination of a type. `_` is a slot that is never read.
    pub(crate) fn destination(&mut self, operand: &Operand, ty: Type) -> Result<Slot, DecodeError> {
        if *operand == Operand::Sink {
            return Ok(self.scratch(File::of(ty)));
        }
        if let Operand::Vector(elements) = operand
            && let [only] = &elements[..]
        {
            return self.destination(only, ty);
        }
        let register = self.register(operand)?;
        check_file(operand, register, ty)?;
        self.note_use(register, true);
        Ok(register.slot)
    }

    /// A destination register of any width.
    pub(crate) fn wide_destination(&mut self, operand: &Operand) -> Result<Register, DecodeError> {
        let register = self.register(operand)?;
        self.note_use(register, true);
        Ok(register)
    }

    /// The slot of a source of a type: a register, or a column with the constant.
    pub(crate) fn source(&mut self, operand: &Operand, ty: Type) -> Result<Slot, DecodeError> {
        match operand {
            Operand::Number(number) => self.constant(*number, ty),
            Operand::Name(_) | Operand::Offset(..) => {
                let register = self.value(operand, ty)?;
                check_file(operand, register, ty)?;
                self.note_use(register, false);
                Ok(register.slot)
            }
            Operand::Not(name) if ty == Type::Pred => {
                let plain = self.source(&Operand::Name(name.clone()), ty)?;
                let operands = Operands { d: self.scratch(File::Predicate), a: plain, ..Operands::default() };
                self.lanes(operands, one(|a: bool| !a))?;
                Ok(operands.d)
            }
            // Compilers write a vector of one element for a scalar.
            Operand::Vector(elements) if elements.len() == 1 => self.source(&elements[0], ty),
            _ => Err(DecodeError::new(format!("`{operand}` is not a value of type .{}.", ty.word()))),
        }
    }

    /// A source register of any width, or a constant of the type.
    pub(crate) fn wide_source(&mut self, operand: &Operand, ty: Type) -> Result<Register, DecodeError> {
        match operand {
            Operand::Number(number) => {
                Ok(Register { file: File::of(ty), slot: self.constant(*number, ty)?, ty })
            }
            Operand::Name(_) | Operand::Offset(..) => {
                let register = self.value(operand, ty)?;
                self.note_use(register, false);
                Ok(register)
            }
            _ => Err(DecodeError::new(format!("`{operand}` is not a value."))),
        }
    }

    /// A column that holds a literal.
    pub(crate) fn constant(&mut self, number: Number, ty: Type) -> Result<Slot, DecodeError> {
        let bits = number_bits(number, ty)?;
        Ok(self.bits(bits, File::of(ty)))
    }

    /// A column of a file that holds the same bits in every lane.
    pub(crate) fn bits(&mut self, bits: u64, file: File) -> Slot {
        self.preloaded(PreloadValue::Bits(bits), file)
    }

    /// A register, or a register-like value: a special register, or the address of something.
    fn value(&mut self, operand: &Operand, ty: Type) -> Result<Register, DecodeError> {
        let (name, offset) = match operand {
            Operand::Name(name) => (name, 0),
            Operand::Offset(name, offset) => (name, *offset),
            _ => return Err(DecodeError::new(format!("`{operand}` is not a value."))),
        };
        let file = File::of(ty);
        let constant = |slot| Ok(Register { file, slot, ty });
        if let Some(half) = self.grid_workspace(name) {
            return constant(self.bits(half, file));
        }
        if let Some(special) = Special::named(name).filter(|_| offset == 0) {
            return Ok(self.special(special, ty));
        }
        match self.symbol(name)? {
            Symbol::Register(register) if offset == 0 => Ok(register),
            Symbol::Register(register) => self.sum(register, offset),
            Symbol::Shared(start) => {
                constant(self.preloaded(PreloadValue::Shared(i64::from(start).wrapping_add(offset)), file))
            }
            Symbol::DynamicShared => constant(self.preloaded(PreloadValue::DynamicShared(offset), file)),
            Symbol::Global(address) => constant(self.bits(address.wrapping_add_signed(offset), file)),
            Symbol::KernelParameter { offset: start } => {
                constant(self.bits((i64::from(start).wrapping_add(offset)) as u64, file))
            }
            Symbol::Function(index) => {
                self.mention_function(index);
                constant(self.bits(function_address(index), file))
            }
            Symbol::Local { offset: start, .. } => {
                let slot = self.scratch(file);
                self.emit(Kind::Effect(frame_address(i64::from(start).wrapping_add(offset), file, slot)));
                constant(slot)
            }
            _ => Err(DecodeError::new(format!("`{name}` is not a value."))),
        }
    }

    /// A register plus a number, as integers of the register's width.
    fn sum(&mut self, register: Register, offset: i64) -> Result<Register, DecodeError> {
        let operands = Operands { d: self.scratch(register.file), a: register.slot, ..Operands::default() };
        self.note_use(register, false);
        match (register.file, register.ty) {
            (_, Type::F16 | Type::Bf16 | Type::F32 | Type::F64) => {
                // The assembler fails on such a sum unless nothing reads it.
                return Err(DecodeError::unsupported(
                    "The emulator adds a number to a register of integers or bits only.",
                ));
            }
            // Of the bits above a narrow register's width nothing is read.
            (File::Word, _) => self.lanes(operands, one(move |a: u32| a.wrapping_add(offset as u32))),
            (File::Long, _) => self.lanes(operands, one(move |a: u64| a.wrapping_add_signed(offset))),
            (File::Quad | File::Predicate, ty) => {
                return Err(DecodeError::new(format!(
                    "A number cannot be added to a .{} register.",
                    ty.word()
                )));
            }
        }?;
        Ok(Register { slot: operands.d, ..register })
    }

    fn special(&mut self, special: Special, ty: Type) -> Register {
        let file = File::of(ty);
        let slot = match special {
            Special::Constant(register) => self.preloaded(PreloadValue::Special(register), file),
            Special::Clock(clock) => {
                let slot = self.scratch(file);
                self.emit(Kind::Effect(read_clock(clock, file, slot)));
                slot
            }
        };
        Register { file, slot, ty }
    }

    /// A column that holds bytes of the kernel's parameters.
    pub(crate) fn parameter(&mut self, offset: u32, bytes: u32, signed: bool, file: File) -> Slot {
        self.preloaded(PreloadValue::Parameter { offset, bytes, signed }, file)
    }

    fn preloaded(&mut self, value: PreloadValue, file: File) -> Slot {
        if file == File::Quad {
            let low = self.scratch(File::Quad);
            self.preload(PreloadPlace::Long(low), value);
            self.preload(PreloadPlace::Long(low + 1), PreloadValue::Bits(0));
            return low;
        }
        if let Some(slot) = self.constants.get(&(file, value)) {
            return *slot;
        }
        let slot = self.scratch(file);
        let place = match file {
            File::Word => PreloadPlace::Word(slot),
            File::Long | File::Quad => PreloadPlace::Long(slot),
            File::Predicate => PreloadPlace::Predicate(slot),
        };
        self.preload(place, value);
        self.constants.insert((file, value), slot);
        slot
    }

    /// A predicate source: its slot, and whether it is negated.
    pub(crate) fn predicate(&mut self, operand: &Operand) -> Result<(Slot, bool), DecodeError> {
        match operand {
            Operand::Not(name) => Ok((self.source(&Operand::Name(name.clone()), Type::Pred)?, true)),
            _ => Ok((self.source(operand, Type::Pred)?, false)),
        }
    }

    /// The address inside brackets.
    pub(crate) fn address<'o>(&self, operand: &'o Operand) -> Result<&'o Address, DecodeError> {
        match operand {
            Operand::Address(address) => Ok(address),
            _ => Err(DecodeError::new(format!("`{operand}` is not an address in brackets."))),
        }
    }

    /// A memory operand.
    pub(crate) fn memory(&mut self, operand: &Operand) -> Result<AddressOperand, DecodeError> {
        let address = self.address(operand)?;
        self.memory_base(&address.base, address.offset)
    }

    fn memory_base(&mut self, base: &AddressBase, offset: i64) -> Result<AddressOperand, DecodeError> {
        let at = |base, offset, space| Ok(AddressOperand { base, offset, space });
        let name = match base {
            AddressBase::Absolute(address) => {
                return at(BaseOperand::Absolute, address.wrapping_add(offset), None);
            }
            AddressBase::Name(name) => name,
        };
        match self.symbol(name)? {
            Symbol::Register(register) => match register.file {
                File::Word => at(BaseOperand::Word(register.slot), offset, None),
                File::Long => at(BaseOperand::Long(register.slot), offset, None),
                _ => Err(DecodeError::new(format!("`{name}` cannot hold an address."))),
            },
            Symbol::Shared(start) => {
                at(BaseOperand::Shared, i64::from(start).wrapping_add(offset), Some(Space::Shared))
            }
            Symbol::DynamicShared => {
                let slot = self.preloaded(PreloadValue::DynamicShared(0), File::Long);
                at(BaseOperand::Long(slot), offset, Some(Space::Shared))
            }
            Symbol::Local { offset: start, .. } => {
                at(BaseOperand::Frame, i64::from(start).wrapping_add(offset), Some(Space::Local))
            }
            Symbol::KernelParameter { offset: start } => {
                at(BaseOperand::Absolute, i64::from(start).wrapping_add(offset), Some(Space::Parameter))
            }
            Symbol::Global(address) => {
                at(BaseOperand::Absolute, (address as i64).wrapping_add(offset), Some(Space::Global))
            }
            _ => Err(DecodeError::new(format!("`{name}` has no address."))),
        }
    }
}

/// The elements of a vector operand; a lone operand is a vector of one.
pub(crate) fn elements(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(elements) => elements,
        other => std::slice::from_ref(other),
    }
}

fn check_file(operand: &Operand, register: Register, ty: Type) -> Result<(), DecodeError> {
    if register.file == File::of(ty) {
        return Ok(());
    }
    Err(DecodeError::new(format!(
        "`{operand}` is a .{} register, and the instruction's type there is .{}.",
        register.ty.word(),
        ty.word()
    )))
}
