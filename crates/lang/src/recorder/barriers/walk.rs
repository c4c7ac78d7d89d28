//! Which threads execute what the kernel does to its mbarriers, as far as that is known when it is
//! built.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use warpwright_ir::{Instruction, Label, Location, Operand, Register, Statement};

use super::act::{Act, Receivers, registers_read};
use super::place::{Place, Places};
use crate::recorder::Recorder;
use crate::recorder::jumps::{ends_thread, leaves};
use crate::recorder::threads::{Threads, conditions_of_jumps, depends_on_operands_alone, visit_destinations};

/// What stands between the kernel's begin and a statement, other than conditions whose threads are
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// A branch: its condition, and whether it holds there.
    Branch(Register, bool),
    /// The rest of a body that some threads may have left before, on a condition around it.
    Rest(u32),
    /// The rest of a body that any threads may have left before.
    Left(u32),
    Loop(Label),
    /// A loop that counts: all with equal bounds run as often.
    Counted(u64),
}

/// Where a statement stands.
#[derive(Clone, Debug)]
struct Standing {
    /// The threads that may reach it.
    threads: Rc<Vec<bool>>,
    path: Vec<Step>,
    /// All conditions that decide whether, and how often, a thread executes it.
    conditions: Vec<Register>,
}

/// One instruction that uses an mbarrier.
pub(super) struct Deed {
    pub(super) act: Act,
    /// `None` if the address is unknown.
    pub(super) place: Option<Place>,
    /// What tells this place from others at that moment.
    pub(super) identity: u64,
    pub(super) receivers: Receivers,
    /// The threads that may execute it.
    pub(super) threads: Rc<Vec<bool>>,
    pub(super) path: Vec<Step>,
    conditions: Vec<Register>,
    /// Whether all of them do, or none.
    pub(super) is_exact: bool,
    /// The deeds between two waits have one number.
    pub(super) epoch: u32,
    /// Whether the index of the mbarrier changes with the iterations of the loop around it.
    pub(super) moves_on: bool,
    pub(super) location: Location,
}

/// What a kernel does to its mbarriers.
pub(super) struct Deeds<'a> {
    pub(super) threads: &'a Threads<'a>,
    pub(super) all: Vec<Deed>,
    /// The arrays whose addresses other instructions use: what they do to an mbarrier is unknown.
    pub(super) escaped: FxHashSet<Register>,
}

struct Walk<'a> {
    recorder: &'a Recorder,
    places: Places<'a>,
    deeds: Deeds<'a>,
    /// The threads that have not returned, and whether some others may have.
    alive: Rc<Vec<bool>>,
    may_have_returned: Option<u32>,
    epoch: u32,
    rests: u32,
    /// The writes so far to registers that several instructions write.
    versions: FxHashMap<Register, u32>,
    /// Numbers of values that equal instructions compute from equal values.
    numbers: FxHashMap<Register, u64>,
    /// The registers that are written in each loop, the innermost last.
    written: Vec<FxHashSet<Register>>,
}

fn both(a: &[bool], b: &[bool]) -> Rc<Vec<bool>> {
    Rc::new(a.iter().zip(b).map(|(a, b)| *a && *b).collect())
}

fn without(a: &[bool], b: &[bool]) -> Rc<Vec<bool>> {
    Rc::new(a.iter().zip(b).map(|(a, b)| *a && !*b).collect())
}

fn hashed(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<'a> Deeds<'a> {
    /// The deeds of a recorded kernel.
    pub(super) fn of(recorder: &'a Recorder, threads: &'a Threads<'a>) -> Self {
        let everyone = Rc::new(vec![true; threads.count() as usize]);
        let mut walk = Walk {
            recorder,
            places: Places::new(threads, &recorder.allocations),
            deeds: Deeds { threads, all: Vec::new(), escaped: FxHashSet::default() },
            alive: Rc::clone(&everyone),
            may_have_returned: None,
            epoch: 0,
            rests: 0,
            versions: FxHashMap::default(),
            numbers: FxHashMap::default(),
            written: Vec::new(),
        };
        let begin = Standing { threads: everyone, path: Vec::new(), conditions: Vec::new() };
        walk.visit(&recorder.kernel.body, begin);
        walk.deeds
    }
}

impl<'a> Walk<'a> {
    /// Visits statements. Returns who goes on after them.
    fn visit(&mut self, body: &'a [Statement], mut at: Standing) -> Standing {
        for statement in body {
            at = match statement {
                Statement::Instruction(instruction) if ends_thread(instruction) => self.end(at),
                Statement::Instruction(instruction) => {
                    self.instruction(instruction, &at);
                    at
                }
                Statement::If { condition, then, otherwise, .. } => {
                    self.branch(*condition, [then, otherwise], at)
                }
                Statement::Loop { label, body, step, .. } => self.repeat(*label, body, step, at),
                Statement::Block { body, .. } => {
                    self.visit(body, at.clone());
                    self.after(at)
                }
                Statement::Break(..) | Statement::Continue(..) => self.nobody(at),
                Statement::Return(_) => self.end(at),
                Statement::Print { .. } | Statement::Assert { .. } => at,
            };
        }
        at
    }

    /// The threads at the end of a loop or block that all of `at` entered.
    fn after(&mut self, at: Standing) -> Standing {
        let mut path = at.path;
        let left = self.may_have_returned.map(Step::Left).filter(|step| !path.contains(step));
        path.extend(left);
        Standing { threads: both(&at.threads, &self.alive), path, conditions: at.conditions }
    }

    fn end(&mut self, at: Standing) -> Standing {
        if at.path.is_empty() {
            self.alive = without(&self.alive, &at.threads);
        } else {
            self.rests += 1;
            self.may_have_returned = Some(self.rests);
        }
        self.nobody(at)
    }

    fn nobody(&self, at: Standing) -> Standing {
        Standing { threads: Rc::new(vec![false; at.threads.len()]), ..at }
    }

    fn branch(&mut self, condition: Register, branches: [&'a [Statement]; 2], at: Standing) -> Standing {
        let mut conditions = at.conditions.clone();
        conditions.push(condition);
        let into = |threads, step: Option<Step>| {
            let path = at.path.iter().copied().chain(step).collect();
            Standing { threads, path, conditions: conditions.clone() }
        };
        let (is_certain, threads) = match self.deeds.threads.holding(condition) {
            Some(holding) => {
                let then = self.visit(branches[0], into(both(&at.threads, &holding), None));
                let otherwise = self.visit(branches[1], into(without(&at.threads, &holding), None));
                let threads = then.threads.iter().zip(otherwise.threads.iter()).map(|(a, b)| *a || *b);
                let is_certain = then.path == at.path && otherwise.path == at.path;
                (is_certain.then_some(true), Rc::new(threads.collect()))
            }
            None => {
                for (body, holds) in branches.into_iter().zip([true, false]) {
                    self.visit(body, into(Rc::clone(&at.threads), Some(Step::Branch(condition, holds))));
                }
                let may_leave = branches.into_iter().any(|body| leaves(body, &mut vec![]));
                (Some(!may_leave), Rc::clone(&at.threads))
            }
        };
        let mut written = FxHashSet::default();
        branches.into_iter().for_each(|body| registers_written(body, &mut written));
        self.forget(&written);
        let mut after = Standing { threads, ..at };
        if is_certain != Some(true) {
            self.rests += 1;
            after.path.push(is_certain.map_or(Step::Left(self.rests), |_| Step::Rest(self.rests)));
            after.conditions.push(condition);
        }
        after
    }

    fn repeat(
        &mut self,
        label: Label,
        body: &'a [Statement],
        step: &'a [Statement],
        at: Standing,
    ) -> Standing {
        let mut inside = at.clone();
        conditions_of_jumps(body, label, &mut inside.conditions);
        conditions_of_jumps(step, label, &mut inside.conditions);
        let mut written = FxHashSet::default();
        registers_written(body, &mut written);
        registers_written(step, &mut written);
        let counted = self.counted(label, body, step);
        inside.path.push(counted.map_or(Step::Loop(label), Step::Counted));
        self.epoch += 1;
        self.forget(&written);
        self.written.push(written);
        // Nobody has left before the guard of a loop that counts: it is the loop's own.
        let (guard, rest) = body.split_at(if counted.is_some() { 2 } else { 0 });
        for statement in guard {
            if let Statement::Instruction(instruction) = statement {
                self.instruction(instruction, &inside);
            }
        }
        let end = self.visit(rest, inside);
        self.visit(step, end);
        self.epoch += 1;
        if let Some(written) = self.written.pop() {
            self.forget(&written);
        }
        self.after(at)
    }

    /// The bounds of a loop that counts from one to another by a step, as `for` records it.
    fn counted(&self, label: Label, body: &[Statement], step: &[Statement]) -> Option<u64> {
        let [Statement::Instruction(test), Statement::If { condition, .. }, ..] = body else { return None };
        let [Statement::Instruction(advance)] = step else { return None };
        let mut jumps = Vec::new();
        conditions_of_jumps(body, label, &mut jumps);
        let [passes, counter, end] = &test.operands[..] else { return None };
        let is_guard = jumps == [*condition] && *passes == Operand::Register(*condition);
        let counts = advance.operands.first() == Some(counter) && advance.operands.get(1) == Some(counter);
        (is_guard && counts && !matches!(end, Operand::Register(end) if self.is_variable(*end))).then(|| {
            let numbers = [counter, end, advance.operands.last().unwrap_or(end)].map(|of| self.number(of));
            hashed((&test.opcode, &advance.opcode, numbers))
        })
    }

    /// Variables that are written elsewhere have other values from here on.
    fn forget(&mut self, written: &FxHashSet<Register>) {
        for register in
            written.iter().filter(|register| self.is_variable(**register)).copied().collect::<Vec<_>>()
        {
            *self.versions.entry(register).or_default() += 1;
            self.numbers.remove(&register);
        }
    }

    fn is_variable(&self, register: Register) -> bool {
        self.deeds.threads.writer(register).is_none()
    }

    /// A number of an operand's value: equal numbers are equal values.
    fn number(&self, operand: &Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.numbers.get(register).copied().unwrap_or_else(|| {
                hashed(("register", register, self.versions.get(register).copied().unwrap_or_default()))
            }),
            Operand::Integer(value) => hashed(("integer", value)),
            Operand::Special(name) => hashed(("special", name)),
            other => hashed(("other", format!("{other:?}"))),
        }
    }

    fn instruction(&mut self, instruction: &'a Instruction, at: &Standing) {
        self.note_escapes(instruction);
        let used = self.recorder.mbarrier_use(instruction);
        if let Some(used) = &used {
            let mut at = at.clone();
            if let Some((guard, holds)) = instruction.guard {
                match self.deeds.threads.holding(guard) {
                    Some(holding) if holds => at.threads = both(&at.threads, &holding),
                    Some(holding) => at.threads = without(&at.threads, &holding),
                    None => at.path.push(Step::Branch(guard, holds)),
                }
                at.conditions.push(guard);
            }
            let place = self.places.of_address(used.barrier);
            let deed = Deed {
                act: used.act,
                identity: self.identity(used.barrier, place.as_ref(), &used.receivers),
                moves_on: place.as_ref().is_some_and(|place| self.moves_on(place)),
                place,
                receivers: used.receivers.clone(),
                is_exact: self.is_exact(&at),
                threads: at.threads,
                conditions: at.conditions,
                path: at.path,
                epoch: self.epoch,
                location: instruction.location,
            };
            self.deeds.all.push(deed);
        }
        let opcode = instruction.opcode.as_ref();
        let waits = matches!(used, Some(used) if used.act == Act::Wait)
            || ["bar.", "barrier.", "wgmma.wait", "cp.async.wait", "cp.async.bulk.wait"]
                .iter()
                .any(|wait| opcode.starts_with(wait));
        self.epoch += u32::from(waits);
        self.note_values(instruction);
    }

    /// Notes the values that an instruction computes.
    fn note_values(&mut self, instruction: &Instruction) {
        let sources = &instruction.operands[instruction.destinations..];
        let mut destinations = Vec::new();
        visit_destinations(instruction, &mut |register| destinations.push(register));
        for register in destinations {
            if self.is_variable(register) {
                *self.versions.entry(register).or_default() += 1;
            }
            let number = match sources {
                _ if instruction.guard.is_some() || !depends_on_operands_alone(instruction) => None,
                [source] if instruction.opcode.starts_with("mov.") => Some(self.number(source)),
                _ if self.is_variable(register) => None,
                _ => {
                    let numbers: Vec<u64> = sources.iter().map(|source| self.number(source)).collect();
                    Some(hashed((&instruction.opcode, numbers)))
                }
            };
            match number {
                Some(number) => self.numbers.insert(register, number),
                None => self.numbers.remove(&register),
            };
        }
    }

    fn identity(&self, barrier: &Operand, place: Option<&Place>, receivers: &Receivers) -> u64 {
        let to = match receivers {
            Receivers::One => 0,
            Receivers::Mask(mask) => self.number(mask),
            Receivers::All => 1,
        };
        let Some(place) = place.filter(|place| !place.varies) else {
            return match barrier {
                Operand::Address { base, offset, .. } => hashed((self.number(base), offset, to)),
                other => hashed((self.number(other), to)),
            };
        };
        let terms: Vec<(u64, i64)> = place
            .terms
            .iter()
            .map(|(term, scale)| (self.number(&Operand::Register(*term)), *scale))
            .collect();
        let rank = place.rank.as_ref().map(|rank| self.number(rank));
        hashed((place.array, place.offset, terms, rank, to))
    }

    /// Whether each iteration of the innermost loop is at another mbarrier.
    fn moves_on(&self, place: &Place) -> bool {
        let Some(written) = self.written.last() else { return false };
        let mut seen = FxHashSet::default();
        let mut open: Vec<Register> = place.terms.iter().map(|(term, _)| *term).collect();
        while let Some(register) = open.pop() {
            if !seen.insert(register) {
                continue;
            }
            let Some(writer) = self.deeds.threads.writer(register) else {
                if written.contains(&register) {
                    return true;
                }
                continue;
            };
            registers_read(writer, &mut |source| open.push(source));
        }
        false
    }

    /// Whether all threads that may stand there do, or none.
    fn is_exact(&self, at: &Standing) -> bool {
        let threads = self.deeds.threads;
        let is_decided = |(position, condition): (usize, &Register)| {
            threads.holding(*condition).is_some()
                || threads.is_uniform(*condition, &at.conditions[..position])
        };
        !at.path.iter().any(|step| matches!(step, Step::Left(_)))
            && at.conditions.iter().enumerate().all(is_decided)
    }

    /// Notes the arrays whose addresses an instruction uses otherwise than for their mbarriers, or to
    /// compute an address.
    fn note_escapes(&mut self, instruction: &Instruction) {
        let used = self.recorder.mbarrier_use(instruction);
        let computes = instruction.operands[..instruction.destinations].iter().any(
            |operand| matches!(operand, Operand::Register(register) if self.places.of(*register).is_some()),
        );
        if computes {
            return;
        }
        let barrier = match used.map(|used| used.barrier) {
            Some(Operand::Address { base, .. }) => Some((**base).clone()),
            _ => None,
        };
        let is_copy = instruction.opcode.starts_with("cp.async.bulk");
        let mut escaped = Vec::new();
        registers_read(instruction, &mut |register| {
            if !is_copy && barrier != Some(Operand::Register(register)) {
                escaped.extend(self.places.of(register).map(|place| place.array));
            }
        });
        self.deeds.escaped.extend(escaped);
    }
}

/// The registers that statements write.
fn registers_written(body: &[Statement], written: &mut FxHashSet<Register>) {
    for statement in body {
        match statement {
            Statement::Instruction(instruction) => visit_destinations(instruction, &mut |register| {
                written.insert(register);
            }),
            Statement::If { then, otherwise, .. } => {
                registers_written(then, written);
                registers_written(otherwise, written);
            }
            Statement::Loop { body, step, .. } => {
                registers_written(body, written);
                registers_written(step, written);
            }
            Statement::Block { body, .. } => registers_written(body, written),
            _ => {}
        }
    }
}

impl Deeds<'_> {
    /// Uses of mbarriers of CTAs that the cluster does not have.
    pub(super) fn outside_the_cluster(&self) -> Vec<(Location, String)> {
        let ctas = self.threads.blocks();
        let outside = |deed: &Deed| {
            let rank = deed.place.as_ref()?.rank.as_ref()?;
            let ranks = self.threads.operand(rank)?;
            let used = ranks.iter().zip(deed.threads.iter()).filter_map(|(rank, uses)| uses.then_some(*rank));
            let rank = used.filter(|rank| *rank >= ctas).max()?;
            let message = format!(
                "this uses the mbarrier of CTA {rank}, and the cluster's {ctas} CTAs have ranks 0 to {}: state the cluster \
                 by `launch::cluster`, or use a rank inside it",
                ctas - 1
            );
            Some((deed.location, message))
        };
        let literal = |deed: &&Deed| {
            matches!(deed.place.as_ref().and_then(|place| place.rank.as_ref()), Some(Operand::Register(_)))
        };
        self.all.iter().filter(literal).filter_map(outside).collect()
    }
}

impl Deed {
    /// Whether it is in a loop.
    pub(super) fn repeats(&self) -> bool {
        self.path.iter().any(|step| matches!(step, Step::Loop(_) | Step::Counted(_)))
    }

    /// The mbarriers that it reaches, by the CTA's rank and the offset in the array, and how many threads
    /// reach each. The offset is `None` where it is unknown and all threads have the same.
    pub(super) fn reached(&self, threads: &Threads<'_>) -> Option<FxHashMap<(u32, Option<i64>), u64>> {
        let place = self.place.as_ref()?;
        let offsets = place.offsets(threads);
        let is_uniform = |(term, _): &(Register, i64)| threads.is_uniform(*term, &self.conditions);
        if offsets.is_none() && (place.varies || !place.terms.iter().all(is_uniform)) {
            return None;
        }
        let masks = self.masks(threads)?;
        let mut reached = FxHashMap::default();
        for thread in (0..threads.count()).filter(|thread| self.threads[*thread as usize]) {
            let offset = offsets.as_ref().map(|offsets| offsets[thread as usize]);
            let ranks = masks[thread as usize];
            for rank in (0..threads.blocks()).filter(|rank| ranks >> rank & 1 == 1) {
                *reached.entry((rank, offset)).or_insert(0) += 1;
            }
        }
        Some(reached)
    }

    /// How many threads reach an mbarrier of each CTA.
    pub(super) fn ranks(&self, threads: &Threads<'_>) -> Option<Vec<u64>> {
        let mut reached = vec![0; threads.blocks() as usize];
        for (mask, _) in
            self.masks(threads)?.into_iter().zip(self.threads.iter()).filter(|(_, reaches)| **reaches)
        {
            let ranks = reached.iter_mut().enumerate().filter(|(rank, _)| mask >> rank & 1 == 1);
            ranks.for_each(|(_, threads)| *threads += 1);
        }
        Some(reached)
    }

    /// The CTAs that each thread reaches: a bit for each rank.
    fn masks(&self, threads: &Threads<'_>) -> Option<Vec<u32>> {
        let own = |thread: u32| 1 << (thread / threads.of_a_block());
        let place = self.place.as_ref();
        match (&self.receivers, place.and_then(|place| place.rank.as_ref())) {
            (Receivers::All, _) => Some(vec![u32::MAX; threads.count() as usize]),
            (Receivers::Mask(mask), _) => Some(threads.operand(mask)?.to_vec()),
            (Receivers::One, Some(rank)) => {
                Some(threads.operand(rank)?.iter().map(|rank| 1 << rank.min(&31)).collect())
            }
            (Receivers::One, None) => Some((0..threads.count()).map(own).collect()),
        }
    }
}
