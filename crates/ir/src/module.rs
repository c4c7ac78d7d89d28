//! Kernels that are written to one PTX text.

use rustc_hash::FxHashSet;
use warpwright_arch::Capability;

use crate::access;
use crate::kernel::{Instruction, Kernel, Location, Register, Statement};
use crate::verify::form_of;

/// Kernels for one architecture: what becomes one PTX module.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The compute capability whose instructions the kernels may use; it gives `.target`.
    pub capability: &'static Capability,
    /// The kernels, in the order they are written.
    pub kernels: Vec<Kernel>,
}

impl Module {
    /// A module of `kernels` for `capability`.
    pub fn new(capability: &'static Capability, kernels: Vec<Kernel>) -> Self {
        Self { capability, kernels }
    }

    /// The `.version` to declare: the oldest that knows the target and every instruction, so that
    /// the oldest possible driver takes the text.
    pub fn version(&self) -> (u32, u32) {
        let needs = self.kernels.iter().map(|kernel| self.version_for(kernel));
        needs.fold(self.capability.ptx_version, std::cmp::max)
    }

    fn version_for(&self, kernel: &Kernel) -> (u32, u32) {
        let mut version = self.capability.ptx_version;
        let mut seen = FxHashSet::default();
        kernel.for_each_instruction(&mut |instruction| {
            // Forms of one name differ in operands more than in age: one look at each name is
            // enough.
            if seen.insert(instruction.opcode.clone())
                && let Some(form) = form_of(kernel, instruction, self.capability.target)
            {
                version = version.max(form.availability(&instruction.opcode).since.ptx_version);
            }
        });
        version
    }
}

impl Kernel {
    /// Calls `visit` with every instruction, in the order of the text.
    pub fn for_each_instruction<'kernel>(&'kernel self, visit: &mut dyn FnMut(&'kernel Instruction)) {
        for_each_instruction(&self.body, visit);
    }

    /// Calls `visit` with every register that the body names, to be replaced, and the author's
    /// position.
    pub fn for_each_register_mut(&mut self, visit: &mut dyn FnMut(&mut Register, Location)) {
        for_each_register_mut(&mut self.body, visit);
    }
}

fn for_each_register_mut(body: &mut [Statement], visit: &mut dyn FnMut(&mut Register, Location)) {
    for statement in body {
        match statement {
            Statement::Instruction(Instruction { guard, operands, location, .. }) => {
                if let Some((guard, _)) = guard {
                    visit(guard, *location);
                }
                for operand in operands {
                    access::for_each_register_mut(operand, &mut |register| visit(register, *location));
                }
            }
            Statement::If { condition, then, otherwise, location } => {
                visit(condition, *location);
                for_each_register_mut(then, visit);
                for_each_register_mut(otherwise, visit);
            }
            Statement::Loop { body, step, .. } => {
                for_each_register_mut(body, visit);
                for_each_register_mut(step, visit);
            }
            Statement::Block { body, .. } => for_each_register_mut(body, visit),
            Statement::Print { arguments, location, .. } => {
                arguments.iter_mut().for_each(|(register, _)| visit(register, *location));
            }
            Statement::Assert { condition, location, .. } => visit(condition, *location),
            Statement::Break(..) | Statement::Continue(..) | Statement::Return(_) => {}
        }
    }
}

fn for_each_instruction<'body>(body: &'body [Statement], visit: &mut dyn FnMut(&'body Instruction)) {
    for statement in body {
        match statement {
            Statement::Instruction(instruction) => visit(instruction),
            Statement::If { then, otherwise, .. } => {
                for_each_instruction(then, visit);
                for_each_instruction(otherwise, visit);
            }
            Statement::Loop { body, step, .. } => {
                for_each_instruction(body, visit);
                for_each_instruction(step, visit);
            }
            Statement::Block { body, .. } => for_each_instruction(body, visit),
            _ => {}
        }
    }
}
