//! `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

use std::collections::HashSet;

use warpwright_arch::DataType;
use warpwright_ptx::syntax::{Instruction, Number, Operand, Statement, Type};

use super::matrix::element;
use crate::decode::{DecodeError, Decoder, Words, elements};
use crate::operation::kind::Kind;
use crate::operation::warpgroup::{LeftSource, WarpgroupMultiplication, WarpgroupOperation};
use crate::registers::Slot;
use crate::tensor::Shape;
use crate::tensor::descriptor::Major;
use crate::tensor::warpgroup::{LEFT_REGISTERS, WarpgroupMultiply};

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

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("sync");
    w.take("aligned");
    let operation = if w.take("fence") {
        d.expect_operands(i, 0)?;
        WarpgroupOperation::Fence
    } else if w.take("commit_group") {
        d.expect_operands(i, 0)?;
        WarpgroupOperation::Commit
    } else if w.take("wait_group") {
        d.expect_operands(i, 1)?;
        let count = constant(&i.operands[0], "The count of groups that wgmma.wait_group leaves")?;
        let most = usize::try_from(count)
            .map_err(|_| DecodeError::new("A number of groups must not be negative."))?;
        WarpgroupOperation::Wait(most)
    } else if w.take("mma_async") {
        WarpgroupOperation::Multiply(Box::new(multiplication(d, i, w)?))
    } else {
        return Err(DecodeError::new("`wgmma` names no operation, such as .mma_async."));
    };
    d.emit(Kind::Warpgroup(Box::new(operation)));
    Ok(())
}

fn constant(operand: &Operand, what: &str) -> Result<i64, DecodeError> {
    match operand {
        Operand::Number(Number::Integer(value)) => Ok(*value),
        _ => Err(DecodeError::new(format!("{what} is an integer constant."))),
    }
}

/// `d, a, b{, metadata, selector}, scale-d{, scale-a, scale-b}{, transpose-a}{, transpose-b}`: the
/// scales for floats only, the transpositions for 16-bit floats in shared memory only.
fn multiplication(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    w: &mut Words<'_>,
) -> Result<WarpgroupMultiplication, DecodeError> {
    let sparse = w.take("sp");
    let shape = w
        .take_first(Shape::from_word)
        .ok_or_else(|| DecodeError::new("The instruction names no shape, such as .m64n256k16."))?;
    let types = (element(w)?, element(w)?, element(w)?);
    let saturating = w.take("satfinite");
    if types.1 == DataType::B1 && !(w.take("and") && w.take("popc")) {
        return Err(DecodeError::new("wgmma combines matrices of .b1 by .and.popc only."));
    }
    if saturating && types.0 != DataType::S32 {
        return Err(DecodeError::new("Only integer accumulators may saturate (.satfinite)."));
    }
    let in_shared = !matches!(i.operands.get(1), Some(Operand::Vector(_)));
    let floats = types.0 != DataType::S32;
    let transposable = types.1.bits() == 16;
    let scale = if sparse { 5 } else { 3 };
    let scales = scale + 1;
    let transpositions = scales + if floats { 2 } else { 0 };
    let count = transpositions + if transposable { 1 + usize::from(in_shared) } else { 0 };
    d.expect_operands(i, count)?;

    let mut negated = false;
    let mut majors = (Major::K, Major::K);
    for operand in &i.operands[scales..transpositions] {
        match constant(operand, "The scale of a matrix")? {
            1 => {}
            -1 => negated = !negated,
            other => return Err(DecodeError::new(format!("The scale of a matrix is 1 or -1, not {other}."))),
        }
    }
    if transposable {
        let major = |index: usize| match constant(&i.operands[index], "The transposition of a matrix")? {
            0 => Ok(Major::K),
            1 => Ok(Major::Mn),
            other => Err(DecodeError::new(format!("The transposition of a matrix is 0 or 1, not {other}."))),
        };
        if in_shared {
            majors.0 = major(transpositions)?;
        }
        majors.1 = major(count - 1)?;
    }
    let selector = match sparse {
        true => {
            let selector = constant(&i.operands[4], "The sparsity selector")?;
            Some(usize::try_from(selector).unwrap_or(usize::MAX))
        }
        false => None,
    };
    let multiply = WarpgroupMultiply {
        shape,
        d: types.0,
        a: types.1,
        b: types.2,
        packed: false,
        coarse: true,
        selector,
        majors,
        negated,
        saturating,
    };
    multiply.check().map_err(|error| DecodeError::new(error.to_string()))?;

    let registers = elements(&i.operands[0]);
    if registers.len() != multiply.accumulator_registers() {
        return Err(DecodeError::new(format!(
            "`{}` names {} registers for an accumulator of .{} that takes {}.",
            i.operands[0],
            registers.len(),
            multiply.d.ptx(),
            multiply.accumulator_registers()
        )));
    }
    let slots: Result<Box<[Slot]>, _> =
        registers.iter().map(|register| d.destination(register, Type::B32)).collect();
    let a = if in_shared {
        LeftSource::Shared(d.source(&i.operands[1], Type::B64)?)
    } else {
        let registers = elements(&i.operands[1]);
        let slots: Result<Vec<Slot>, _> =
            registers.iter().map(|register| d.source(register, Type::B32)).collect();
        let slots = slots?.try_into().map_err(|slots: Vec<Slot>| {
            DecodeError::new(format!("A fragment of A has {LEFT_REGISTERS} registers, not {}.", slots.len()))
        })?;
        LeftSource::Registers(slots)
    };
    Ok(WarpgroupMultiplication {
        multiply,
        d: slots?,
        a,
        b: d.source(&i.operands[2], Type::B64)?,
        metadata: if sparse { Some(d.source(&i.operands[3], Type::B32)?) } else { None },
        accumulates: d.predicate(&i.operands[scale])?,
    })
}
