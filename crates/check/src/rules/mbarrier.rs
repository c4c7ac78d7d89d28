//! The protocol of mbarriers: what each of them has been promised, and whether that comes true.

use warpwright_events::{AccessKind, Actor, FULL, LANES, MbarrierAddress, MemorySpace, Strength};

use crate::checker::Checker;
use crate::report::conflict::{Conflict, Party};
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::state::agents::Role;
use crate::state::clock::Time;
use crate::state::knowledge::Knowledge;
use crate::state::mark::Mark;
use crate::state::mbarrier::{MbarrierState, named};

impl Checker {
    pub(crate) fn mbarrier_initialise(&mut self, actor: Actor, address: MbarrierAddress, count: u32) {
        let mark = self.mark(actor);
        let time = self.ctas[actor.rank as usize].warps[actor.warp as usize].time;
        let cta = &mut self.ctas[address.rank as usize];
        let state = self.mbarriers.entry(address).or_insert_with(|| {
            cta.mbarriers += 1;
            MbarrierState::new(Role::Mbarrier(cta.mbarriers - 1), (mark, time))
        });
        let (before, _) = state.initialised;
        // The same said twice by one thread, before anyone else had a part in it: compilers write that (Triton, for the
        // queues of `warp_specialize`), and it loses nothing.
        let repeated = state.is_fresh()
            && count == state.count
            && (mark.cta, mark.warp, mark.lanes) == (before.cta, before.warp, before.lanes);
        if state.valid && !repeated {
            self.launch.report_misuse(Misuse {
                kind: FindingKind::Barrier,
                message: format!("{} is initialised while it is one already", named(address)),
                places: vec![
                    (mark, format!("initialised again by {}", mark.who(&self.launch.info))),
                    (before, format!("initialised by {}", before.who(&self.launch.info))),
                ],
                mbarrier: Some(address),
                note: "what it has counted is lost, and what threads that wait for it see is undefined (PTX ISA, \"mbarrier.init\")".to_owned(),
                help: "initialise it once, by one thread; its phases follow each other by themselves. To use its memory anew, execute `mbarrier.inval` first".to_owned(),
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
        self.touch_object(actor, address, AccessKind::Object, Strength::Weak);
    }

    pub(crate) fn mbarrier_invalidate(&mut self, actor: Actor, address: MbarrierAddress) {
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.valid = false;
        }
        // One thread of each warp may tell for the others that they are done with it, as they run together: libcu++'s pipelines elect it
        // with `match.any`, which orders no memory. That is enough for an end.
        let cta = &mut self.ctas[actor.rank as usize];
        let warp = &mut cta.warps[actor.warp as usize];
        let before = warp.knowledge(actor.lanes.trailing_zeros()).clone();
        let mut known = before.known.of_whole_warps(cta.linear);
        known.raise(cta.linear, Role::Warp(actor.warp).agent(), FULL, warp.time);
        warp.learn(actor.lanes, &Knowledge { known, ..Knowledge::default() });
        self.touch_object(actor, address, AccessKind::Object, Strength::Weak);
        self.ctas[actor.rank as usize].warps[actor.warp as usize].agree(actor.lanes, before);
    }

    /// An operation of a lane on an mbarrier comes after its initialisation. (The first operation replaces the
    /// initialisation in the shadow of its bytes, so that they do not tell for others.)
    pub(crate) fn check_initialised(&mut self, actor: Actor, address: MbarrierAddress) {
        let Some(state) = self.mbarriers.get(&address) else { return };
        let (init, time) = state.initialised;
        let user = self.mark(actor);
        if (user.cta, user.warp, user.lanes) == (init.cta, init.warp, init.lanes) {
            return;
        }
        let warp = &self.ctas[actor.rank as usize].warps[actor.warp as usize];
        let known = &warp.knowledge(actor.lanes.trailing_zeros()).known;
        if known.covers(init.cta, Role::Warp(init.warp).agent(), init.lanes, time) {
            return;
        }
        let party = |mark: Mark, touch: AccessKind| Party {
            cta: mark.cta,
            role: Role::Warp(mark.warp),
            warp: Some(mark.warp),
            lanes: mark.lanes,
            pc: mark.pc,
            touch,
            strength: Strength::Weak,
            proxy: None,
        };
        self.launch.report(Conflict {
            kind: FindingKind::Race,
            space: MemorySpace::Shared,
            address: address.shared(),
            length: 8,
            later: party(user, AccessKind::Atomic),
            earlier: party(init, AccessKind::Object),
            issuer_waited: false,
            phases: None,
        });
    }

    /// Bytes are announced (positive) or arrive.
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
            state.announcement = Some(mark);
        }
    }

    pub(crate) fn mbarrier_notes_arrival(&mut self, actor: Actor, address: MbarrierAddress) {
        let mark = self.mark(actor);
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.arrival = Some(mark);
        }
    }

    /// A copy is issued that completes at an mbarrier.
    pub(crate) fn mbarrier_expects_copy(&mut self, actor: Actor, address: MbarrierAddress) {
        let mark = self.mark(actor);
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.copies += 1;
            (state.copy, state.copy_phase) = (Some(mark), state.phase);
        }
    }

    /// A copy completes: its bytes arrive next.
    pub(crate) fn mbarrier_copy_completes(&mut self, address: MbarrierAddress) {
        if let Some(state) = self.mbarriers.get_mut(&address) {
            state.copies -= 1;
        }
    }

    pub(crate) fn mbarrier_phase_ends(&mut self, address: MbarrierAddress) {
        let cta = self.ctas[address.rank as usize].linear;
        let Some(state) = self.mbarriers.get_mut(&address) else { return };
        if state.copies > 0 && state.copy_phase == state.phase {
            let phase = state.number(state.phase);
            self.launch.report_misuse(Misuse {
                kind: FindingKind::Barrier,
                message: format!("phase {phase} of {} ends before a copy issued in it has arrived", named(address)),
                places: state.copy_and_announcement(&self.launch.info, ", still under way"),
                mbarrier: Some(address),
                note: format!(
                    "{} bytes were announced in this phase, and its copies move more: who waits for it reads too early",
                    state.announced
                ),
                help: "announce (`expect_tx`) the bytes of all copies that complete in the phase".to_owned(),
            });
        }
        let arrived = std::mem::take(&mut state.arrived);
        state.ended.join(&arrived);
        state.ended.known.raise(cta, state.role.agent(), FULL, state.phase);
        state.phase += 1;
        state.announced = 0;
    }

    /// A lane asks for the end of a phase, and finds it open or `ended`.
    pub(crate) fn mbarrier_notes_test(&mut self, actor: Actor, address: MbarrierAddress, ended: bool) {
        let mark = self.mark(actor);
        let lane = actor.lanes.trailing_zeros() as usize;
        let Some(state) = self.mbarriers.get_mut(&address) else { return };
        let open = state.phase;
        if ended {
            state.seen = state.seen.max(open - 1);
        }
        let waiting = state.waiting.entry((actor.rank, actor.warp)).or_insert([0; LANES]);
        let before = std::mem::replace(&mut waiting[lane], if ended { 0 } else { open });
        // Found open now, the phase is the one that was found open before, or the one after the next; ended, it is the
        // one before the open one.
        let asked = if ended { open - 1 } else { open };
        if before == 0 || asked < before + 2 {
            return;
        }
        let (missed, asked) = (state.number(before), state.number(asked));
        let mut places =
            vec![(mark, format!("{} waits here for phase {missed}", mark.who(&self.launch.info)))];
        let last = state
            .arrival
            .map(|arrival| (arrival, format!("last arrival, of {}", arrival.who(&self.launch.info))));
        places.extend(last);
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("{} runs two phases ahead of a thread that waits for it", named(address)),
            places,
            mbarrier: Some(address),
            note: format!(
                "phases {missed} and {} ended before this thread looked again; to a wait by parity, phase {asked} is the same as phase {missed}: it waits on, or takes the one for the other",
                missed + 1
            ),
            help: "let those who arrive wait until this phase has been seen: by an mbarrier that the waiting threads arrive at, or by a barrier".to_owned(),
        });
    }

    /// Tells of what mbarriers were promised that has not come, when the cluster ends.
    pub(crate) fn finish_mbarriers(&self) {
        let mut states: Vec<_> = self.mbarriers.iter().filter(|(_, state)| state.valid).collect();
        states.sort_by_key(|(address, _)| **address);
        for (&address, state) in states {
            let misuse = if state.copies > 0 || state.copy_phase > state.seen && state.bytes == 0 {
                Misuse {
                    kind: FindingKind::Leak,
                    message: "the kernel ends with a copy that nothing has waited for".to_owned(),
                    places: state.copy_and_announcement(&self.launch.info, "").into_iter().take(1).collect(),
                    mbarrier: Some(address),
                    note: format!(
                        "no thread has seen the end of phase {} of {}, which the copy completes: it may write shared memory that belongs to another CTA by then",
                        state.number(state.copy_phase),
                        named(address)
                    ),
                    help: "wait for the phase before the threads exit, or do not issue the copy".to_owned(),
                }
            } else if state.bytes != 0 {
                let places = state.copy_and_announcement(&self.launch.info, "");
                let (message, note) = if state.bytes < 0 {
                    (
                        format!(
                            "{} bytes have come to {} that nobody announced",
                            -state.bytes,
                            named(address)
                        ),
                        "the phase they came in does not end, and the one that they were meant for ended without them",
                    )
                } else {
                    (
                        format!(
                            "{} bytes were announced to {} that no copy brings",
                            state.bytes,
                            named(address)
                        ),
                        "the phase that they were announced in does not end",
                    )
                };
                Misuse {
                    kind: FindingKind::Barrier,
                    message,
                    places,
                    mbarrier: Some(address),
                    note: note.to_owned(),
                    help: "announce (`expect_tx`) exactly the bytes of the copies that complete in a phase"
                        .to_owned(),
                }
            } else {
                continue;
            };
            if !misuse.places.is_empty() {
                self.launch.report_misuse(misuse);
            }
        }
    }

    /// Of a copy that an mbarrier tells of: which phase it completes, and the last one that a thread has seen the end of.
    pub(crate) fn phases_of(
        &self,
        actor: Actor,
        conflict: &Conflict,
        time: Time,
    ) -> Option<(u32, Option<u32>)> {
        let Role::Mbarrier(_) = conflict.earlier.role else { return None };
        let (_, state) = self.mbarriers.iter().find(|(address, state)| {
            state.role == conflict.earlier.role
                && self.ctas[address.rank as usize].linear == conflict.earlier.cta
        })?;
        let warp = &self.ctas[actor.rank as usize].warps[actor.warp as usize];
        let known = &warp.knowledge(actor.lanes.trailing_zeros()).known;
        let seen = known.whole(conflict.earlier.cta, state.role.agent());
        Some((state.number(time), seen.checked_sub(state.first)))
    }
}
