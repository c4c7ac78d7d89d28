//! Kernel parameters, as the PTX declares them.

use warpwright_arch::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES};
use warpwright_ptx::syntax::{Function, Module, Type, Variable};

/// A kernel's parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the PTX.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Its type, as far as the PTX declares it.
    pub kind: ParameterKind,
}

/// The type of a parameter, as far as the PTX declares it. Compilers declare pointers as 64-bit
/// integers, and 16-bit floats as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Untyped bits, such as `.b32`.
    Bits,
    /// An integer. A 64-bit integer may be a pointer.
    Integer,
    /// A float.
    Float,
    /// An integer that the PTX declares as a pointer.
    Pointer,
    /// An array: a structure passed by value.
    Array,
}

impl Parameter {
    fn of(variable: &Variable) -> Self {
        let element = type_bytes(variable.ty) * variable.vector.max(1) as usize;
        let count = variable.dimensions.iter().map(|extent| extent.unwrap_or(0) as usize).product::<usize>();
        let kind = if !variable.dimensions.is_empty() {
            ParameterKind::Array
        } else if variable.pointer.is_some() {
            ParameterKind::Pointer
        } else {
            type_kind(variable.ty)
        };
        Self {
            name: variable.name.clone(),
            bytes: element * count,
            align: variable.align.map_or(element, |align| align as usize).max(1),
            kind,
        }
    }

    /// Whether the parameter accepts an address.
    pub(crate) fn takes_address(&self) -> bool {
        self.bytes == 8 && self.kind != ParameterKind::Float
    }

    /// Whether the parameter accepts a scalar of `bytes` bytes.
    pub(crate) fn takes_scalar(&self, bytes: usize, is_float: bool) -> bool {
        let kind_fits = match self.kind {
            ParameterKind::Integer => !is_float,
            ParameterKind::Float => is_float,
            // An address that the host computed is an integer.
            ParameterKind::Pointer => !is_float,
            ParameterKind::Bits | ParameterKind::Array => true,
        };
        self.bytes == bytes && kind_fits
    }

    /// Whether the parameter accepts a tensor map: 128 bytes with the alignment that the hardware
    /// requires.
    pub(crate) fn takes_tensor_maps(&self, count: usize) -> bool {
        self.bytes == count * TENSOR_MAP_BYTES && self.align.is_multiple_of(TENSOR_MAP_ALIGN)
    }

    /// A description for messages: ``a 4-byte integer, `n` ``.
    pub(crate) fn describe(&self) -> String {
        let Self { bytes, name, .. } = self;
        let article = if *bytes == 8 { "an" } else { "a" };
        match self.kind {
            ParameterKind::Pointer => format!("`{name}` is a pointer"),
            ParameterKind::Array => format!("`{name}` is a structure of {bytes} bytes"),
            ParameterKind::Integer if *bytes == 8 => format!("`{name}` is an 8-byte integer or a pointer"),
            ParameterKind::Integer => format!("`{name}` is {article} {bytes}-byte integer"),
            ParameterKind::Float => format!("`{name}` is {article} {bytes}-byte float"),
            ParameterKind::Bits => format!("`{name}` is {bytes} bytes"),
        }
    }
}

/// The kernels that a module defines.
pub(crate) fn entries(module: &Module) -> impl Iterator<Item = &Function> {
    module.functions.iter().filter(|function| function.is_entry && function.body.is_some())
}

/// The parameters of an entry, in order.
pub(crate) fn parameters(entry: &Function) -> Vec<Parameter> {
    entry.parameters.iter().map(Parameter::of).collect()
}

pub(crate) fn type_bytes(ty: Type) -> usize {
    match ty {
        Type::Pred | Type::B8 | Type::U8 | Type::S8 | Type::E4m3 | Type::E5m2 => 1,
        Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::Bf16 => 2,
        Type::B32 | Type::U32 | Type::S32 | Type::F16x2 | Type::Bf16x2 | Type::Tf32 | Type::F32 => 4,
        Type::B64 | Type::U64 | Type::S64 | Type::F64 => 8,
        // Handles of textures, samplers and surfaces are 64 bits wide.
        Type::TexRef | Type::SamplerRef | Type::SurfRef => 8,
        Type::B128 => 16,
    }
}

fn type_kind(ty: Type) -> ParameterKind {
    match ty {
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::S8 | Type::S16 | Type::S32 | Type::S64 => {
            ParameterKind::Integer
        }
        Type::F16 | Type::Bf16 | Type::Tf32 | Type::F32 | Type::F64 => ParameterKind::Float,
        _ => ParameterKind::Bits,
    }
}
