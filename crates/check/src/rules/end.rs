//! What is left over when a cluster ends: work that nothing has waited for, and peers that still access its shared memory.

use warpwright_events::{AccessKind, Awaited, MemorySpace, Proxy, Strength};

use crate::checker::Checker;
use crate::report::conflict::{Conflict, Party};
use crate::report::finding::FindingKind;
use crate::state::agents::Role;
use crate::state::mark::Mark;
use crate::state::mbarrier::OBJECT;

impl Checker {
    /// Reports work that a warp has not waited for when the cluster ends.
    pub(crate) fn finish(&mut self) {
        self.launch.note_good_reads(self.unwritten.good());
        self.launch.note_whole_tiles(&self.whole_tiles);
        self.finish_mbarriers();
        self.finish_tensor_memory();
        self.finish_peers();
        // The next launch begins when each CTA lets it or exits: one that waits before is enough.
        if self.ctas.iter().any(|cta| cta.has_waited && !cta.lets_next_begin_early) {
            self.launch.note_end_of_predecessor();
        }
        for cta in &self.ctas {
            for (warp, index) in cta.warps.iter().zip(0..) {
                for (lanes, pc, kind, progress) in warp.leaks() {
                    let worker = Party {
                        cta: cta.linear,
                        role: Role::of_work(index, kind, Awaited::Everything),
                        warp: Some(index),
                        lanes,
                        pc,
                        kind: AccessKind::Write,
                        strength: Strength::Weak,
                        proxy: Some(Proxy::Async),
                    };
                    let leak = Conflict::new(FindingKind::Leak, MemorySpace::Shared, (0, 0), [worker; 2]);
                    self.launch.report(Conflict { progress: Some(progress), ..leak });
                }
            }
        }
    }

    /// Reports accesses of peers to a CTA's shared memory that the CTA does not wait for.
    fn finish_peers(&self) {
        for (cta, shadow) in self.ctas.iter().zip(&self.shadows) {
            for access in shadow.granules().flat_map(|granule| &granule.accesses) {
                let (Role::Warp(warp) | Role::Group(warp, ..)) = Role::of(access.agent) else { continue };
                let lanes = access.lanes_of(access.bytes);
                let missed = cta.outlived.uncovered(access.cta, access.agent, lanes, access.time);
                let is_issue = access.strength == OBJECT && self.remote_copies.contains(&access.pc);
                if access.cta != cta.linear && missed != 0 && !is_issue {
                    let mark = Mark { cta: access.cta, warp, lanes: missed, pc: access.pc };
                    self.report_early_exit(mark, cta.linear);
                }
            }
        }
    }
}
