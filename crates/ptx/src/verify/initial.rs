//! The values that variables begin with.

use super::names::Meaning;
use crate::syntax::{Initializer, Linkage, Number, StateSpace, Type, Variable};

/// What a name means where a variable is declared.
pub(super) type Meanings<'a, 'm> = &'a dyn Fn(&str) -> Option<Meaning<'m>>;

/// Checks the values that a variable begins with.
pub(super) fn initial_values(
    variable: &Variable,
    values: &[Initializer],
    meaning: Meanings<'_, '_>,
) -> Result<(), String> {
    let name = &variable.name;
    if !matches!(variable.space, StateSpace::Global | StateSpace::Constant | StateSpace::Texture) {
        return Err(format!(
            "`{name}` is in .{}, whose variables have no initial value: store one in the kernel.",
            variable.space.word()
        ));
    }
    if matches!(variable.ty, Type::F16 | Type::F16x2) {
        return Err(format!(
            "`{name}` is a .{}, which has no initial value: declare it with a bit type.",
            variable.ty.word()
        ));
    }
    if variable.dimensions.contains(&Some(0)) {
        return Err(format!("The array `{name}` has no elements, and an initial value."));
    }
    if variable.linkage == Linkage::Extern {
        return Err(format!("`{name}` is .extern: its initial value stands at its definition."));
    }
    if !is_opaque(variable.ty) {
        shape(name, values, &variable.dimensions, variable.vector)?;
    }
    values.iter().try_for_each(|value| initial_value(variable, value, meaning))
}

/// Types of textures, samplers and surfaces, whose initial values are properties by name.
pub(super) fn is_opaque(ty: Type) -> bool {
    matches!(ty, Type::TexRef | Type::SamplerRef | Type::SurfRef)
}

/// Compares the braces of initial values with the dimensions: a pair for each array and each vector in
/// it.
fn shape(name: &str, values: &[Initializer], dimensions: &[Option<u64>], vector: u32) -> Result<(), String> {
    let (extent, inner) = match dimensions {
        [extent, inner @ ..] => (*extent, inner),
        [] if vector > 1 && values.len() as u64 != u64::from(vector) => {
            return Err(format!(
                "The initial value of the vector `{name}` has {} of {vector} elements.",
                values.len()
            ));
        }
        [] => (None, dimensions),
    };
    if extent.is_some_and(|extent| values.len() as u64 > extent) {
        return Err(format!("`{name}` has more initial values than elements."));
    }
    let is_nested = !dimensions.is_empty() && (!inner.is_empty() || vector > 1);
    values.iter().try_for_each(|value| match value {
        Initializer::Group(values) if is_nested => shape(name, values, inner, vector),
        Initializer::Group(_) => {
            Err(format!("The initial value of `{name}` has more braces than it has dimensions."))
        }
        _ if is_nested => {
            Err(format!("The initial value of `{name}` has fewer braces than it has dimensions."))
        }
        _ => Ok(()),
    })
}

fn initial_value(variable: &Variable, value: &Initializer, meaning: Meanings<'_, '_>) -> Result<(), String> {
    let name = &variable.name;
    match value {
        Initializer::Group(inner) => {
            inner.iter().try_for_each(|value| initial_value(variable, value, meaning))
        }
        Initializer::Number(number) => {
            let is_float = matches!(variable.ty, Type::F16 | Type::F32 | Type::F64);
            let is_integer = matches!(
                variable.ty,
                Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::S8 | Type::S16 | Type::S32 | Type::S64
            );
            match number {
                Number::Integer(_) if is_float => Err(format!(
                    "`{name}` has the type .{}, and an integer as initial value.",
                    variable.ty.word()
                )),
                Number::F32(_) | Number::F64(_) if is_integer => Err(format!(
                    "`{name}` has the type .{}, and a floating-point literal as initial value.",
                    variable.ty.word()
                )),
                _ => Ok(()),
            }
        }
        Initializer::Address { mask, .. }
            if !(matches!(variable.ty, Type::U32 | Type::U64)
                || mask.is_some() && variable.ty == Type::U8
                || is_opaque(variable.ty)) =>
        {
            Err(format!(
                "The initial value of `{name}` is an address, which variables of .u32 and .u64 hold, and of .u8 by \
                 its bytes: `0xff(symbol)`."
            ))
        }
        Initializer::Address { symbol, .. } => match meaning(symbol) {
            Some(Meaning::Variable(StateSpace::Global | StateSpace::Constant) | Meaning::Function(_)) => {
                Ok(())
            }
            Some(Meaning::Variable(space)) => Err(format!(
                "The initial value of `{name}` is the address of `{symbol}`, which is in .{} and has none when the \
                 module is loaded.",
                space.word()
            )),
            _ => Err(format!(
                "The initial value of `{name}` names `{symbol}`, which is not declared. Declare it before `{name}`."
            )),
        },
    }
}
