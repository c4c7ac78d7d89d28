//! One function: scopes, declarations, labels, and the walk over its statements.

use std::collections::HashSet;

use warpwright_events::{self as events, Base, FaultKind, RegisterUse};
use warpwright_ptx::syntax::{Instruction, Operand, StateSpace, Statement, Variable};

use crate::decode::decoder::FunctionDecoder;
use crate::decode::description::{describe, for_names};
use crate::decode::error::{DecodeError, Decoded};
use crate::decode::kernel_scope::KernelDecoder;
use crate::decode::names::{File, Register, Scope, Symbol};
use crate::decode::row::Row;
use crate::execution::effect::{Effect, Execution};
use crate::instructions::{self, accumulators, allocates, save};
use crate::kernel::image::{CodeFunction, DecidingPredicates, Formal};
use crate::kernel::special::Special;
use crate::lanes::{Operands, one};
use crate::launch::failure::Failure;
use crate::load_error::LoadError;
use crate::operation::kind::{Guard, Kind, Operation};
use crate::operation::warpgroup::WarpgroupOperation;
use crate::registers::Slot;

/// The directives of functions whose meaning the emulator knows. Others may change how a function
/// executes, so that executing it is a fault.
const DIRECTIVES: [&str; 11] = [
    "maxnreg",
    "maxntid",
    "reqntid",
    "minnctapersm",
    "maxnctapersm",
    "noreturn",
    "explicitcluster",
    "reqnctapercluster",
    "maxclusterrank",
    "abi_preserve",
    "abi_preserve_control",
];

/// Local frames are multiples of this, so that any variable in them keeps its alignment.
const FRAME_ALIGNMENT: u32 = 16;

/// A function's code before it is placed in a kernel.
pub(super) struct DecodedFunction {
    pub(super) operations: Vec<Operation>,
    pub(super) instructions: Vec<events::Instruction>,
    /// The instruction of each operation.
    pub(super) of_operation: Vec<u32>,
    /// Operations whose result predicates may decide.
    pub(super) predicates: Vec<(u32, DecidingPredicates)>,
    /// By operation, if the function has a `wgmma` (see [`Kernel`](crate::kernel::image::Kernel)).
    pub(super) register_uses: Vec<Box<[RegisterUse]>>,
    pub(super) function: CodeFunction,
}

/// The register uses of an operation that concern registers of MMAs or registers loaded
/// asynchronously (`loaded`); none otherwise.
fn uses_beside_multiplies(
    operations: &[Operation],
    uses: Vec<(usize, Box<[RegisterUse]>)>,
    loaded: HashSet<Slot>,
) -> Vec<Box<[RegisterUse]>> {
    let multiplication = |operation: &Operation| match &operation.kind {
        Kind::Warpgroup(operation) => {
            operation.multiplication().map(|found| found.registers().collect::<Vec<_>>())
        }
        _ => None,
    };
    let multiplied = operations.iter().filter_map(multiplication).flatten();
    let multiplied: HashSet<Slot> = multiplied.chain(loaded).collect();
    if multiplied.is_empty() {
        return Vec::new();
    }
    let mut by_operation: Vec<Box<[RegisterUse]>> = Vec::new();
    by_operation.resize_with(operations.len(), Box::default);
    for (operation, uses) in uses {
        if !matches!(operations[operation].kind, Kind::Warpgroup(_)) {
            by_operation[operation] =
                uses.iter().copied().filter(|used| multiplied.contains(&used.slot)).collect();
        }
    }
    by_operation
}

fn in_register(register: Register) -> Result<Formal, DecodeError> {
    match register.file {
        File::Word => Ok(Formal::Word(register.slot)),
        File::Long => Ok(Formal::Long(register.slot)),
        File::Predicate => Ok(Formal::Predicate(register.slot)),
        File::Quad => Err(DecodeError::new("A 128-bit register cannot be a parameter.")),
    }
}

/// An instruction that the emulator does not support, and the reason.
struct Unsupported(String);

impl Effect for Unsupported {
    fn execute(&self, _: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        Err(Failure::new(FaultKind::Unsupported, mask, &self.0))
    }
}

/// Decodes a function of a kernel, by its index in the module. One without a body fails when it is called.
pub(super) fn decode_function(
    kernel: &mut KernelDecoder<'_>,
    index: u32,
    scope: Scope,
) -> Result<DecodedFunction, LoadError> {
    kernel.begin_function();
    FunctionDecoder::new(kernel, index, scope).decode()
}

impl<'m> FunctionDecoder<'_, 'm> {
    fn decode(mut self) -> Result<DecodedFunction, LoadError> {
        let function = self.function;
        let (mut parameters, mut results) = (Vec::new(), Vec::new());
        if function.is_entry {
            self.declare_of_module()?;
        } else {
            for formal in &function.parameters {
                parameters
                    .extend(self.formal(formal).map_err(|error| self.declaration_error(formal, error))?);
            }
            for formal in &function.returns {
                results.extend(self.formal(formal).map_err(|error| self.declaration_error(formal, error))?);
            }
        }
        let unknown = function.directives.iter().find(|(word, _)| !DIRECTIVES.contains(&word.as_str()));
        if let Some((word, _)) = unknown {
            let message = format!("The emulator does not support the directive `.{word}` of a function.");
            let error = DecodeError::unsupported(message);
            self.fail_here(error.at(Some(&function.name), function.line, String::new()));
        }
        match &function.body {
            Some(body) => {
                accumulators(body, &mut self.accumulators);
                if !function.is_entry && allocates(body) {
                    let top = self.scratch(File::Long);
                    self.emit(save(top));
                    self.stack = Some(top);
                }
                self.block(body)?;
            }
            None => {
                let error = DecodeError::undefined(&function.name);
                self.fail_here(error.at(Some(&function.name), function.line, String::new()));
            }
        }
        self.guard = Guard::NONE;
        self.emit_return();
        self.resolve_labels();
        self.frame.local = self.frame.local.next_multiple_of(FRAME_ALIGNMENT);
        let register_uses = uses_beside_multiplies(&self.operations, self.register_uses, self.loaded);
        Ok(DecodedFunction {
            register_uses,
            predicates: self.predicates,
            operations: self.operations,
            instructions: self.instructions,
            of_operation: self.of_operation,
            function: CodeFunction {
                name: function.name.clone(),
                entry: 0,
                frame: self.frame,
                preloads: self.preloads,
                parameters,
                results,
            },
        })
    }

    /// Declares what each thread of a kernel has of the module's variables.
    fn declare_of_module(&mut self) -> Result<(), LoadError> {
        let names = self.kernel.names;
        self.frame.local = names.local_bytes.next_multiple_of(FRAME_ALIGNMENT);
        let most = names.capability.local_bytes_per_thread;
        if names.local_bytes > most {
            let message = format!(
                "The module has {} bytes of .local variables; a thread has {most}.",
                names.local_bytes
            );
            return Err(DecodeError::new(message).at(
                Some(&self.function.name),
                self.function.line,
                String::new(),
            ));
        }
        for variable in names.module.variables.iter().filter(|own| own.space == StateSpace::Register) {
            self.declare(variable).map_err(|error| self.declaration_error(variable, error))?;
        }
        Ok(())
    }

    fn declaration_error(&self, variable: &Variable, error: DecodeError) -> LoadError {
        error.at(Some(&self.function.name), variable.line, variable.to_string())
    }

    /// The places of a parameter: one, or one for each register of a vector.
    fn formal(&mut self, formal: &Variable) -> Result<Vec<Formal>, DecodeError> {
        self.declare(formal)?;
        match self.symbol(&formal.name)? {
            Symbol::Register(register) => Ok(vec![in_register(register)?]),
            Symbol::Vector(registers) => registers.into_iter().map(in_register).collect(),
            Symbol::Local { offset, size } => Ok(vec![Formal::Bytes { offset, size }]),
            _ => Err(DecodeError::new("A parameter is a register or a .param variable.")),
        }
    }

    fn block(&mut self, statements: &'m [Statement]) -> Result<(), LoadError> {
        for statement in statements {
            if let Statement::Label(name) = statement {
                let label = self.labels.len() as u32;
                self.labels.push(None);
                self.scope().insert(name.clone(), Symbol::Label(label));
            }
        }
        for statement in statements {
            self.statement(statement)?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'m Statement) -> Result<(), LoadError> {
        match statement {
            Statement::Label(name) => {
                self.settled = None;
                if let Ok(Symbol::Label(label)) = self.symbol(name) {
                    self.labels[label as usize] = Some(self.operations.len() as u32);
                }
            }
            Statement::Instruction(instruction) => self.instruction(instruction)?,
            Statement::Variable(variable) => {
                self.declare(variable).map_err(|error| self.declaration_error(variable, error))?;
            }
            Statement::Block(statements) => {
                self.scopes.push(Scope::default());
                self.block(statements)?;
                self.scopes.pop();
            }
            Statement::BranchTargets { name, targets } => {
                let labels = targets.iter().map(|target| match self.symbol(target)? {
                    Symbol::Label(label) => Ok(label),
                    _ => Err(DecodeError::new(format!("`{target}` is not a label."))),
                });
                let labels: Result<Vec<u32>, DecodeError> = labels.collect();
                let labels = labels.map_err(|error| error.at(Some(&self.function.name), 0, name.clone()))?;
                self.scope().insert(name.clone(), Symbol::Targets(labels));
            }
            Statement::CallPrototype { name, .. } => self.scope().insert(name.clone(), Symbol::Prototype),
            Statement::CallTargets { name, targets } => {
                for target in targets {
                    if let Ok(Symbol::Function(function)) = self.symbol(target) {
                        self.mention_function(function);
                    }
                }
                self.scope().insert(name.clone(), Symbol::Prototype);
            }
            Statement::Location(_) | Statement::Pragma(_) => {}
        }
        Ok(())
    }

    /// An instruction that the emulator does not support becomes an operation that fails.
    fn instruction(&mut self, written: &'m Instruction) -> Result<(), LoadError> {
        let expanded = self.expanded(written);
        let instruction = expanded.as_ref();
        let row = Row::of(instruction, self.kernel.rows(instruction.opcode.as_str()));
        let (frames, text) = (self.kernel.frames(instruction), written.to_string());
        self.next = Some(describe(instruction, row.as_ref(), text, frames, |name| match self.symbol(name) {
            Ok(Symbol::Register(register)) => Base::Register(self.kernel.number(name, register.file)),
            Ok(Symbol::Shared(offset)) => self.kernel.static_array(name, offset),
            Ok(Symbol::DynamicShared) => self.kernel.dynamic_array(name, instruction.part.as_ref()),
            // The frames of functions are anywhere.
            Ok(Symbol::Local { offset, size }) if self.function.is_entry => {
                self.kernel.local_array(name, offset, size)
            }
            _ => Base::Other,
        }));
        let before = (self.operations.len(), self.instructions.len());
        let Err(error) = self.operation(instruction, row.as_ref()) else { return Ok(()) };
        let error =
            if error.is_unsupported() { self.undeclared(instruction).unwrap_or(error) } else { error };
        let is_unsupported = error.is_unsupported();
        let error = error.at(Some(&self.function.name), written.line, written.to_string());
        if !is_unsupported {
            return Err(error);
        }
        self.operations.truncate(before.0);
        self.of_operation.truncate(before.0);
        let emitted = self.instructions.drain(before.1..).next();
        self.next = emitted.or(self.next.take());
        self.fail_here(error);
        Ok(())
    }

    /// Appends an operation whose execution is a fault.
    fn fail_here(&mut self, error: LoadError) {
        self.emit(Kind::Effect(Box::new(Unsupported(error.message.clone()))));
        self.kernel.unsupported.push(error);
    }

    /// The error of an operand that names nothing.
    fn undeclared(&mut self, instruction: &Instruction) -> Option<DecodeError> {
        let mut error = None;
        for operand in &instruction.operands {
            for_names(operand, &mut |name, _| {
                if Special::named(name).is_none() && self.grid_workspace(name).is_none() {
                    error = error.take().or(self.symbol(name).err());
                }
            });
        }
        error
    }

    fn operation(&mut self, instruction: &Instruction, row: Option<&Row<'_>>) -> Decoded {
        self.guard = match &instruction.guard {
            None => Guard::NONE,
            Some(guard) => match self.symbol(&guard.predicate)? {
                Symbol::Register(register) if register.file == File::Predicate => {
                    Guard::new(register.slot, guard.negated)
                }
                _ => return Err(DecodeError::new(format!("`{}` is not a predicate.", guard.predicate))),
            },
        };
        self.keep_guard(instruction)?;
        let moves = self.moves_accumulator(instruction);
        if moves && self.settled != Some(self.operations.len()) {
            self.emit(Kind::Warpgroup(Box::new(WarpgroupOperation::Settle)));
        }
        self.used.clear();
        match row {
            Some(row) => instructions::decode(self, row)?,
            None => instructions::decode_without_row(self, instruction)?,
        }
        if moves && self.guard == Guard::NONE {
            self.settled = Some(self.operations.len());
        }
        if !self.used.is_empty() && !self.operations.is_empty() {
            self.register_uses.push((self.operations.len() - 1, self.used.as_slice().into()));
        }
        Ok(())
    }

    /// Copies the guard of an instruction with two destinations if it is one of them: its operations
    /// write one after another, and each reads the guard.
    fn keep_guard(&mut self, instruction: &Instruction) -> Decoded {
        let (Some(guard), Some(Operand::Pair(first, second))) =
            (&instruction.guard, instruction.operands.first())
        else {
            return Ok(());
        };
        let is_guard = |operand: &Operand| *operand == Operand::Name(guard.predicate.clone());
        if is_guard(first) || is_guard(second) {
            let held = std::mem::replace(&mut self.guard, Guard::NONE);
            let copy = self.scratch(File::Predicate);
            let operands = Operands { d: copy, a: held.slot(), ..Operands::default() };
            self.lanes(operands, one(|guard: bool| guard))?;
            self.guard = held.at(copy);
        }
        Ok(())
    }

    /// Whether it is a `mov` of an accumulator of `wgmma`.
    fn moves_accumulator(&self, instruction: &Instruction) -> bool {
        let is_one = |operand: &Operand| self.accumulators.contains(&operand.to_string());
        !self.accumulators.is_empty()
            && instruction.opcode.base() == "mov"
            && instruction.operands.get(1).is_some_and(|source| match source {
                Operand::Vector(elements) => elements.iter().any(is_one),
                source => is_one(source),
            })
    }

    fn resolve_labels(&mut self) {
        let end = self.operations.len() as u32 - 1;
        let place = |label: u32, labels: &[Option<u32>]| labels[label as usize].unwrap_or(end);
        for operation in &mut self.operations {
            match &mut operation.kind {
                Kind::Branch { target } => *target = place(*target, &self.labels),
                Kind::BranchTable { targets, .. } => {
                    targets.iter_mut().for_each(|target| *target = place(*target, &self.labels));
                }
                _ => {}
            }
        }
    }
}
