//! Variables: registers, memory, parameters, and the values they begin with.

use super::cursor::{Parsed, opens_word};
use super::{NUMBERED_LIMIT, Parser, VARIABLE_BYTES_LIMIT};
use crate::syntax::{Initializer, Linkage, PointerAttribute, StateSpace, Type, Variable};

/// `.ptr` without `.align` promises this much (PTX ISA, "Kernel Parameter Attribute: .ptr").
const DEFAULT_POINTER_ALIGN: u32 = 4;

impl Parser<'_> {
    /// A declaration, up to and with the `;`: one variable for each name. `expected` names what may
    /// stand in the place of the state space.
    pub(super) fn variables(&mut self, linkage: Linkage, expected: &str) -> Parsed<Vec<Variable>> {
        let common = self.variable_type(linkage, expected)?;
        let mut variables = Vec::new();
        loop {
            let name = self.cursor.expect_name("the name of a variable")?;
            variables.push(self.variable_name(name, common.clone())?);
            if self.cursor.take(b';') {
                return Ok(variables);
            }
            self.cursor.expect(b',', "or `;` after a declaration")?;
        }
    }

    /// A parenthesised list of formal parameters.
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Variable>> {
        self.cursor.expect(b'(', "before the parameters")?;
        let mut parameters = Vec::new();
        while !self.cursor.take(b')') {
            if !parameters.is_empty() {
                self.cursor.expect(b',', "or `)` after a parameter")?;
            }
            let common = self.variable_type(Linkage::Private, "`.param` or `.reg` before a parameter")?;
            // `_` is the name of one that is not used.
            let name = self.cursor.expect_word("the name of a parameter")?;
            let parameter = self.variable_name(name, common)?;
            if parameter.initializer.is_some() {
                return self.cursor.error("a parameter without an initial value");
            }
            parameters.push(parameter);
        }
        Ok(parameters)
    }

    /// State space, alignment, attributes, vector width and type; the name is left empty.
    fn variable_type(&mut self, linkage: Linkage, expected: &str) -> Parsed<Variable> {
        let mut variable = Variable {
            space: StateSpace::Register,
            linkage,
            align: None,
            vector: 1,
            ty: Type::B8,
            pointer: None,
            name: String::new(),
            numbered: None,
            dimensions: Vec::new(),
            attributes: Vec::new(),
            initializer: None,
            line: self.cursor.mark().line(),
        };
        self.qualifiers(&mut variable)?;
        let mark = self.cursor.mark();
        match self.cursor.directive().and_then(StateSpace::from_word) {
            Some(space) => variable.space = space,
            None => return self.cursor.error_at(mark, expected),
        }
        self.qualifiers(&mut variable)?;
        for (word, vector) in [("v2", 2), ("v4", 4), ("v8", 8)] {
            if self.cursor.take_directive(word) {
                variable.vector = vector;
            }
        }
        let mark = self.cursor.mark();
        match self.cursor.directive().and_then(Type::from_word) {
            Some(ty) => variable.ty = ty,
            None => return self.cursor.error_at(mark, "a type such as `.u32`, `.align` or `.v4`"),
        }
        if self.cursor.take_directive("ptr") {
            variable.pointer = Some(self.pointer_attribute()?);
        }
        Ok(variable)
    }

    /// `.align 8` and `.attribute(...)`, which stand before or after the state space.
    fn qualifiers(&mut self, variable: &mut Variable) -> Parsed<()> {
        loop {
            if self.cursor.take_directive("align") {
                variable.align = Some(self.alignment()?);
            } else if self.cursor.take_directive("attribute") {
                variable.attributes = self.attributes()?;
            } else {
                return Ok(());
            }
        }
    }

    fn pointer_attribute(&mut self) -> Parsed<PointerAttribute> {
        let mut pointer = PointerAttribute { space: None, align: DEFAULT_POINTER_ALIGN };
        let mark = self.cursor.mark();
        pointer.space = self.cursor.directive().and_then(StateSpace::from_word);
        if pointer.space.is_none() {
            self.cursor.return_to(mark);
        }
        if self.cursor.take_directive("align") {
            pointer.align = self.alignment()?;
        }
        Ok(pointer)
    }

    fn alignment(&mut self) -> Parsed<u32> {
        let mark = self.cursor.mark();
        match self.count("an alignment in bytes")? {
            alignment if alignment.is_power_of_two() => Ok(alignment),
            _ => self.cursor.error_at(mark, "an alignment in bytes, which is a power of two"),
        }
    }

    /// `(.managed, .unified(1, 2))`
    pub(super) fn attributes(&mut self) -> Parsed<Vec<String>> {
        self.cursor.expect(b'(', "after `.attribute`")?;
        let mut attributes = Vec::new();
        loop {
            let Some(word) = self.cursor.directive() else {
                return self.cursor.error("an attribute such as `.managed`");
            };
            let mut text = word.to_owned();
            if self.cursor.take(b'(') {
                let numbers = self.integers()?;
                let numbers: Vec<String> =
                    numbers.iter().map(|&number| (number as u64).to_string()).collect();
                self.cursor.expect(b')', "after the numbers of an attribute")?;
                text = format!("{text}({})", numbers.join(", "));
            }
            attributes.push(text);
            if self.cursor.take(b')') {
                return Ok(attributes);
            }
            self.cursor.expect(b',', "or `)` after an attribute")?;
        }
    }

    /// Integers separated by commas, at least one.
    pub(super) fn integers(&mut self) -> Parsed<Vec<i64>> {
        let mut integers = vec![self.integer("a whole number")?];
        while self.cursor.take(b',') {
            integers.push(self.integer("a whole number")?);
        }
        Ok(integers)
    }

    /// Name, numbering, dimensions and initial value, put into a copy of what the declaration has
    /// in common.
    fn variable_name(&mut self, name: &str, mut variable: Variable) -> Parsed<Variable> {
        variable.line = self.cursor.mark().line();
        variable.name = name.to_owned();
        if self.cursor.take(b'<') {
            let mark = self.cursor.mark();
            let count = self.count("how many registers are numbered")?;
            if count > NUMBERED_LIMIT {
                let expected = format!("how many registers are numbered, at most {NUMBERED_LIMIT}");
                return self.cursor.error_at(mark, expected);
            }
            variable.numbered = Some(count);
            self.cursor.expect(b'>', "after the count of registers")?;
        }
        let mut bytes = Some(u64::from(variable.ty.bytes().max(1) * variable.vector));
        while self.cursor.take(b'[') {
            let mark = self.cursor.mark();
            let dimension = if self.cursor.peek() == b']' { None } else { Some(self.dimension()?) };
            bytes = bytes.and_then(|bytes| bytes.checked_mul(dimension.unwrap_or(1).max(1)));
            if bytes.is_none_or(|bytes| bytes > VARIABLE_BYTES_LIMIT) {
                let expected = format!("an array of at most {VARIABLE_BYTES_LIMIT} bytes");
                return self.cursor.error_at(mark, expected);
            }
            variable.dimensions.push(dimension);
            self.cursor.expect(b']', "after a dimension")?;
        }
        if self.cursor.take(b'=') {
            let is_group = self.cursor.peek() == b'{';
            let is_opaque = matches!(variable.ty, Type::TexRef | Type::SamplerRef | Type::SurfRef);
            if is_group != (!variable.dimensions.is_empty() || variable.vector > 1 || is_opaque) {
                let expected =
                    if is_group { "a value without `{`, for a scalar" } else { "`{` before the values" };
                return self.cursor.error(expected);
            }
            variable.initializer =
                Some(if is_group { self.initializer_group()? } else { vec![self.initializer()?] });
        }
        if !variable.dimensions.is_empty() {
            self.arrays.push((variable.name.clone(), variable.ty.bytes() * variable.vector));
        }
        Ok(variable)
    }

    fn dimension(&mut self) -> Parsed<u64> {
        let mark = self.cursor.mark();
        match u64::try_from(self.integer("how many elements")?) {
            Ok(dimension) => Ok(dimension),
            Err(_) => self.cursor.error_at(mark, "how many elements, not a negative number"),
        }
    }

    fn initializer_group(&mut self) -> Parsed<Vec<Initializer>> {
        self.descend()?;
        self.cursor.expect(b'{', "")?;
        let mut elements = Vec::new();
        while !self.cursor.take(b'}') {
            if !elements.is_empty() {
                self.cursor.expect(b',', "or `}` after an initial value")?;
            }
            elements.push(self.initializer()?);
        }
        self.ascend();
        Ok(elements)
    }

    fn initializer(&mut self) -> Parsed<Initializer> {
        let byte = self.cursor.peek();
        if byte == b'{' {
            return Ok(Initializer::Group(self.initializer_group()?));
        }
        if opens_word(byte) && byte != b'W' {
            return self.symbol_address(None);
        }
        let mark = self.cursor.mark();
        if byte == b'W' {
            // `WARP_SZ` is a number; any other word with that letter is a symbol.
            let is_number = self.cursor.word() == Some("WARP_SZ");
            self.cursor.return_to(mark);
            if !is_number {
                return self.symbol_address(None);
            }
        }
        let number = self.constant()?;
        match number {
            crate::syntax::Number::Integer(mask) if self.cursor.take(b'(') => {
                let address = self.symbol_address(Some(mask as u64))?;
                self.cursor.expect(b')', "after the symbol under a mask")?;
                Ok(address)
            }
            _ => Ok(Initializer::Number(number)),
        }
    }

    /// `symbol`, `symbol+8`, `generic(symbol)+8`
    fn symbol_address(&mut self, mask: Option<u64>) -> Parsed<Initializer> {
        let mut symbol = self.cursor.expect_word("a symbol or `generic(symbol)`")?;
        let generic = symbol == "generic" && self.cursor.take(b'(');
        if generic {
            symbol = self.cursor.expect_word("a symbol")?;
            self.cursor.expect(b')', "after the symbol of `generic`")?;
        }
        let symbol = symbol.to_owned();
        let offset = if self.cursor.take(b'+') { self.integer("a whole number of bytes")? } else { 0 };
        Ok(Initializer::Address { symbol, offset, generic, mask })
    }
}
