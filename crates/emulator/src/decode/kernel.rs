//! Kernels: each decoded with the functions it may reach.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use warpwright_events::{Code, Register, Source};
use warpwright_ptx::syntax::{
    Function, Initializer, Module, Number, Operand, SourceLocation, StateSpace, Statement, Variable,
};

use super::function::{DecodedFunction, FunctionDecoder};
use super::grid_workspace::GridWorkspace;
use super::names::{Scope, Symbol};
use super::{DecodeError, variables};
use crate::operation::Kind;
use crate::program::{
    CodeFunction, Kernel, KernelParameter, LaunchBounds, LoadError, ModuleVariable, SharedVariable, source,
};

/// Dynamic shared memory starts at a multiple of this, so that any vector or tensor copy may land there.
const DYNAMIC_SHARED_ALIGNMENT: u64 = 16;

/// Decodes every kernel with a body.
pub(super) fn decode_all(
    module: &Module,
    variables: &BTreeMap<String, ModuleVariable>,
    workspace: GridWorkspace,
) -> Result<BTreeMap<String, Kernel>, LoadError> {
    let names = ModuleNames::of(module, variables, workspace);
    let files = Arc::new(module.files.clone());
    let mut kernels = BTreeMap::new();
    for (index, function) in module.functions.iter().enumerate() {
        if function.is_entry && function.body.is_some() {
            let kernel = KernelDecoder::new(&names, index as u32).decode(Arc::clone(&files))?;
            kernels.insert(function.name.clone(), kernel);
        }
    }
    for (index, function) in module.functions.iter().enumerate() {
        if !function.is_entry && function.body.is_some() {
            KernelDecoder::new(&names, index as u32).decode(Arc::clone(&files))?;
        }
    }
    Ok(kernels)
}

/// What the module's own names stand for, the same for all kernels but for shared memory.
pub(super) struct ModuleNames<'m> {
    pub(super) module: &'m Module,
    scope: HashMap<&'m str, Symbol>,
    shared: HashMap<&'m str, &'m Variable>,
    /// Functions whose address an initializer takes.
    in_tables: HashSet<u32>,
    pub(super) workspace: GridWorkspace,
}

impl<'m> ModuleNames<'m> {
    fn of(
        module: &'m Module,
        variables: &BTreeMap<String, ModuleVariable>,
        workspace: GridWorkspace,
    ) -> Self {
        let mut scope = HashMap::new();
        for function in &module.functions {
            if let Some(index) = variables::function_index(module, &function.name) {
                scope.insert(function.name.as_str(), Symbol::Function(index));
            }
        }
        for (alias, function) in &module.aliases {
            if let Some(symbol) = scope.get(function.as_str()).cloned() {
                scope.insert(alias.as_str(), symbol);
            }
        }
        let mut shared = HashMap::new();
        for variable in &module.variables {
            if variable.space == StateSpace::Shared {
                shared.insert(variable.name.as_str(), variable);
            } else if let Some(placed) = variables.get(&variable.name) {
                scope.insert(variable.name.as_str(), Symbol::Global(placed.address));
            }
        }
        let mut in_tables = HashSet::new();
        for variable in &module.variables {
            mentioned(variable.initializer.as_deref().unwrap_or(&[]), &scope, &mut in_tables);
        }
        Self { module, scope, shared, in_tables, workspace }
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
pub(super) struct KernelDecoder<'m> {
    pub(super) names: &'m ModuleNames<'m>,
    /// Functions reached so far, by index in the module, in the order of their code.
    reached: Vec<u32>,
    shared: HashMap<&'m str, Symbol>,
    placed: Vec<SharedVariable>,
    shared_bytes: u64,
    dynamic_alignment: u64,
    /// Numbers of registers, by name.
    registers: HashMap<String, u32>,
}

impl<'m> KernelDecoder<'m> {
    fn new(names: &'m ModuleNames<'m>, root: u32) -> Self {
        Self {
            names,
            reached: vec![root],
            shared: HashMap::new(),
            placed: Vec::new(),
            shared_bytes: 0,
            dynamic_alignment: DYNAMIC_SHARED_ALIGNMENT,
            registers: HashMap::new(),
        }
    }

    /// The place of a function in this kernel's code.
    pub(super) fn reach(&mut self, function: u32) -> u32 {
        match self.reached.iter().position(|&reached| reached == function) {
            Some(place) => place as u32,
            None => {
                self.reached.push(function);
                self.reached.len() as u32 - 1
            }
        }
    }

    /// The number of a register.
    pub(super) fn number(&mut self, name: &str) -> Register {
        if let Some(number) = self.registers.get(name) {
            return Register(*number);
        }
        let next = self.registers.len() as u32;
        self.registers.insert(name.to_owned(), next);
        Register(next)
    }

    /// A position, where the module names its file.
    pub(super) fn source(&self, location: SourceLocation) -> Source {
        source(&self.names.module.files, location)
    }

    /// Reaches every function that a table of addresses names.
    pub(super) fn reach_tables(&mut self) {
        let mut functions: Vec<u32> = self.names.in_tables.iter().copied().collect();
        functions.sort_unstable();
        for function in functions {
            self.reach(function);
        }
    }

    /// What a module-level name stands for in this kernel.
    pub(super) fn module_symbol(&mut self, name: &str) -> Option<Symbol> {
        if let Some(symbol) = self.names.scope.get(name) {
            return Some(symbol.clone());
        }
        if let Some(symbol) = self.shared.get(name) {
            return Some(symbol.clone());
        }
        let (&name, &variable) = self.names.shared.get_key_value(name)?;
        let symbol = self.place_shared(variable);
        self.shared.insert(name, symbol.clone());
        Some(symbol)
    }

    /// Gives a variable its place in shared memory.
    pub(super) fn place_shared(&mut self, variable: &Variable) -> Symbol {
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
            return Symbol::DynamicShared;
        }
        let offset = self.shared_bytes.next_multiple_of(alignment);
        self.shared_bytes = offset + variables::size(variable);
        (placed.offset, placed.bytes) = (offset as u32, Some(variables::size(variable)));
        self.placed.push(placed);
        Symbol::Shared(offset as u32)
    }

    fn decode(mut self, files: Arc<BTreeMap<u32, String>>) -> Result<Kernel, LoadError> {
        let root = &self.names.module.functions[self.reached[0] as usize];
        let mut kernel = Kernel {
            name: root.name.clone(),
            operations: Vec::new(),
            code: Arc::default(),
            functions: Vec::new(),
            by_address: BTreeMap::new(),
            files,
            parameters: Vec::new(),
            shared: Vec::new(),
            objects: root.objects.clone(),
            static_shared_bytes: 0,
            dynamic_shared_offset: 0,
            bounds: bounds(root),
            register_uses: Vec::new(),
        };
        let mut code = Code { kernel: root.name.clone(), ..Code::default() };
        let mut next = 0;
        while next < self.reached.len() {
            let function = &self.names.module.functions[self.reached[next] as usize];
            let mut scope = Scope::default();
            if next == 0 && root.is_entry {
                kernel.parameters = parameters(&root.parameters, &mut scope);
            }
            let Some(body) = &function.body else {
                return Err(DecodeError::new(format!(
                    "`{}` is declared but not defined in this module, and the emulator does not provide it.",
                    function.name
                ))
                .at(Some(&kernel.name), function.line, String::new()));
            };
            let decoded = FunctionDecoder::new(&mut self, function, scope).decode(body)?;
            append(&mut kernel, &mut code, decoded);
            next += 1;
        }
        for (place, &function) in self.reached.iter().enumerate() {
            kernel.by_address.insert(function, place as u32);
        }
        kernel.code = Arc::new(code);
        kernel.static_shared_bytes = self.shared_bytes as u32;
        kernel.dynamic_shared_offset = self.shared_bytes.next_multiple_of(self.dynamic_alignment) as u32;
        kernel.shared = self.placed;
        for variable in kernel.shared.iter_mut().filter(|variable| variable.bytes.is_none()) {
            variable.offset = kernel.dynamic_shared_offset;
        }
        Ok(kernel)
    }
}

/// Adds a function's code behind what is there already.
fn append(kernel: &mut Kernel, code: &mut Code, mut decoded: DecodedFunction) {
    let start = kernel.operations.len() as u32;
    for operation in &mut decoded.operations {
        match &mut operation.kind {
            Kind::Branch { target } => *target += start,
            Kind::BranchTable { targets, .. } => targets.iter_mut().for_each(|target| *target += start),
            _ => {}
        }
    }
    if !decoded.register_uses.is_empty() {
        kernel.register_uses.resize_with(start as usize, Box::default);
        kernel.register_uses.append(&mut decoded.register_uses);
    } else if !kernel.register_uses.is_empty() {
        kernel.register_uses.resize_with(start as usize + decoded.operations.len(), Box::default);
    }
    kernel.operations.append(&mut decoded.operations);
    let first = code.instructions.len() as u32;
    code.of_operation.extend(decoded.of_operation.iter().map(|index| first + index));
    code.instructions.append(&mut decoded.instructions);
    kernel.functions.push(CodeFunction { entry: start, ..decoded.function });
}

/// A kernel's parameters: each at the next multiple of its alignment.
fn parameters(formals: &[Variable], scope: &mut Scope) -> Vec<KernelParameter> {
    let mut end = 0;
    formals
        .iter()
        .map(|formal| {
            let offset = (end as u64).next_multiple_of(variables::alignment(formal)) as u32;
            let size = variables::size(formal) as u32;
            end = offset + size;
            scope.insert(formal.name.clone(), Symbol::KernelParameter { offset });
            KernelParameter { name: formal.name.clone(), offset, size }
        })
        .collect()
}

/// How many bytes a kernel's parameters take.
pub(super) fn parameter_bytes(function: &Function) -> u32 {
    parameters(&function.parameters, &mut Scope::default()).last().map_or(0, |last| last.offset + last.size)
}

fn bounds(function: &Function) -> LaunchBounds {
    let numbers = |word: &str| {
        function.directives.iter().find(|(name, _)| name == word).map(|(_, numbers)| {
            let mut extents = [1; 3];
            for (extent, &number) in extents.iter_mut().zip(numbers) {
                *extent = u32::try_from(number).unwrap_or(u32::MAX);
            }
            extents
        })
    };
    LaunchBounds {
        required_block: numbers("reqntid"),
        most_threads: numbers("maxntid").map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z)),
        required_cluster: numbers("reqnctapercluster"),
        most_cluster_ctas: numbers("maxclusterrank").map(|[ctas, ..]| ctas),
        least_ctas_per_sm: numbers("minnctapersm").map(|[ctas, ..]| ctas),
        most_registers: numbers("maxnreg").map(|[registers, ..]| registers),
        most_requested_registers: most_requested(function.body.as_deref().unwrap_or_default()),
    }
}

/// The largest count among the `setmaxnreg` of these statements.
fn most_requested(statements: &[Statement]) -> Option<u32> {
    let asked = |statement: &Statement| match statement {
        Statement::Block(inner) => most_requested(inner),
        Statement::Instruction(i) if i.opcode.base() == "setmaxnreg" => match i.operands.first() {
            Some(Operand::Number(Number::Integer(count))) => u32::try_from(*count).ok(),
            _ => None,
        },
        _ => None,
    };
    statements.iter().filter_map(asked).max()
}
