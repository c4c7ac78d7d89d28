//! One function: scopes, declarations, labels, and the walk over its statements.

use std::collections::{HashMap, HashSet};

use warpwright_events::{self as events, RegisterUse};
use warpwright_ptx::syntax::{Function, Instruction, Operand, StateSpace, Statement, Type, Variable};

use super::description::{describe, nothing};
use super::kernel::KernelDecoder;
use super::names::{File, Register, Scope, Symbol};
use super::{DecodeError, Words, variables};
use crate::instructions::{WarpgroupOperation, accumulators};
use crate::lanes::{LaneLoop, Operands, plain, vectored};
use crate::operation::{Guard, Kind, Operation};
use crate::program::{CodeFunction, Formal, LoadError, Preload, PreloadPlace, PreloadValue};
use crate::registers::{FrameBase, Slot};

/// Local frames are multiples of this, so that any variable in them keeps its alignment.
const FRAME_ALIGNMENT: u32 = 16;

/// A function's code, before it has a place in a kernel.
pub(super) struct DecodedFunction {
    pub(super) operations: Vec<Operation>,
    pub(super) instructions: Vec<events::Instruction>,
    /// The instruction of each operation.
    pub(super) of_operation: Vec<u32>,
    /// By operation, if the function has a `wgmma` (see [`Kernel`](crate::program::Kernel)).
    pub(super) register_uses: Vec<Box<[RegisterUse]>>,
    pub(super) function: CodeFunction,
}

/// Of what operations do with registers, that which concerns registers of multiplies, or those that are `loaded` while the program
/// goes on; none if there are neither.
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

/// A function being decoded.
pub(crate) struct FunctionDecoder<'k, 'm> {
    kernel: &'k mut KernelDecoder<'m>,
    function: &'m Function,
    scopes: Vec<Scope>,
    /// Where each label stands, once it is known.
    labels: Vec<Option<u32>>,
    operations: Vec<Operation>,
    instructions: Vec<events::Instruction>,
    of_operation: Vec<u32>,
    preloads: Vec<Preload>,
    pub(super) constants: HashMap<(File, PreloadValue), Slot>,
    frame: FrameBase,
    guard: Guard,
    /// The instruction being decoded, until an operation is emitted for it.
    next: Option<events::Instruction>,
    carry: Option<Slot>,
    /// The names of the accumulators of `wgmma`.
    accumulators: HashSet<String>,
    /// Registers that `tcgen05.ld` writes.
    loaded: HashSet<Slot>,
    /// Where the code goes on after a `mov` of an accumulator, straight from which no multiply can be under way.
    settled: Option<usize>,
    /// What the instruction does with registers of up to 32 bits.
    used: Vec<RegisterUse>,
    /// That of all instructions, by the operation that stands for it.
    register_uses: Vec<(usize, Box<[RegisterUse]>)>,
}

impl<'k, 'm> FunctionDecoder<'k, 'm> {
    pub(super) fn new(kernel: &'k mut KernelDecoder<'m>, function: &'m Function, scope: Scope) -> Self {
        Self {
            kernel,
            function,
            scopes: vec![scope],
            labels: Vec::new(),
            operations: Vec::new(),
            instructions: Vec::new(),
            of_operation: Vec::new(),
            preloads: Vec::new(),
            constants: HashMap::new(),
            frame: FrameBase::default(),
            guard: Guard::NONE,
            next: Some(nothing(function.line)),
            carry: None,
            accumulators: HashSet::new(),
            loaded: HashSet::new(),
            settled: None,
            used: Vec::new(),
            register_uses: Vec::new(),
        }
    }

    pub(super) fn decode(mut self, body: &'m [Statement]) -> Result<DecodedFunction, LoadError> {
        let function = self.function;
        let (mut parameters, mut results) = (Vec::new(), Vec::new());
        if !function.is_entry {
            for formal in &function.parameters {
                parameters.push(self.formal(formal).map_err(|error| self.declaration_error(formal, error))?);
            }
            for formal in &function.returns {
                results.push(self.formal(formal).map_err(|error| self.declaration_error(formal, error))?);
            }
        }
        accumulators(body, &mut self.accumulators);
        self.block(body)?;
        self.guard = Guard::NONE;
        self.emit(Kind::Return);
        self.resolve_labels();
        self.frame.local = self.frame.local.next_multiple_of(FRAME_ALIGNMENT);
        let register_uses = uses_beside_multiplies(&self.operations, self.register_uses, self.loaded);
        Ok(DecodedFunction {
            register_uses,
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

    fn declaration_error(&self, variable: &Variable, error: DecodeError) -> LoadError {
        error.at(Some(&self.function.name), variable.line, variable.to_string())
    }

    fn formal(&mut self, formal: &Variable) -> Result<Formal, DecodeError> {
        self.declare(formal)?;
        Ok(match self.symbol(&formal.name)? {
            Symbol::Register(register) => match register.file {
                File::Word => Formal::Word(register.slot),
                File::Long => Formal::Long(register.slot),
                File::Predicate => Formal::Predicate(register.slot),
                File::Quad => return Err(DecodeError::new("A 128-bit register cannot be a parameter.")),
            },
            Symbol::Local { offset, size } => Formal::Bytes { offset, size },
            _ => return Err(DecodeError::new("A parameter is a register or a .param variable.")),
        })
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
            Statement::Instruction(instruction) => {
                self.instruction(instruction).map_err(|error| {
                    error.at(Some(&self.function.name), instruction.line, instruction.to_string())
                })?;
            }
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

    fn instruction(&mut self, instruction: &'m Instruction) -> Result<(), DecodeError> {
        let source = instruction.location.map(|location| self.kernel.source(location));
        let described = describe(instruction, source, |name| match self.symbol(name) {
            Ok(Symbol::Register(_)) => Some(self.kernel.number(name)),
            _ => None,
        });
        self.next = Some(described);
        self.guard = match &instruction.guard {
            None => Guard::NONE,
            Some(guard) => match self.symbol(&guard.predicate)? {
                Symbol::Register(register) if register.file == File::Predicate => {
                    Guard::new(register.slot, guard.negated)
                }
                _ => return Err(DecodeError::new(format!("`{}` is not a predicate.", guard.predicate))),
            },
        };
        let moves = self.moves_accumulator(instruction);
        if moves && self.settled != Some(self.operations.len()) {
            self.emit(Kind::Warpgroup(Box::new(WarpgroupOperation::Settle)));
        }
        let mut words = Words::of(&instruction.opcode);
        self.used.clear();
        crate::instructions::decode(self, instruction, &mut words)?;
        if moves && self.guard == Guard::NONE {
            self.settled = Some(self.operations.len());
        }
        if !self.used.is_empty() && !self.operations.is_empty() {
            self.register_uses.push((self.operations.len() - 1, self.used.as_slice().into()));
        }
        words.finish()
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

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a function has a scope")
    }

    fn declare(&mut self, variable: &Variable) -> Result<(), DecodeError> {
        let name = variable.name.clone();
        match variable.space {
            StateSpace::Register => {
                if let Some(count) = variable.numbered {
                    self.scope().insert_run(&variable.name, count, variable.ty);
                } else if variable.vector > 1 {
                    let registers: Vec<Register> =
                        (0..variable.vector).map(|_| self.new_register(variable.ty)).collect();
                    for (register, axes) in
                        registers.iter().zip([["x", "r"], ["y", "g"], ["z", "b"], ["w", "a"]])
                    {
                        for axis in axes {
                            self.scope().insert(format!("{name}.{axis}"), Symbol::Register(*register));
                        }
                    }
                    self.scope().insert(name, Symbol::Vector(registers));
                } else {
                    let register = self.new_register(variable.ty);
                    self.scope().insert(name, Symbol::Register(register));
                }
            }
            StateSpace::Local | StateSpace::Parameter => {
                let copies = variable.numbered.unwrap_or(1);
                for copy in 0..copies {
                    let size = variables::size(variable) as u32;
                    let offset = self.frame.local.next_multiple_of(variables::alignment(variable) as u32);
                    self.frame.local = offset + size;
                    let name =
                        if variable.numbered.is_some() { format!("{name}{copy}") } else { name.clone() };
                    self.scope().insert(name, Symbol::Local { offset, size });
                }
            }
            StateSpace::Shared => {
                let symbol = self.kernel.place_shared(variable);
                self.scope().insert(name, symbol);
            }
            StateSpace::Global | StateSpace::Constant | StateSpace::Texture => {
                return Err(DecodeError::new(
                    "Global and constant variables are declared outside functions.",
                ));
            }
        }
        Ok(())
    }

    fn new_register(&mut self, ty: Type) -> Register {
        let file = File::of(ty);
        Register { file, slot: self.scratch(file), ty }
    }

    /// A register that has no name.
    pub(crate) fn scratch(&mut self, file: File) -> Slot {
        let (next, step) = match file {
            File::Word => (&mut self.frame.words, 1),
            File::Long => (&mut self.frame.longs, 1),
            File::Quad => (&mut self.frame.longs, 2),
            File::Predicate => (&mut self.frame.predicates, 1),
        };
        *next += step;
        *next - step
    }

    /// The carry flag, `CC.CF`.
    pub(crate) fn carry(&mut self) -> Slot {
        match self.carry {
            Some(slot) => slot,
            None => {
                let slot = self.scratch(File::Predicate);
                self.carry = Some(slot);
                slot
            }
        }
    }

    /// What a name stands for.
    pub(crate) fn symbol(&mut self, name: &str) -> Result<Symbol, DecodeError> {
        for level in (0..self.scopes.len()).rev() {
            if let Some(symbol) = self.scopes[level].get(name) {
                return Ok(symbol.clone());
            }
            if let Some(ty) = self.scopes[level].run_type(name) {
                let register = self.new_register(ty);
                self.scopes[level].insert(name, Symbol::Register(register));
                return Ok(Symbol::Register(register));
            }
        }
        self.kernel.module_symbol(name).ok_or_else(|| DecodeError::new(format!("`{name}` is not declared.")))
    }

    /// A label's number, to branch to.
    pub(crate) fn label(&mut self, name: &str) -> Result<u32, DecodeError> {
        match self.symbol(name)? {
            Symbol::Label(label) => Ok(label),
            _ => Err(DecodeError::new(format!("`{name}` is not a label."))),
        }
    }

    /// A function of the module.
    pub(crate) fn function(&self, index: u32) -> &'m Function {
        &self.kernel.names.module.functions[index as usize]
    }

    /// What an environment register holds that tells of the grid's barrier, if it is one.
    pub(super) fn grid_workspace(&self, register: &str) -> Option<u64> {
        self.kernel.names.workspace.register(register)
    }

    /// The place in the kernel's code of a function that is called.
    pub(crate) fn callee(&mut self, function: u32) -> u32 {
        self.kernel.reach(function)
    }

    /// A function whose address is taken may be called.
    pub(crate) fn mention_function(&mut self, function: u32) {
        self.kernel.reach(function);
    }

    /// An indirect call may go to any function in a table.
    pub(crate) fn mention_tables(&mut self) {
        self.kernel.reach_tables();
    }

    pub(super) fn preload(&mut self, place: PreloadPlace, value: PreloadValue) {
        self.preloads.push(Preload { place, value });
    }

    /// How many bytes of parameters the kernel takes; none in a device function.
    pub(crate) fn parameter_bytes(&self) -> u32 {
        if self.function.is_entry { super::kernel::parameter_bytes(self.function) } else { 0 }
    }

    /// Whether the function is a kernel.
    pub(crate) fn is_kernel(&self) -> bool {
        self.function.is_entry
    }

    /// Notes that the instruction writes these registers while the program goes on, which is no use by itself.
    pub(crate) fn note_asynchronous(&mut self, slots: &[Slot]) {
        self.loaded.extend(slots);
        self.used.clear();
    }

    /// Notes that the instruction uses a register.
    pub(super) fn note_use(&mut self, register: Register, writes: bool) {
        if register.file == File::Word {
            self.used.push(RegisterUse { slot: register.slot, writes });
        }
    }

    /// Appends an operation under the instruction's guard.
    pub(crate) fn emit(&mut self, kind: Kind) {
        self.operations.push(Operation { kind, guard: self.guard });
        self.instructions.extend(self.next.take());
        self.of_operation.push(self.instructions.len() as u32 - 1);
    }

    /// The slots of an instruction with one destination, which comes first, and up to four sources after it.
    pub(crate) fn slots(
        &mut self,
        instruction: &Instruction,
        destination: Type,
        sources: &[Type],
    ) -> Result<Operands, DecodeError> {
        self.expect_operands(instruction, 1 + sources.len())?;
        let mut slots = [0; 4];
        for (index, ty) in sources.iter().enumerate() {
            slots[index] = self.source(&instruction.operands[index + 1], *ty)?;
        }
        let d = self.destination(&instruction.operands[0], destination)?;
        let [a, b, c, x] = slots;
        Ok(Operands { d, a, b, c, x, e: 0 })
    }

    /// Appends a lane operation on such slots, compiled for the machine's vectors.
    pub(crate) fn vector(
        &mut self,
        instruction: &Instruction,
        destination: Type,
        sources: &[Type],
        mut body: impl LaneLoop,
    ) -> Result<(), DecodeError> {
        body.bind(self.slots(instruction, destination, sources)?);
        self.emit(Kind::Lanes(vectored(body)));
        Ok(())
    }

    /// Appends a lane operation on such slots, compiled once.
    pub(crate) fn scalar(
        &mut self,
        instruction: &Instruction,
        destination: Type,
        sources: &[Type],
        mut body: impl LaneLoop,
    ) -> Result<(), DecodeError> {
        body.bind(self.slots(instruction, destination, sources)?);
        self.emit(Kind::Lanes(plain(body)));
        Ok(())
    }

    /// Appends a lane operation on the given slots, compiled for the machine's vectors.
    pub(crate) fn lanes(&mut self, operands: Operands, mut body: impl LaneLoop) {
        body.bind(operands);
        self.emit(Kind::Lanes(vectored(body)));
    }

    /// Appends a lane operation on the given slots, compiled once.
    pub(crate) fn plain_lanes(&mut self, operands: Operands, mut body: impl LaneLoop) {
        body.bind(operands);
        self.emit(Kind::Lanes(plain(body)));
    }

    /// Refuses an instruction that does not have this many operands.
    pub(crate) fn expect_operands(&self, instruction: &Instruction, count: usize) -> Result<(), DecodeError> {
        if instruction.operands.len() == count {
            return Ok(());
        }
        Err(DecodeError::new(format!(
            "The instruction takes {count} operands, and has {}.",
            instruction.operands.len()
        )))
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
