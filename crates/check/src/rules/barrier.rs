//! Barriers of the CTA: who arrives at them, where, and in which completion.

use warpwright_events::{Actor, Class};

use crate::checker::Checker;
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::state::agents::Role;
use crate::state::barrier::Arrival;
use crate::state::knowledge::Knowledge;
use crate::state::mark::{Mark, cta_name};

/// `warp 3`, `warps 0-3, 6`
fn warps_words(warps: u32) -> String {
    let words = warpwright_events::lane_list(warps);
    words.replacen("lane", "warp", 1)
}

impl Checker {
    /// Whether an arrival by this instruction waits: `bar.arrive` does not.
    fn waits(&self, pc: u32) -> bool {
        !self.launch.info.code.instruction(pc).name().contains(".arrive")
    }

    /// Whether all lanes of a warp execute this barrier together. Otherwise they may execute it
    /// separately.
    fn is_aligned(&self, pc: u32) -> bool {
        self.launch.info.code.instruction(pc).class == Class::CtaBarrier { aligned: true }
    }

    /// A warp is about to arrive at a barrier, with this knowledge. If it does not know that the
    /// previous generation has completed, it might have been counted there in place of a warp that
    /// was: which warps wait for each other depends on which come first.
    pub(crate) fn check_before_arrival(
        &self,
        barrier: u32,
        generation: u32,
        actor: Actor,
        knowledge: &Knowledge,
    ) {
        let cta = &self.ctas[actor.rank as usize];
        let history = &cta.barriers[barrier as usize];
        self.check_mixed_reduction(barrier, history.arrivals(generation), actor);
        let Some(previous) = generation.checked_sub(1) else { return };
        let before = history.arrivals(previous);
        let is_known = |arrival: &Arrival| {
            let agent = Role::Warp(arrival.warp).agent();
            knowledge.known.covers(cta.linear, agent, arrival.lanes, arrival.time)
        };
        if before.iter().all(is_known) {
            return;
        }
        let warps = before.iter().fold(0u32, |warps, arrival| warps | 1 << arrival.warp);
        let mut own = before.iter().filter(|arrival| arrival.warp == actor.warp);
        if warps >> actor.warp & 1 != 0 {
            if own.all(|arrival| !self.waits(arrival.pc)) {
                self.report_second_arrival(barrier, actor);
            }
            return;
        }
        // A barrier for one warp completes when it arrives. Threads that do not wait may arrive in
        // any order: the barrier counts them.
        let waiting = before.iter().filter(|arrival| self.waits(arrival.pc));
        let other = waiting.max_by_key(|arrival| arrival.pc != actor.pc);
        if let Some(other) = other.filter(|_| warps.count_ones() > 1 && self.waits(actor.pc)) {
            self.report_shared_barrier(barrier, actor, *other, warps);
        }
    }

    /// Two groups of warps use one barrier, and nothing orders an arrival of one group after a
    /// completion by the other.
    fn report_shared_barrier(&self, barrier: u32, actor: Actor, other: Arrival, before: u32) {
        let info = &self.launch.info;
        let (later, threads) = (self.mark(actor), 32 * before.count_ones());
        let earlier = Mark { warp: other.warp, lanes: other.lanes, pc: other.pc, ..later };
        let (cta, group) = (cta_name(info, later.cta), warps_words(before));
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("two groups of warps use barrier {barrier} at the same time"),
            locations: vec![
                (later, format!("{} arrives here", later.who(info))),
                (earlier, format!("{group} of {cta} complete the barrier, earlier in this run")),
            ],
            mbarrier: None,
            note: format!(
                "the barrier completes whenever {threads} threads have arrived, whichever they are, and nothing orders this arrival \
                 after that completion: warp {} may be counted in it, and one of {group} in the next one",
                actor.warp
            ),
            help: format!(
                "give each group of warps a barrier with a number of its own, other than {barrier}; or, if all of them are to meet \
                 there, let the barrier count them all"
            ),
        });
    }

    /// PTX ISA, "bar": `bar.red` must not be intermixed with `bar.sync` and `bar.arrive` of the same
    /// active barrier.
    fn check_mixed_reduction(&self, barrier: u32, arrivals: &[Arrival], actor: Actor) {
        let code = &self.launch.info.code;
        let reduction =
            |pc: u32| code.instruction(pc).name().split('.').skip_while(|word| *word != "red").nth(1);
        let own = reduction(actor.pc);
        let Some(other) = arrivals.iter().find(|arrival| reduction(arrival.pc) != own) else { return };
        let later = self.mark(actor);
        let earlier = Mark { warp: other.warp, lanes: other.lanes, pc: other.pc, ..later };
        let [first, second] = if later.pc > earlier.pc { [later, earlier] } else { [earlier, later] };
        let name = |mark: Mark| code.instruction(mark.pc).name();
        let arrives = |mark: Mark| (mark, format!("{} arrives here", mark.who(&self.launch.info)));
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!(
                "`{}` and `{}` are used for one completion of barrier {barrier}",
                name(second),
                name(first)
            ),
            locations: vec![arrives(first), arrives(second)],
            mbarrier: None,
            note: "`bar.red` combines the predicates of all threads that it counts: its result is undefined if some of them arrive \
                   by another instruction (PTX ISA, \"bar\")"
                .to_owned(),
            help: "let all threads that the barrier counts execute the same reduction, or give the reduction a barrier of its own"
                .to_owned(),
        });
    }

    /// Lanes of one warp reach the same generation of a barrier at two instructions.
    pub(crate) fn report_split_barrier(&self, barrier: u32, later: Actor, other: Arrival) {
        if !self.is_aligned(later.pc) || !self.is_aligned(other.pc) {
            return;
        }
        let later = self.mark(later);
        let earlier = Mark { lanes: other.lanes, pc: other.pc, ..later };
        let arrives = |mark: Mark| (mark, format!("{} arrives here", mark.who(&self.launch.info)));
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("lanes of one warp reach barrier {barrier} at two instructions"),
            locations: vec![arrives(later), arrives(earlier)],
            mbarrier: None,
            note: "all lanes of a warp must execute the same `bar.sync` together: otherwise it is undefined which threads the barrier waits for (PTX ISA, \"bar\")".to_owned(),
            help: "move the barrier out of the branch, so that all lanes of the warp execute it".to_owned(),
        });
    }

    /// Two warps reach the same generation of the block's barrier at two instructions. That is a
    /// mistake if the author wrote two of them: a compiler may repeat one.
    pub(crate) fn check_mixed_barrier(&self, later: Actor, other: Arrival) {
        let code = &self.launch.info.code;
        let source = |pc: u32| code.instruction(pc).source.as_ref();
        let (Some(here), Some(there)) = (source(later.pc), source(other.pc)) else { return };
        let cta = &self.ctas[later.rank as usize];
        // Part of a warp is another mistake.
        let is_whole = |warp: u32, lanes: u32| lanes == cta.warps[warp as usize].alive;
        if here == there
            || !self.is_aligned(later.pc)
            || !self.is_aligned(other.pc)
            || !self.waits(later.pc)
            || !self.waits(other.pc)
            || !is_whole(later.warp, later.lanes)
            || !is_whole(other.warp, other.lanes)
        {
            return;
        }
        let later = self.mark(later);
        let earlier = Mark { warp: other.warp, lanes: other.lanes, pc: other.pc, ..later };
        // Which comes first depends on the schedule.
        let [first, second] = if later.pc > earlier.pc { [later, earlier] } else { [earlier, later] };
        let arrives = |mark: Mark| (mark, format!("{} arrives here", mark.who(&self.launch.info)));
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: "warps of the block wait for each other at two different lines".to_owned(),
            locations: vec![arrives(first), arrives(second)],
            mbarrier: None,
            note: "barrier 0 counts threads, whichever line they come from: the threads of one line go on when those of the other \
                   arrive, and operations of `block` exchange values of both"
                .to_owned(),
            help: "let all threads of the block execute the same `sync_threads()` or operation of `block`, outside the branch; \
                   threads with different roles synchronize by a `NamedBarrier`"
                .to_owned(),
        });
    }

    /// A warp arrives at a barrier again before the barrier has completed.
    pub(crate) fn report_second_arrival(&self, barrier: u32, actor: Actor) {
        let mark = self.mark(actor);
        let help = match self.waits(actor.pc) {
            true => "use another barrier for the second synchronization".to_owned(),
            false => format!(
                "let this warp wait before it arrives again: at the barrier at which the warps that wait at barrier {barrier} arrive \
                 afterwards (a producer waits until a buffer is empty), or, if it is one of those that wait, here (`sync` for `arrive`). \
                 And let all warps that barrier {barrier} counts come to it"
            ),
        };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("a warp arrives at barrier {barrier} a second time before it has completed"),
            locations: vec![(mark, format!("{} arrives again here", mark.who(&self.launch.info)))],
            mbarrier: None,
            note: "a barrier counts arrivals, not warps (PTX ISA, \"bar\"), and nothing orders this arrival after its completion: it may complete before the other warps arrive"
                .to_owned(),
            help,
        });
    }
}
