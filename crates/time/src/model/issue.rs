//! The issue of an instruction, and what follows from it for its warp.

use warpwright_arch::instructions::{Class, Pipe};
use warpwright_events::AsyncKind;

use super::Simulation;
use super::sm::{Groups, NEVER, Warp};
use super::turns::Known;
use crate::program::{Action, Operation};
use crate::stall::Stall;
use crate::timeline::{Slice, Track};
use crate::trace::{Detail, Direction, LineRange, Moment, Record};

/// Bytes of shared memory that a cycle reads or writes.
const SHARED_BYTES: u32 = 128;

impl Groups {
    fn of(warp: &mut Warp, kind: AsyncKind) -> &mut Self {
        match kind {
            AsyncKind::Copy => &mut warp.lane_copies,
            AsyncKind::Bulk => &mut warp.bulk_copies,
            _ => &mut warp.multiplications,
        }
    }
}

/// The results of an instruction that its details decide.
#[derive(Clone, Copy, Debug, Default)]
struct Results {
    /// The cycle at which its registers are there, and why not before.
    at: u64,
    stall: Stall,
    /// The moment that the warp waits for.
    awaits: Option<Moment>,
}

impl Simulation<'_> {
    /// Moves a warp on to its next instruction that takes a slot. Returns whether there is one.
    pub(super) fn advance(&mut self, index: u32) -> bool {
        let program = self.program;
        loop {
            let warp = &mut self.warps[index as usize];
            if warp.position == warp.run.1 {
                match warp.trace.records.get(warp.cursor) {
                    Some(&Record::Run { from, end, lanes }) => {
                        warp.lanes = lanes;
                        warp.enter(from, end);
                    }
                    Some(&Record::Wait { pc, until }) => {
                        warp.cursor += 1;
                        warp.pc = pc;
                        if self.waits(index, until) {
                            return true;
                        }
                        continue;
                    }
                    Some(Record::Detail(..)) => return false,
                    None => match self.extend(index) {
                        Known::More => continue,
                        Known::Later => return true,
                        Known::Ended => return false,
                    },
                }
            }
            warp.pc = program.schedule.at(warp.position, warp.run);
            let operation = &program.operations[warp.pc as usize];
            let (ready, stall) = warp.readiness(program.of(&operation.reads));
            if operation.slots == 0 {
                let value = match operation.action {
                    Action::Rename => {
                        let sources = program.of(&operation.reads).iter();
                        sources
                            .map(|&register| warp.registers[register as usize])
                            .max_by_key(|(at, _)| *at)
                            .unwrap_or((0, Stall::Wait))
                    }
                    // A further part of an instruction that has been issued: its registers are known.
                    _ => {
                        warp.position += 1;
                        continue;
                    }
                };
                for &register in program.of(&operation.writes) {
                    warp.registers[register as usize] = value;
                }
                warp.position += 1;
                continue;
            }
            let line = program.code_lines[warp.position as usize] + 1;
            let mut fetched = 0;
            if warp.code_line != line {
                warp.code_line = line;
                let sm = &mut self.sms[(warp.partition / self.gpu.partitions()) as usize];
                fetched = sm.code.execute(line - 1, warp.since.max(warp.not_before.0));
            }
            let (ready, stall) =
                if fetched > ready { (fetched, Stall::NoInstruction) } else { (ready, stall) };
            // ptxas gives each value a register of its own, so that none waits to be overwritten.
            (warp.ready, warp.stall, warp.pipe) = (ready, stall, operation.pipe as u8);
            let (partition, ready) = (warp.partition, warp.ready);
            self.wake(partition, ready);
            return true;
        }
    }

    /// A warp that waits goes on: what it waits for happened at a cycle, with so many arrivals.
    pub(super) fn resume(&mut self, index: u32, at: u64, arrivals: u32) {
        self.pass(index, at, arrivals);
        if !self.advance(index) {
            let at = self.warps[index as usize].not_before.0;
            self.end(index, at);
        }
    }

    /// A warp waits for a moment of its cluster if it has not passed. Returns whether it does.
    fn waits(&mut self, index: u32, moment: Moment) -> bool {
        let cluster = self.warps[index as usize].cluster as usize;
        let state = &mut self.clusters[cluster].as_mut().expect("it runs").moments[moment as usize];
        if state.left > 0 {
            state.waiting.push(index);
            self.warps[index as usize].ready = NEVER;
            return true;
        }
        let (at, arrivals) = (state.at, state.arrivals);
        self.pass(index, at, arrivals);
        false
    }

    /// A warp does not go on before what it waited for.
    fn pass(&mut self, index: u32, at: u64, arrivals: u32) {
        let (latency, stall) = self.wait_of(self.warps[index as usize].pc, arrivals);
        self.warps[index as usize].hold(at + latency, stall);
    }

    /// The latency from the moment that an instruction waits for to the next one, and the reason of the stall.
    fn wait_of(&self, pc: u32, arrivals: u32) -> (u64, Stall) {
        let timing = &self.gpu.timing;
        match self.program.operations[pc as usize].waits {
            Some(Class::CtaBarrier) => {
                (timing.barrier_latency.value as u64 + 2 * u64::from(arrivals), Stall::Barrier)
            }
            Some(Class::ClusterBarrier) => (timing.cluster_barrier_latency.value as u64, Stall::Barrier),
            Some(_) => (timing.mbarrier_latency.value as u64, Stall::Mbarrier),
            None => (0, Stall::Wait),
        }
    }

    /// Issues the next instruction of a warp.
    pub(super) fn issue(&mut self, index: u32, now: u64) {
        let program = self.program;
        let warp = &self.warps[index as usize];
        let pc = warp.pc;
        let operation = &program.operations[pc as usize];
        self.account(index, now);
        let results = self.execute(index, operation, now);
        let slots = u64::from(operation.slots);
        let state = &mut self.partitions[self.warps[index as usize].partition as usize];
        state.free_at = now + slots;
        let pipe = &mut state.pipes[operation.pipe as usize];
        *pipe = (*pipe).max(now) + u64::from(operation.interval);
        let warp = &mut self.warps[index as usize];
        warp.since = now + slots;
        for &register in program.of(&operation.writes) {
            warp.registers[register as usize] = (results.at, results.stall);
        }
        let next = now + slots;
        let bubble =
            if operation.action == Action::Branch { next + u64::from(operation.latency) } else { next };
        if bubble > warp.not_before.0 {
            let stall = if bubble > next { Stall::BranchResolving } else { Stall::Selected };
            warp.not_before = (bubble, stall);
        }
        warp.position += 1;
        if let Some(moment) = results.awaits
            && self.waits(index, moment)
        {
            return;
        }
        if !self.advance(index) {
            self.end(index, next);
        }
    }

    /// Adds the cycles since a warp's last instruction to the reasons for which it did not issue.
    fn account(&mut self, index: u32, now: u64) {
        let warp = &self.warps[index as usize];
        let pipe = self.partitions[warp.partition as usize].pipes[warp.pipe as usize];
        let slots = u64::from(self.program.operations[warp.pc as usize].slots);
        let stalls = &mut self.outcome.stalls[warp.pc as usize];
        stalls[Stall::Selected as usize] += slots;
        let ready = warp.ready.clamp(warp.since, now);
        stalls[warp.stall as usize] += ready - warp.since;
        let free = pipe.clamp(ready, now);
        let throttled =
            if warp.pipe == Pipe::Lsu as u8 { Stall::MioThrottle } else { Stall::MathPipeThrottle };
        stalls[throttled as usize] += free - ready;
        stalls[Stall::NotSelected as usize] += now - free;
        self.outcome.issued[warp.pc as usize] += slots;
        if self.outcome.timeline.ctas > 0 {
            let waits = [
                (ready - warp.since, warp.stall),
                (free - ready, throttled),
                (now - free, Stall::NotSelected),
            ];
            let (longest, why) = *waits.iter().max_by_key(|(cycles, _)| cycles).expect("there are three");
            let stall = if longest == 0 { Stall::Selected } else { why };
            let (cta, local) = self.place_of(index);
            self.record(index, Track::Warp { cta, warp: local }, (warp.since, now + slots), stall);
        }
    }

    /// The linear index of a warp's CTA, and its index there.
    fn place_of(&self, index: u32) -> (u32, u32) {
        let warp = &self.warps[index as usize];
        let first = self.clusters[warp.cluster as usize].as_ref().expect("it runs").first_cta;
        (first + warp.rank, warp.number % self.shape.warps_per_cta)
    }

    /// Records what an instruction of a traced CTA takes of a track.
    fn record(&mut self, index: u32, track: Track, cycles: (u64, u64), stall: Stall) {
        if self.outcome.timeline.ctas > 0 && self.place_of(index).0 < self.outcome.timeline.ctas {
            let Warp { pc, lanes, .. } = self.warps[index as usize];
            self.outcome.timeline.add(Slice { track, cycles, instruction: pc, lanes, stall });
        }
    }

    /// Executes an instruction: its registers' cycle, and its effect on memory, barriers and tensor cores.
    fn execute(&mut self, index: u32, operation: &Operation, now: u64) -> Results {
        let stall = match operation.pipe {
            Pipe::Xu | Pipe::Lsu => Stall::ShortScoreboard,
            _ => Stall::Wait,
        };
        let slots = u64::from(operation.slots);
        let mut results = Results { at: now + slots - 1 + u64::from(operation.latency), stall, awaits: None };
        self.act(index, operation, now, &mut results);
        let warp = &self.warps[index as usize];
        let (details, pc) = (warp.details.clone(), warp.pc);
        // The details of a run are in the order of its operations.
        let found = &warp.trace.records[details.clone()];
        let first = found.partition_point(|record| matches!(record, Record::Detail(of, _) if *of < pc));
        for at in details.start + first..details.end {
            let Record::Detail(of, detail) = self.warps[index as usize].trace.records[at] else { break };
            if of != pc {
                break;
            }
            self.detail(index, detail, now, &mut results);
        }
        results
    }

    /// The effect that follows from the instruction alone.
    fn act(&mut self, index: u32, operation: &Operation, now: u64, results: &mut Results) {
        let gpu = self.gpu;
        let sm_index = self.sm_of(index);
        let warp = &mut self.warps[index as usize];
        let sm = &mut self.sms[sm_index];
        let partition = &mut self.partitions[warp.partition as usize];
        match operation.action {
            Action::Compute | Action::Rename | Action::Load | Action::Branch => {}
            Action::WarpgroupMma { cycles, passes } => {
                let cycles = self.gpu.tensor_cycles(cycles);
                sm.shared_free = sm.shared_free.max(now) + u64::from(passes);
                let start = partition.tensor_free.max(now).max(sm.shared_free.saturating_sub(cycles));
                partition.tensor_free = start + cycles;
                self.outcome.tensor_cycles += cycles;
                let end = partition.tensor_free + gpu.timing.wgmma_latency.value as u64;
                warp.multiplications.add(end);
                // Registers of accumulators are ordered by the waits.
                results.at = now;
                let (sm, partition) = (sm_index as u32, warp.partition % gpu.partitions());
                self.record(
                    index,
                    Track::TensorCore { sm, partition },
                    (start, start + cycles),
                    Stall::Selected,
                );
            }
            Action::Mma { cycles } => {
                let cycles = self.gpu.tensor_cycles(cycles);
                let start = partition.tensor_free.max(now);
                partition.tensor_free = start + cycles;
                let pipe = &mut partition.pipes[operation.pipe as usize];
                *pipe = (*pipe).max(start + cycles - 1);
                self.outcome.tensor_cycles += cycles;
                results.at = start + cycles + u64::from(operation.latency);
            }
            Action::Commit(kind) => Groups::of(warp, kind).commit(),
            Action::WaitGroups { kind, latest } => {
                let end = Groups::of(warp, kind).wait(latest);
                let stall = if kind == AsyncKind::Multiply { Stall::Gmma } else { Stall::LongScoreboard };
                warp.hold(end, stall);
            }
            Action::WaitTensorMemory => {
                let end = warp.tensor_memory;
                warp.hold(end, Stall::LongScoreboard);
            }
            Action::TensorMemory { bytes, loads } => {
                let end = now + 30 + u64::from(bytes) / 64;
                warp.tensor_memory = warp.tensor_memory.max(end);
                if loads {
                    (results.at, results.stall) = (end, Stall::LongScoreboard);
                }
            }
            Action::Exchange => {
                results.at = self.shared(sm_index, now, 1) + u64::from(operation.latency);
            }
            Action::Sleep(nanoseconds) => {
                let cycles = u64::from(nanoseconds) * u64::from(self.gpu.arch.boost_mhz) / 1000;
                warp.hold(now + cycles, Stall::Sleeping);
            }
            Action::Fence => {
                let end = warp.stored.max(now) + self.memory.latencies.l2;
                warp.hold(end, Stall::Membar);
            }
        }
    }

    /// The effect of one detail.
    fn detail(&mut self, index: u32, detail: Detail, now: u64, results: &mut Results) {
        let timing = &self.gpu.timing;
        let (sm_index, slot) = (self.sm_of(index), self.warps[index as usize].cluster);
        match detail {
            Detail::Shared { passes, conflicts, remote } => {
                let passes = if self.gpu.has_bank_conflicts { passes } else { passes - conflicts };
                let start = self.shared(sm_index, now, u32::from(passes));
                let partition = self.warps[index as usize].partition as usize;
                self.partitions[partition].enqueue(start, 2 * u64::from(passes));
                let latency = if remote { timing.cluster_shared_latency } else { timing.shared_latency };
                // Each further pass adds two cycles (docs/results/2026-11-28-probe-h200.md).
                let at = start + 2 * u64::from(passes).saturating_sub(1) + latency.value as u64;
                (results.at, results.stall) = (results.at.max(at), Stall::ShortScoreboard);
            }
            Detail::Local { sectors } => {
                let start = self.sms[sm_index].load_store(now, u64::from(sectors).div_ceil(4));
                let at = start + self.memory.latencies.l1;
                (results.at, results.stall) = (results.at.max(at), Stall::LongScoreboard);
            }
            Detail::Global { direction, lines } => {
                let at = self.global(index, direction, lines, now);
                (results.at, results.stall) = (results.at.max(at), Stall::LongScoreboard);
            }
            Detail::LaneCopy { lines, passes } => {
                let end = self.global(index, Direction::Load, lines, now);
                let end = self.shared(sm_index, end, u32::from(passes)).max(end);
                self.warps[index as usize].lane_copies.add(end);
            }
            Detail::Copy { direction, lines, bytes, arrives } => {
                let end = self.copy(index, direction, lines, bytes, now);
                self.record(index, Track::Copies { sm: sm_index as u32 }, (now, end), Stall::Selected);
                match arrives {
                    Some(moment) => self.arrive(slot, moment, 1, end),
                    None => self.warps[index as usize].bulk_copies.add(end),
                }
                self.last_copy = end;
            }
            Detail::Multicast { arrives } => {
                let end = self.last_copy;
                self.arrive(slot, arrives, 1, end);
            }
            Detail::Arrive { at, count } => {
                let pc = self.warps[index as usize].pc;
                let is_mbarrier = self.program.operations[pc as usize].waits == Some(Class::Mbarrier);
                self.arrive(slot, at, u32::from(count), now + if is_mbarrier { ARRIVAL } else { 0 });
            }
            Detail::Track { at, kind } => {
                let end = match kind {
                    AsyncKind::Copy => self.warps[index as usize].lane_copies.end(),
                    _ => self.sms[sm_index].tensor_queue_free + timing.tcgen05_latency.value as u64,
                };
                self.arrive(slot, at, 1, end.max(now + ARRIVAL));
            }
            Detail::Wait { until } => results.awaits = Some(until),
            Detail::TensorMultiply { operations, shared_bytes } => {
                self.multiply(index, operations, shared_bytes, now)
            }
        }
    }

    /// A `tcgen05.mma`: it takes its operands' passes of shared memory, and its cycles of the tensor cores, on each SM of
    /// its CTAs.
    fn multiply(&mut self, index: u32, operations: u32, shared_bytes: u32, now: u64) {
        let warp = &self.warps[index as usize];
        let operation = &self.program.operations[warp.pc as usize];
        let cycles = self.gpu.tensor_cycles(operations / 2 / operation.tensor_rate.max(1));
        let cluster = self.clusters[warp.cluster as usize].as_ref().expect("it runs");
        // A pair are the CTAs whose ranks differ in the last bit.
        let other = operation.is_of_pair.then(|| cluster.sms.get(warp.rank as usize ^ 1)).flatten();
        let sms = [Some(cluster.sms[warp.rank as usize]), other.copied()];
        let mut start = now;
        for sm in sms.into_iter().flatten() {
            let sm = &mut self.sms[sm as usize];
            sm.shared_free = sm.shared_free.max(now) + u64::from(shared_bytes.div_ceil(SHARED_BYTES));
            start = start.max(sm.tensor_queue_free).max(sm.shared_free.saturating_sub(cycles));
        }
        for sm in sms.into_iter().flatten() {
            self.sms[sm as usize].tensor_queue_free = start + cycles;
            self.outcome.tensor_cycles += cycles * u64::from(self.gpu.partitions());
            let track = Track::TensorCore { sm, partition: 0 };
            self.record(index, track, (start, start + cycles), Stall::Selected);
        }
    }

    /// An access of shared memory takes passes. Returns the cycle of the first.
    fn shared(&mut self, sm: usize, now: u64, passes: u32) -> u64 {
        let sm = &mut self.sms[sm];
        let start = sm.shared_free.max(now);
        sm.shared_free = start + u64::from(passes);
        start
    }

    /// An access to global memory. Returns the cycle of its end: of a store, at which it has left.
    fn global(&mut self, index: u32, direction: Direction, range: LineRange, now: u64) -> u64 {
        let sm = self.sm_of(index);
        let lines = self.warps[index as usize].trace.lines(range);
        let count: u64 = lines.iter().map(|lines| u64::from(lines.count)).sum();
        let start = self.sms[sm].load_store(now, count);
        let port = &mut self.sms[sm].port;
        match direction {
            Direction::Load => self.memory.load(port, lines, start),
            Direction::Store => {
                let sent = self.memory.write(port, lines, start);
                let warp = &mut self.warps[index as usize];
                warp.stored = warp.stored.max(sent + STORE);
                start
            }
            Direction::Update { conflicts } => {
                let updated = self.memory.update(port, lines, start, conflicts);
                updated + self.memory.latencies.l2 + 2 * u64::from(conflicts)
            }
        }
    }

    /// A copy of the tensor memory accelerator. Returns the cycle of its end.
    fn copy(&mut self, index: u32, direction: Direction, range: LineRange, bytes: u32, now: u64) -> u64 {
        let timing = &self.gpu.timing;
        let sm = self.sm_of(index);
        let lines = self.warps[index as usize].trace.lines(range);
        let count: u64 = lines.iter().map(|lines| u64::from(lines.count)).sum();
        let interval = f64::from(SHARED_BYTES) / timing.tma_bytes.value;
        let state = &mut self.sms[sm];
        let start = state.tma_free.max(now);
        state.tma_free =
            start + (count as f64 * interval).ceil().max(f64::from(bytes) / timing.tma_bytes.value) as u64;
        // The copy takes passes of shared memory when its data arrive.
        state.shared_free = state.shared_free.max(now) + u64::from(bytes.div_ceil(SHARED_BYTES));
        let first = start + timing.tma_latency.value as u64;
        match direction {
            _ if count == 0 => first + timing.cluster_shared_latency.value as u64,
            Direction::Load => self.memory.copy(&mut state.port, lines, first, interval),
            _ => self.memory.write(&mut state.port, lines, first),
        }
    }
}

/// From a store's place in the L2 cache to the start of a fence that waits for it: `st.global` and `membar.gl`
/// take 427 cycles, the fence alone 265 (H200, docs/results/2026-11-28-probe-h200.json).
const STORE: u64 = 160;
/// From an arrival's issue to its effect (H200, docs/results/2026-11-28-probe-h200.json).
const ARRIVAL: u64 = 6;

impl Warp {
    /// The warp does not go on before a cycle, for a reason.
    pub(super) fn hold(&mut self, until: u64, stall: Stall) {
        if until > self.not_before.0 {
            self.not_before = (until, stall);
        }
    }

    /// The warp begins a run, whose details follow its record.
    fn enter(&mut self, from: u32, end: u32) {
        let first = self.cursor + 1;
        let details =
            self.trace.records[first..].iter().take_while(|record| matches!(record, Record::Detail(..)));
        self.details = first..first + details.count();
        self.cursor = self.details.end;
        (self.run, self.position) = ((from, end), from);
    }

    /// The cycle at which these registers are there, and the reason that they are not before.
    pub(super) fn readiness(&self, registers: &[u32]) -> (u64, Stall) {
        let (mut ready, mut stall) = self.not_before;
        for &register in registers {
            let (at, why) = self.registers[register as usize];
            if at > ready {
                (ready, stall) = (at, why);
            }
        }
        (ready, stall)
    }
}
