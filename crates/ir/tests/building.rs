//! Kernels built by hand, each statement on a line of its own.

use std::borrow::Cow;

use warpwright_ir::{Body, Instruction, Kernel, Location, Operand, Register, RegisterClass, Statement};

/// A kernel under construction.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) kernel: Kernel,
    line: u32,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { kernel: Kernel { name: "k".to_owned(), ..Kernel::default() }, line: 0 }
    }

    /// A new line of the author's.
    pub(crate) fn here(&mut self) -> Location {
        self.line += 1;
        Location { file: "lesson.rs", line: self.line, column: 5 }
    }

    pub(crate) fn register(&mut self, class: RegisterClass) -> Register {
        self.kernel.registers.push(class);
        Register(self.kernel.registers.len() as u32 - 1)
    }

    pub(crate) fn op(
        &mut self,
        opcode: &'static str,
        destinations: usize,
        operands: &[Operand],
    ) -> Statement {
        Statement::Instruction(Instruction {
            guard: None,
            opcode: Cow::Borrowed(opcode),
            destinations,
            operands: operands.to_vec(),
            location: self.here(),
        })
    }

    pub(crate) fn branch(&mut self, condition: Register, then: Body, otherwise: Body) -> Statement {
        Statement::If { condition, then, otherwise, location: self.here() }
    }

    pub(crate) fn done(mut self, body: Body) -> Kernel {
        self.kernel.body = body;
        self.kernel
    }
}

pub(crate) fn reg(register: Register) -> Operand {
    Operand::Register(register)
}

pub(crate) fn int(value: i128) -> Operand {
    Operand::Integer(value)
}

pub(crate) fn at(base: Operand, offset: i64) -> Operand {
    Operand::Address { base: Box::new(base), offset, rest: Vec::new() }
}
