//! `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

use std::collections::HashSet;

use warpwright_arch::DataType;
use warpwright_ptx::syntax::{Operand, Statement};

use super::copy::groups;
use super::matrix::data_types;
use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::operation::kind::Kind;
use crate::operation::warpgroup::{LeftSource, WarpgroupMultiplication, WarpgroupOperation};
use crate::tensor::Shape;
use crate::tensor::descriptor::Major;
use crate::tensor::warpgroup::WarpgroupMultiply;

/// The names of registers that are accumulators of any MMA in these statements.
pub(crate) fn accumulators(statements: &[Statement], found: &mut HashSet<String>) {
    for statement in statements {
        match statement {
            Statement::Block(inner) => accumulators(inner, found),
            Statement::Instruction(i) if i.opcode.base() == "wgmma" => {
                if let Some(Operand::Vector(registers)) = i.operands.first() {
                    found.extend(registers.iter().map(Operand::to_string));
                }
            }
            _ => {}
        }
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let operation = if i.has("fence") {
        WarpgroupOperation::Fence
    } else if i.has("commit_group") {
        WarpgroupOperation::Commit
    } else if i.has("wait_group") {
        WarpgroupOperation::Wait(groups(i)? as usize)
    } else {
        WarpgroupOperation::Multiply(Box::new(multiplication(d, i)?))
    };
    d.emit(Kind::Warpgroup(Box::new(operation)));
    Ok(())
}

/// `d, a, b{, metadata, selector}, scale-d{, scale-a, scale-b}{, transpose-a}{, transpose-b}`: the
/// scales for floats only, the transpositions for 16-bit floats in shared memory only.
fn multiplication(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<WarpgroupMultiplication, DecodeError> {
    let shape = i.find(Shape::from_word).ok_or_else(|| i.names_no("shape"))?;
    let [result, a, b] = data_types(i)[..] else { return Err(i.names_no("types of three matrices")) };
    let sparse = i.has("sp");
    let in_shared = !matches!(i.operands[1], Operand::Vector(_));
    let scale = if sparse { 5 } else { 3 };
    let transpositions = scale + if result == DataType::S32 { 1 } else { 3 };
    let mut negated = false;
    for index in scale + 1..transpositions {
        match i.literal(index)? {
            1 => {}
            -1 => negated = !negated,
            other => return Err(DecodeError::new(format!("The scale of a matrix is 1 or -1, not {other}."))),
        }
    }
    let mut majors = Vec::new();
    for index in transpositions..i.operands.len() {
        majors.push(match i.literal(index)? {
            0 => Major::K,
            1 => Major::Mn,
            other => {
                return Err(DecodeError::new(format!(
                    "The transposition of a matrix is 0 or 1, not {other}."
                )));
            }
        });
    }
    let multiply = WarpgroupMultiply {
        shape,
        d: result,
        a,
        b,
        packed: false,
        coarse: true,
        selector: if sparse { Some(usize::try_from(i.literal(4)?).unwrap_or(usize::MAX)) } else { None },
        majors: (
            majors.first().copied().filter(|_| in_shared).unwrap_or(Major::K),
            majors.last().copied().unwrap_or(Major::K),
        ),
        negated,
        saturating: i.has("satfinite"),
    };
    multiply.check().map_err(|error| DecodeError::new(error.to_string()))?;
    let a = match in_shared {
        true => LeftSource::Shared(d.source_at(i, 1)?),
        false => LeftSource::Registers(d.sources_at(i, 1)?.try_into().map_err(|_| i.unsupported())?),
    };
    Ok(WarpgroupMultiplication {
        multiply,
        d: d.destinations_at(i, 0)?.into(),
        a,
        b: d.source_at(i, 2)?,
        metadata: if sparse { Some(d.source_at(i, 3)?) } else { None },
        accumulates: d.predicate(i.operand(scale)?)?,
    })
}
