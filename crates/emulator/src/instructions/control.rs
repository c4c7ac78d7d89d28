//! Control flow (PTX ISA, "Control Flow Instructions" and "Miscellaneous Instructions").

use warpwright_events::{FaultKind, Fence};
use warpwright_ptx::syntax::{Instruction, Operand, StateSpace, Type, Variable};

use super::passed::{passed, passed_back};
use super::provided;
use super::synchronize::FenceOperation;
use crate::cta::block::Block;
use crate::decode::{DecodeError, Decoded, Decoder, File, Row, Symbol, elements};
use crate::execution::effect::{Attempt, Effect, Execution};
use crate::launch::failure::Failure;
use crate::operation::call::{Call, Callee};
use crate::operation::kind::Kind;

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    match i.base() {
        "ret" => d.emit_return(),
        "exit" => d.emit(Kind::Exit),
        "trap" => d.effect(Trap("The kernel executed `trap`."))?,
        "brkpt" => d.effect(Trap("The kernel executed `brkpt`, and there is no debugger."))?,
        "nanosleep" => {
            d.source_at(i, 0)?;
            d.effect(Sleep)?;
        }
        "setmaxnreg" => set_registers(d, i)?,
        "griddepcontrol" => {
            // Launches run one at a time: a grid's predecessor has ended before it starts (PTX ISA,
            // "griddepcontrol"). Only the checkers track what may overlap.
            let fences = [("launch_dependents", Fence::NextLaunch), ("wait", Fence::PreviousLaunch)];
            d.effect(FenceOperation(i.must("action", &fences)?))?;
        }
        "pmevent" => {}
        _ => return Err(i.unsupported()),
    }
    Ok(())
}

/// Decodes an instruction whose operands are labels or functions.
pub(super) fn flow(d: Decoder<'_, '_, '_>, i: &Instruction) -> Decoded {
    match i.opcode.base() {
        "bra" => branch(d, i),
        "brx" => branch_by_table(d, i),
        _ => call(d, i),
    }
}

/// `setmaxnreg.inc.sync.aligned.u32 count`, and the same of `.dec`
fn set_registers(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let count = i.literal(0)?;
    if !(24..=256).contains(&count) || count % 8 != 0 {
        return Err(DecodeError::new(format!(
            "`setmaxnreg` takes a multiple of 8 from 24 to 256; {count} is not one."
        )));
    }
    d.emit(Kind::Attempt(Box::new(SetRegisters { count: count as u32, raises: i.has("inc") })));
    Ok(())
}

struct SetRegisters {
    count: u32,
    raises: bool,
}

impl Attempt for SetRegisters {
    fn attempt(&self, execution: &mut Execution<'_>, _: u32) -> Result<bool, Box<Failure>> {
        execution.block.registers.ask(execution.warp, self.count, self.raises)
    }

    fn reason(&self, block: &Block, warp: u32) -> String {
        format!(
            "waiting for {} registers per thread, for which the CTA lacks {}: {} are free",
            self.count,
            block.registers.lacking(warp, self.count),
            block.registers.free()
        )
    }
}

struct Trap(&'static str);

impl Effect for Trap {
    fn execute(&self, _: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        Err(Failure::new(FaultKind::Trap, mask, self.0))
    }
}

/// Sleeping only marks the thread as waiting; time advances by itself.
struct Sleep;

impl Effect for Sleep {
    fn execute(&self, execution: &mut Execution<'_>, _: u32) -> Result<(), Box<Failure>> {
        execution.polled = true;
        execution.changes_nothing();
        Ok(())
    }
}

/// An operand that is a name, by position.
fn name(i: &Instruction, index: usize) -> Result<&str, DecodeError> {
    match i.operands.get(index) {
        Some(Operand::Name(name)) => Ok(name),
        _ => Err(DecodeError::new(format!("Operand {} of `{}` is not a name.", index + 1, i.opcode.base()))),
    }
}

fn branch(d: Decoder<'_, '_, '_>, i: &Instruction) -> Decoded {
    let target = d.label(name(i, 0)?)?;
    d.emit(Kind::Branch { target });
    Ok(())
}

fn branch_by_table(d: Decoder<'_, '_, '_>, i: &Instruction) -> Decoded {
    let table = name(i, 1)?;
    let index = d.source(&i.operands[0], Type::U32)?;
    let Symbol::Targets(targets) = d.symbol(table)? else {
        return Err(DecodeError::new(format!("`{table}` is not a .branchtargets list.")));
    };
    d.emit(Kind::BranchTable { index, targets: targets.into() });
    Ok(())
}

/// `call{.uni} (results), function, (arguments){, prototype}`: results and arguments may be absent.
fn call(d: Decoder<'_, '_, '_>, i: &Instruction) -> Decoded {
    let mut operands = i.operands.iter().peekable();
    let results: &[Operand] = match operands.peek() {
        Some(Operand::List(results)) => {
            operands.next();
            results
        }
        _ => &[],
    };
    let Some(Operand::Name(target)) = operands.next() else {
        return Err(DecodeError::new("`call` names no function."));
    };
    let arguments: &[Operand] = match operands.next() {
        Some(Operand::List(arguments)) => arguments,
        _ => &[],
    };
    let symbol = d.symbol(target)?;
    let (callee, formals) = match symbol {
        Symbol::Function(index) => {
            let function = d.function(index);
            if function.body.is_none() {
                let effect = provided::effect(d, target, results, arguments)?;
                d.emit(Kind::Effect(effect));
                return Ok(());
            }
            (Callee::Direct(d.callee(index)), Some(function))
        }
        Symbol::Register(register) if register.file == File::Long => {
            d.mention_tables();
            (Callee::Indirect(register.slot), None)
        }
        _ => return Err(DecodeError::new(format!("`{target}` is not a function."))),
    };
    if let Some(function) = formals
        && (function.parameters.len() != arguments.len() || function.returns.len() != results.len())
    {
        return Err(DecodeError::new(format!(
            "`{target}` takes {} arguments and gives {} results; the call has {} and {}.",
            function.parameters.len(),
            function.returns.len(),
            arguments.len(),
            results.len()
        )));
    }
    let (mut passed_in, mut passed_out) = (Vec::new(), Vec::new());
    for (index, operand) in arguments.iter().enumerate() {
        let formal = formals.map(|function| &function.parameters[index]);
        for element in elements_of(operand, formal)? {
            passed_in.push(passed(d, element, formal.map(|formal| formal.ty))?);
        }
    }
    for (index, operand) in results.iter().enumerate() {
        let formal = formals.map(|function| &function.returns[index]);
        for element in elements_of(operand, formal)? {
            passed_out.push(passed_back(d, element, formal.map(|formal| formal.ty))?);
        }
    }
    d.emit(Kind::Call(Box::new(Call { callee, arguments: passed_in, results: passed_out })));
    Ok(())
}

/// What is passed for one formal: a value, or one for each register of a vector.
fn elements_of<'o>(operand: &'o Operand, formal: Option<&Variable>) -> Result<Vec<&'o Operand>, DecodeError> {
    let in_registers = formal.filter(|formal| formal.space == StateSpace::Register);
    let expected = in_registers.map_or(1, |formal| formal.vector as usize);
    match operand {
        Operand::Sink => Ok(vec![operand; expected]),
        _ if formal.is_some() && elements(operand).len() != expected => Err(DecodeError::new(format!(
            "`{operand}` has {} elements, and the function's parameter {expected}.",
            elements(operand).len()
        ))),
        _ => Ok(elements(operand).iter().collect()),
    }
}
