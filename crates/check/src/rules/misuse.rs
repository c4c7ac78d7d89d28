//! Reports of rules that are broken.

use warpwright_events::{Actor, AsyncKind, Awaited, FULL, FaultKind};

use crate::checker::Checker;
use crate::report::finding::FindingKind;
use crate::report::group::Group;
use crate::report::misuse::{Misuse, Touched};
use crate::state::mark::{Mark, cta_name};
use crate::state::work::Progress;

impl Checker {
    pub(crate) fn mark(&self, actor: Actor) -> Mark {
        let cta = self.ctas[actor.rank as usize].linear;
        Mark { cta, warp: actor.warp, lanes: actor.lanes, pc: actor.pc }
    }

    /// A peer accesses the shared memory of a CTA that may have exited by then.
    pub(crate) fn report_early_exit(&self, access: Mark, owner: u32) {
        let owner = cta_name(&self.launch.info, owner);
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Fault(FaultKind::PeerNotResident),
            message: format!("{owner} may have exited when a peer accesses its shared memory"),
            locations: vec![(access, format!("{} accesses it here", access.who(&self.launch.info)))],
            mbarrier: None,
            note: format!(
                "{owner} waits for nothing that follows this access: it may exit earlier, and its shared \
                 memory may then belong to another CTA (PTX ISA, \"Cluster of Cooperative Thread Arrays\")"
            ),
            help: "call `cluster_sync()` (`barrier.cluster`) after the last access, or let the CTA wait for the access before its threads exit".to_owned(),
        });
    }

    /// A CTA accesses the shared memory of a peer that may not have started.
    pub(crate) fn report_early_access(&self, access: Mark, owner: u32) {
        let owner = cta_name(&self.launch.info, owner);
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Fault(FaultKind::PeerNotResident),
            message: format!("{owner} may not have started when a peer accesses its shared memory"),
            locations: vec![(access, format!("{} accesses it here", access.who(&self.launch.info)))],
            mbarrier: None,
            note: format!(
                "no barrier of the cluster precedes this access, and this thread waits for nothing that {owner} has done: \
                 the shared memory may still belong to another CTA (PTX ISA, \"Cluster of Cooperative Thread Arrays\")"
            ),
            help: "call `cluster_sync()` (`barrier.cluster`) in all CTAs of the cluster before the access: `sync_threads()` waits for the threads of one CTA only".to_owned(),
        });
    }

    /// An MMA is issued without `wgmma.fence` since its registers were written, by `written` or
    /// before the kernel's first fence.
    pub(crate) fn report_unfenced(&self, multiply: Mark, written: Option<u32>, accumulators: bool) {
        let what = if accumulators { "accumulators" } else { "fragments of A" };
        let warp = |pc: u32| Mark { lanes: FULL, pc, ..multiply };
        let mut locations = vec![(multiply, format!("wgmma by {}", multiply.who(&self.launch.info)))];
        locations.extend(written.map(|pc| (warp(pc), "one of its registers is written here".to_owned())));
        let message = match written {
            Some(_) => format!("a wgmma uses {what} that were written after the last wgmma.fence"),
            None => "a wgmma is issued with no wgmma.fence before it".to_owned(),
        };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::InFlight,
            message,
            locations,
            mbarrier: None,
            note: "the tensor cores access registers asynchronously: without the fence they may read old values (PTX ISA, \"wgmma.fence\")".to_owned(),
            help: "call `fence_multiplications()` (`wgmma.fence`) after the registers are written, before the first wgmma of each batch".to_owned(),
        });
    }

    /// A register of an MMA in flight is accessed.
    pub(crate) fn report_register_access(
        &self,
        access: Mark,
        multiply: u32,
        touched: Touched,
        progress: Option<Progress>,
    ) {
        let (message, what) = match touched {
            Touched::Read => ("an accumulator is read while the wgmma that writes it is in flight", "read"),
            Touched::Written => ("a register is written while a wgmma that uses it is in flight", "written"),
            Touched::Multiplied => (
                "a wgmma uses the accumulators of one of a different shape that is in flight",
                "used by another wgmma",
            ),
            Touched::Multiplicand => {
                ("a wgmma uses fragments of A that a wgmma in flight still writes", "used as A")
            }
        };
        let issue = Mark { lanes: FULL, pc: multiply, ..access };
        let group = Group::of(AsyncKind::Multiply, Awaited::Everything);
        let missing =
            progress.and_then(|progress| group?.missing(progress, &self.launch.info.code)).unwrap_or_else(|| {
                (
                    "no wgmma.wait_group covers the wgmma before this access: neither a barrier nor a fence waits for it"
                        .to_owned(),
                    "call `wait_multiplications(0)` (`wgmma.wait_group 0`) before its registers are accessed"
                        .to_owned(),
                )
            });
        let (note, help) = missing;
        self.launch.report_misuse(Misuse {
            kind: FindingKind::InFlight,
            message: message.to_owned(),
            locations: vec![
                (access, format!("{what} by {}", access.who(&self.launch.info))),
                (issue, "the wgmma is issued here".to_owned()),
            ],
            mbarrier: None,
            note,
            help,
        });
    }
}

impl Checker {
    /// A register that a load of tensor memory writes is accessed before the wait for it.
    pub(crate) fn report_loading(&self, access: Mark, load: u32, writes: bool) {
        let what = if writes { "written" } else { "read" };
        let issue = Mark { lanes: FULL, pc: load, ..access };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::InFlight,
            message: format!("a register is {what} while the tcgen05.ld that writes it is in flight"),
            locations: vec![
                (access, format!("{what} by {}", access.who(&self.launch.info))),
                (issue, "the load is issued here".to_owned()),
            ],
            mbarrier: None,
            note: "tcgen05.ld is asynchronous: its registers are valid after tcgen05.wait::ld, and a barrier does not wait for it".to_owned(),
            help: "call `wait_tensor_loads()` (`tcgen05.wait::ld`) between the two".to_owned(),
        });
    }
}
