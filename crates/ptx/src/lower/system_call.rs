//! `printf` and failed assertions: calls of `vprintf`, which the driver and the emulator provide.

use std::collections::HashMap;

use warpwright_ir::{Register, RegisterClass};

use super::name::RegisterNames;
use crate::syntax::{
    Address, AddressBase, Function, Initializer, Instruction, Linkage, Number, Opcode, Operand,
    SourceLocation, StateSpace, Statement, Type, Variable,
};

/// The local buffer that a kernel's calls pass their arguments in.
const ARGUMENTS: &str = "$arguments";

/// Format strings, each written to the module once.
#[derive(Default)]
pub(super) struct Formats {
    numbers: HashMap<String, usize>,
    variables: Vec<Variable>,
}

impl Formats {
    /// The symbol of the zero-terminated `text`.
    fn symbol(&mut self, text: &str) -> String {
        let count = self.variables.len();
        let number = *self.numbers.entry(text.to_owned()).or_insert(count);
        let symbol = format!("$format{number}");
        if number == count {
            let bytes = text.bytes().chain([0]);
            self.variables.push(Variable {
                align: Some(1),
                dimensions: vec![Some(text.len() as u64 + 1)],
                initializer: Some(
                    bytes.map(|byte| Initializer::Number(Number::Integer(byte.into()))).collect(),
                ),
                ..variable(StateSpace::Global, Type::B8, symbol.clone())
            });
        }
        symbol
    }

    /// The declaration of `vprintf`, if the kernel prints.
    pub(super) fn declaration(&self) -> Option<Function> {
        (!self.variables.is_empty()).then(|| Function {
            is_entry: false,
            linkage: Linkage::Extern,
            name: "vprintf".to_owned(),
            returns: vec![variable(StateSpace::Parameter, Type::B32, "status".to_owned())],
            parameters: vec![
                variable(StateSpace::Parameter, Type::B64, "format".to_owned()),
                variable(StateSpace::Parameter, Type::B64, "arguments".to_owned()),
            ],
            attributes: Vec::new(),
            directives: Vec::new(),
            objects: Vec::new(),
            body: None,
            line: 0,
        })
    }

    pub(super) fn into_variables(self) -> Vec<Variable> {
        self.variables
    }
}

/// A private, scalar variable without alignment or value.
pub(super) fn variable(space: StateSpace, ty: Type, name: String) -> Variable {
    Variable {
        space,
        linkage: Linkage::Private,
        align: None,
        vector: 1,
        ty,
        pointer: None,
        name,
        numbered: None,
        dimensions: Vec::new(),
        attributes: Vec::new(),
        initializer: None,
        line: 0,
    }
}

/// One argument of a call: a register, or a special register read on the spot.
pub(super) enum Argument {
    /// A register of the kernel, 32 or 64 bits wide.
    Register(Register),
    /// A 32-bit special register.
    Special(&'static str),
}

/// Writes the calls of one kernel, and keeps what they need in common.
#[derive(Default)]
pub(super) struct SystemCalls {
    buffer_bytes: u64,
}

impl SystemCalls {
    /// The declaration of the argument buffer, if any call has arguments.
    pub(super) fn buffer(&self) -> Option<Variable> {
        (self.buffer_bytes > 0).then(|| Variable {
            align: Some(8),
            dimensions: vec![Some(self.buffer_bytes)],
            ..variable(StateSpace::Local, Type::B8, ARGUMENTS.to_owned())
        })
    }

    /// A call of `vprintf`, in a scope of its own.
    pub(super) fn print(
        &mut self,
        format: &str,
        arguments: &[Argument],
        formats: &mut Formats,
        registers: &mut RegisterNames<'_>,
        location: Option<SourceLocation>,
    ) -> Statement {
        let mut call = Call { statements: Vec::new(), location };
        call.declare(StateSpace::Register, Type::B64, "%format");
        call.declare(StateSpace::Register, Type::B64, "%arguments");
        call.declare(StateSpace::Register, Type::B32, "%value");
        call.declare(StateSpace::Parameter, Type::B64, "$format");
        call.declare(StateSpace::Parameter, Type::B64, "$list");
        call.declare(StateSpace::Parameter, Type::B32, "$status");
        let bytes = call.store_arguments(arguments, registers);
        self.buffer_bytes = self.buffer_bytes.max(bytes);

        call.emit("mov.b64", [name("%format"), Operand::Name(formats.symbol(format))]);
        call.emit("cvta.global.u64", [name("%format"), name("%format")]);
        if bytes > 0 {
            call.emit("mov.b64", [name("%arguments"), name(ARGUMENTS)]);
            call.emit("cvta.local.u64", [name("%arguments"), name("%arguments")]);
        } else {
            call.emit("mov.b64", [name("%arguments"), Operand::Number(Number::Integer(0))]);
        }
        call.emit("st.param.b64", [address("$format", 0), name("%format")]);
        call.emit("st.param.b64", [address("$list", 0), name("%arguments")]);
        call.emit(
            "call.uni",
            [
                Operand::List(vec![name("$status")]),
                name("vprintf"),
                Operand::List(vec![name("$format"), name("$list")]),
            ],
        );
        call.emit("ld.param.b32", [name("%value"), address("$status", 0)]);
        Statement::Block(call.statements)
    }
}

struct Call {
    statements: Vec<Statement>,
    location: Option<SourceLocation>,
}

impl Call {
    fn declare(&mut self, space: StateSpace, ty: Type, name: &str) {
        self.statements.push(Statement::Variable(variable(space, ty, name.to_owned())));
    }

    fn emit(&mut self, opcode: &str, operands: impl Into<Vec<Operand>>) {
        self.statements.push(Statement::Instruction(Instruction {
            guard: None,
            opcode: Opcode::new(opcode),
            operands: operands.into(),
            line: 0,
            location: self.location,
            inlined: None,
            part: None,
        }));
    }

    /// Stores each argument at the next multiple of its size, like C's variable arguments. Returns
    /// the bytes used.
    fn store_arguments(&mut self, arguments: &[Argument], registers: &mut RegisterNames<'_>) -> u64 {
        let mut end = 0u64;
        for argument in arguments {
            let (value, bytes) = match argument {
                Argument::Special(special) => {
                    self.emit("mov.b32", [name("%value"), name(special)]);
                    (name("%value"), 4)
                }
                Argument::Register(register) => {
                    let is_wide = registers.class(*register) == RegisterClass::B64;
                    (Operand::Name(registers.name(*register)), if is_wide { 8 } else { 4 })
                }
            };
            let begin = end.next_multiple_of(bytes);
            let opcode = if bytes == 8 { "st.local.b64" } else { "st.local.b32" };
            self.emit(opcode, [address(ARGUMENTS, begin as i64), value]);
            end = begin + bytes;
        }
        end
    }
}

fn name(text: &str) -> Operand {
    Operand::Name(text.to_owned())
}

fn address(base: &str, offset: i64) -> Operand {
    Operand::Address(Address { base: AddressBase::Name(base.to_owned()), offset, rest: Vec::new() })
}
