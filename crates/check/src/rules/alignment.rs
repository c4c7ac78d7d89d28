//! Instructions that all lanes of a warp must execute together: `.aligned` ones, and `bar`.

use warpwright_events::{Actor, Class, Event, lane_list};

use crate::checker::Checker;
use crate::report::conflict::with_article;
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::state::bypass::Bypass;
use crate::state::mark::Mark;

impl Checker {
    /// Lanes arrive at a barrier. The rest of their warp may still arrive, or exit.
    pub(crate) fn arrive_together(&mut self, actor: Actor) {
        let is_aligned = matches!(
            self.launch.info.code.instruction(actor.pc).class,
            Class::CtaBarrier { aligned: true } | Class::ClusterBarrier { aligned: true }
        );
        let warp = self.warp(actor).1;
        match warp.alive {
            all if !is_aligned || actor.lanes == all => warp.bypasses.clear(),
            all => {
                warp.bypasses.retain(|bypass| bypass.pc == actor.pc);
                self.note_arrival(actor, all);
            }
        }
    }

    /// Lanes arrive at an instruction that waits for the lanes of `awaited`.
    pub(crate) fn note_arrival(&mut self, actor: Actor, awaited: u32) {
        let warp = self.warp(actor).1;
        let known = warp.bypasses.iter().position(|bypass| bypass.pc == actor.pc);
        let mut bypass = match known.map(|index| warp.bypasses.swap_remove(index)) {
            Some(known) if known.arrived & actor.lanes == 0 => known,
            _ => Bypass::new(actor.pc, 0, awaited),
        };
        bypass.arrived |= actor.lanes;
        bypass.others &= !actor.lanes;
        if bypass.others != 0 {
            warp.bypasses.push(bypass);
            self.has_bypasses = true;
        }
    }

    /// The lanes that access memory, arrive at an mbarrier or exit, if it is that. In code of a compiler, an
    /// exit is no evidence: there a `return` and a branch to the end are the same.
    fn acting(&self, event: &Event<'_>) -> Option<Actor> {
        match *event {
            Event::Access { actor, .. }
            | Event::AsyncIssue { actor, .. }
            | Event::MbarrierArrive { actor, .. } => Some(actor),
            Event::Exit { actor } => Some(actor).filter(|_| self.launch.is_recorded),
            _ => None,
        }
    }

    /// Reports lanes that go on after a barrier or an exchange that only the others of their warp
    /// execute.
    #[cold]
    pub(crate) fn note_bypass(&mut self, event: &Event<'_>) {
        let Some(actor) = self.acting(event) else { return };
        let warp = self.warp(actor).1;
        let mut found = None;
        for bypass in &mut warp.bypasses {
            if let Some(passed_by) = bypass.note(actor.pc, actor.lanes) {
                found = found.or(Some((bypass.pc, bypass.arrived, passed_by)));
            }
        }
        let Some((barrier, arrived, passed_by)) = found else { return };
        warp.bypasses.clear();
        let mark = self.mark(actor);
        let (arrived, passed_by) =
            (Mark { lanes: arrived, pc: barrier, ..mark }, Mark { lanes: passed_by, ..mark });
        let info = &self.launch.info;
        let instruction = info.code.instruction(barrier);
        let name = instruction.name().to_owned();
        let is_barrier = matches!(instruction.class, Class::CtaBarrier { .. } | Class::ClusterBarrier { .. });
        let what = if is_barrier { "barrier" } else { "exchange" };
        let (note, help) = if is_barrier {
            (
                format!(
                    "all lanes of a warp that have not exited must execute the same `{name}` together; \
                     otherwise it is undefined which threads it waits for (PTX ISA, \"bar\")"
                ),
                "move the barrier out of the branch, or let whole warps of 32 threads take the branch",
            )
        } else {
            (
                format!(
                    "the member mask names all of these lanes: `{name}` waits for those that pass it by until \
                     they have exited, and then executes without them"
                ),
                "move the call out of the branch, so that all lanes of its mask execute it; or name only the lanes that \
                 take the branch in the mask",
            )
        };
        let ends = matches!(event, Event::Exit { .. });
        let beside =
            if ends { format!("; {} end without it", lane_list(passed_by.lanes)) } else { String::new() };
        let mut locations = vec![(arrived, format!("reached by {}{beside}", arrived.who(info)))];
        if !ends {
            locations.push((passed_by, format!("reached by {} without the {what}", passed_by.who(info))));
        }
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Divergence,
            message: format!(
                "part of a warp executes {} that the rest of the warp passes by",
                with_article(what)
            ),
            locations,
            mbarrier: None,
            note,
            help: help.to_owned(),
        });
    }

    /// Reports an aligned instruction that part of a warp executes.
    pub(crate) fn report_incomplete(&self, actor: Actor) {
        let mark = self.mark(actor);
        let warp = self.warp_of(actor);
        let states = [
            (warp.alive & !actor.lanes, "skip it: its condition differs in the warp"),
            (warp.population & !warp.alive, "have exited"),
            (!warp.population, "do not exist: the CTA ends within this warp"),
        ];
        let missing = states.into_iter().filter(|(lanes, _)| *lanes != 0);
        let missing: Vec<String> =
            missing.map(|(lanes, what)| format!("{} {what}", lane_list(lanes))).collect();
        let info = &self.launch.info;
        let name = info.code.instruction(actor.pc).name().to_owned();
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Divergence,
            message: "part of a warp executes an operation that needs all 32 lanes".to_owned(),
            locations: vec![(
                mark,
                format!("executed by {}; {}", mark.who(info), missing.join(", and ")),
            )],
            mbarrier: None,
            note: format!(
                "`{name}` is aligned: its result is undefined unless all lanes of the warp execute it together, and none has exited"
            ),
            help: "let all 32 lanes execute it, and put only the use of its result into the branch".to_owned(),
        });
    }
}
