//! A syntax tree as PTX text.
//!
//! What is printed parses back to the same tree, line numbers apart (see [`Module::erase_lines`]).

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use crate::syntax::{
    Address, AddressBase, Function, Initializer, Instruction, Linkage, MemoryObject, Module, Number, Operand,
    SourceLocation, Statement, Type, Variable,
};

/// The PTX text of a module.
///
/// # Example
/// ```
/// let module = warpwright_ptx::parse(".version 9.0 .target sm_80 .entry k() { mov.u32 %r1,(1<<3)+2; ret; }")?;
/// assert!(warpwright_ptx::print(&module).contains("    mov.u32 %r1, 10;\n"));
/// # Ok::<(), warpwright_ptx::ParseError>(())
/// ```
pub fn print(module: &Module) -> String {
    module.to_string()
}

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, ".version {}.{}", self.version.0, self.version.1)?;
        writeln!(f, ".target {}", self.target.join(", "))?;
        writeln!(f, ".address_size {}", self.address_size)?;
        for (number, path) in &self.files {
            writeln!(f, ".file {number} \"{path}\"")?;
        }
        for text in &self.pragmas {
            writeln!(f, ".pragma \"{text}\";")?;
        }
        for variable in &self.variables {
            writeln!(f, "{variable};{}", text_comment(variable).unwrap_or_default())?;
        }
        for function in &self.functions {
            write!(f, "\n{function}")?;
        }
        for (name, function) in &self.aliases {
            writeln!(f, ".alias {name}, {function};")?;
        }
        Ok(())
    }
}

impl Display for Linkage {
    /// The directive with a space after it, or nothing.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "",
            Self::Visible => ".visible ",
            Self::Extern => ".extern ",
            Self::Weak => ".weak ",
            Self::Common => ".common ",
        })
    }
}

impl Display for Variable {
    /// The declaration, without what separates it from the next.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.linkage, self.space.word())?;
        attributes(f, &self.attributes)?;
        if let Some(align) = self.align {
            write!(f, " .align {align}")?;
        }
        if self.vector > 1 {
            write!(f, " .v{}", self.vector)?;
        }
        write!(f, " .{}", self.ty.word())?;
        if let Some(pointer) = &self.pointer {
            f.write_str(" .ptr")?;
            if let Some(space) = pointer.space {
                write!(f, " .{}", space.word())?;
            }
            write!(f, " .align {}", pointer.align)?;
        }
        write!(f, " {}", self.name)?;
        if let Some(count) = self.numbered {
            write!(f, "<{count}>")?;
        }
        for dimension in &self.dimensions {
            match dimension {
                Some(length) => write!(f, "[{length}]")?,
                None => f.write_str("[]")?,
            }
        }
        match &self.initializer {
            None => Ok(()),
            Some(elements) if self.dimensions.is_empty() && self.vector == 1 && elements.len() == 1 => {
                write!(f, " = {}", elements[0])
            }
            Some(elements) => {
                f.write_str(" = {")?;
                separated(f, elements)?;
                f.write_str("}")
            }
        }
    }
}

impl Display for Initializer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Group(elements) => {
                f.write_str("{")?;
                separated(f, elements)?;
                f.write_str("}")
            }
            Self::Address { symbol, offset, generic, mask } => {
                if let Some(mask) = mask {
                    write!(f, "{mask:#X}(")?;
                }
                if *generic {
                    write!(f, "generic({symbol})")?
                } else {
                    f.write_str(symbol)?
                }
                if *offset != 0 {
                    write!(f, "+{offset}")?;
                }
                if mask.is_some() { f.write_str(")") } else { Ok(()) }
            }
        }
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::F32(bits) => write!(f, "0f{bits:08X}"),
            Self::F64(bits) => write!(f, "0d{bits:016X}"),
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.linkage, if self.is_entry { ".entry" } else { ".func" })?;
        attributes(f, &self.attributes)?;
        if !self.returns.is_empty() {
            f.write_str(" (")?;
            separated(f, &self.returns)?;
            f.write_str(")")?;
        }
        write!(f, " {}(", self.name)?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            write!(f, "{}\n    {parameter}", if index == 0 { "" } else { "," })?;
        }
        f.write_str(if self.parameters.is_empty() { ")" } else { "\n)" })?;
        directives(f, &self.directives, "\n")?;
        let Some(body) = &self.body else {
            return f.write_str(";\n");
        };
        f.write_str("\n{\n")?;
        for object in &self.objects {
            writeln!(f, "    {object}")?;
        }
        statements(f, body, 1)?;
        f.write_str("}\n")
    }
}

impl Display for MemoryObject {
    /// The comment, without the line's end.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "//@ {}", self.symbol)?;
        if self.offset != 0 {
            write!(f, "+{}", self.offset)?;
        }
        write!(f, ": {}-bit {}", self.element_bits, self.element)?;
        if let Some(layout) = &self.layout {
            write!(f, "{} {layout}", if self.is_staged { " in stages" } else { " in" })?;
        }
        if let Some(SourceLocation { file, line, column }) = self.location {
            write!(f, " at {file} {line} {column}")?;
        }
        Ok(())
    }
}

impl Display for SourceLocation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".loc {} {} {}", self.file, self.line, self.column)
    }
}

impl Display for Instruction {
    /// The instruction with its `;`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(guard) = &self.guard {
            write!(f, "@{}{} ", if guard.negated { "!" } else { "" }, guard.predicate)?;
        }
        f.write_str(self.opcode.as_str())?;
        if !self.operands.is_empty() {
            f.write_str(" ")?;
            separated(f, &self.operands)?;
        }
        f.write_str(";")
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
            Self::Not(name) => write!(f, "!{name}"),
            Self::Pair(first, second) => write!(f, "{first}|{second}"),
            Self::Vector(operands) => {
                f.write_str("{")?;
                separated(f, operands)?;
                f.write_str("}")
            }
            Self::List(operands) => {
                f.write_str("(")?;
                separated(f, operands)?;
                f.write_str(")")
            }
            Self::Address(address) => address.fmt(f),
            Self::Offset(name, offset) => write!(f, "{name}+{offset}"),
            Self::Sink => f.write_str("_"),
        }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.base {
            AddressBase::Name(name) => write!(f, "[{name}")?,
            AddressBase::Absolute(address) => write!(f, "[{address}")?,
        }
        if self.offset != 0 {
            write!(f, "+{}", self.offset)?;
        }
        for operand in &self.rest {
            write!(f, ", {operand}")?;
        }
        f.write_str("]")
    }
}

/// A comment that shows the bytes of a printable, zero-terminated string as text.
fn text_comment(variable: &Variable) -> Option<String> {
    let elements =
        variable.initializer.as_deref().filter(|_| variable.ty == Type::B8 && variable.vector == 1)?;
    let byte = |element: &Initializer| match element {
        Initializer::Number(Number::Integer(value)) => u8::try_from(*value).ok(),
        _ => None,
    };
    let (last, characters) = elements.split_last()?;
    let characters: Vec<u8> = characters.iter().map(byte).collect::<Option<_>>()?;
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let is_string = byte(last) == Some(0) && characters.len() > 1 && characters.iter().all(is_text);
    is_string.then(|| format!(" // {:?}", String::from_utf8_lossy(&characters)))
}

fn statements(f: &mut Formatter<'_>, statements_of_block: &[Statement], depth: usize) -> fmt::Result {
    let indent = "    ".repeat(depth);
    for statement in statements_of_block {
        match statement {
            Statement::Label(name) => writeln!(f, "{name}:")?,
            Statement::Instruction(instruction) => match &instruction.part {
                None => writeln!(f, "{indent}{instruction}")?,
                Some(Range { start, end }) => {
                    writeln!(f, "{indent}{instruction} //@ bytes {start} to {end}")?;
                }
            },
            Statement::Variable(variable) => writeln!(f, "{indent}{variable};")?,
            Statement::Location(location) => writeln!(f, "{indent}{location}")?,
            Statement::Block(block) => {
                writeln!(f, "{indent}{{")?;
                statements(f, block, depth + 1)?;
                writeln!(f, "{indent}}}")?;
            }
            Statement::BranchTargets { name, targets } => {
                writeln!(f, "{name}: .branchtargets {};", targets.join(", "))?;
            }
            Statement::CallTargets { name, targets } => {
                writeln!(f, "{name}: .calltargets {};", targets.join(", "))?
            }
            Statement::CallPrototype { name, returns, parameters, directives: words } => {
                write!(f, "{name}: .callprototype (")?;
                separated(f, returns)?;
                f.write_str(") _ (")?;
                separated(f, parameters)?;
                f.write_str(")")?;
                directives(f, words, " ")?;
                f.write_str(";\n")?;
            }
            Statement::Pragma(text) => writeln!(f, "{indent}.pragma \"{text}\";")?,
        }
    }
    Ok(())
}

fn directives(f: &mut Formatter<'_>, directives: &[(String, Vec<i64>)], before: &str) -> fmt::Result {
    for (word, numbers) in directives {
        write!(f, "{before}.{word}")?;
        if !numbers.is_empty() {
            f.write_str(" ")?;
            separated(f, numbers)?;
        }
    }
    Ok(())
}

fn attributes(f: &mut Formatter<'_>, attributes: &[String]) -> fmt::Result {
    if attributes.is_empty() {
        return Ok(());
    }
    write!(f, " .attribute(.{})", attributes.join(", ."))
}

fn separated<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
