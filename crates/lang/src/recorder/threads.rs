//! The values of registers in each thread of a block or a cluster, where they depend on the thread's
//! index, its block's rank and constants alone: which threads take a branch.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use warpwright_arch::limits::WARP_SIZE;
use warpwright_ir::{Instruction, Kernel, Label, Operand, Register, Statement};

/// A value of each thread; of a predicate 0 or 1.
pub(super) type Values = Rc<[u32]>;

/// Evaluates the registers of a kernel for each thread of a block, or of a cluster of blocks.
pub(super) struct Threads<'a> {
    /// `None` if the kernel does not state it: one thread stands for a block, and its index is unknown.
    block: Option<[u32; 3]>,
    cluster: [u32; 3],
    writers: FxHashMap<Register, Vec<Writer<'a>>>,
    /// The number that values are assumed by that all blocks of the cluster have alike, such as
    /// parameters.
    assumed: Option<u32>,
    known: RefCell<FxHashMap<Register, Option<Values>>>,
}

/// An instruction that writes a register.
struct Writer<'a> {
    instruction: &'a Instruction,
    /// The conditions that decide whether, and how often, a thread executes it.
    conditions: Rc<[Register]>,
}

impl<'a> Threads<'a> {
    /// The threads of a block, if the kernel states it.
    pub(super) fn of_block(kernel: &'a Kernel) -> Option<Self> {
        kernel.launch.required_block.map(|block| Self::new(kernel, Some(block), [1, 1, 1]))
    }

    /// The threads of a cluster, block after block.
    pub(super) fn of_cluster(kernel: &'a Kernel) -> Self {
        Self::new(kernel, kernel.launch.required_block, kernel.launch.cluster.unwrap_or([1, 1, 1]))
    }

    fn new(kernel: &'a Kernel, block: Option<[u32; 3]>, cluster: [u32; 3]) -> Self {
        let mut writers = FxHashMap::default();
        note_writers(&kernel.body, &[].into(), &mut writers);
        Self { block, cluster, writers, assumed: None, known: RefCell::default() }
    }

    /// A thread of each block of a cluster, where values that they have alike are some numbers: others
    /// for another `number`.
    pub(super) fn assuming(kernel: &'a Kernel, number: u32) -> Self {
        let cluster = kernel.launch.cluster.unwrap_or([1, 1, 1]);
        Self { assumed: Some(number), ..Self::new(kernel, None, cluster) }
    }

    /// The threads of a block; 1 if the kernel does not state it.
    pub(super) fn of_a_block(&self) -> u32 {
        self.block.map_or(1, |block| block.iter().product())
    }

    /// The blocks of the cluster.
    pub(super) fn blocks(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// The number of threads.
    pub(super) fn count(&self) -> u32 {
        self.of_a_block() * self.blocks()
    }

    /// Whether the kernel states its block.
    pub(super) fn are_known(&self) -> bool {
        self.block.is_some()
    }

    /// The instruction that writes a register, if it is the only one and all who reach it execute it.
    pub(super) fn writer(&self, register: Register) -> Option<&'a Instruction> {
        match self.writers(register) {
            [Writer { instruction, .. }] if instruction.guard.is_none() => Some(instruction),
            _ => None,
        }
    }

    /// All instructions that write a register.
    pub(super) fn all_writers(&self, register: Register) -> impl Iterator<Item = &'a Instruction> {
        self.writers(register).iter().map(|writer| writer.instruction)
    }

    fn writers(&self, register: Register) -> &[Writer<'a>] {
        self.writers.get(&register).map_or(&[], Vec::as_slice)
    }

    /// Whether a register has the same value in all threads of a block that come to its use together:
    /// those for which the conditions `around` the use decide alike.
    pub(super) fn is_uniform(&self, register: Register, around: &[Register]) -> bool {
        let mut shared: FxHashSet<Register> = around.iter().copied().collect();
        let mut seen = FxHashSet::default();
        let mut open = vec![register];
        let mut unshared = Vec::new();
        loop {
            // A condition that decides about a write differs in no threads that it has let through.
            let Some(register) =
                open.pop().or_else(|| unshared.pop()).filter(|register| !shared.contains(register))
            else {
                match open.is_empty() && unshared.is_empty() {
                    true => return true,
                    false => continue,
                }
            };
            if !seen.insert(register) {
                continue;
            }
            let writers = self.writers(register);
            if writers.is_empty() {
                return false;
            }
            for Writer { instruction, conditions } in writers {
                if !depends_on_operands_alone(instruction) {
                    return false;
                }
                open.extend(instruction.guard.map(|(guard, _)| guard));
                match writers.len() {
                    1 => shared.extend(conditions.iter()),
                    _ => unshared.extend(conditions.iter()),
                }
                for operand in &instruction.operands[instruction.destinations..] {
                    if !visit_sources(operand, &mut |source| open.push(source)) {
                        return false;
                    }
                }
            }
        }
    }

    /// The threads in which a predicate holds, if that is known.
    pub(super) fn holding(&self, predicate: Register) -> Option<Vec<bool>> {
        Some(self.value(predicate)?.iter().map(|value| *value != 0).collect())
    }

    /// The threads for which all conditions hold, if they are known: a predicate, and whether it holds.
    pub(super) fn holding_all(&self, conditions: &[(Register, bool)]) -> Option<Vec<bool>> {
        let mut all = vec![true; self.count() as usize];
        for (condition, holds) in conditions {
            let holding = self.holding(*condition)?;
            all.iter_mut().zip(holding).for_each(|(all, holding)| *all &= holding == *holds);
        }
        Some(all)
    }

    /// The value of a register in each thread, if that is known.
    pub(super) fn value(&self, register: Register) -> Option<Values> {
        if let Some(known) = self.known.borrow().get(&register) {
            return known.clone();
        }
        let value = self.writer(register).and_then(|writer| self.result(writer, register));
        let value = value.or_else(|| self.assumed_value(register));
        self.known.borrow_mut().insert(register, value.clone());
        value
    }

    /// The value of an operand in each thread, if that is known.
    pub(super) fn operand(&self, operand: &Operand) -> Option<Values> {
        match operand {
            Operand::Register(register) => self.value(*register),
            Operand::Integer(value) => Some(self.each(|_| *value as u32)),
            Operand::Special(name) => self.special(name),
            _ => None,
        }
    }

    /// A value that all blocks of the cluster have alike, as it is assumed.
    fn assumed_value(&self, register: Register) -> Option<Values> {
        let number = self.assumed.filter(|_| !self.may_differ_by_block(register))?;
        let some = some_number((number, register.0));
        Some(self.each(|_| some))
    }

    /// Whether the blocks of a cluster may have different values in a register.
    fn may_differ_by_block(&self, register: Register) -> bool {
        let mut seen = FxHashSet::default();
        let mut open = vec![register];
        while let Some(register) = open.pop() {
            if !seen.insert(register) {
                continue;
            }
            for Writer { instruction, conditions } in self.writers(register) {
                let is_of_block = |operand: &Operand| matches!(operand, Operand::Special(name) if name.starts_with("%cluster_") || name.starts_with("%ctaid"));
                let sources = &instruction.operands[instruction.destinations..];
                if !depends_on_operands_alone(instruction) || sources.iter().any(is_of_block) {
                    return true;
                }
                open.extend(instruction.guard.map(|(guard, _)| guard));
                open.extend(conditions.iter());
                for operand in sources {
                    visit_sources(operand, &mut |source| open.push(source));
                }
            }
        }
        false
    }

    fn special(&self, name: &str) -> Option<Values> {
        let size = self.of_a_block();
        let [across, down, _] = self.cluster;
        match name {
            "%cluster_ctarank" => return Some(self.each(|thread| thread / size)),
            "%cluster_ctaid.x" => return Some(self.each(|thread| thread / size % across)),
            "%cluster_ctaid.y" => return Some(self.each(|thread| thread / size / across % down)),
            "%cluster_ctaid.z" => return Some(self.each(|thread| thread / size / (across * down))),
            _ => {}
        }
        if let Some(number) = self.assumed {
            let some = some_number((number, name));
            let [x, y, z] = self.cluster;
            return Some(match name {
                "%ctaid.x" => self.each(|block| some * x + block % x),
                "%ctaid.y" => self.each(|block| some * y + block / x % y),
                "%ctaid.z" => self.each(|block| some * z + block / (x * y)),
                _ => self.each(|_| some),
            });
        }
        let [x, y, _] = self.block?;
        match name {
            "%tid.x" => Some(self.each(|thread| thread % size % x)),
            "%tid.y" => Some(self.each(|thread| thread % size / x % y)),
            "%tid.z" => Some(self.each(|thread| thread % size / (x * y))),
            "%laneid" => Some(self.each(|thread| thread % size % WARP_SIZE)),
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
            let size = self.of_a_block();
            let leads = |thread: u32| u32::from((thread % size).is_multiple_of(WARP_SIZE));
            return (is_predicate && self.are_known()).then(|| self.each(leads));
        }
        if !matches!(kind, "u16" | "b16" | "u32" | "s32" | "b32" | "pred") {
            return None;
        }
        let narrowed = |value: u32| if kind.ends_with("16") { value & 0xffff } else { value };
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
                    let first = thread - thread % self.of_a_block() as usize % WARP_SIZE as usize;
                    let lane = first + at(1) as usize % WARP_SIZE as usize;
                    sources[0].get(lane).copied()
                }
                "setp" => compare(instruction.opcode.split('.').nth(1)?, at(0), at(1), is_signed),
                "cvt" => converted(&instruction.opcode, at(0)),
                _ => combine(operation, at(0), at(1), is_signed).map(narrowed),
            }
        };
        let arity = match operation {
            "mov" | "not" | "cvt" => 1,
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

/// A number that is another for other values, and a multiple of what programs divide by.
fn some_number(of: impl Hash) -> u32 {
    let mut hasher = FxHasher::default();
    of.hash(&mut hasher);
    ((hasher.finish() >> 32) as u32 % 61 + 3) * 64
}

/// Whether an instruction gives the same for the same operands, in whichever thread and whenever.
pub(super) fn depends_on_operands_alone(instruction: &Instruction) -> bool {
    const ARITHMETIC: [&str; 23] = [
        "mov", "add", "sub", "mul", "mad", "div", "rem", "min", "max", "and", "or", "xor", "not", "shl",
        "shr", "setp", "selp", "cvt", "cvta", "neg", "abs", "lop3", "bfe",
    ];
    let operation = instruction.opcode.split('.').next().unwrap_or_default();
    // A value that all lanes have is what any of them receives.
    ARITHMETIC.contains(&operation)
        || instruction.opcode.starts_with("ld.param.")
        || instruction.opcode.starts_with("shfl.sync.idx.")
}

/// Visits the registers that an operand reads. Returns whether all else in it is the same in all threads
/// of a block.
fn visit_sources(operand: &Operand, visit: &mut dyn FnMut(Register)) -> bool {
    match operand {
        Operand::Register(register) | Operand::Not(register) => visit(*register),
        Operand::Address { base, rest, .. } => {
            return visit_sources(base, visit) && rest.iter().all(|operand| visit_sources(operand, visit));
        }
        Operand::Vector(lanes) => return lanes.iter().all(|operand| visit_sources(operand, visit)),
        Operand::Special(name) => {
            let of_block = ["%ctaid", "%nctaid", "%ntid", "%cluster_", "%nclusterid", "%clusterid"];
            return of_block.iter().any(|of_block| name.starts_with(of_block));
        }
        _ => {}
    }
    true
}

/// The registers that an instruction writes.
pub(super) fn visit_destinations(instruction: &Instruction, visit: &mut dyn FnMut(Register)) {
    for operand in &instruction.operands[..instruction.destinations] {
        match operand {
            Operand::Register(register) => visit(*register),
            Operand::Pair(first, second) => [*first, *second].into_iter().for_each(&mut *visit),
            Operand::Vector(lanes) => lanes.iter().for_each(|lane| {
                if let Operand::Register(register) = lane {
                    visit(*register);
                }
            }),
            _ => {}
        }
    }
}

/// Notes the instructions that write each register, with the conditions around them.
fn note_writers<'a>(
    body: &'a [Statement],
    conditions: &Rc<[Register]>,
    writers: &mut FxHashMap<Register, Vec<Writer<'a>>>,
) {
    let with = |more: &[Register]| -> Rc<[Register]> { conditions.iter().chain(more).copied().collect() };
    for statement in body {
        match statement {
            Statement::Instruction(instruction) => visit_destinations(instruction, &mut |register| {
                let conditions = Rc::clone(conditions);
                writers.entry(register).or_default().push(Writer { instruction, conditions });
            }),
            Statement::If { condition, then, otherwise, .. } => {
                let inside = with(&[*condition]);
                note_writers(then, &inside, writers);
                note_writers(otherwise, &inside, writers);
            }
            Statement::Loop { label, body, step, .. } => {
                let mut exits = Vec::new();
                conditions_of_jumps(body, *label, &mut exits);
                conditions_of_jumps(step, *label, &mut exits);
                let inside = with(&exits);
                note_writers(body, &inside, writers);
                note_writers(step, &inside, writers);
            }
            Statement::Block { body, label } => {
                let mut exits = Vec::new();
                conditions_of_jumps(body, *label, &mut exits);
                note_writers(body, &with(&exits), writers);
            }
            _ => {}
        }
    }
}

/// The conditions of jumps to a label: they decide who executes the rest, and how often.
pub(super) fn conditions_of_jumps(body: &[Statement], to: Label, conditions: &mut Vec<Register>) {
    for statement in body {
        match statement {
            Statement::If { condition, then, otherwise, .. } => {
                let before = conditions.len();
                conditions_of_jumps(then, to, conditions);
                conditions_of_jumps(otherwise, to, conditions);
                let jumps = |body: &[Statement]| {
                    body.iter().any(|statement| {
                        matches!(statement, Statement::Break(label, _) | Statement::Continue(label, _) if *label == to)
                    })
                };
                if conditions.len() > before || jumps(then) || jumps(otherwise) {
                    conditions.push(*condition);
                }
            }
            Statement::Loop { body, step, .. } => {
                conditions_of_jumps(body, to, conditions);
                conditions_of_jumps(step, to, conditions);
            }
            Statement::Block { body, .. } => conditions_of_jumps(body, to, conditions),
            _ => {}
        }
    }
}

/// The result of a conversion between unsigned integers.
fn converted(opcode: &str, value: u32) -> Option<u32> {
    match opcode.strip_prefix("cvt.")? {
        "u32.u16" | "u16.u16" | "u32.u32" => Some(value),
        "u16.u32" => Some(value & 0xffff),
        _ => None,
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
