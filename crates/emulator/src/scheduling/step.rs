//! One path of a warp, until it reaches another's position, waits, yields or ends.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::Sum;

use warpwright_events::{Actor, Event, FULL, FaultKind, LANES, lanes};

use crate::execution::effect::{Attempt, Effect, Execution, Test};
use crate::instructions::complete_loads_to;
use crate::launch::failure::{Failure, LocatedFailure};
use crate::launch::schedule::Schedule;
use crate::operation::barrier::{Arrival, BarrierOperation};
use crate::operation::call::{Call, transfer};
use crate::operation::collective::{Collective, Exchange, Inputs};
use crate::operation::kind::{Kind, Operation};
use crate::operation::warpgroup::{Next as AfterWarpgroup, WarpgroupOperation};
use crate::registers::Slot;
use crate::scheduling::path::{Path, Wait};

/// Iterations of a waiting loop before a path yields.
const POLLS_PER_TURN: u32 = 16;
/// Iterations of any loop before a path yields.
const LOOPS_PER_TURN: u32 = 1 << 16;
/// Iterations of a loop in one turn after which the registers are kept, and after which they are
/// compared with those. The distance is a multiple of the lengths of short cycles.
const KEPT_AFTER: u32 = 512;
const CYCLE: u32 = 480;
const COMPARED_AFTER: u32 = KEPT_AFTER + CYCLE;

/// Numbers of executed operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) warp_instructions: u64,
    pub(crate) lane_operations: u64,
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, counts| Self {
            warp_instructions: sum.warp_instructions + counts.warp_instructions,
            lane_operations: sum.lane_operations + counts.lane_operations,
        })
    }
}

/// The state of the path afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It still exists, and may continue later.
    Path,
    /// All its lanes have left: for other paths, or by exiting.
    Gone,
}

/// The step after an instruction.
enum Next {
    /// The instruction at this position, on the same path.
    At(u32),
    Stop(Stop),
}

/// The reports of every instruction.
#[derive(Clone, Copy)]
struct Reported {
    /// That it executes.
    instructions: bool,
    /// How it uses registers that asynchronous work uses, too.
    registers: bool,
    /// The predicates that decide its result.
    predicates: bool,
    /// Loads of tensor memory may be in flight to registers that it uses.
    loads: bool,
    /// A turn ends before an ordered instruction.
    ordered: bool,
}

/// A running path of a warp.
pub(crate) struct Step<'w> {
    /// The paths of the warp.
    pub(crate) paths: &'w mut Vec<Path>,
    pub(crate) code: &'w [Operation],
    /// The running path.
    pub(crate) index: usize,
    /// Its lanes.
    pub(crate) mask: u32,
    /// Lanes of the warp that have not exited.
    pub(crate) alive: &'w mut u32,
    pub(crate) counts: &'w mut Counts,
    /// The first instruction that is not counted yet.
    pub(crate) counted_from: u32,
    pub(crate) execution: Execution<'w>,
}

impl Step<'_> {
    /// Runs the path up to `limit` at most.
    pub(crate) fn run(&mut self, limit: u32) -> Result<Stop, LocatedFailure> {
        let observer = &self.execution.block.observer;
        let uses_matter = !self.execution.launch.kernel.register_uses.is_empty();
        let reported = Reported {
            instructions: observer.wants_instructions(),
            registers: uses_matter && observer.listens(),
            predicates: observer.follows(),
            ordered: !self.execution.launch.ordered.is_empty(),
            loads: uses_matter && self.execution.launch.schedule != Schedule::Eager,
        };
        match reported.instructions || reported.registers || reported.loads {
            true => self.go::<true>(limit, reported),
            false => self.go::<false>(limit, reported),
        }
    }

    /// The same, with reports of instructions only if the path is `OBSERVED`.
    fn go<const OBSERVED: bool>(&mut self, limit: u32, reported: Reported) -> Result<Stop, LocatedFailure> {
        let code = self.code;
        let mut pc = self.paths[self.index].pc;
        self.counted_from = pc;
        loop {
            let operation = &code[pc as usize];
            let active = operation.guard.apply(self.execution.registers, self.mask);
            if OBSERVED
                && reported.instructions
                && active != self.mask
                && matches!(operation.kind, Kind::Lanes(_) | Kind::Effect(_) | Kind::Test(_))
            {
                self.execution.pc = pc;
                let actor = self.execution.actor(self.mask & !active);
                self.execution.block.observer.report(Event::PredicatedOff { actor });
            }
            if OBSERVED && reported.registers && active != 0 {
                self.report_registers(pc, active);
            }
            if OBSERVED && reported.loads && active != 0 {
                let uses = &self.execution.launch.kernel.register_uses[pc as usize];
                complete_loads_to(&mut self.execution, uses);
            }
            match &operation.kind {
                Kind::Lanes(lanes) => {
                    if active != 0 {
                        if OBSERVED && reported.predicates {
                            self.report_predicates(pc, active);
                        }
                        lanes.run(self.execution.registers, active);
                    }
                    pc += 1;
                }
                Kind::Effect(effect) => {
                    if active != 0 {
                        if OBSERVED && reported.ordered && self.is_early(pc) {
                            self.count(pc);
                            return Ok(self.stop(pc));
                        }
                        self.execution.pc = pc;
                        self.execution.changes += 1;
                        if let Err(failure) = effect.execute(&mut self.execution, active) {
                            return Err(self.located(pc, failure));
                        }
                        if self.is_followed_from_here(reported) {
                            self.count(pc + 1);
                            return Ok(self.stop(pc + 1));
                        }
                    }
                    pc += 1;
                }
                _ if active == 0 => pc += 1,
                Kind::Branch { target } if active == self.mask => {
                    self.count(pc + 1);
                    let backward = *target <= pc;
                    pc = *target;
                    self.counted_from = pc;
                    if backward
                        && (self.paths[self.index].branches_back(&mut self.execution.polled)
                            || self.repeats(pc))
                    {
                        return Ok(self.stop(pc));
                    }
                }
                _ => {
                    self.execution.pc = pc;
                    match self.turn(operation, pc, active).map_err(|failure| self.located(pc, failure))? {
                        Next::At(next) if next == pc + 1 && self.is_followed_from_here(reported) => {
                            self.count(next);
                            return Ok(self.stop(next));
                        }
                        Next::At(next) => pc = next,
                        Next::Stop(stop) => return Ok(stop),
                    }
                }
            }
            if pc >= limit {
                self.count(pc);
                return Ok(self.stop(pc));
            }
        }
    }

    /// Whether an observer follows what the instruction has loaded, and does not get the events of every instruction.
    fn is_followed_from_here(&self, reported: Reported) -> bool {
        !reported.instructions && self.execution.block.observer.follows()
    }

    /// Whether the loop at `pc` has come back to registers that it had before: no iteration of this
    /// turn ends it, so the turn is over.
    ///
    /// The turn after such a one compares each iteration with the first, so that a loop which waits in
    /// vain is proved to within few of them.
    #[inline]
    fn repeats(&mut self, pc: u32) -> bool {
        let Path { loops, repeated, .. } = self.paths[self.index];
        (repeated || loops == KEPT_AFTER || loops == COMPARED_AFTER) && self.has_kept_registers(pc)
    }

    #[cold]
    fn has_kept_registers(&mut self, pc: u32) -> bool {
        let mut hasher = DefaultHasher::new();
        (pc, self.mask).hash(&mut hasher);
        self.execution.registers.hash(&mut hasher);
        let (path, now) = (&mut self.paths[self.index], hasher.finish());
        let keeps = path.loops == if path.repeated { 1 } else { KEPT_AFTER };
        if keeps {
            path.kept = now;
            return false;
        }
        path.yielded = path.kept == now;
        path.repeated &= path.loops <= CYCLE;
        path.repeated |= path.yielded;
        path.yielded
    }

    #[cold]
    fn report_predicates(&mut self, pc: u32, active: u32) {
        if let Some(predicates) = self.execution.launch.kernel.predicates.get(&pc) {
            self.execution.pc = pc;
            let registers = &self.execution.registers;
            let values = predicates.map(|(slot, negated)| {
                active & if negated { !registers.predicate(slot) } else { registers.predicate(slot) }
            });
            let actor = self.execution.actor(active);
            self.execution.block.observer.report(Event::Predicates { actor, values });
        }
    }

    fn report_registers(&mut self, pc: u32, active: u32) {
        let uses = &self.execution.launch.kernel.register_uses[pc as usize];
        if !uses.is_empty() {
            self.execution.pc = pc;
            let base = self.execution.registers.base().words;
            self.execution.block.observer.report(Event::RegistersUsed {
                actor: self.execution.actor(active),
                base,
                uses,
            });
        }
    }

    /// Executes an operation that may end the path's turn.
    fn turn(&mut self, operation: &Operation, pc: u32, active: u32) -> Result<Next, Box<Failure>> {
        match &operation.kind {
            Kind::Test(test) => self.test(&**test, pc, active),
            Kind::Aligned(effect) => self.aligned(&**effect, pc, active),
            Kind::Warpgroup(operation) => self.warpgroup(operation, pc, active),
            Kind::Attempt(attempt) => self.attempt(&**attempt, pc, active),
            Kind::Branch { target } => Ok(self.diverge(*target, pc, active)),
            Kind::BranchTable { index, targets } => self.branch_by_table(*index, targets, pc, active),
            Kind::Collective(collective) => self.exchange(collective, pc, active),
            Kind::Barrier(barrier) => self.arrive(barrier, pc, active),
            Kind::ClusterWait => self.wait_for_cluster(pc, active),
            Kind::Call(call) => self.call(call, pc, active),
            Kind::Return if !self.paths[self.index].callers.is_empty() => Ok(self.leave(pc, active)),
            Kind::Return | Kind::Exit => Ok(self.exit(pc, active)),
            Kind::Lanes(_) | Kind::Effect(_) => unreachable!("these do not end a turn"),
        }
    }

    /// Whether an instruction waits for the path's next turn, because it is ordered. The path then yields.
    fn is_early(&mut self, pc: u32) -> bool {
        if !self.execution.launch.ordered[pc as usize] {
            return false;
        }
        let path = &mut self.paths[self.index];
        if path.next_ordered.take() == Some(pc) {
            return false;
        }
        (path.next_ordered, path.yielded) = (Some(pc), true);
        true
    }

    fn located(&self, pc: u32, failure: Box<Failure>) -> LocatedFailure {
        LocatedFailure { pc, warp: self.execution.warp, failure }
    }

    /// Counts the instructions before `end` that are not counted yet.
    fn count(&mut self, end: u32) {
        let executed = u64::from(end - self.counted_from);
        self.counts.warp_instructions += executed;
        self.counts.lane_operations += executed * u64::from(self.mask.count_ones());
        if self.execution.block.observer.wants_instructions() {
            let actor = Actor { pc: self.counted_from, ..self.execution.actor(self.mask) };
            self.execution.block.observer.report(Event::Executed { actor, end });
        }
        self.counted_from = end;
    }

    /// The path stops at this instruction.
    fn stop(&mut self, pc: u32) -> Stop {
        let (mask, polled, watched) = (self.mask, self.execution.polled, self.execution.watched);
        let path = &mut self.paths[self.index];
        (path.pc, path.mask, path.polled, path.watched) = (pc, mask, polled, watched);
        Stop::Path
    }

    /// Some lanes branch away; the others continue after the instruction.
    fn without(&mut self, active: u32, pc: u32) -> Next {
        self.mask &= !active;
        Next::Stop(if self.mask == 0 { Stop::Gone } else { self.stop(pc + 1) })
    }

    /// Makes a path of some lanes that waits at the instruction.
    fn wait(&mut self, lanes: u32, pc: u32, wait: Wait) {
        let mut waiting = self.paths[self.index].split(lanes, pc);
        waiting.wait = wait;
        waiting.polled = self.execution.polled;
        waiting.begin_turn();
        self.paths.push(waiting);
    }

    /// A test that succeeds ends the path's turn under the fair schedule.
    fn test(&mut self, test: &dyn Test, pc: u32, active: u32) -> Result<Next, Box<Failure>> {
        self.execution.changes += 1;
        let succeeds = test.test(&mut self.execution, active)?;
        if !succeeds || self.execution.launch.schedule != Schedule::Eager {
            return Ok(Next::At(pc + 1));
        }
        self.count(pc + 1);
        self.paths[self.index].yielded = true;
        Ok(Next::Stop(self.stop(pc + 1)))
    }

    fn aligned(&mut self, effect: &dyn Effect, pc: u32, active: u32) -> Result<Next, Box<Failure>> {
        if self.mask != *self.alive {
            return Ok(self.wait_for_warp(pc));
        }
        self.execution.changes += 1;
        self.report_incomplete(active);
        effect.execute(&mut self.execution, active)?;
        Ok(Next::At(pc + 1))
    }

    /// Reports an aligned instruction that part of a warp executes.
    fn report_incomplete(&self, active: u32) {
        if active != FULL {
            let actor = self.execution.actor(active);
            self.execution.block.observer.report(Event::Incomplete { actor });
        }
    }

    fn wait_for_warp(&mut self, pc: u32) -> Next {
        self.count(pc);
        self.paths[self.index].wait = Wait::Together;
        Next::Stop(self.stop(pc))
    }

    fn warpgroup(
        &mut self,
        operation: &WarpgroupOperation,
        pc: u32,
        active: u32,
    ) -> Result<Next, Box<Failure>> {
        if matches!(operation, WarpgroupOperation::Settle)
            && (active != FULL || !self.execution.block.warpgroups.has_issued(self.execution.warp))
        {
            if active == FULL {
                // Nothing to wait for: it has already completed.
                self.execution
                    .block
                    .observer
                    .report(Event::RegistersSettled { actor: self.execution.actor(active) });
            }
            return Ok(Next::At(pc + 1));
        }
        if self.mask != *self.alive {
            return Ok(self.wait_for_warp(pc));
        }
        self.execution.changes += 1;
        let after = operation.execute(&mut self.execution, pc, active)?;
        if after == AfterWarpgroup::GoesOn {
            return Ok(Next::At(pc + 1));
        }
        self.count(pc + 1);
        let path = &mut self.paths[self.index];
        if after == AfterWarpgroup::Waits {
            path.wait = Wait::Warpgroup;
            return Ok(Next::Stop(self.stop(pc)));
        }
        path.yielded = true;
        Ok(Next::Stop(self.stop(pc + 1)))
    }

    fn attempt(&mut self, attempt: &dyn Attempt, pc: u32, active: u32) -> Result<Next, Box<Failure>> {
        if self.mask != *self.alive {
            return Ok(self.wait_for_warp(pc));
        }
        if attempt.attempt(&mut self.execution, active)? {
            self.execution.changes += 1;
            self.report_incomplete(active);
            return Ok(Next::At(pc + 1));
        }
        self.count(pc);
        let path = &mut self.paths[self.index];
        (path.wait, path.yielded) = (Wait::Attempt, true);
        Ok(Next::Stop(self.stop(pc)))
    }

    /// Lanes diverge at this instruction.
    fn diverged(&self) {
        if self.execution.block.observer.wants_instructions() {
            let actor = self.execution.actor(self.mask);
            self.execution.block.observer.report(Event::Diverged { actor });
        }
    }

    /// Some lanes branch, and some do not.
    fn diverge(&mut self, target: u32, pc: u32, active: u32) -> Next {
        self.count(pc + 1);
        self.diverged();
        let mut other = self.paths[self.index].split(active, target);
        if target <= pc && other.branches_back(&mut self.execution.polled) {
            other.yielded = true;
        }
        (other.polled, other.watched) = (self.execution.polled, self.execution.watched);
        let next = self.without(active, pc);
        self.paths.push(other);
        next
    }

    fn branch_by_table(
        &mut self,
        index: Slot,
        targets: &[u32],
        pc: u32,
        active: u32,
    ) -> Result<Next, Box<Failure>> {
        self.count(pc + 1);
        let column = *self.execution.registers.word(index);
        let path = self.paths[self.index].clone();
        let mut left = active;
        while left != 0 {
            let choice = column[left.trailing_zeros() as usize];
            let same = lanes(left).filter(|&l| column[l] == choice).fold(0, |m, l| m | 1 << l);
            if left == active && same != self.mask {
                self.diverged();
            }
            left &= !same;
            let Some(&target) = targets.get(choice as usize) else {
                return Err(Failure::new(
                    FaultKind::IllegalInstruction,
                    same,
                    format!("The branch index is {choice}, and the table has {} targets.", targets.len()),
                ));
            };
            let mut branch = path.split(same, target);
            branch.polled = self.execution.polled;
            if target <= pc && branch.branches_back(&mut self.execution.polled) {
                branch.yielded = true;
            }
            self.paths.push(branch);
        }
        Ok(self.without(active, pc))
    }

    fn exchange(&mut self, collective: &Collective, pc: u32, active: u32) -> Result<Next, Box<Failure>> {
        let members = *self.execution.registers.word(collective.members);
        let first = members[active.trailing_zeros() as usize];
        let alike = lanes(active).all(|lane| members[lane] == first);
        if alike && first & *self.alive == active {
            if collective.exchange == Exchange::Meet {
                let actor = self.execution.actor(active);
                self.execution.block.observer.report(Event::WarpSync { actor });
                let arrivals = &[actor];
                self.execution.block.observer.report(Event::Exchange { arrivals, synchronizes: true });
            }
            let mut inputs = Inputs::default();
            collective.gather(self.execution.registers, active, &mut inputs);
            let outputs = collective.exchange(&inputs, active);
            collective.scatter(self.execution.registers, active, &outputs);
            let observer = &self.execution.block.observer;
            let is_undefined = outputs.undefined & active != 0 && observer.listens();
            if is_undefined || observer.follows() {
                self.count(pc + 1);
                let (observer, actor) = (&self.execution.block.observer, self.execution.actor(active));
                collective.report(observer, actor, &inputs, &outputs);
            }
            // Observers may want every instruction from here on.
            return Ok(if is_undefined { Next::Stop(self.stop(pc + 1)) } else { Next::At(pc + 1) });
        }
        self.count(pc + 1);
        check_members(collective, &members, active)?;
        let mut left = active;
        while left != 0 {
            let mask = members[left.trailing_zeros() as usize];
            let with = |mask: u32| {
                lanes(active).filter(|&lane| members[lane] == mask).fold(0, |m, lane| m | 1 << lane)
            };
            let same = with(mask);
            left &= !same;
            let named = mask & active & !same;
            let other = lanes(named).next().map_or(mask, |lane| members[lane]);
            self.execution.block.observer.report(Event::ExchangeWait {
                actor: self.execution.actor(same),
                members: mask,
                otherwise: named & with(other),
                other,
            });
            self.wait(same, pc, Wait::Members(mask));
        }
        Ok(self.without(active, pc))
    }

    fn arrive(&mut self, barrier: &BarrierOperation, pc: u32, active: u32) -> Result<Next, Box<Failure>> {
        if let Some((id, generation)) = barrier.comes_again(&self.execution, active) {
            self.execution
                .block
                .observer
                .report(Event::BarrierRearrive { actor: self.execution.actor(active), barrier: id });
            self.count(pc);
            self.paths[self.index].wait = Wait::Again { id, generation };
            return Ok(Next::Stop(self.stop(pc)));
        }
        self.count(pc + 1);
        self.execution.changes += 1;
        let waits = barrier.arrive(&mut self.execution, active)?;
        for &Arrival { id, generation, lanes } in &waits {
            self.wait(lanes, pc, Wait::Barrier { id, generation });
        }
        self.execution.block.settle();
        Ok(if waits.is_empty() { Next::At(pc + 1) } else { self.without(active, pc) })
    }

    fn wait_for_cluster(&mut self, pc: u32, active: u32) -> Result<Next, Box<Failure>> {
        self.execution.changes += 1;
        if self.execution.block.cluster_barrier.wait(self.execution.warp, active)? {
            self.execution.block.observer.report(Event::ClusterLeave { actor: self.execution.actor(active) });
            return Ok(Next::At(pc + 1));
        }
        self.count(pc + 1);
        self.wait(active, pc, Wait::Cluster);
        Ok(self.without(active, pc))
    }

    fn call(&mut self, call: &Call, pc: u32, active: u32) -> Result<Next, Box<Failure>> {
        self.count(pc + 1);
        let path = self.paths[self.index].clone();
        let entered = call.enter(&mut self.execution, &path, pc, active)?;
        self.paths.extend(entered);
        Ok(self.without(active, pc))
    }

    /// Back to the caller.
    fn leave(&mut self, pc: u32, active: u32) -> Next {
        self.count(pc + 1);
        let mut path = self.paths[self.index].clone();
        (path.mask, path.polled) = (active, self.execution.polled);
        leave(self.code, &mut self.execution, &mut path);
        self.mask &= !active;
        if self.mask == 0 {
            self.paths[self.index] = path;
            return Next::Stop(Stop::Path);
        }
        let rest = &mut self.paths[self.index];
        (rest.pc, rest.mask) = (pc + 1, self.mask);
        self.paths.push(path);
        Next::Stop(Stop::Path)
    }

    fn exit(&mut self, pc: u32, active: u32) -> Next {
        self.count(pc + 1);
        self.execution.changes += 1;
        *self.alive &= !active;
        self.execution.block.exit(self.execution.warp, active, pc);
        self.execution.cluster().settle_barrier();
        self.mask &= !active;
        if self.mask == 0 { Next::Stop(Stop::Gone) } else { Next::At(pc + 1) }
    }
}

impl Path {
    /// Counts a backward branch, and returns whether the path's turn is over.
    fn branches_back(&mut self, polled: &mut bool) -> bool {
        self.loops += 1;
        self.polls += u32::from(*polled);
        *polled = false;
        self.yielded = self.polls >= POLLS_PER_TURN || self.loops >= LOOPS_PER_TURN;
        self.yielded
    }
}

/// Returns a path to its caller, with the results.
fn leave(code: &[Operation], execution: &mut Execution<'_>, path: &mut Path) {
    let caller = path.callers.pop().expect("a path in a device function has a caller");
    let kernel = execution.launch.kernel;
    let Kind::Call(call) = &code[caller.pc as usize].kind else {
        unreachable!("a path's caller stands at a call")
    };
    let callee = &kernel.functions[path.function as usize];
    for (formal, result) in callee.results.iter().zip(&call.results) {
        if let Some(result) = *result {
            transfer(execution, path.mask, (path.base, *formal), (caller.base, result.into()));
        }
    }
    (path.pc, path.base, path.function) = (caller.pc + 1, caller.base, caller.function);
}

fn check_members(collective: &Collective, members: &[u32; LANES], active: u32) -> Result<(), Box<Failure>> {
    let missing: u32 =
        lanes(active).filter(|&lane| members[lane] >> lane & 1 == 0).fold(0, |m, lane| m | 1 << lane);
    if missing == 0 {
        return Ok(());
    }
    let mask = members[missing.trailing_zeros() as usize];
    let what = if collective.exchange == Exchange::Meet { "meeting" } else { "exchange" };
    Err(Failure::new(
        FaultKind::LaneMask,
        missing,
        format!(
            "These lanes execute a warp-wide {what} whose member mask {mask:#010x} does not include \
         them."
        ),
    ))
}
