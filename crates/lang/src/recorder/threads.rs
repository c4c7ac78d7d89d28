//! The values of registers in each thread of a block, where they depend on the thread's index and
//! constants alone: which threads take a branch.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use warpwright_arch::limits::WARP_SIZE;
use warpwright_ir::{Instruction, Kernel, Operand, Register};

/// A value of each thread; of a predicate 0 or 1.
pub(super) type Values = Rc<[u32]>;

/// Evaluates the registers of a kernel for each thread of its block.
pub(super) struct Threads<'a> {
    block: [u32; 3],
    /// The instruction that writes a register; `None` if there are several.
    writers: FxHashMap<Register, Option<&'a Instruction>>,
    known: RefCell<FxHashMap<Register, Option<Values>>>,
}

impl<'a> Threads<'a> {
    /// The threads of the block, if the kernel states it.
    pub(super) fn of(kernel: &'a Kernel) -> Option<Self> {
        let block = kernel.launch.required_block?;
        let mut writers = FxHashMap::default();
        kernel.for_each_instruction(&mut |instruction| {
            for operand in &instruction.operands[..instruction.destinations] {
                let mut note = |register: Register| {
                    let writer = instruction.guard.is_none().then_some(instruction);
                    writers.entry(register).and_modify(|known| *known = None).or_insert(writer);
                };
                match operand {
                    Operand::Register(register) => note(*register),
                    Operand::Pair(first, second) => [*first, *second].into_iter().for_each(note),
                    Operand::Vector(lanes) => lanes.iter().for_each(|lane| {
                        if let Operand::Register(register) = lane {
                            note(*register);
                        }
                    }),
                    _ => {}
                }
            }
        });
        Some(Self { block, writers, known: RefCell::default() })
    }

    /// The number of threads.
    pub(super) fn count(&self) -> u32 {
        self.block.iter().product()
    }

    /// The threads in which a predicate holds, if that is known.
    pub(super) fn holding(&self, predicate: Register) -> Option<Vec<bool>> {
        Some(self.value(predicate)?.iter().map(|value| *value != 0).collect())
    }

    /// The value of a register in each thread, if that is known.
    pub(super) fn value(&self, register: Register) -> Option<Values> {
        if let Some(known) = self.known.borrow().get(&register) {
            return known.clone();
        }
        let value = self.writers.get(&register).copied().flatten();
        let value = value.and_then(|writer| self.result(writer, register));
        self.known.borrow_mut().insert(register, value.clone());
        value
    }

    fn operand(&self, operand: &Operand) -> Option<Values> {
        match operand {
            Operand::Register(register) => self.value(*register),
            Operand::Integer(value) => Some(self.each(|_| *value as u32)),
            Operand::Special(name) => {
                let [x, y, _] = self.block;
                match name.as_ref() {
                    "%tid.x" => Some(self.each(|thread| thread % x)),
                    "%tid.y" => Some(self.each(|thread| thread / x % y)),
                    "%tid.z" => Some(self.each(|thread| thread / (x * y))),
                    "%laneid" => Some(self.each(|thread| thread % WARP_SIZE)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn each(&self, value: impl FnMut(u32) -> u32) -> Values {
        (0..self.count()).map(value).collect()
    }

    /// What an instruction writes to `destination`.
    fn result(&self, instruction: &Instruction, destination: Register) -> Option<Values> {
        let (destinations, sources) = instruction.operands.split_at(instruction.destinations);
        let mut words = instruction.opcode.split('.');
        let (operation, kind) = (words.next()?, instruction.opcode.rsplit('.').next()?);
        if operation == "elect" {
            // The PTX ISA leaves the lane open; each warp has one.
            let is_predicate = matches!(destinations, [Operand::Pair(_, elected)] if *elected == destination);
            return is_predicate.then(|| self.each(|thread| u32::from(thread % WARP_SIZE == 0)));
        }
        if !matches!(kind, "u32" | "s32" | "b32" | "pred") {
            return None;
        }
        let sources = sources.iter().map(|source| self.operand(source)).collect::<Option<Vec<_>>>()?;
        let is_signed = kind == "s32";
        let value = |thread: usize| {
            let at = |source: usize| sources[source][thread];
            match operation {
                "mov" => Some(at(0)),
                "not" if kind == "pred" => Some(1 - at(0)),
                "not" => Some(!at(0)),
                "selp" => Some(if at(2) != 0 { at(0) } else { at(1) }),
                "mad" => Some(at(0).wrapping_mul(at(1)).wrapping_add(at(2))),
                "shfl" if instruction.opcode.starts_with("shfl.sync.idx.") => {
                    let lane = thread / WARP_SIZE as usize * WARP_SIZE as usize + at(1) as usize % 32;
                    sources[0].get(lane).copied()
                }
                "setp" => compare(instruction.opcode.split('.').nth(1)?, at(0), at(1), is_signed),
                _ => combine(operation, at(0), at(1), is_signed),
            }
        };
        let arity = match operation {
            "mov" | "not" => 1,
            "selp" | "mad" => 3,
            "shfl" => 4,
            _ => 2,
        };
        // A wide multiplication has another type, and `setp` may combine its result.
        let is_plain =
            sources.len() == arity && matches!(destinations, [Operand::Register(_) | Operand::Pair(..)]);
        is_plain.then(|| (0..self.count() as usize).map(value).collect::<Option<Values>>()).flatten()
    }
}

fn compare(comparison: &str, a: u32, b: u32, is_signed: bool) -> Option<u32> {
    let order = if is_signed { (a as i32).cmp(&(b as i32)) } else { a.cmp(&b) };
    let holds = match comparison {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        _ => return None,
    };
    Some(u32::from(holds))
}

fn combine(operation: &str, a: u32, b: u32, is_signed: bool) -> Option<u32> {
    Some(match operation {
        "add" => a.wrapping_add(b),
        "sub" => a.wrapping_sub(b),
        "mul" => a.wrapping_mul(b),
        "and" => a & b,
        "or" => a | b,
        "xor" => a ^ b,
        "shl" => a.checked_shl(b).unwrap_or(0),
        "shr" if !is_signed => a.checked_shr(b).unwrap_or(0),
        "div" if !is_signed => a.checked_div(b)?,
        "rem" if !is_signed => a.checked_rem(b)?,
        "min" if !is_signed => a.min(b),
        "max" if !is_signed => a.max(b),
        _ => return None,
    })
}
