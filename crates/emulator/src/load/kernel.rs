//! Kernels: each decoded with the functions it may reach.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use warpwright_arch::Capability;
use warpwright_events::{Branch, Code};
use warpwright_ptx::syntax::{Function, Module, Number, Operand, Statement};

use super::function::{DecodedFunction, decode_function};
use crate::decode::error::DecodeError;
use crate::decode::grid_workspace::GridWorkspace;
use crate::decode::kernel_scope::{KernelDecoder, ModuleNames};
use crate::decode::names::Scope;
use crate::decode::variables::{self, PlacedVariables};
use crate::kernel::image::{CodeFunction, Kernel, LaunchBounds};
use crate::load_error::LoadError;
use crate::operation::kind::{Kind, Operation};
use crate::program::LoadedKernel;

/// Decodes every kernel with a body.
pub(super) fn decode_all(
    module: &Module,
    variables: &PlacedVariables,
    workspace: GridWorkspace,
    capability: &'static Capability,
) -> Result<BTreeMap<String, LoadedKernel>, LoadError> {
    let names = ModuleNames::of(module, variables, workspace, capability);
    let files = Arc::new(module.files.clone());
    let (mut kernels, mut decoded) = (BTreeMap::new(), HashSet::<u32>::new());
    for (index, function) in module.functions.iter().enumerate() {
        if function.is_entry && function.body.is_some() {
            let kernel = KernelDecoder::new(&names, index as u32).decode(Arc::clone(&files))?;
            decoded.extend(kernel.kernel.by_address.keys());
            kernels.insert(function.name.clone(), kernel);
        }
    }
    // Functions that no kernel reaches are decoded for their errors only, callers before callees.
    for (index, function) in module.functions.iter().enumerate().rev() {
        if !function.is_entry && function.body.is_some() && !decoded.contains(&(index as u32)) {
            let function = KernelDecoder::new(&names, index as u32).decode(Arc::clone(&files))?;
            decoded.extend(function.kernel.by_address.keys());
        }
    }
    Ok(kernels)
}

impl KernelDecoder<'_> {
    fn decode(mut self, files: Arc<BTreeMap<u32, String>>) -> Result<LoadedKernel, LoadError> {
        let root = &self.names.module.functions[self.reached[0] as usize];
        let mut kernel = Kernel {
            name: root.name.clone(),
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
            predicates: HashMap::new(),
            unsupported: Vec::new(),
        };
        let mut operations = Vec::new();
        let mut code = Code { kernel: root.name.clone(), ..Code::default() };
        let mut next = 0;
        while next < self.reached.len() {
            let index = self.reached[next];
            let mut scope = Scope::default();
            if next == 0 && root.is_entry {
                check_parameters(root, self.names.capability)?;
                kernel.parameters = variables::parameters(&root.parameters, &mut scope);
            }
            let decoded = decode_function(&mut self, index, scope)?;
            append(&mut kernel, &mut operations, &mut code, decoded);
            next += 1;
        }
        for (place, &function) in self.reached.iter().enumerate() {
            kernel.by_address.insert(function, place as u32);
        }
        kernel.static_shared_bytes = self.shared_bytes as u32;
        kernel.dynamic_shared_offset = self.shared_bytes.next_multiple_of(self.dynamic_alignment) as u32;
        code.arrays = self.arrays(kernel.dynamic_shared_offset);
        code.register_words = std::mem::take(&mut self.register_words);
        kernel.code = Arc::new(code);
        kernel.shared = self.placed;
        kernel.unsupported = self.unsupported;
        for variable in kernel.shared.iter_mut().filter(|variable| variable.bytes.is_none()) {
            variable.offset = kernel.dynamic_shared_offset;
        }
        Ok(LoadedKernel { kernel, operations })
    }
}

/// Refuses a kernel with more bytes of parameters than the device takes.
fn check_parameters(kernel: &Function, capability: &Capability) -> Result<(), LoadError> {
    let bytes: u64 = kernel.parameters.iter().map(variables::size).sum();
    if bytes <= capability.parameter_bytes.into() {
        return Ok(());
    }
    let message =
        format!("The kernel takes {bytes} bytes of parameters; it may take {}.", capability.parameter_bytes);
    Err(DecodeError::new(message).at(Some(&kernel.name), kernel.line, String::new()))
}

/// Appends a function's code.
fn append(
    kernel: &mut Kernel,
    operations: &mut Vec<Operation>,
    code: &mut Code,
    mut decoded: DecodedFunction,
) {
    let start = operations.len() as u32;
    for (operation, place) in decoded.operations.iter_mut().zip(start..) {
        let targets = match &mut operation.kind {
            Kind::Branch { target } => std::slice::from_mut(target),
            Kind::BranchTable { targets, .. } => &mut targets[..],
            _ => continue,
        };
        for target in targets {
            *target += start;
            code.branches.push(Branch { operation: place, target: *target });
        }
    }
    if !decoded.register_uses.is_empty() {
        kernel.register_uses.resize_with(start as usize, Box::default);
        kernel.register_uses.append(&mut decoded.register_uses);
    } else if !kernel.register_uses.is_empty() {
        kernel.register_uses.resize_with(start as usize + decoded.operations.len(), Box::default);
    }
    kernel.predicates.extend(decoded.predicates.iter().map(|(at, predicates)| (start + at, *predicates)));
    operations.append(&mut decoded.operations);
    let first = code.instructions.len() as u32;
    code.of_operation.extend(decoded.of_operation.iter().map(|index| first + index));
    code.instructions.append(&mut decoded.instructions);
    kernel.functions.push(CodeFunction { entry: start, ..decoded.function });
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
