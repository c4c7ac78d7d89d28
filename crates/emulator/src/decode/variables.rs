//! Module variables: sizes, addresses and initial values.

use std::collections::{BTreeMap, HashSet};

use warpwright_ptx::syntax::{
    Function, Initializer, Linkage, Module, Number, StateSpace, Statement, Type, Variable,
};

use super::error::DecodeError;
use super::names::{Scope, Symbol};
use crate::kernel::image::KernelParameter;
use crate::load_error::LoadError;
use crate::memory::{Memory, function_address};
use crate::program::ModuleVariable;

/// The bytes of one element. Texture handles are 64 bits wide.
fn element_bytes(variable: &Variable) -> u64 {
    let scalar = match variable.ty {
        Type::TexRef | Type::SamplerRef | Type::SurfRef => 8,
        ty => ty.bytes(),
    };
    u64::from(scalar) * u64::from(variable.vector.max(1))
}

/// The size of a variable in bytes. An array without a length has that of its initializer.
pub(crate) fn size(variable: &Variable) -> u64 {
    let given = variable.initializer.as_ref().map_or(0, |values| flattened(values).len() as u64);
    let inner: u64 = variable.dimensions.iter().skip(1).map(|length| length.unwrap_or(1)).product();
    let outer = match variable.dimensions.first() {
        Some(Some(length)) => *length,
        Some(None) => given.div_ceil(inner.max(1)),
        None => 1,
    };
    element_bytes(variable) * outer * inner
}

/// The alignment of a variable.
pub(crate) fn alignment(variable: &Variable) -> u64 {
    variable.align.map_or_else(|| element_bytes(variable).max(1), u64::from)
}

/// Whether it is the array of unknown length that denotes dynamic shared memory.
pub(crate) fn is_dynamic(variable: &Variable) -> bool {
    variable.linkage == Linkage::Extern && variable.space == StateSpace::Shared && size(variable) == 0
}

fn flattened(values: &[Initializer]) -> Vec<&Initializer> {
    values
        .iter()
        .flat_map(|value| match value {
            Initializer::Group(inner) => flattened(inner),
            plain => vec![plain],
        })
        .collect()
}

/// The variables of a module in global and constant memory.
#[derive(Debug, Default)]
pub(crate) struct PlacedVariables {
    pub(crate) of_module: BTreeMap<String, ModuleVariable>,
    /// For each function, the addresses of those that its body declares, in the order of the text.
    pub(crate) of_functions: Vec<Vec<u64>>,
}

fn in_memory(variable: &&Variable) -> bool {
    matches!(variable.space, StateSpace::Global | StateSpace::Constant | StateSpace::Texture)
}

/// The variables in global and constant memory that a function's body declares, in the order of the
/// text.
pub(crate) fn of_function(function: &Function) -> Vec<&Variable> {
    let mut found = Vec::new();
    find(function.body.as_deref().unwrap_or(&[]), &mut found);
    found
}

fn find<'m>(statements: &'m [Statement], found: &mut Vec<&'m Variable>) {
    for statement in statements {
        match statement {
            Statement::Variable(variable) => found.extend(Some(variable).filter(in_memory)),
            Statement::Block(inner) => find(inner, found),
            _ => {}
        }
    }
}

/// Allocates all global and constant variables, then fills them.
pub(crate) fn place(module: &Module, memory: &mut Memory) -> Result<PlacedVariables, LoadError> {
    let mut placed = BTreeMap::new();
    let defined = module.variables.iter().filter(|variable| variable.linkage != Linkage::Extern);
    let defined: HashSet<&str> = defined.map(|variable| variable.name.as_str()).collect();
    for variable in module.variables.iter().filter(in_memory) {
        if placed.contains_key(&variable.name)
            || (variable.linkage == Linkage::Extern && defined.contains(variable.name.as_str()))
        {
            continue;
        }
        placed.insert(variable.name.clone(), reserve(variable, memory)?);
    }
    for variable in module.variables.iter().filter(in_memory) {
        let target = placed[&variable.name];
        if variable.linkage == Linkage::Extern {
            continue;
        }
        fill(module, variable, target, &placed, memory)?;
    }
    let mut of_functions = Vec::new();
    for function in &module.functions {
        of_functions.push(place_of_function(module, function, &placed, memory)?);
    }
    Ok(PlacedVariables { of_module: placed, of_functions })
}

/// Allocates and fills the variables of a function's body, which may name those before them.
fn place_of_function(
    module: &Module,
    function: &Function,
    of_module: &BTreeMap<String, ModuleVariable>,
    memory: &mut Memory,
) -> Result<Vec<u64>, LoadError> {
    let variables = of_function(function);
    if variables.is_empty() {
        return Ok(Vec::new());
    }
    let mut known = of_module.clone();
    let mut addresses = Vec::new();
    for variable in variables {
        let target = reserve(variable, memory)?;
        known.insert(variable.name.clone(), target);
        fill(module, variable, target, &known, memory)?;
        addresses.push(target.address);
    }
    Ok(addresses)
}

fn reserve(variable: &Variable, memory: &mut Memory) -> Result<ModuleVariable, LoadError> {
    let size = size(variable);
    let read_only = variable.space == StateSpace::Constant;
    let address = memory
        .reserve(size, alignment(variable), Some(variable.name.clone()), read_only)
        .map_err(|error| at(variable, error.to_string()))?;
    Ok(ModuleVariable { address, size })
}

fn fill(
    module: &Module,
    variable: &Variable,
    target: ModuleVariable,
    known: &BTreeMap<String, ModuleVariable>,
    memory: &mut Memory,
) -> Result<(), LoadError> {
    let bytes = initial_bytes(module, variable, target.size, known)
        .map_err(|error| error.at(None, variable.line, variable.name.clone()))?;
    memory.write(target.address, &bytes).map_err(|error| at(variable, error.to_string()))
}

fn at(variable: &Variable, message: String) -> LoadError {
    DecodeError::new(message).at(None, variable.line, variable.name.clone())
}

/// The bytes of a variable's initializer. Zeros follow (PTX ISA, "Initializers"), which new
/// variables hold.
fn initial_bytes(
    module: &Module,
    variable: &Variable,
    size: u64,
    placed: &BTreeMap<String, ModuleVariable>,
) -> Result<Vec<u8>, DecodeError> {
    let mut bytes = Vec::new();
    let width = element_bytes(variable) as usize / variable.vector.max(1) as usize;
    for value in flattened(variable.initializer.as_deref().unwrap_or(&[])) {
        let bits = match value {
            Initializer::Number(number) => number_bits(*number, variable.ty)?,
            Initializer::Address { symbol, offset, mask, .. } => {
                let function = function_index(module, symbol);
                let address = match (placed.get(symbol), function) {
                    (Some(variable), _) => variable.address,
                    (None, Some(index)) => function_address(index),
                    (None, None) => {
                        return Err(DecodeError::new(format!(
                            "The initializer names `{symbol}`, which is not declared."
                        )));
                    }
                };
                let address = address.wrapping_add_signed(*offset);
                match mask {
                    Some(mask) => (address & mask) >> mask.trailing_zeros(),
                    None => address,
                }
            }
            Initializer::Group(_) => unreachable!("groups are flattened"),
        };
        bytes.extend_from_slice(&u128::from(bits).to_le_bytes()[..width]);
    }
    if bytes.len() as u64 > size {
        let message = format!("The initializer has {} bytes, and the variable {size}.", bytes.len());
        return Err(DecodeError::new(message));
    }
    Ok(bytes)
}

/// A literal as the bits of a type.
pub(crate) fn number_bits(number: Number, ty: Type) -> Result<u64, DecodeError> {
    let keep = |bits: u64| match ty.bytes() {
        1 => bits & 0xff,
        2 => bits & 0xffff,
        4 => bits & 0xffff_ffff,
        _ => bits,
    };
    Ok(match (number, ty) {
        (Number::F32(bits), Type::F64) => f64::from(f32::from_bits(bits)).to_bits(),
        (Number::F32(bits), _) => u64::from(bits),
        (Number::F64(bits), Type::F32 | Type::Tf32) => u64::from((f64::from_bits(bits) as f32).to_bits()),
        (Number::F64(bits), Type::F64 | Type::B64 | Type::U64 | Type::S64) => bits,
        (Number::F64(_), _) => {
            return Err(DecodeError::new(format!("A floating-point literal does not fit .{}.", ty.word())));
        }
        (Number::Integer(value), Type::F32) => u64::from((value as f32).to_bits()),
        (Number::Integer(value), Type::F64) => (value as f64).to_bits(),
        (Number::Integer(value), Type::Pred) => u64::from(value != 0),
        (Number::Integer(value), _) => keep(value as u64),
    })
}

/// The index of a function in the module: of its definition, if it has one besides declarations.
pub(crate) fn function_index(module: &Module, name: &str) -> Option<u32> {
    let named = |defined: bool| {
        let found = |function: &Function| function.name == name && function.body.is_some() == defined;
        module.functions.iter().position(found)
    };
    named(true).or_else(|| named(false)).map(|index| index as u32)
}

/// A kernel's parameters: each at the next multiple of its alignment.
pub(crate) fn parameters(formals: &[Variable], scope: &mut Scope) -> Vec<KernelParameter> {
    let mut end = 0;
    formals
        .iter()
        .map(|formal| {
            let offset = (end as u64).next_multiple_of(alignment(formal)) as u32;
            let size = size(formal) as u32;
            end = offset + size;
            scope.insert(formal.name.clone(), Symbol::KernelParameter { offset });
            KernelParameter { name: formal.name.clone(), offset, size }
        })
        .collect()
}

/// How many bytes a kernel's parameters take.
pub(crate) fn parameter_bytes(function: &Function) -> u32 {
    parameters(&function.parameters, &mut Scope::default()).last().map_or(0, |last| last.offset + last.size)
}
