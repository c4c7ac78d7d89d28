//! `printf` and failed assertions: calls of `vprintf` and `__assertfail`, which the driver and the
//! emulator provide.

use std::collections::HashMap;

use warpwright_ir::{Register, RegisterClass};

use super::name::RegisterNames;
use crate::syntax::{
    Address, AddressBase, Function, Initializer, Instruction, Linkage, Number, Opcode, Operand,
    SourceLocation, StateSpace, Statement, Type, Variable,
};

/// The local buffer that a kernel's calls pass their arguments in.
const ARGUMENTS: &str = "$arguments";

/// The function behind C's `assert`: it prints where it failed, for which thread, and ends the kernel
/// with an error (CUDA C++ Programming Guide, "Assertion").
const ASSERT_FAIL: &str = "__assertfail";

/// The strings that calls pass, each written to the module once, and the functions called.
#[derive(Default)]
pub(super) struct Formats {
    numbers: HashMap<String, usize>,
    variables: Vec<Variable>,
    prints: bool,
    asserts: bool,
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

    /// The declarations of `vprintf`, if a kernel prints, and of `__assertfail`, if one asserts.
    pub(super) fn declarations(&self) -> impl Iterator<Item = Function> {
        let print = self.prints.then(|| {
            declaration(
                "vprintf",
                &[("status", Type::B32)],
                &[("format", Type::B64), ("arguments", Type::B64)],
            )
        });
        let fail = self.asserts.then(|| {
            let parameters = [
                ("message", Type::B64),
                ("file", Type::B64),
                ("line", Type::B32),
                ("function", Type::B64),
                ("character_bytes", Type::B64),
            ];
            declaration(ASSERT_FAIL, &[], &parameters)
        });
        print.into_iter().chain(fail)
    }

    pub(super) fn into_variables(self) -> Vec<Variable> {
        self.variables
    }
}

/// The declaration of a function that the driver provides.
fn declaration(name: &str, returns: &[(&str, Type)], parameters: &[(&str, Type)]) -> Function {
    let declared = |parameters: &[(&str, Type)]| {
        let declared =
            parameters.iter().map(|&(name, ty)| variable(StateSpace::Parameter, ty, name.to_owned()));
        declared.collect()
    };
    Function {
        is_entry: false,
        linkage: Linkage::Extern,
        name: name.to_owned(),
        returns: declared(returns),
        parameters: declared(parameters),
        attributes: Vec::new(),
        directives: Vec::new(),
        objects: Vec::new(),
        body: None,
        line: 0,
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
        arguments: &[Register],
        formats: &mut Formats,
        registers: &mut RegisterNames<'_>,
        location: Option<SourceLocation>,
    ) -> Statement {
        formats.prints = true;
        let mut call = Call { statements: Vec::new(), location };
        call.declare(StateSpace::Register, Type::B64, "%format");
        call.declare(StateSpace::Register, Type::B64, "%arguments");
        call.declare(StateSpace::Register, Type::B32, "%status");
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
        call.emit("ld.param.b32", [name("%status"), address("$status", 0)]);
        Statement::Block(call.statements)
    }
}

/// A call of `__assertfail`, in a scope of its own.
pub(super) fn fail(
    (message, function): (&str, &str),
    place: (&str, u32),
    formats: &mut Formats,
    location: Option<SourceLocation>,
) -> Statement {
    formats.asserts = true;
    let mut call = Call { statements: Vec::new(), location };
    call.declare(StateSpace::Register, Type::B64, "%text");
    let (file, line) = place;
    let texts = [("$message", message), ("$file", file), ("$function", function)];
    for (parameter, _) in texts {
        call.declare(StateSpace::Parameter, Type::B64, parameter);
    }
    call.declare(StateSpace::Parameter, Type::B32, "$line");
    call.declare(StateSpace::Parameter, Type::B64, "$bytes");
    for (parameter, text) in texts {
        call.emit("mov.b64", [name("%text"), Operand::Name(formats.symbol(text))]);
        call.emit("cvta.global.u64", [name("%text"), name("%text")]);
        call.emit("st.param.b64", [address(parameter, 0), name("%text")]);
    }
    call.emit("st.param.b32", [address("$line", 0), Operand::Number(Number::Integer(line.into()))]);
    call.emit("st.param.b64", [address("$bytes", 0), Operand::Number(Number::Integer(1))]);
    let arguments = ["$message", "$file", "$line", "$function", "$bytes"].map(name);
    call.emit("call.uni", [name(ASSERT_FAIL), Operand::List(arguments.to_vec())]);
    Statement::Block(call.statements)
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
    fn store_arguments(&mut self, arguments: &[Register], registers: &mut RegisterNames<'_>) -> u64 {
        let mut end = 0u64;
        for argument in arguments {
            let bytes = if registers.class(*argument) == RegisterClass::B64 { 8 } else { 4 };
            let value = Operand::Name(registers.name(*argument));
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
