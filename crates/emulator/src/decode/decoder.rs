//! A function being decoded: the meaning of its names, and the operations emitted so far.

use std::collections::{HashMap, HashSet};

use warpwright_events::{self as events, RegisterUse};
use warpwright_ptx::syntax::{Function, Operand, StateSpace, Type, Variable};

use super::description::nothing;
use super::error::{DecodeError, Decoded};
use super::kernel_scope::KernelDecoder;
use super::names::{File, Register, RegisterKind, Scope, Symbol, component};
use super::row::Row;
use super::variables;
use crate::execution::effect::Effect;
use crate::kernel::image::{DecidingPredicates, Preload, PreloadPlace, PreloadValue};
use crate::lanes::{LaneLoop, Operands, plain, vectored};
use crate::operation::kind::{Guard, Kind, Operation};
use crate::registers::{FrameBase, Slot};

/// A function being decoded, to which an instruction's decoder emits operations.
pub(crate) type Decoder<'d, 'k, 'm> = &'d mut FunctionDecoder<'k, 'm>;

/// A function being decoded.
pub(crate) struct FunctionDecoder<'k, 'm> {
    pub(crate) kernel: &'k mut KernelDecoder<'m>,
    pub(crate) function: &'m Function,
    pub(crate) scopes: Vec<Scope>,
    /// The position of each label, once known.
    pub(crate) labels: Vec<Option<u32>>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) instructions: Vec<events::Instruction>,
    pub(crate) of_operation: Vec<u32>,
    pub(crate) preloads: Vec<Preload>,
    pub(crate) constants: HashMap<(File, PreloadValue), Slot>,
    pub(crate) frame: FrameBase,
    pub(crate) guard: Guard,
    /// The instruction being decoded, until an operation is emitted for it.
    pub(crate) next: Option<events::Instruction>,
    pub(crate) carry: Option<Slot>,
    /// The top of the stack when the function was entered, if it uses `alloca`.
    pub(crate) stack: Option<Slot>,
    /// Whether the function declares vectors of registers.
    pub(crate) has_vectors: bool,
    /// The addresses of the variables of the function's body in global and constant memory, in the
    /// order of the text.
    placed: std::slice::Iter<'m, u64>,
    /// The names of the accumulators of `wgmma`.
    pub(crate) accumulators: HashSet<String>,
    /// Registers that `tcgen05.ld` writes.
    pub(crate) loaded: HashSet<Slot>,
    /// Where the code continues after a `mov` of an accumulator, after which no MMA can be in
    /// flight.
    pub(crate) settled: Option<usize>,
    /// Operations whose result predicates may decide.
    pub(crate) predicates: Vec<(u32, DecidingPredicates)>,
    /// The uses of registers of up to 32 bits by the instruction.
    pub(crate) used: Vec<RegisterUse>,
    /// Those of all instructions, by operation.
    pub(crate) register_uses: Vec<(usize, Box<[RegisterUse]>)>,
}

impl<'k, 'm> FunctionDecoder<'k, 'm> {
    pub(crate) fn new(kernel: &'k mut KernelDecoder<'m>, index: u32, scope: Scope) -> Self {
        let names = kernel.names;
        let function = &names.module.functions[index as usize];
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
            stack: None,
            has_vectors: false,
            placed: names.variables.of_functions[index as usize].iter(),
            accumulators: HashSet::new(),
            loaded: HashSet::new(),
            settled: None,
            predicates: Vec::new(),
            used: Vec::new(),
            register_uses: Vec::new(),
        }
    }

    pub(crate) fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a function has a scope")
    }

    pub(crate) fn declare(&mut self, variable: &Variable) -> Result<(), DecodeError> {
        let name = variable.name.clone();
        match variable.space {
            StateSpace::Register => {
                let kind = RegisterKind { ty: variable.ty, vector: variable.vector };
                self.has_vectors |= kind.vector > 1;
                if let Some(count) = variable.numbered {
                    self.scope().insert_run(&variable.name, count, kind);
                } else {
                    let symbol = self.registers(kind);
                    self.scope().insert(name, symbol);
                }
            }
            StateSpace::Local | StateSpace::Parameter => {
                let copies = variable.numbered.unwrap_or(1);
                for copy in 0..copies {
                    let size = variables::size(variable);
                    let offset = u64::from(self.frame.local).next_multiple_of(variables::alignment(variable));
                    let most = self.kernel.names.capability.local_bytes_per_thread;
                    if offset + size > most.into() {
                        return Err(DecodeError::new(format!(
                            "The variables of the function take {} bytes of local memory; a thread has {most}.",
                            offset + size
                        )));
                    }
                    let (offset, size) = (offset as u32, size as u32);
                    self.frame.local = offset + size;
                    let name =
                        if variable.numbered.is_some() { format!("{name}{copy}") } else { name.clone() };
                    self.scope().insert(name, Symbol::Local { offset, size });
                }
            }
            StateSpace::Shared => {
                let symbol = self.kernel.place_shared(variable)?;
                self.scope().insert(name, symbol);
            }
            StateSpace::Global | StateSpace::Constant | StateSpace::Texture => {
                let address = self.placed.next().expect("every variable of the body is placed");
                self.scope().insert(name, Symbol::Global(*address));
            }
        }
        Ok(())
    }

    /// A new register, or a vector of them.
    fn registers(&mut self, kind: RegisterKind) -> Symbol {
        match kind.vector {
            1 => Symbol::Register(self.new_register(kind.ty)),
            count => Symbol::Vector((0..count).map(|_| self.new_register(kind.ty)).collect()),
        }
    }

    pub(crate) fn new_register(&mut self, ty: Type) -> Register {
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

    /// The meaning of a name.
    pub(crate) fn symbol(&mut self, name: &str) -> Result<Symbol, DecodeError> {
        if let Some((vector, axis)) = name.rsplit_once('.')
            && let Some(component) = component(axis)
            && let Ok(Symbol::Vector(registers)) = self.symbol(vector)
            && let Some(register) = registers.get(component)
        {
            return Ok(Symbol::Register(*register));
        }
        for level in (0..self.scopes.len()).rev() {
            if let Some(symbol) = self.scopes[level].get(name) {
                return Ok(symbol.clone());
            }
            if let Some(kind) = self.scopes[level].of_run(name) {
                let symbol = self.registers(kind);
                self.scopes[level].insert(name, symbol.clone());
                return Ok(symbol);
            }
        }
        self.kernel.module_symbol(name)
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

    /// The content of an environment register for the grid's barrier, if it is one.
    pub(crate) fn grid_workspace(&self, register: &str) -> Option<u64> {
        self.kernel.names.workspace.register(register)
    }

    /// The address in the kernel's code of a called function.
    pub(crate) fn callee(&mut self, function: u32) -> u32 {
        self.kernel.reach(function)
    }

    /// A device function whose address is taken may be called. A kernel's is for a launch.
    pub(crate) fn mention_function(&mut self, function: u32) {
        if !self.function(function).is_entry {
            self.kernel.reach(function);
        }
    }

    /// An indirect call may go to any function in a table.
    pub(crate) fn mention_tables(&mut self) {
        self.kernel.reach_tables();
    }

    pub(crate) fn preload(&mut self, place: PreloadPlace, value: PreloadValue) {
        self.preloads.push(Preload { place, value });
    }

    /// The size of the kernel's parameters in bytes; none in a device function.
    pub(crate) fn parameter_bytes(&self) -> u32 {
        if self.function.is_entry { variables::parameter_bytes(self.function) } else { 0 }
    }

    /// Whether the function is a kernel.
    pub(crate) fn is_kernel(&self) -> bool {
        self.function.is_entry
    }

    /// Records that these predicates, each as it is or negated, may decide the result of the operation just
    /// emitted.
    pub(crate) fn note_predicates(&mut self, predicates: DecidingPredicates) {
        self.predicates.push((self.operations.len() as u32 - 1, predicates));
    }

    /// Records that the instruction writes these registers asynchronously, which is not a use.
    pub(crate) fn note_asynchronous(&mut self, slots: &[Slot]) {
        self.loaded.extend(slots);
        self.used.clear();
    }

    /// Notes that the instruction uses a register.
    pub(crate) fn note_use(&mut self, register: Register, writes: bool) {
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

    /// Appends the return from the function, which frees what `alloca` has allocated.
    pub(crate) fn emit_return(&mut self) {
        if let Some(stack) = self.stack {
            self.emit(crate::instructions::restore(stack));
        }
        self.emit(Kind::Return);
    }

    /// The slots of an instruction whose row has one destination, or a pair, and up to four registers
    /// after it.
    pub(crate) fn slots(&mut self, i: &Row<'_>) -> Result<Operands, DecodeError> {
        let mut slots = Operands::default();
        let mut sources = [0; 4];
        let registers = i.signature().destinations..i.operands.len();
        let registers = registers.filter(|&index| i.operand_type(index).is_some());
        for (source, index) in sources.iter_mut().zip(registers) {
            *source = self.source_at(i, index)?;
        }
        [slots.a, slots.b, slots.c, slots.x] = sources;
        (slots.d, slots.e) = match &i.operands[0] {
            Operand::Pair(first, second) => {
                let [a, b] = i.pair_types(0);
                (self.destination(first, a)?, self.destination(second, b)?)
            }
            _ => (self.destination_at(i, 0)?, 0),
        };
        Ok(slots)
    }

    /// Appends a lane operation on such slots, compiled for the machine's vectors.
    pub(crate) fn vector(&mut self, i: &Row<'_>, body: impl LaneLoop) -> Decoded {
        let operands = self.slots(i)?;
        self.lanes(operands, body)
    }

    /// Appends a lane operation on such slots, compiled once.
    pub(crate) fn scalar(&mut self, i: &Row<'_>, body: impl LaneLoop) -> Decoded {
        let operands = self.slots(i)?;
        self.plain_lanes(operands, body)
    }

    /// Appends an effect of each lane by itself.
    pub(crate) fn effect(&mut self, effect: impl Effect + 'static) -> Decoded {
        self.emit(Kind::Effect(Box::new(effect)));
        Ok(())
    }

    /// Appends a lane operation on the given slots, compiled for the machine's vectors.
    pub(crate) fn lanes(&mut self, operands: Operands, mut body: impl LaneLoop) -> Decoded {
        body.bind(operands);
        self.emit(Kind::Lanes(vectored(body)));
        Ok(())
    }

    /// Appends a lane operation on the given slots, compiled once.
    pub(crate) fn plain_lanes(&mut self, operands: Operands, mut body: impl LaneLoop) -> Decoded {
        body.bind(operands);
        self.emit(Kind::Lanes(plain(body)));
        Ok(())
    }
}
