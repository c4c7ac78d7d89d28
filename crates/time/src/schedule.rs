//! The order in which ptxas issues the instructions of a stretch of straight code.
//!
//! ptxas moves loads ahead of what does not depend on them. The model does as much: a list schedule, by
//! the longest chain of latencies that begins with an instruction.

use std::collections::HashMap;
use std::ops::Range;

use warpwright_arch::Arch;
use warpwright_arch::instructions::Class;
use warpwright_events::Code;

use crate::predication::Predication;
use crate::program::{Action, Program};

/// Operations of a stretch at most: the time to order one grows with its square.
const LONGEST: usize = 512;

/// The order of a program's operations.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// The operation at each position.
    order: Vec<u32>,
    /// The stretch that each position is in.
    stretches: Vec<(u32, u32)>,
}

impl Schedule {
    pub(crate) fn new(program: &Program, predication: &Predication, code: &Code, arch: &Arch) -> Self {
        let count = program.operations.len();
        let mut starts = vec![false; count + 1];
        for branch in code.branches.iter().filter(|branch| !predication.replaces(branch.operation)) {
            starts[branch.target as usize] = true;
            starts[branch.operation as usize + 1] = true;
        }
        for pc in 0..count {
            if stays(code, program, pc) {
                (starts[pc], starts[pc + 1]) = (true, true);
            }
        }
        let mut schedule = Self { order: (0..count as u32).collect(), stretches: vec![(0, 0); count] };
        let mut first = 0;
        while first < count {
            let end = (first + 1..count).find(|&pc| starts[pc] || pc - first == LONGEST).unwrap_or(count);
            schedule.stretches[first..end].fill((first as u32, end as u32));
            let order = ordered(program, code, arch, first, end);
            schedule.order[first..end].copy_from_slice(&order);
            first = end;
        }
        schedule
    }

    /// The operation at a position of a run: in the order of the code where the run has a part of a
    /// stretch.
    pub(crate) fn at(&self, position: u32, (from, end): (u32, u32)) -> u32 {
        let (first, last) = self.stretches[position as usize];
        if first >= from && last <= end { self.order[position as usize] } else { position }
    }
}

/// Whether no instruction moves across an operation.
fn stays(code: &Code, program: &Program, pc: usize) -> bool {
    let action = program.operations[pc].action;
    let Some(form) = code.instruction(pc as u32).form else { return action != Action::Rename };
    !matches!(action, Action::Compute | Action::Rename | Action::Load | Action::Mma { .. } | Action::Exchange)
        || matches!(
            form.class,
            Class::CtaBarrier
                | Class::ClusterBarrier
                | Class::Mbarrier
                | Class::MbarrierInit
                | Class::Fence
                | Class::WarpBarrier
                | Class::WarpgroupSync
                | Class::AsyncCopy
                | Class::BulkCopy
                | Class::TensorCopy
                | Class::Atomic
                | Class::Reduction
                | Class::Control
                | Class::ClusterLaunch
        )
}

/// The latency that an order is made for.
fn latency(program: &Program, code: &Code, arch: &Arch, pc: usize) -> u64 {
    let operation = &program.operations[pc];
    let timing = arch.timing();
    match operation.action {
        Action::Rename => 0,
        Action::Load => {
            let text = &code.instruction(pc as u32).text;
            let is_shared = text.contains("shared") || text.starts_with("ldmatrix");
            if is_shared { timing.shared_latency.value as u64 } else { timing.l2_latency.value as u64 }
        }
        Action::Mma { cycles } => u64::from(cycles + operation.latency),
        _ => u64::from(operation.latency.max(operation.slots)),
    }
}

/// The memories that an access may reach: 0 is shared memory, 1 any other. A generic address may be of both.
fn spaces(name: &str) -> Range<usize> {
    let has = |space: &str| name.contains(space);
    match () {
        () if has(".shared") || has("matrix") => 0..1,
        () if has(".global") || has(".local") || has(".const") || has(".param") => 1..2,
        () => 0..2,
    }
}

/// The order of a stretch's operations.
fn ordered(program: &Program, code: &Code, arch: &Arch, first: usize, end: usize) -> Vec<u32> {
    let count = end - first;
    // The operations that must wait for each, and the number that each waits for.
    let mut after: Vec<Vec<(u32, bool)>> = vec![Vec::new(); count];
    let mut before = vec![0u32; count];
    let mut edge = |from: usize, to: usize, carries: bool| {
        if from != to {
            after[from].push((to as u32, carries));
            before[to] += 1;
        }
    };
    let mut writers: HashMap<u32, usize> = HashMap::new();
    let mut readers: HashMap<u32, Vec<usize>> = HashMap::new();
    // Of shared memory, and of other memory.
    let (mut loads, mut stores) = ([Vec::new(), Vec::new()], [None, None]);
    for index in 0..count {
        let operation = &program.operations[first + index];
        for register in program.of(&operation.reads) {
            if let Some(&writer) = writers.get(register) {
                edge(writer, index, true);
            }
            readers.entry(*register).or_default().push(index);
        }
        for register in program.of(&operation.writes) {
            for reader in readers.remove(register).unwrap_or_default() {
                edge(reader, index, false);
            }
            if let Some(writer) = writers.insert(*register, index) {
                edge(writer, index, false);
            }
        }
        // Further parts of an instruction follow it.
        if operation.slots == 0 && operation.action != Action::Rename && index > 0 {
            edge(index - 1, index, false);
        }
        let instruction = code.instruction((first + index) as u32);
        for space in spaces(instruction.name()) {
            match instruction.form.map(|form| form.class) {
                Some(Class::Store | Class::MatrixStore | Class::FragmentStore) => {
                    loads[space].drain(..).for_each(|load| edge(load, index, false));
                    stores[space].into_iter().for_each(|store| edge(store, index, false));
                    stores[space] = Some(index);
                }
                Some(Class::Load | Class::MatrixLoad | Class::FragmentLoad)
                    if operation.action == Action::Load =>
                {
                    stores[space].into_iter().for_each(|store| edge(store, index, false));
                    loads[space].push(index);
                }
                _ => {}
            }
        }
    }
    let mut chains = vec![0u64; count];
    for index in (0..count).rev() {
        let own = latency(program, code, arch, first + index);
        let longest =
            after[index].iter().map(|&(to, carries)| chains[to as usize] + if carries { own } else { 1 });
        chains[index] = longest.max().unwrap_or(own);
    }
    let mut ready: Vec<(u64, usize)> =
        (0..count).filter(|&index| before[index] == 0).map(|index| (0, index)).collect();
    let mut order = Vec::with_capacity(count);
    let mut now = 0;
    let mut available = vec![0u64; count];
    while !ready.is_empty() {
        let best = |&(at, index): &(u64, usize)| (at.max(now), std::cmp::Reverse(chains[index]), index);
        let place = (0..ready.len()).min_by_key(|&place| best(&ready[place])).expect("it is not empty");
        let (at, index) = ready.swap_remove(place);
        let operation = &program.operations[first + index];
        now = now.max(at) + u64::from(operation.slots);
        order.push((first + index) as u32);
        let done = now.saturating_sub(1) + latency(program, code, arch, first + index);
        for &(to, carries) in &after[index] {
            let to = to as usize;
            available[to] = available[to].max(if carries { done } else { now });
            before[to] -= 1;
            if before[to] == 0 {
                ready.push((available[to], to));
            }
        }
    }
    order
}
