//! Exchanges between the lanes of a warp: `shfl`, `vote`, `match`, `redux`, `elect`, `bar.warp.sync`.
//!
//! Each waits for the lanes of its member mask, at whatever instruction of the same kind they are (PTX
//! ISA, "shfl.sync"). Lanes that skip one in a branch therefore pair with the next one, and values of
//! both lines mix. Those of a branch that a compiler has duplicated are at one source line.

use warpwright_events::{Actor, lane_list};

use crate::checker::Checker;
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::state::mark::Mark;

impl Checker {
    /// Lanes wait at an exchange for the other lanes of its mask.
    pub(crate) fn exchange_waits(&mut self, actor: Actor, members: u32) {
        let warp = self.warp(actor).1;
        let awaited = members & warp.alive;
        if !warp.has_mixed_exchanges {
            self.note_arrival(actor, awaited);
        }
    }

    /// Whether the author wrote two instructions. A compiler that repeats one keeps its line and the
    /// calls around it. The kernel language repeats none: two at one line are of two calls.
    fn are_of_two_lines(&self, a: u32, b: u32) -> bool {
        let code = &self.launch.info.code;
        let are_of_two_calls = self.launch.is_recorded && a != b;
        let (a, b) = (code.instruction(a), code.instruction(b));
        match (&a.source, &b.source) {
            (Some(here), Some(there)) => here != there || a.inlining != b.inlining || are_of_two_calls,
            (None, None) => true,
            _ => false,
        }
    }

    /// Two arrivals of an exchange at different lines, the later line first.
    fn apart(&self, arrivals: &[Actor]) -> Option<[Actor; 2]> {
        let (first, rest) = arrivals.split_first()?;
        let other = rest.iter().find(|other| self.are_of_two_lines(first.pc, other.pc))?;
        Some(if first.pc > other.pc { [*first, *other] } else { [*other, *first] })
    }

    /// Lanes at several instructions exchange values.
    pub(crate) fn report_mixed_exchange(&mut self, arrivals: &[Actor]) {
        let Some(&first) = arrivals.first() else { return };
        self.warp(first).1.bypasses.clear();
        let Some(apart) = self.apart(arrivals) else { return };
        self.report_lines_of_an_exchange(apart, "exchange values", "each result is of the values of both");
    }

    /// Lanes synchronize. Those of two branches may do so at the synchronization of each, so that is
    /// an error only once lanes of one branch reach the line of the other, and lanes of the other one
    /// are not at theirs: they have skipped it.
    pub(crate) fn lanes_meet(&mut self, arrivals: &[Actor]) {
        let Some(&only) = arrivals.first() else { return };
        if arrivals.len() > 1 {
            let apart = self.apart(arrivals);
            let warp = self.warp(only).1;
            warp.bypasses.clear();
            warp.met_apart = apart;
            return;
        }
        let Some(apart) = self.warp(only).1.met_apart else { return };
        let [first, second] = apart;
        let has_skipped = |here: Actor, there: Actor| only.pc == here.pc && only.lanes & there.lanes != 0;
        if has_skipped(first, second) || has_skipped(second, first) {
            self.warp(only).1.met_apart = None;
            self.report_lines_of_an_exchange(
                apart,
                "synchronize",
                "the lanes of each go on when those of the other arrive, and their memory is ordered there and not where \
                 they execute the same one",
            );
        }
    }

    fn report_lines_of_an_exchange(&mut self, apart: [Actor; 2], what: &str, effect: &str) {
        let warp = self.warp(apart[0]).1;
        warp.bypasses.clear();
        warp.has_mixed_exchanges = true;
        let info = &self.launch.info;
        let [here, there] = apart.map(|actor| &info.code.instruction(actor.pc).source);
        let (at, which) = if here.is_some() && here == there {
            ("in two calls of one line", "of two calls")
        } else {
            ("at two different lines", "of both lines")
        };
        let location = |actor: Actor| {
            let mark = self.mark(actor);
            (mark, format!("executed by {}", mark.who(info)))
        };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Divergence,
            message: format!("lanes of one warp {what} {at}"),
            locations: apart.map(location).to_vec(),
            mbarrier: None,
            note: format!(
                "a member mask that names the lanes {which} makes them wait for each other, whichever they are at: {effect}"
            ),
            help: "move the call out of the branch, so that all lanes of its mask execute it; or name only the lanes that take \
                   the branch in the mask"
                .to_owned(),
        });
    }

    /// Lanes execute an exchange with a member mask that names lanes which execute it with another
    /// mask.
    pub(crate) fn report_two_masks(&mut self, actor: Actor, members: u32, otherwise: u32, other: u32) {
        self.warp(actor).1.has_mixed_exchanges = true;
        let (mark, info) = (self.mark(actor), &self.launch.info);
        let there = Mark { lanes: otherwise, ..mark };
        let name = info.code.instruction(actor.pc).name();
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Fault(warpwright_events::FaultKind::LaneMask),
            message: "lanes that execute an exchange together have different member masks".to_owned(),
            locations: vec![(
                mark,
                format!(
                    "executed with the mask {members:#010x} by {}, and with {other:#010x} by {}",
                    mark.who(info),
                    lane_list(there.lanes)
                ),
            )],
            mbarrier: None,
            note: format!(
                "`{name}` waits until the lanes of its mask have executed it with the same mask, and {} that the first mask \
                 names do not",
                lane_list(otherwise)
            ),
            help: "compute one mask that all lanes which execute it together have, for example by `ballot`; masks of groups may \
                   differ if they have no lane in common"
                .to_owned(),
        });
    }
}
