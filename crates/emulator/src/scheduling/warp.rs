//! A warp: its registers, and the paths its lanes are on.
//!
//! Lanes that branch apart become separate paths. The path furthest behind runs first, and paths at
//! the same instruction merge, so that code which reconverges on the device reconverges here. A
//! path that repeats a loop yields to the others: early if it appears to wait (volatile loads,
//! atomics, `nanosleep`), later otherwise.

use std::hash::{DefaultHasher, Hash, Hasher};

use warpwright_events::{Actor, Event, lanes};

use crate::cta::block::{Block, Blocks};
use crate::execution::effect::Execution;
use crate::kernel::special::WarpPosition;
use crate::launch::context::LaunchContext;
use crate::launch::failure::LocatedFailure;
use crate::memory::{LocalMemory, RegionCache};
use crate::operation::barrier::{BarrierAction, BarrierOperation};
use crate::operation::collective::{Exchange, Inputs, Place};
use crate::operation::kind::{Kind, Operation};
use crate::registers::{FrameBase, Registers};
use crate::scheduling::path::{Path, Wait};
use crate::scheduling::step::{Counts, Step, Stop};

/// Why a warp stopped running for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All its lanes have exited.
    Exited,
    /// Every path waits for something outside the warp, or for lanes that do not arrive.
    Blocked,
    /// Every runnable path has run; `waiting` if they only polled.
    Turn { waiting: bool },
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
    changed: bool,
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
            changed: false,
        };
        let function = &launch.kernel.functions[0];
        warp.registers.enter(FrameBase::default(), function.frame);
        warp.local.reserve(function.frame.local);
        if !launch.observers.is_empty() {
            warp.local.track();
        }
        let position = WarpPosition { cta, warp: index };
        for preload in &function.preloads {
            preload.fill(&mut warp.registers, launch, position, u32::MAX);
        }
        warp
    }

    /// Restarts a warp that has exited, in another CTA of the same launch.
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

    /// Runs until every path has exited, waits, or has run once.
    pub(crate) fn run(
        &mut self,
        launch: &LaunchContext<'_>,
        code: &[Operation],
        blocks: &mut Blocks<'_>,
    ) -> Result<Pause, LocatedFailure> {
        let mut worked = false;
        loop {
            // Most turns end at a branch, where no path waits.
            if self.paths.iter().any(|path| path.wait != Wait::Ready) {
                self.wake(code, blocks)?;
            }
            let Some(index) = self.choose() else {
                for path in &mut self.paths {
                    path.yielded = false;
                }
                return Ok(if self.paths.is_empty() {
                    Pause::Exited
                } else if self.paths.iter().any(|path| path.wait == Wait::Ready) {
                    Pause::Turn { waiting: !worked }
                } else {
                    Pause::Blocked
                });
            };
            let index = self.merge(index);
            let limit = self.limit(index);
            let polls_before = self.paths[index].polls;
            if let Stop::Gone = self.step(index, limit, launch, code, blocks)? {
                self.paths.swap_remove(index);
                worked = true;
            } else {
                let path = &mut self.paths[index];
                let polled = path.yielded && path.loops == path.polls && path.polls > polls_before;
                worked |= !polled && path.wait != Wait::Attempt;
                if path.yielded {
                    path.begin_turn();
                }
            }
        }
    }

    /// The furthest-behind path that is runnable and has not run.
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

    /// Merges into a path all others at the same instruction, and returns its new index.
    fn merge(&mut self, mut index: usize) -> usize {
        let mut other = 0;
        while other < self.paths.len() {
            let joins = other != index
                && matches!(self.paths[other].wait, Wait::Ready | Wait::Together)
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

    /// The position of the first path ahead of this one.
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

    /// Resumes paths whose wait is over.
    fn wake(&mut self, code: &[Operation], blocks: &mut Blocks<'_>) -> Result<(), LocatedFailure> {
        for index in 0..self.paths.len() {
            match self.paths[index].wait {
                Wait::Ready => {}
                Wait::Attempt => {
                    let path = &mut self.paths[index];
                    if !path.yielded {
                        path.wait = Wait::Ready;
                    }
                }
                Wait::Together => {
                    let index = self.merge_waiting(index);
                    let Some(index) = index else { return self.wake(code, blocks) };
                    if self.paths[index].mask == self.alive {
                        self.paths[index].wait = Wait::Ready;
                    }
                }
                Wait::Members(members) => self.meet(index, members, code, blocks.own),
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
                        blocks.own.observer.report(Event::ClusterLeave { actor });
                        path.pc += 1;
                    }
                }
                Wait::Again { id, generation } => {
                    if blocks.own.barriers[id as usize].generation() != generation {
                        self.paths[index].wait = Wait::Ready;
                    }
                }
                Wait::Barrier { id, generation } => {
                    let barrier = &blocks.own.barriers[id as usize];
                    if barrier.generation() != generation {
                        let result = barrier.result(generation);
                        let path = &mut self.paths[index];
                        path.wait = Wait::Ready;
                        let Kind::Barrier(operation) = &code[path.pc as usize].kind else {
                            unreachable!("a path that waits at a barrier stands at a barrier instruction")
                        };
                        path.pc += 1;
                        let (base, mask) = (path.base, path.mask);
                        let actor =
                            Actor { rank: blocks.own.rank, warp: self.index, lanes: mask, pc: path.pc - 1 };
                        blocks.own.observer.report(Event::BarrierLeave { actor, barrier: id, generation });
                        self.registers.set_base(base);
                        deliver(&mut self.registers, operation, mask, result.population, result.arrived);
                    }
                }
            }
        }
        Ok(())
    }

    /// Merges the waiting path at `index` with others that wait at the same instruction. `None` if
    /// paths moved.
    fn merge_waiting(&mut self, index: usize) -> Option<usize> {
        let before = self.paths.len();
        let merged = self.merge(index);
        (self.paths.len() == before).then_some(merged)
    }

    /// Executes an exchange if all its members wait for it.
    fn meet(&mut self, index: usize, members: u32, code: &[Operation], block: &Block) {
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
        if block.observer.listens() {
            let all = Actor { rank: block.rank, warp: self.index, lanes: present, pc: self.paths[index].pc };
            let synchronizes = exchange == Exchange::Meet;
            if synchronizes {
                block.observer.report(Event::WarpSync { actor: all });
            }
            let arrivals = self.arrivals(&parties, all);
            if synchronizes || arrivals.len() > 1 {
                block.observer.report(Event::Exchange { arrivals: &arrivals, synchronizes });
            }
        }
        let mut inputs = Inputs::default();
        for &party in &parties {
            self.registers.set_base(self.paths[party].base);
            collective(&self.paths[party]).gather(&self.registers, self.paths[party].mask, &mut inputs);
        }
        for &party in &parties {
            let path = &mut self.paths[party];
            let operation = collective(path);
            let outputs = operation.exchange(&inputs, present);
            self.registers.set_base(path.base);
            operation.scatter(&mut self.registers, path.mask, &outputs);
            if outputs.undefined & path.mask != 0 || block.observer.follows() {
                let actor = Actor { rank: block.rank, warp: self.index, lanes: path.mask, pc: path.pc };
                operation.report(&block.observer, actor, &inputs, &outputs);
            }
            path.pc += 1;
            path.wait = Wait::Ready;
        }
    }

    /// The lanes of `all` by the instructions at which their paths are: in different calls of a
    /// function, at the calls.
    fn arrivals(&self, parties: &[usize], all: Actor) -> Vec<Actor> {
        let place = |party: usize, depth: usize| {
            let path = &self.paths[party];
            path.callers.get(depth).map_or(path.pc, |caller| caller.pc)
        };
        let deepest = parties.iter().map(|&party| self.paths[party].callers.len()).max().unwrap_or(0);
        let differs = |depth: &usize| parties.iter().any(|&p| place(p, *depth) != place(parties[0], *depth));
        let Some(depth) = (0..=deepest).find(differs) else { return vec![all] };
        let mut arrivals: Vec<Actor> = Vec::new();
        for &party in parties {
            let (pc, lanes) = (place(party, depth), self.paths[party].mask);
            match arrivals.iter_mut().find(|arrival| arrival.pc == pc) {
                Some(arrival) => arrival.lanes |= lanes,
                None => arrivals.push(Actor { pc, lanes, ..all }),
            }
        }
        arrivals
    }

    /// Runs one path until it reaches another's position, waits, yields or ends.
    fn step(
        &mut self,
        index: usize,
        limit: u32,
        launch: &LaunchContext<'_>,
        code: &[Operation],
        blocks: &mut Blocks<'_>,
    ) -> Result<Stop, LocatedFailure> {
        let path = &self.paths[index];
        let (pc, mask, polled, watched) = (path.pc, path.mask, path.polled, path.watched);
        self.registers.set_base(path.base);
        let mut step = Step {
            index,
            mask,
            alive: &mut self.alive,
            counts: &mut self.counts,
            counted_from: pc,
            paths: &mut self.paths,
            code,
            execution: Execution {
                launch,
                block: blocks.own,
                peers: blocks.peers.reborrow(),
                registers: &mut self.registers,
                local: &mut self.local,
                cache: &mut self.cache,
                warp: self.index,
                pc,
                polled,
                watched,
                changes: 0,
            },
        };
        let stop = step.run(limit);
        self.changed |= step.execution.changes != 0;
        stop
    }

    /// Whether anything outside the warp has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// A hash of the warp's whole state: its paths, registers and local memory.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.paths.hash(&mut hasher);
        self.registers.hash(&mut hasher);
        self.local.hash(&mut hasher);
        hasher.finish()
    }
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
