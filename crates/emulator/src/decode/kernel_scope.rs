//! The meaning of names in a kernel and its module.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use warpwright_arch::Capability;
use warpwright_arch::instructions::later_forms_of;
use warpwright_events::{Base, MemoryArray, MemorySpace, Register, Source};
use warpwright_ptx::syntax::{Initializer, Instruction, Module, StateSpace, Variable};

use super::error::DecodeError;
use super::grid_workspace::GridWorkspace;
use super::names::{File, Symbol};
use super::row::Rows;
use super::variables::{self, PlacedVariables};
use crate::kernel::image::{SharedVariable, source};
use crate::load_error::LoadError;

/// Dynamic shared memory starts at a multiple of this, so that any vector or tensor copy may land
/// there.
const DYNAMIC_SHARED_ALIGNMENT: u64 = 16;

/// The meaning of module-level names, the same for all kernels except for shared memory.
pub(crate) struct ModuleNames<'m> {
    pub(crate) module: &'m Module,
    pub(crate) scope: HashMap<&'m str, Symbol>,
    pub(crate) shared: HashMap<&'m str, &'m Variable>,
    /// Bytes of the module's variables in local memory, which stand below the frame of a kernel.
    pub(crate) local_bytes: u32,
    pub(crate) variables: &'m PlacedVariables,
    /// Functions whose address an initializer takes.
    pub(crate) in_tables: HashSet<u32>,
    pub(crate) workspace: GridWorkspace,
    pub(crate) capability: &'static Capability,
}

impl<'m> ModuleNames<'m> {
    pub(crate) fn of(
        module: &'m Module,
        variables: &'m PlacedVariables,
        workspace: GridWorkspace,
        capability: &'static Capability,
    ) -> Self {
        let mut scope = HashMap::new();
        for (index, function) in module.functions.iter().enumerate() {
            if function.body.is_some() || !scope.contains_key(function.name.as_str()) {
                scope.insert(function.name.as_str(), Symbol::Function(index as u32));
            }
        }
        for (alias, function) in &module.aliases {
            if let Some(symbol) = scope.get(function.as_str()).cloned() {
                scope.insert(alias.as_str(), symbol);
            }
        }
        let (mut shared, mut local_bytes) = (HashMap::new(), 0);
        for variable in &module.variables {
            if variable.space == StateSpace::Shared {
                shared.insert(variable.name.as_str(), variable);
            } else if variable.space == StateSpace::Local {
                let offset = u64::from(local_bytes).next_multiple_of(variables::alignment(variable));
                local_bytes = u32::try_from(offset + variables::size(variable)).unwrap_or(u32::MAX);
                scope.insert(variable.name.as_str(), Symbol::Global(offset));
            } else if let Some(placed) = variables.of_module.get(&variable.name) {
                scope.insert(variable.name.as_str(), Symbol::Global(placed.address));
            }
        }
        let mut in_tables = HashSet::new();
        let in_functions = module.functions.iter().flat_map(variables::of_function);
        for variable in module.variables.iter().chain(in_functions) {
            mentioned(variable.initializer.as_deref().unwrap_or(&[]), &scope, &mut in_tables);
        }
        Self { module, scope, shared, local_bytes, variables, in_tables, workspace, capability }
    }
}

fn mentioned(values: &[Initializer], scope: &HashMap<&str, Symbol>, functions: &mut HashSet<u32>) {
    for value in values {
        match value {
            Initializer::Group(inner) => mentioned(inner, scope, functions),
            Initializer::Address { symbol, .. } => {
                if let Some(Symbol::Function(index)) = scope.get(symbol.as_str()) {
                    functions.insert(*index);
                }
            }
            Initializer::Number(_) => {}
        }
    }
}

/// A kernel being decoded.
pub(crate) struct KernelDecoder<'m> {
    pub(crate) names: &'m ModuleNames<'m>,
    /// Functions reached so far, by index in the module, in the order of their code.
    pub(crate) reached: Vec<u32>,
    pub(crate) shared: HashMap<&'m str, Symbol>,
    pub(crate) placed: Vec<SharedVariable>,
    /// The arrays that instructions name, and whether each is in the dynamic memory.
    arrays: Vec<(MemoryArray, bool)>,
    pub(crate) shared_bytes: u64,
    pub(crate) dynamic_alignment: u64,
    /// Numbers of registers of the function that is decoded, by name.
    registers: HashMap<String, Register>,
    /// The size of each register, by its number.
    pub(crate) register_words: Vec<u8>,
    /// The rows of names met so far.
    rows: HashMap<String, Rows>,
    /// Instructions that fail when they are executed.
    pub(crate) unsupported: Vec<LoadError>,
}

impl<'m> KernelDecoder<'m> {
    pub(crate) fn new(names: &'m ModuleNames<'m>, root: u32) -> Self {
        Self {
            names,
            reached: vec![root],
            shared: HashMap::new(),
            placed: Vec::new(),
            arrays: Vec::new(),
            shared_bytes: 0,
            dynamic_alignment: DYNAMIC_SHARED_ALIGNMENT,
            registers: HashMap::new(),
            register_words: Vec::new(),
            rows: HashMap::new(),
            unsupported: Vec::new(),
        }
    }

    /// The address of a function in this kernel's code.
    pub(crate) fn reach(&mut self, function: u32) -> u32 {
        match self.reached.iter().position(|&reached| reached == function) {
            Some(place) => place as u32,
            None => {
                self.reached.push(function);
                self.reached.len() as u32 - 1
            }
        }
    }

    /// The rows of the instruction table that a name has.
    pub(crate) fn rows(&mut self, opcode: &str) -> Rows {
        if !self.rows.contains_key(opcode) {
            let mut rows = warpwright_ptx::rows(opcode);
            if rows.is_empty() {
                rows = later_forms_of(opcode);
            }
            self.rows.insert(opcode.to_owned(), rows.into());
        }
        Rows::clone(&self.rows[opcode])
    }

    /// Begins a function, whose registers are others than those of the same names before it.
    pub(crate) fn begin_function(&mut self) {
        self.registers.clear();
    }

    /// The number of a register of a file.
    pub(crate) fn number(&mut self, name: &str, file: File) -> Register {
        if let Some(number) = self.registers.get(name) {
            return *number;
        }
        let number = Register(self.register_words.len() as u32);
        self.register_words.push(file.words());
        self.registers.insert(name.to_owned(), number);
        number
    }

    /// The position of an instruction and of the calls around it, outermost first.
    pub(crate) fn frames(&self, instruction: &Instruction) -> Vec<Source> {
        let calls = std::iter::successors(instruction.inlined.as_deref(), |call| call.outer.as_deref());
        let positions = instruction.location.into_iter().chain(calls.map(|call| call.at));
        let mut frames: Vec<Source> =
            positions.map(|position| source(&self.names.module.files, position)).collect();
        frames.reverse();
        frames
    }

    /// The variable of this name at an offset of the static shared memory.
    pub(crate) fn static_array(&mut self, name: &str, offset: u32) -> Base {
        let is_it = |placed: &&SharedVariable| placed.name == name && placed.offset == offset;
        let bytes = self.placed.iter().find(is_it).and_then(|placed| placed.bytes);
        self.array(MemoryArray { start: offset.into(), bytes, ..shared(name) }, false)
    }

    /// A variable of this name in the kernel's local memory.
    pub(crate) fn local_array(&mut self, name: &str, offset: u32, size: u32) -> Base {
        let (start, bytes) = (offset.into(), Some(size.into()));
        self.array(MemoryArray { space: MemorySpace::Local, start, bytes, ..shared(name) }, false)
    }

    /// The bytes of `part` in the dynamic shared memory.
    pub(crate) fn dynamic_array(&mut self, name: &str, part: Option<&Range<u64>>) -> Base {
        let start = part.map_or(0, |part| part.start);
        let bytes = part.and_then(|part| part.end.checked_sub(part.start));
        self.array(MemoryArray { start, bytes, ..shared(name) }, true)
    }

    fn array(&mut self, array: MemoryArray, is_dynamic: bool) -> Base {
        let known = self.arrays.iter().position(|known| *known == (array.clone(), is_dynamic));
        let index = known.unwrap_or_else(|| {
            self.arrays.push((array, is_dynamic));
            self.arrays.len() - 1
        });
        Base::Array(index as u32)
    }

    /// The arrays that instructions name, with the dynamic memory at its offset.
    pub(crate) fn arrays(&mut self, dynamic_offset: u32) -> Vec<MemoryArray> {
        let placed = |(array, is_dynamic): (MemoryArray, bool)| {
            let start = if is_dynamic { array.start + u64::from(dynamic_offset) } else { array.start };
            MemoryArray { start, ..array }
        };
        std::mem::take(&mut self.arrays).into_iter().map(placed).collect()
    }

    /// Reaches every function that a table of addresses names.
    pub(crate) fn reach_tables(&mut self) {
        let is_called = |function: &u32| !self.names.module.functions[*function as usize].is_entry;
        let mut functions: Vec<u32> = self.names.in_tables.iter().copied().filter(is_called).collect();
        functions.sort_unstable();
        for function in functions {
            self.reach(function);
        }
    }

    /// The meaning of a module-level name in this kernel.
    pub(crate) fn module_symbol(&mut self, name: &str) -> Result<Symbol, DecodeError> {
        if let Some(symbol) = self.names.scope.get(name).or_else(|| self.shared.get(name)) {
            return Ok(symbol.clone());
        }
        let Some((&name, &variable)) = self.names.shared.get_key_value(name) else {
            if self
                .names
                .module
                .variables
                .iter()
                .any(|own| own.space == StateSpace::Register && own.declares(name))
            {
                return Err(DecodeError::unsupported(format!(
                    "The emulator does not support the register `{name}` of the module in a function."
                )));
            }
            return Err(DecodeError::new(format!("`{name}` is not declared.")));
        };
        let symbol = self.place_shared(variable)?;
        self.shared.insert(name, symbol.clone());
        Ok(symbol)
    }

    /// Allocates a variable in shared memory.
    pub(crate) fn place_shared(&mut self, variable: &Variable) -> Result<Symbol, DecodeError> {
        let alignment = variables::alignment(variable).max(1);
        let mut placed = SharedVariable {
            name: variable.name.clone(),
            offset: 0,
            bytes: None,
            line: variable.line,
            text: format!("{variable};"),
        };
        if variables::is_dynamic(variable) {
            self.placed.push(placed);
            self.dynamic_alignment = self.dynamic_alignment.max(alignment);
            return Ok(Symbol::DynamicShared);
        }
        let offset = self.shared_bytes.next_multiple_of(alignment);
        let end = offset + variables::size(variable);
        let most = self.names.capability.shared_bytes_per_cta_opt_in;
        if end > most.into() {
            return Err(DecodeError::new(format!(
                "The variables of the kernel take {end} bytes of shared memory; a CTA may have {most}."
            )));
        }
        self.shared_bytes = end;
        (placed.offset, placed.bytes) = (offset as u32, Some(variables::size(variable)));
        self.placed.push(placed);
        Ok(Symbol::Shared(offset as u32))
    }
}

/// Of an array in shared memory: what its name says.
fn shared(name: &str) -> MemoryArray {
    MemoryArray { space: MemorySpace::Shared, variable: name.to_owned(), start: 0, bytes: None }
}
