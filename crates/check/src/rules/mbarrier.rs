//! The protocol of mbarriers: arrivals, expected bytes, copies and phases.

use warpwright_events::{
    AccessKind, Actor, FULL, GRANULE, LANES, MbarrierAddress, MemorySpace, Strength, split_shared,
};

use crate::checker::Checker;
use crate::report::conflict::{Conflict, Party, Passed, Phases};
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::state::agents::Role;
use crate::state::clock::Time;
use crate::state::knowledge::Knowledge;
use crate::state::mark::Mark;
use crate::state::mbarrier::{MBARRIER_BYTES, MbarrierState, OBJECT, Overwriting, named};
use crate::state::shadow::{Access, Part};

impl Checker {
    pub(crate) fn mbarrier_initialize(&mut self, actor: Actor, address: MbarrierAddress, count: u32) {
        let mark = self.mark(actor);
        let time = self.ctas[actor.rank as usize].warps[actor.warp as usize].time;
        let cta = &mut self.ctas[address.rank as usize];
        let state = self.mbarriers.entry(address).or_insert_with(|| {
            cta.mbarriers += 1;
            MbarrierState::new(Role::Mbarrier(cta.mbarriers - 1), (mark, time))
        });
        let (before, _) = state.initialized;
        // An identical initialization by the same thread before any use is harmless. Triton emits
        // it for the queues of `warp_specialize`.
        let repeated = state.is_fresh()
            && count == state.count
            && (mark.cta, mark.warp, mark.lanes) == (before.cta, before.warp, before.lanes);
        if state.valid && !repeated {
            self.launch.report_misuse(Misuse {
                kind: FindingKind::Barrier,
                message: format!("{} is initialized twice", named(address)),
                locations: vec![
                    (mark, format!("initialized again by {}", mark.who(&self.launch.info))),
                    (before, format!("initialized by {}", before.who(&self.launch.info))),
                ],
                mbarrier: Some(address),
                note: "its counts are lost, and the result of waits for it is undefined (PTX ISA, \"mbarrier.init\")".to_owned(),
                help: "initialize it once, in one thread: each phase starts the next. Execute `mbarrier.inval` before its memory is reused".to_owned(),
            });
        }
        let state = MbarrierState {
            phase: state.phase + 1,
            first: state.phase + 1,
            count,
            valid: true,
            ..MbarrierState::new(state.role, (mark, time))
        };
        self.mbarriers.insert(address, state);
        let (first, end) = &mut self.mbarrier_span;
        (*first, *end) = ((*first).min(address.offset), (*end).max(address.offset + MBARRIER_BYTES));
        self.access_object(actor, address, AccessKind::Object, Strength::Weak);
    }

    pub(crate) fn mbarrier_invalidate(&mut self, actor: Actor, address: MbarrierAddress) {
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.valid = false;
        }
        // One thread of each warp may represent the others: libcu++'s pipelines elect it with
        // `match.any`, which orders no memory. That is sufficient for an invalidation.
        let cta = &mut self.ctas[actor.rank as usize];
        let warp = &mut cta.warps[actor.warp as usize];
        let before = warp.knowledge(actor.lanes.trailing_zeros()).clone();
        let mut known = before.known.of_whole_warps(cta.linear);
        known.raise(cta.linear, Role::Warp(actor.warp).agent(), FULL, warp.time);
        warp.learn(actor.lanes, &Knowledge { known, ..Knowledge::default() });
        self.access_object(actor, address, AccessKind::Object, Strength::Weak);
        self.ctas[actor.rank as usize].warps[actor.warp as usize].agree(actor.lanes, before);
    }

    /// Bytes are written, by threads or by copies. PTX ISA, "mbarrier.inval": the memory of an mbarrier
    /// may be used otherwise only after it is invalidated. One that is never used does no harm: Triton
    /// initializes some.
    pub(crate) fn check_overwritten_mbarriers(&mut self, actor: Actor, parts: &[Part], access: &Access) {
        let (first, end) = self.mbarrier_span;
        if access.kind == AccessKind::Object || access.strength == OBJECT {
            return;
        }
        let what = match access.proxy {
            Some(_) => Overwriting::Copy,
            None if access.kind == AccessKind::Atomic => Overwriting::Atomic,
            None => Overwriting::Store,
        };
        for part in parts {
            let (rank, granule) = split_shared(part.granule);
            if granule + GRANULE <= first || granule >= end {
                continue;
            }
            for place in (0..GRANULE).step_by(MBARRIER_BYTES as usize) {
                let address = MbarrierAddress { rank, offset: granule + place };
                let lanes = part.lanes_of(0xff << place);
                let mark = self.mark(Actor { lanes, ..actor });
                let state = self.mbarriers.get_mut(&address).filter(|state| lanes != 0 && state.valid);
                if let Some(state) = state {
                    state.overwritten.get_or_insert((mark, what));
                    if !state.is_fresh() {
                        self.report_overwritten_mbarrier(address);
                    }
                }
            }
        }
    }

    /// Reports that an mbarrier was overwritten, if it was.
    pub(crate) fn report_overwritten_mbarrier(&mut self, address: MbarrierAddress) {
        let Some(state) = self.mbarriers.get_mut(&address).filter(|state| state.valid) else { return };
        let Some((mark, what)) = state.overwritten else { return };
        state.valid = false;
        let (init, info) = (state.initialized.0, &self.launch.info);
        let (what, done) = match what {
            Overwriting::Copy => ("a copy", "issued"),
            Overwriting::Atomic => ("an atomic operation", "executed"),
            Overwriting::Store => ("a store", "written"),
        };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("{what} overwrites {}, which has not been invalidated", named(address)),
            locations: vec![
                (mark, format!("{done} by {}", mark.who(info))),
                (init, format!("initialized by {}", init.who(info))),
            ],
            mbarrier: Some(address),
            note: "until `mbarrier.inval`, the result of any other use of an mbarrier's memory is undefined (PTX ISA, \
                   \"mbarrier.inval\")"
                .to_owned(),
            help: "keep data apart from mbarriers; or, where the memory is reused, execute `mbarrier.inval` (`invalidate()`) in one \
                   thread after the last wait, then a barrier"
                .to_owned(),
        });
    }

    /// An operation of a lane on an mbarrier must follow its initialization. The first operation
    /// replaces the initialization in the shadow, so the shadow cannot check it.
    pub(crate) fn check_initialized(&mut self, actor: Actor, address: MbarrierAddress) {
        let Some(state) = self.mbarriers.get(&address) else { return };
        let (init, time) = state.initialized;
        let user = self.mark(actor);
        if (user.cta, user.warp, user.lanes) == (init.cta, init.warp, init.lanes) {
            return;
        }
        let warp = &self.ctas[actor.rank as usize].warps[actor.warp as usize];
        let known = &warp.knowledge(actor.lanes.trailing_zeros()).known;
        if known.covers(init.cta, Role::Warp(init.warp).agent(), init.lanes, time) {
            return;
        }
        let party = |mark: Mark, kind: AccessKind| Party {
            cta: mark.cta,
            role: Role::Warp(mark.warp),
            warp: Some(mark.warp),
            lanes: mark.lanes,
            pc: mark.pc,
            kind,
            strength: Strength::Weak,
            proxy: None,
        };
        let parties = [party(user, AccessKind::Atomic), party(init, AccessKind::Object)];
        let bytes = (address.shared(), 8);
        self.launch.report(Conflict::new(FindingKind::Race, MemorySpace::Shared, bytes, parties));
    }

    /// Bytes are expected (positive) or delivered (negative).
    pub(crate) fn mbarrier_counts_bytes(
        &mut self,
        actor: Option<Actor>,
        address: MbarrierAddress,
        bytes: i64,
    ) {
        let mark = actor.map(|actor| self.mark(actor));
        let Some(state) = self.mbarriers.get_mut(&address) else { return };
        state.bytes += bytes;
        if let Some(mark) = mark {
            state.announced += bytes.unsigned_abs();
            state.expectation = Some(mark);
        }
    }

    /// A lane arrives; those of `together` execute the instruction.
    pub(crate) fn mbarrier_notes_arrival(&mut self, actor: Actor, address: MbarrierAddress, together: u32) {
        let mark = self.mark(actor);
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.arrival = Some(mark);
            state.together = together;
        }
    }

    /// The last arrival completes a phase. If an earlier lane of the same execution has completed
    /// the phase before, no thread can have waited for that one.
    fn check_surplus_arrivals(&mut self, address: MbarrierAddress) {
        let Some(state) = self.mbarriers.get_mut(&address) else { return };
        let completion = state.arrival.map(|mark| (mark, state.together));
        let before = std::mem::replace(&mut state.completion, completion);
        let (Some((mark, together)), Some((first, others))) = (completion, before) else { return };
        let of = |mark: Mark| (mark.cta, mark.warp, mark.pc);
        if of(mark) != of(first) || together != others || mark.lanes <= first.lanes {
            return;
        }
        let ((init, _), count) = (state.initialized, state.count);
        state.has_surplus = true;
        let info = &self.launch.info;
        let (arrive, lanes) = (Mark { lanes: together, ..mark }, together.count_ones());
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("one `arrive` completes more than one phase of {}", named(address)),
            locations: vec![
                (arrive, format!("each of {lanes} lanes arrives here, in {}", arrive.who(info))),
                (init, format!("initialized for {count} a phase by {}", init.who(info))),
            ],
            mbarrier: Some(address),
            note: format!(
                "each lane that executes it counts as one arrival: {lanes} lanes complete several phases of {count}, and no thread \
                 can wait for the first of them"
            ),
            help: format!(
                "let one thread arrive for its group, for example where `lane_id() == 0`; or initialize the mbarrier for all threads \
                 that arrive, at least {lanes}"
            ),
        });
    }

    /// Lanes execute a fence of the cluster, or of the asynchronous proxy.
    pub(crate) fn mbarriers_fenced(&mut self, actor: Actor) {
        let mark = self.mark(actor);
        for state in self.mbarriers.values_mut() {
            let (init, _) = state.initialized;
            let is_own = (init.cta, init.warp) == (mark.cta, mark.warp) && init.lanes & mark.lanes != 0;
            state.is_fenced |= is_own;
        }
    }

    /// A copy completes at an mbarrier: the thread that initialized it must have executed a fence before it
    /// synchronized with the issuer (PTX ISA, "fence.mbarrier_init"). Within a CTA, Triton's kernels have
    /// none, and only kernels of the kernel language are checked.
    fn check_fenced(&self, copy: Mark, address: MbarrierAddress) {
        let Some(state) = self.mbarriers.get(&address).filter(|state| !state.is_fenced) else { return };
        let ((init, _), info) = (state.initialized, &self.launch.info);
        let (whose, synchronization, call) = match init.cta == copy.cta {
            true if !self.launch.is_recorded => return,
            true => ("a copy", "synchronization with the issuer of the copy", "sync_threads()"),
            false => ("the copy of another CTA", "synchronization of the CTAs", "cluster_sync()"),
        };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::ProxyFence,
            message: format!("{whose} may miss the initialization of {}", named(address)),
            locations: vec![
                (copy, format!("copy issued by {}", copy.who(info))),
                (init, format!("initialized by {}", init.who(info))),
            ],
            mbarrier: Some(address),
            note: format!(
                "no fence of the thread that initializes it is between the initialization and the {synchronization}"
            ),
            help: format!(
                "call `fence_mbarrier_init()` (`fence.mbarrier_init.release.cluster`) in the thread that initializes mbarriers, \
                 after it and before `{call}`"
            ),
        });
    }

    /// A copy is issued that completes at an mbarrier.
    pub(crate) fn mbarrier_expects_copy(&mut self, actor: Actor, address: MbarrierAddress) {
        let mark = self.mark(actor);
        self.check_fenced(mark, address);
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.copies += 1;
            (state.copy, state.copy_phase) = (Some(mark), state.phase);
            state.filled = [state.phase, state.filled[usize::from(state.filled[0] == state.phase)]];
        }
    }

    /// A copy completes: its bytes arrive next.
    pub(crate) fn mbarrier_copy_completes(&mut self, address: MbarrierAddress) {
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.copies -= 1;
        }
    }

    pub(crate) fn mbarrier_phase_ends(&mut self, address: MbarrierAddress) {
        self.check_surplus_arrivals(address);
        let cta = self.ctas[address.rank as usize].linear;
        let Some(state) = self.mbarriers.get_mut(&address) else { return };
        if state.copies > 0 && state.copy_phase == state.phase {
            let phase = state.number(state.phase);
            self.launch.report_misuse(Misuse {
                kind: FindingKind::Barrier,
                message: format!("phase {phase} of {} completes before a copy issued in it", named(address)),
                locations: state.copy_and_expectation(&self.launch.info, ", still in flight"),
                mbarrier: Some(address),
                note: format!(
                    "{} bytes were expected in this phase, and its copies move more: a thread that waits for it reads too early",
                    state.announced
                ),
                help: "expect (`arrive_and_expect`, `expect_tx`) the bytes of all copies that complete in the phase".to_owned(),
            });
        }
        let arrived = std::mem::take(&mut state.arrived);
        state.ended.join(&arrived);
        state.ended.known.raise(cta, state.role.agent(), FULL, state.phase);
        state.phase += 1;
        state.announced = 0;
    }

    /// A lane tests a phase, which is open or `ended`.
    pub(crate) fn mbarrier_notes_test(&mut self, actor: Actor, address: MbarrierAddress, ended: bool) {
        let mark = self.mark(actor);
        let lane = actor.lanes.trailing_zeros() as usize;
        let Some(state) = self.mbarriers.get_mut(&address) else { return };
        let open = state.phase;
        if ended {
            state.seen = state.seen.max(open - 1);
            let phase = (open - 1).checked_sub(state.first);
            let warp = (actor.rank, actor.warp);
            let of_lane = |before: &Passed| (before.lane, before.waits);
            let (counted, waits) = state.passed.get(&warp).map_or((lane, 0), of_lane);
            let waits = waits + u32::from(counted == lane);
            let is_filled = state.filled.contains(&(open - 1));
            let passed = Passed { pc: actor.pc, mbarrier: address, phase, is_filled, lane: counted, waits };
            state.passed.insert(warp, passed);
            self.passed.insert(warp, passed);
        }
        let waiting = state.waiting.entry((actor.rank, actor.warp)).or_insert([0; LANES]);
        let before = std::mem::replace(&mut waiting[lane], if ended { 0 } else { open });
        // If the phase is open now, it is the phase that was open before or the one after the next;
        // if it has ended, it is the one before the open one.
        let tested = if ended { open - 1 } else { open };
        if before == 0 || tested < before + 2 || state.has_surplus {
            return;
        }
        let (missed, tested) = (state.number(before), state.number(tested));
        let mut locations =
            vec![(mark, format!("{} waits here for phase {missed}", mark.who(&self.launch.info)))];
        let last = state
            .arrival
            .map(|arrival| (arrival, format!("last arrival, of {}", arrival.who(&self.launch.info))));
        locations.extend(last);
        let (init, _) = state.initialized;
        let count = state.count;
        locations.push((init, format!("initialized for {count} a phase by {}", init.who(&self.launch.info))));
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("{} completes two phases while a thread waits for the first", named(address)),
            locations,
            mbarrier: Some(address),
            note: format!(
                "phases {missed} and {} ended between two tests of this thread; a wait by parity cannot distinguish phase {tested} from phase {missed}",
                missed + 1
            ),
            help: match state.arrival {
                None => "let the thread that commits MMAs to it (`tcgen05.commit`) wait, before the MMAs of a slot, until the slot is \
                         full: it releases slots that no copy has filled since"
                    .to_owned(),
                Some(_) => format!(
                "let {count} arrive in a phase: if several threads release one slot, let one of them arrive, or initialize the \
                 mbarrier for all; otherwise wait, before the next arrivals, until the waiting threads have observed this phase"
                ),
            },
        });
    }

    /// Reports copies and expected bytes that are left over when the cluster ends.
    pub(crate) fn finish_mbarriers(&self) {
        let mut states: Vec<_> = self.mbarriers.iter().filter(|(_, state)| state.valid).collect();
        states.sort_by_key(|(address, _)| **address);
        for (&address, state) in states {
            let misuse = if state.copies > 0 || state.copy_phase > state.seen && state.bytes == 0 {
                Misuse {
                    kind: FindingKind::Leak,
                    message: "the kernel ends with a copy that nothing has waited for".to_owned(),
                    locations: state
                        .copy_and_expectation(&self.launch.info, "")
                        .into_iter()
                        .take(1)
                        .collect(),
                    mbarrier: Some(address),
                    note: format!(
                        "no thread has observed the end of phase {} of {}, which the copy completes: the \
                         copy may write shared memory that by then belongs to another CTA",
                        state.number(state.copy_phase),
                        named(address)
                    ),
                    help: "wait for the phase before the threads exit, or do not issue the copy".to_owned(),
                }
            } else if state.bytes != 0 {
                let locations = state.copy_and_expectation(&self.launch.info, "");
                let (message, note) = if state.bytes < 0 {
                    (
                        format!(
                            "{} bytes that no thread expects have arrived at {}",
                            -state.bytes,
                            named(address)
                        ),
                        "the phase in which they arrived does not end, and the phase that they were meant for ended without them",
                    )
                } else {
                    (
                        format!(
                            "no copy delivers {} bytes that were expected at {}",
                            state.bytes,
                            named(address)
                        ),
                        "the phase in which they were expected does not end",
                    )
                };
                Misuse {
                    kind: FindingKind::Barrier,
                    message,
                    locations,
                    mbarrier: Some(address),
                    note: note.to_owned(),
                    help: "expect (`arrive_and_expect`, `expect_tx`) exactly the bytes of the copies that complete in a phase"
                        .to_owned(),
                }
            } else {
                continue;
            };
            if !misuse.locations.is_empty() {
                self.launch.report_misuse(misuse);
            }
        }
    }

    /// For a copy that completes at an mbarrier: its phase, and what the thread has waited for.
    pub(crate) fn phases_of(&self, actor: Actor, conflict: &Conflict, time: Time) -> Option<Phases> {
        let Role::Mbarrier(_) = conflict.earlier.role else { return None };
        let (&mbarrier, state) = self.mbarriers.iter().find(|(address, state)| {
            state.role == conflict.earlier.role
                && self.ctas[address.rank as usize].linear == conflict.earlier.cta
        })?;
        let warp = &self.ctas[actor.rank as usize].warps[actor.warp as usize];
        let known = &warp.knowledge(actor.lanes.trailing_zeros()).known;
        let seen = known.whole(conflict.earlier.cta, state.role.agent()).checked_sub(state.first);
        let warp = (actor.rank, actor.warp);
        let last = self.passed.get(&warp).copied();
        let passed = state.passed.get(&warp).copied().or(last);
        let is_since =
            |last: &Passed| passed.is_some_and(|passed| passed.mbarrier == mbarrier && passed.pc == last.pc);
        let passed_since = last.filter(is_since).map(|last| last.mbarrier).filter(|last| *last != mbarrier);
        let is_shared = conflict.later.role == conflict.earlier.role && time == state.phase;
        Some(Phases { mbarrier, copy: state.number(time), seen, passed, passed_since, is_shared })
    }
}
