//! Operands of instructions.

use super::Parser;
use super::cursor::{Mark, Parsed, opens_word};
use crate::syntax::{Address, AddressBase, Operand};

/// What the opcode says about how operands are written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OperandStyle {
    /// Parentheses group a constant expression.
    Plain,
    /// `call`: parentheses hold lists.
    Call,
    /// `array[3]` names memory rather than its address: loads, stores and their like.
    Memory,
}

impl Parser<'_> {
    pub(super) fn operands(&mut self, style: OperandStyle) -> Parsed<Vec<Operand>> {
        let mut operands = Vec::with_capacity(4);
        if self.cursor.peek() == b';' {
            return Ok(operands);
        }
        loop {
            operands.push(self.operand(style)?);
            if !self.cursor.take(b',') {
                return Ok(operands);
            }
        }
    }

    fn operand(&mut self, style: OperandStyle) -> Parsed<Operand> {
        let first = self.single_operand(style)?;
        if !self.cursor.take(b'|') {
            return Ok(first);
        }
        let second = match self.operand_name("a register or `_` after `|`")? {
            "_" => Operand::Sink,
            name => Operand::Name(name.to_owned()),
        };
        Ok(Operand::Pair(Box::new(first), Box::new(second)))
    }

    fn single_operand(&mut self, style: OperandStyle) -> Parsed<Operand> {
        match self.cursor.peek() {
            b'[' => Ok(Operand::Address(self.address()?)),
            b'{' => Ok(Operand::Vector(self.operand_group(b'{', b'}')?)),
            b'(' if style == OperandStyle::Call => Ok(Operand::List(self.operand_group(b'(', b')')?)),
            b'!' if opens_word(self.cursor.peek_at(1)) || self.cursor.peek_at(1) == b' ' => {
                self.cursor.take(b'!');
                Ok(Operand::Not(self.operand_name("a predicate after `!`")?.to_owned()))
            }
            byte if opens_word(byte) => self.named_operand(style),
            _ => Ok(Operand::Number(self.constant()?)),
        }
    }

    /// Operands between brackets of some kind, perhaps none.
    fn operand_group(&mut self, open: u8, close: u8) -> Parsed<Vec<Operand>> {
        self.descend()?;
        self.cursor.expect(open, "")?;
        let mut operands = Vec::new();
        while !self.cursor.take(close) {
            if !operands.is_empty() {
                self.cursor.expect(b',', "between operands")?;
            }
            operands.push(self.operand(OperandStyle::Plain)?);
        }
        self.ascend();
        Ok(operands)
    }

    /// A name with its component: `%tid.x`.
    fn operand_name(&mut self, what: &str) -> Parsed<&str> {
        let start = self.cursor.mark();
        match self.cursor.word_touching() {
            Some(_) => Ok(self.cursor.dotted_from(start)),
            None => self.cursor.error(what),
        }
    }

    fn named_operand(&mut self, style: OperandStyle) -> Parsed<Operand> {
        let start = self.cursor.mark();
        let name = self.operand_name("a name")?;
        let operand = match name {
            "_" => Operand::Sink,
            "WARP_SZ" => {
                self.cursor.return_to(start);
                return Ok(Operand::Number(self.constant()?));
            }
            name => Operand::Name(name.to_owned()),
        };
        match (self.cursor.peek(), operand) {
            (b'+', Operand::Name(name)) => Ok(Operand::Offset(name, self.offset()?)),
            (b'[', Operand::Name(name)) => {
                let offset = self.element_offset(&name, start)?;
                Ok(match style {
                    OperandStyle::Memory => {
                        Operand::Address(Address { base: AddressBase::Name(name), offset, rest: Vec::new() })
                    }
                    _ => Operand::Offset(name, offset),
                })
            }
            (_, operand) => Ok(operand),
        }
    }

    /// `+ expression` after a name. (PTX does not allow `-` here: compilers write `+-8`.)
    fn offset(&mut self) -> Parsed<i64> {
        self.cursor.expect(b'+', "before an offset")?;
        self.integer("a whole number of bytes")
    }

    /// `[3]` after the name of an array: the bytes before element 3.
    fn element_offset(&mut self, name: &str, at: Mark) -> Parsed<i64> {
        self.cursor.expect(b'[', "before an index")?;
        let index = self.integer("a whole number as the index")?;
        self.cursor.expect(b']', "after the index")?;
        match self.array_element_bytes(name) {
            Some(bytes) => Ok(index.wrapping_mul(i64::from(bytes))),
            None => self.cursor.error_at(at, "the name of an array declared above, since an index follows"),
        }
    }

    fn address(&mut self) -> Parsed<Address> {
        self.cursor.expect(b'[', "")?;
        let (base, offset) = if opens_word(self.cursor.peek()) {
            let name = self.operand_name("a register or a symbol")?.to_owned();
            let offset = if self.cursor.peek() == b'+' { self.offset()? } else { 0 };
            (AddressBase::Name(name), offset)
        } else {
            (AddressBase::Absolute(self.integer("an address: a register, a symbol or a whole number")?), 0)
        };
        let mut rest = Vec::new();
        while self.cursor.take(b',') {
            rest.push(self.operand(OperandStyle::Plain)?);
        }
        self.cursor.expect(b']', "to close the address")?;
        // `[address].unified` promises that an access does not vary over the warp's lanes. It
        // changes no result.
        self.cursor.take_directive("unified");
        Ok(Address { base, offset, rest })
    }
}
