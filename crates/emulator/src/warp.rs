//! A warp: its registers, and the paths its lanes are on.
//!
//! Lanes that branch apart become paths of their own. The path that is furthest behind goes first, and paths that meet
//! go on as one, so that code which reconverges on the device reconverges here. A path that keeps going round a loop
//! yields to the others: sooner if it looks like waiting (volatile loads, atomics, `nanosleep`), later if it just works.

use std::iter::Sum;

use crate::barrier::{Arrival, BarrierAction, BarrierOperation};
use crate::call::leave;
use crate::check::Actor;
use crate::cluster::Blocks;
use crate::collective::{Collective, Exchange, Inputs, Place};
use crate::cta::Block;
use crate::fault::FaultKind;
use crate::instructions::Next;
use crate::launch::LaunchContext;
use crate::memory::{LocalMemory, RegionCache, Trouble, shared_base};
use crate::operation::{Execution, Kind};
use crate::path::{Path, Wait};
use crate::program::{Preload, PreloadPlace, PreloadValue};
use crate::registers::{FrameBase, LANES, Registers, blend, lanes};
use crate::special::WarpPosition;

/// Rounds of a waiting loop before a path yields.
const POLLS_PER_TURN: u32 = 16;
/// Rounds of any loop before a path yields.
const LOOPS_PER_TURN: u32 = 1 << 16;

/// Why a warp stopped running for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All its lanes have exited.
    Exited,
    /// Every path waits for something outside the warp, or for lanes that do not come.
    Blocked,
    /// Every path that can move has had its turn; `waiting` if all they did was poll.
    Turn { waiting: bool },
}

/// Trouble, and the instruction it happened at.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) pc: u32,
    pub(crate) warp: u32,
    pub(crate) trouble: Box<Trouble>,
}

/// How much was executed.
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

/// One warp of a CTA.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(crate) index: u32,
    pub(crate) paths: Vec<Path>,
    /// Lanes that have not exited.
    pub(crate) alive: u32,
    pub(crate) registers: Registers,
    local: LocalMemory,
    cache: RegionCache,
    pub(crate) counts: Counts,
}

enum Stop {
    /// The path is still there, and may go on later.
    Path,
    /// All lanes of the path are gone.
    Gone,
}

impl Warp {
    /// A warp at the start of the kernel, with the lanes of `mask`.
    pub(crate) fn new(launch: &LaunchContext<'_>, cta: [u32; 3], index: u32, mask: u32) -> Self {
        let mut warp = Self {
            index,
            paths: vec![Path::start(mask)],
            alive: mask,
            registers: Registers::default(),
            local: LocalMemory::default(),
            cache: RegionCache::default(),
            counts: Counts::default(),
        };
        let function = &launch.kernel.functions[0];
        warp.registers.enter(FrameBase::default(), function.frame);
        warp.local.reserve(function.frame.local);
        let position = WarpPosition { cta, warp: index };
        for preload in &function.preloads {
            preload.fill(&mut warp.registers, launch, position, u32::MAX);
        }
        warp
    }

    /// Puts a warp that has exited at the start of the kernel, in another CTA of the same launch.
    pub(crate) fn restart(&mut self, launch: &LaunchContext<'_>, cta: [u32; 3], mask: u32) {
        self.paths.clear();
        self.paths.push(Path::start(mask));
        self.alive = mask;
        self.registers.set_base(FrameBase::default());
        let position = WarpPosition { cta, warp: self.index };
        for preload in &launch.kernel.functions[0].preloads {
            if preload.value.depends_on_cta() {
                preload.fill(&mut self.registers, launch, position, u32::MAX);
            }
        }
    }

    /// Runs until every path has exited, waits, or has had its turn.
    pub(crate) fn run(
        &mut self,
        launch: &LaunchContext<'_>,
        blocks: &mut Blocks<'_>,
    ) -> Result<Pause, Located> {
        let mut worked = false;
        loop {
            self.wake(launch, blocks)?;
            let Some(index) = self.choose() else {
                return Ok(if self.paths.is_empty() {
                    Pause::Exited
                } else if self.paths.iter().any(|path| path.wait == Wait::Ready) {
                    for path in &mut self.paths {
                        path.yielded = false;
                    }
                    Pause::Turn { waiting: !worked }
                } else {
                    Pause::Blocked
                });
            };
            let index = self.merge(index);
            let limit = self.limit(index);
            let polls_before = self.paths[index].polls;
            if let Stop::Gone = self.step(index, limit, launch, blocks)? {
                self.paths.swap_remove(index);
                worked = true;
            } else {
                let path = &mut self.paths[index];
                worked |= !(path.yielded && path.loops == path.polls && path.polls > polls_before);
                if path.yielded {
                    (path.polls, path.loops) = (0, 0);
                }
            }
        }
    }

    /// The path furthest behind that can move and has not had its turn.
    fn choose(&self) -> Option<usize> {
        let mut chosen: Option<usize> = None;
        for (index, path) in self.paths.iter().enumerate() {
            if path.wait == Wait::Ready
                && !path.yielded
                && chosen.is_none_or(|best| path.order(&self.paths[best]).is_lt())
            {
                chosen = Some(index);
            }
        }
        chosen
    }

    /// Joins to a path all others at the same place, and says where it is afterwards.
    fn merge(&mut self, mut index: usize) -> usize {
        let mut other = 0;
        while other < self.paths.len() {
            let joins = other != index
                && !matches!(
                    self.paths[other].wait,
                    Wait::Barrier { .. } | Wait::Members(_) | Wait::Cluster | Wait::Warpgroup
                )
                && self.paths[other].meets(&self.paths[index]);
            if !joins {
                other += 1;
                continue;
            }
            let joined = self.paths.swap_remove(other);
            if index == self.paths.len() {
                index = other;
            }
            self.paths[index].mask |= joined.mask;
        }
        index
    }

    /// Where another path stands that this one will come to first.
    fn limit(&self, index: usize) -> u32 {
        let path = &self.paths[index];
        self.paths
            .iter()
            .enumerate()
            .filter(|&(other, p)| other != index && p.callers == path.callers && p.pc > path.pc)
            .map(|(_, p)| p.pc)
            .min()
            .unwrap_or(u32::MAX)
    }

    /// Lets paths go on whose wait is over.
    fn wake(&mut self, launch: &LaunchContext<'_>, blocks: &mut Blocks<'_>) -> Result<(), Located> {
        for index in 0..self.paths.len() {
            match self.paths[index].wait {
                Wait::Ready => {}
                Wait::Together => {
                    let index = self.merge_waiting(index);
                    let Some(index) = index else { return self.wake(launch, blocks) };
                    if self.paths[index].mask == self.alive {
                        self.paths[index].wait = Wait::Ready;
                    }
                }
                Wait::Members(members) => self.meet(index, members, launch, blocks.own),
                Wait::Warpgroup => {
                    if blocks.own.warpgroups.is_over(self.index) {
                        self.paths[index].wait = Wait::Ready;
                        self.paths[index].pc += 1;
                    }
                }
                Wait::Cluster => {
                    let path = &mut self.paths[index];
                    if !blocks.own.cluster_barrier.holds(self.index, path.mask) {
                        path.wait = Wait::Ready;
                        let actor =
                            Actor { rank: blocks.own.rank, warp: self.index, lanes: path.mask, pc: path.pc };
                        blocks.own.observer.cluster_leave(actor);
                        path.pc += 1;
                    }
                }
                Wait::Barrier { id, generation } => {
                    let barrier = &blocks.own.barriers[id as usize];
                    if barrier.generation() != generation {
                        let result = barrier.result(generation);
                        let path = &mut self.paths[index];
                        path.wait = Wait::Ready;
                        let Kind::Barrier(operation) = &launch.kernel.operations[path.pc as usize].kind
                        else {
                            unreachable!("a path that waits at a barrier stands at a barrier instruction")
                        };
                        path.pc += 1;
                        let (base, mask) = (path.base, path.mask);
                        let actor =
                            Actor { rank: blocks.own.rank, warp: self.index, lanes: mask, pc: path.pc - 1 };
                        blocks.own.observer.barrier_leave(actor, id, generation);
                        self.registers.set_base(base);
                        deliver(&mut self.registers, operation, mask, result.population, result.arrived);
                    }
                }
            }
        }
        Ok(())
    }

    /// Merges the waiting path at `index` with others that wait at the same place. `None` if paths moved.
    fn merge_waiting(&mut self, index: usize) -> Option<usize> {
        let before = self.paths.len();
        let merged = self.merge(index);
        (self.paths.len() == before).then_some(merged)
    }

    /// Carries out an exchange if all its members are waiting for it.
    fn meet(&mut self, index: usize, members: u32, launch: &LaunchContext<'_>, block: &Block) {
        let code = &launch.kernel.operations;
        let collective = |path: &Path| match &code[path.pc as usize].kind {
            Kind::Collective(collective) => collective,
            _ => unreachable!("a path that waits for members stands at an exchange"),
        };
        let exchange = collective(&self.paths[index]).exchange;
        let takes_part =
            |path: &Path| path.wait == Wait::Members(members) && collective(path).exchange == exchange;
        let present =
            self.paths.iter().filter(|path| takes_part(path)).fold(0, |mask, path| mask | path.mask);
        if present != members & self.alive {
            return;
        }
        let parties: Vec<usize> = (0..self.paths.len()).filter(|&p| takes_part(&self.paths[p])).collect();
        if exchange == Exchange::Meet {
            let pc = self.paths[index].pc;
            block.observer.warp_meets(Actor { rank: block.rank, warp: self.index, lanes: present, pc });
        }
        let mut inputs = Inputs::default();
        for &party in &parties {
            self.registers.set_base(self.paths[party].base);
            collective(&self.paths[party]).gather(&self.registers, self.paths[party].mask, &mut inputs);
        }
        for &party in &parties {
            let path = &mut self.paths[party];
            let operation = collective(path);
            let outputs = operation.exchange(&inputs, members, present);
            self.registers.set_base(path.base);
            operation.scatter(&mut self.registers, path.mask, &outputs);
            path.pc += 1;
            path.wait = Wait::Ready;
        }
    }

    /// Runs one path until it meets another's place, waits, yields or ends.
    fn step(
        &mut self,
        index: usize,
        limit: u32,
        launch: &LaunchContext<'_>,
        blocks: &mut Blocks<'_>,
    ) -> Result<Stop, Located> {
        let kernel = launch.kernel;
        let code = kernel.operations.as_slice();
        let warp = self.index;
        let path = &mut self.paths[index];
        let (mut pc, mut mask) = (path.pc, path.mask);
        let mut counted_from = pc;
        self.registers.set_base(path.base);
        let mut execution = Execution {
            launch,
            block: blocks.own,
            peers: blocks.peers.reborrow(),
            registers: &mut self.registers,
            local: &mut self.local,
            cache: &mut self.cache,
            warp,
            pc,
            polled: path.polled,
        };
        macro_rules! count {
            ($end:expr) => {{
                let executed = u64::from($end - counted_from);
                self.counts.warp_instructions += executed;
                self.counts.lane_operations += executed * u64::from(mask.count_ones());
            }};
        }
        macro_rules! stop {
            ($executed:expr, $pc:expr) => {{
                count!($executed);
                let path = &mut self.paths[index];
                (path.pc, path.mask, path.polled) = ($pc, mask, execution.polled);
                return Ok(Stop::Path);
            }};
        }
        macro_rules! fail {
            ($trouble:expr) => {
                return Err(Located { pc, warp, trouble: $trouble })
            };
        }
        loop {
            let operation = &code[pc as usize];
            let active = operation.guard.apply(execution.registers, mask);
            execution.pc = pc;
            match &operation.kind {
                Kind::Lanes(lanes) => {
                    if active != 0 {
                        lanes.run(execution.registers, active);
                    }
                    pc += 1;
                }
                Kind::Effect(effect) => {
                    if active != 0
                        && let Err(trouble) = effect.execute(&mut execution, active)
                    {
                        fail!(trouble);
                    }
                    pc += 1;
                }
                Kind::Aligned(effect) => {
                    if active != 0 {
                        if mask != self.alive {
                            self.paths[index].wait = Wait::Together;
                            stop!(pc, pc);
                        }
                        if let Err(trouble) = effect.execute(&mut execution, active) {
                            fail!(trouble);
                        }
                    }
                    pc += 1;
                }
                Kind::Warpgroup(operation) => {
                    if active != 0 {
                        if mask != self.alive {
                            self.paths[index].wait = Wait::Together;
                            stop!(pc, pc);
                        }
                        let next = match operation.execute(&mut execution, pc, active) {
                            Ok(next) => next,
                            Err(trouble) => fail!(trouble),
                        };
                        if next != Next::GoesOn {
                            if next == Next::Waits {
                                self.paths[index].wait = Wait::Warpgroup;
                                stop!(pc + 1, pc);
                            }
                            self.paths[index].yielded = true;
                            stop!(pc + 1, pc + 1);
                        }
                    }
                    pc += 1;
                }
                Kind::Branch { target } => {
                    let target = *target;
                    if active == mask {
                        count!(pc + 1);
                        let backward = target <= pc;
                        pc = target;
                        counted_from = pc;
                        if backward && self.paths[index].goes_round(&mut execution.polled) {
                            stop!(pc, pc);
                        }
                    } else if active == 0 {
                        pc += 1;
                    } else {
                        count!(pc + 1);
                        let path = &mut self.paths[index];
                        let mut other = path.split(active, target);
                        let backward = target <= pc;
                        if backward && other.goes_round(&mut execution.polled) {
                            other.yielded = true;
                        }
                        mask &= !active;
                        (path.pc, path.mask, path.polled) = (pc + 1, mask, execution.polled);
                        other.polled = execution.polled;
                        self.paths.push(other);
                        return Ok(Stop::Path);
                    }
                }
                Kind::BranchTable { index: slot, targets } => {
                    count!(pc + 1);
                    let column = *execution.registers.word(*slot);
                    let path = self.paths[index].clone();
                    let mut left = active;
                    while left != 0 {
                        let choice = column[left.trailing_zeros() as usize];
                        let same = lanes(left).filter(|&l| column[l] == choice).fold(0, |m, l| m | 1 << l);
                        left &= !same;
                        let Some(&target) = targets.get(choice as usize) else {
                            fail!(Trouble::new(
                                FaultKind::IllegalInstruction,
                                same,
                                format!(
                                    "The branch index is {choice}, and the table has {} targets.",
                                    targets.len()
                                ),
                            ));
                        };
                        let mut branch = path.split(same, target);
                        branch.polled = execution.polled;
                        if target <= pc && branch.goes_round(&mut execution.polled) {
                            branch.yielded = true;
                        }
                        self.paths.push(branch);
                    }
                    mask &= !active;
                    if mask == 0 {
                        return Ok(Stop::Gone);
                    }
                    let path = &mut self.paths[index];
                    (path.pc, path.mask, path.polled) = (pc + 1, mask, execution.polled);
                    return Ok(Stop::Path);
                }
                Kind::Collective(collective) => {
                    if active != 0 {
                        let members = *execution.registers.word(collective.members);
                        let first = members[active.trailing_zeros() as usize];
                        let alike = lanes(active).all(|lane| members[lane] == first);
                        if alike && first & self.alive == active {
                            if collective.exchange == Exchange::Meet {
                                execution.block.observer.warp_meets(execution.actor(active));
                            }
                            let mut inputs = Inputs::default();
                            collective.gather(execution.registers, active, &mut inputs);
                            let outputs = collective.exchange(&inputs, first, active);
                            collective.scatter(execution.registers, active, &outputs);
                        } else {
                            count!(pc + 1);
                            let polled = execution.polled;
                            if let Err(trouble) = check_members(collective, &members, active) {
                                fail!(trouble);
                            }
                            self.separate(index, &members, active, pc, polled);
                            mask &= !active;
                            if mask == 0 {
                                return Ok(Stop::Gone);
                            }
                            let path = &mut self.paths[index];
                            (path.pc, path.mask, path.polled) = (pc + 1, mask, polled);
                            return Ok(Stop::Path);
                        }
                    }
                    pc += 1;
                }
                Kind::Barrier(barrier) => {
                    if active != 0 {
                        count!(pc + 1);
                        let polled = execution.polled;
                        let waits = match barrier.arrive(&mut execution, active) {
                            Ok(waits) => waits,
                            Err(trouble) => fail!(trouble),
                        };
                        counted_from = pc + 1;
                        if waits.is_empty() {
                            execution.block.settle();
                        } else {
                            let path = self.paths[index].clone();
                            for Arrival { id, generation, lanes } in waits {
                                let mut waiting = path.split(lanes, pc);
                                waiting.wait = Wait::Barrier { id, generation };
                                waiting.polled = polled;
                                (waiting.polls, waiting.loops) = (0, 0);
                                self.paths.push(waiting);
                            }
                            execution.block.settle();
                            mask &= !active;
                            if mask == 0 {
                                return Ok(Stop::Gone);
                            }
                            let path = &mut self.paths[index];
                            (path.pc, path.mask, path.polled) = (pc + 1, mask, polled);
                            return Ok(Stop::Path);
                        }
                    }
                    pc += 1;
                }
                Kind::ClusterWait => {
                    if active != 0 {
                        let over = match execution.block.cluster_barrier.wait(warp, active) {
                            Ok(over) => over,
                            Err(trouble) => fail!(trouble),
                        };
                        if over {
                            execution.block.observer.cluster_leave(execution.actor(active));
                        } else {
                            count!(pc + 1);
                            let mut waiting = self.paths[index].split(active, pc);
                            waiting.wait = Wait::Cluster;
                            waiting.polled = execution.polled;
                            (waiting.polls, waiting.loops) = (0, 0);
                            self.paths.push(waiting);
                            mask &= !active;
                            if mask == 0 {
                                return Ok(Stop::Gone);
                            }
                            let path = &mut self.paths[index];
                            (path.pc, path.mask, path.polled) = (pc + 1, mask, execution.polled);
                            return Ok(Stop::Path);
                        }
                    }
                    pc += 1;
                }
                Kind::Call(call) => {
                    if active != 0 {
                        count!(pc + 1);
                        let path = self.paths[index].clone();
                        let polled = execution.polled;
                        let entered = match call.enter(&mut execution, &path, pc, active) {
                            Ok(entered) => entered,
                            Err(trouble) => fail!(trouble),
                        };
                        self.paths.extend(entered);
                        mask &= !active;
                        if mask == 0 {
                            return Ok(Stop::Gone);
                        }
                        let path = &mut self.paths[index];
                        (path.pc, path.mask, path.polled) = (pc + 1, mask, polled);
                        return Ok(Stop::Path);
                    }
                    pc += 1;
                }
                Kind::Return if !self.paths[index].callers.is_empty() => {
                    if active != 0 {
                        count!(pc + 1);
                        let mut path = self.paths[index].clone();
                        (path.mask, path.polled) = (active, execution.polled);
                        leave(&mut execution, &mut path);
                        mask &= !active;
                        if mask == 0 {
                            self.paths[index] = path;
                            return Ok(Stop::Path);
                        }
                        let rest = &mut self.paths[index];
                        (rest.pc, rest.mask) = (pc + 1, mask);
                        self.paths.push(path);
                        return Ok(Stop::Path);
                    }
                    pc += 1;
                }
                Kind::Return | Kind::Exit => {
                    if active != 0 {
                        count!(pc + 1);
                        counted_from = pc + 1;
                        self.alive &= !active;
                        execution.block.exit(warp, active, pc);
                        execution.cluster().settle_barrier();
                        mask &= !active;
                        if mask == 0 {
                            return Ok(Stop::Gone);
                        }
                    }
                    pc += 1;
                }
            }
            if pc >= limit {
                stop!(pc, pc);
            }
        }
    }

    /// Splits off the lanes that wait for others at an exchange, one path for each member mask.
    fn separate(&mut self, index: usize, members: &[u32; LANES], active: u32, pc: u32, polled: bool) {
        let path = self.paths[index].clone();
        let mut left = active;
        while left != 0 {
            let mask = members[left.trailing_zeros() as usize];
            let same = lanes(left).filter(|&lane| members[lane] == mask).fold(0, |m, lane| m | 1 << lane);
            left &= !same;
            let mut waiting = path.split(same, pc);
            waiting.wait = Wait::Members(mask);
            waiting.polled = polled;
            self.paths.push(waiting);
        }
    }
}

impl Path {
    /// Counts a backward branch, and says whether the path's turn is over.
    fn goes_round(&mut self, polled: &mut bool) -> bool {
        self.loops += 1;
        self.polls += u32::from(*polled);
        *polled = false;
        self.yielded = self.polls >= POLLS_PER_TURN || self.loops >= LOOPS_PER_TURN;
        self.yielded
    }
}

fn check_members(collective: &Collective, members: &[u32; LANES], active: u32) -> Result<(), Box<Trouble>> {
    let missing: u32 =
        lanes(active).filter(|&lane| members[lane] >> lane & 1 == 0).fold(0, |m, lane| m | 1 << lane);
    if missing == 0 {
        return Ok(());
    }
    let mask = members[missing.trailing_zeros() as usize];
    let what = if collective.exchange == Exchange::Meet { "meeting" } else { "exchange" };
    Err(Trouble::new(
        FaultKind::LaneMask,
        missing,
        format!("These lanes execute a warp-wide {what} whose member mask {mask:#010x} leaves them out."),
    ))
}

impl Preload {
    /// Fills the column, in the lanes of a mask.
    pub(crate) fn fill(
        &self,
        registers: &mut Registers,
        launch: &LaunchContext<'_>,
        position: WarpPosition,
        mask: u32,
    ) {
        let values = match self.value {
            PreloadValue::Bits(bits) => [bits; LANES],
            PreloadValue::Special(register) => register.column(launch, position),
            PreloadValue::Shared(offset) => [shared_address(launch, position, offset); LANES],
            PreloadValue::DynamicShared(offset) => {
                let offset = i64::from(launch.kernel.dynamic_shared_offset).wrapping_add(offset);
                [shared_address(launch, position, offset); LANES]
            }
            PreloadValue::Parameter { offset, bytes, signed } => {
                [launch.parameter(offset, bytes, signed); LANES]
            }
        };
        match self.place {
            PreloadPlace::Word(slot) => {
                blend(registers.word_mut(slot), mask, values.map(|value| value as u32))
            }
            PreloadPlace::Long(slot) => blend(registers.long_mut(slot), mask, values),
            PreloadPlace::Predicate(slot) => {
                registers.set_predicate(slot, mask, if values[0] != 0 { u32::MAX } else { 0 });
            }
        }
    }
}

/// The address of an offset in the shared memory of a warp's CTA.
fn shared_address(launch: &LaunchContext<'_>, position: WarpPosition, offset: i64) -> u64 {
    shared_base(launch.rank_in_cluster(position.cta)).wrapping_add_signed(offset)
}

fn deliver(
    registers: &mut Registers,
    operation: &BarrierOperation,
    mask: u32,
    population: u32,
    arrived: u32,
) {
    let truth = match operation.action {
        BarrierAction::ReduceAnd => population == arrived,
        BarrierAction::ReduceOr => population != 0,
        BarrierAction::ReducePopulation | BarrierAction::Sync | BarrierAction::Arrive => false,
    };
    match operation.result {
        Place::Predicate(slot) => registers.set_predicate(slot, mask, if truth { u32::MAX } else { 0 }),
        Place::Word(slot) => {
            let column = registers.word_mut(slot);
            lanes(mask).for_each(|lane| column[lane] = population);
        }
        Place::Long(_) | Place::None => {}
    }
}
