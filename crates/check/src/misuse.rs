//! What is wrong with the use of a barrier or of registers: not two accesses that are at odds, but a rule that is broken.

use warpwright_events::{Actor, Class, Code, FULL, FaultKind, MbarrierAddress, MemorySpace};

use crate::checker::Checker;
use crate::finding::{Finding, FindingKind};
use crate::launch::LaunchState;
use crate::report::who;

/// Someone at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// The linear index of the CTA.
    pub(crate) cta: u32,
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
    pub(crate) pc: u32,
}

impl Mark {
    /// `warp 3, lane 0 of CTA (1, 0, 0)`
    pub(crate) fn who(self, launch: &LaunchState) -> String {
        who(launch, self.cta, self.warp, self.lanes)
    }
}

/// A rule that is broken, in words.
#[derive(Clone, Debug)]
pub(crate) struct Misuse {
    pub(crate) kind: FindingKind,
    pub(crate) message: String,
    /// Where, first what was found out; and what happened there.
    pub(crate) places: Vec<(Mark, String)>,
    /// The mbarrier it is about.
    pub(crate) mbarrier: Option<MbarrierAddress>,
    pub(crate) note: String,
    pub(crate) help: String,
}

impl Misuse {
    /// Misuses of the same key are told once.
    pub(crate) fn key(&self) -> (FindingKind, u32, u32) {
        let pc = |place: usize| self.places.get(place).map_or(u32::MAX, |(mark, _)| mark.pc);
        (self.kind, pc(0), pc(1))
    }

    /// What of several misuses of one key is told: the first in the grid.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        let mark = |place: usize| self.places.get(place).map(|(mark, _)| *mark);
        (mark(0), mark(1))
    }

    /// Whether an aligned barrier is at fault: others may be executed by the lanes of a warp one by one.
    pub(crate) fn holds(&self, code: &Code) -> bool {
        let unaligned = |(mark, _): &(Mark, String)| {
            let class = code.instruction(mark.pc).class;
            matches!(class, Class::CtaBarrier { aligned: false } | Class::ClusterBarrier { aligned: false })
        };
        self.kind != FindingKind::Barrier || !self.places.iter().any(unaligned)
    }

    /// The address it is about.
    pub(crate) fn at(&self) -> Option<(MemorySpace, u64)> {
        self.mbarrier.map(|address| (MemorySpace::Shared, address.shared()))
    }

    pub(crate) fn finding(&self, code: &Code, count: u64) -> Finding {
        let places = self.places.iter();
        Finding {
            kind: self.kind,
            kernel: code.kernel.clone(),
            message: self.message.clone(),
            labels: places.map(|(mark, what)| code.label(mark.pc, what.clone())).collect(),
            memory: Vec::new(),
            notes: vec![self.note.clone()],
            help: Some(self.help.clone()),
            count,
        }
    }
}

impl Checker {
    pub(crate) fn mark(&self, actor: Actor) -> Mark {
        let cta = self.ctas[actor.rank as usize].linear;
        Mark { cta, warp: actor.warp, lanes: actor.lanes, pc: actor.pc }
    }

    /// Lanes of one warp have come to the same generation of a barrier from two places.
    pub(crate) fn report_split_barrier(&self, barrier: u32, later: Actor, (lanes, pc): (u32, u32)) {
        let later = self.mark(later);
        let earlier = Mark { lanes, pc, ..later };
        let come = |mark: Mark| (mark, format!("{} arrives here", mark.who(&self.launch)));
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("lanes of one warp meet at barrier {barrier} from two places of the program"),
            places: vec![come(later), come(earlier)],
            mbarrier: None,
            note: "all lanes of a warp execute the same `bar.sync` together: where only some of them come, which threads a barrier waits for is undefined (PTX ISA, \"bar\")".to_owned(),
            help: "move the barrier out of the branch, to where all lanes of the warp come by".to_owned(),
        });
    }

    /// A warp arrives at a barrier again before the barrier has completed.
    pub(crate) fn report_second_arrival(&self, barrier: u32, actor: Actor) {
        let mark = self.mark(actor);
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Barrier,
            message: format!("a warp arrives at barrier {barrier} a second time before it has completed"),
            places: vec![(mark, format!("{} arrives again here", mark.who(&self.launch)))],
            mbarrier: None,
            note: "a barrier counts arrivals, and not who they are of (PTX ISA, \"bar\"): it may complete before the other \
                   warps have come. Here the warp waits until it has completed"
                .to_owned(),
            help: "use another barrier for the second meeting".to_owned(),
        });
    }

    /// A peer accesses the shared memory of a CTA that may have exited by then.
    pub(crate) fn report_early_exit(&self, access: Mark, owner: u32) {
        let owner = self.launch.cta_name(owner);
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Fault(FaultKind::PeerNotResident),
            message: format!("{owner} may have exited when a peer accesses its shared memory"),
            places: vec![(access, format!("{} accesses it here", access.who(&self.launch)))],
            mbarrier: None,
            note: format!(
                "nothing that {owner} waits for comes after this access: it may exit before, and its shared memory may be another CTA's by then (PTX ISA, \"Cluster of Cooperative Thread Arrays\")"
            ),
            help: "let all threads of the cluster meet (`barrier.cluster`) after the last access, or let the CTA wait for it before its threads exit".to_owned(),
        });
    }

    /// A multiply is issued with no `wgmma.fence` since its registers were written, by `written` if that was not before
    /// the kernel's first fence.
    pub(crate) fn report_unfenced(&self, multiply: Mark, written: Option<u32>, accumulators: bool) {
        let what = if accumulators { "accumulators" } else { "fragments of A" };
        let warp = |pc: u32| Mark { lanes: FULL, pc, ..multiply };
        let mut places = vec![(multiply, format!("wgmma by {}", multiply.who(&self.launch)))];
        places.extend(written.map(|pc| (warp(pc), "a register of it is written here".to_owned())));
        let message = match written {
            Some(_) => format!("a wgmma uses {what} that were written with no wgmma.fence between the two"),
            None => "a wgmma is issued with no wgmma.fence before it".to_owned(),
        };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::InFlight,
            message,
            places,
            mbarrier: None,
            note: "the tensor cores read and write registers by themselves: without the fence they may see what was there before (PTX ISA, \"wgmma.fence\")".to_owned(),
            help: "execute `wgmma.fence` after the registers are written, before the first wgmma of each batch".to_owned(),
        });
    }

    /// A register of a multiply under way is touched.
    pub(crate) fn report_touched(&self, touch: Mark, multiply: u32, touched: Touched) {
        let (message, what) = match touched {
            Touched::Read => ("an accumulator is read while the wgmma that writes it is under way", "read"),
            Touched::Written => ("a register is written while a wgmma that uses it is under way", "written"),
            Touched::Multiplied => (
                "a wgmma takes the accumulators of another one of a different shape that is under way",
                "used by another wgmma",
            ),
            Touched::Multiplicand => {
                ("a wgmma takes fragments of A that a wgmma under way still writes", "used as A")
            }
        };
        let issue = Mark { lanes: FULL, pc: multiply, ..touch };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::InFlight,
            message: message.to_owned(),
            places: vec![
                (touch, format!("{what} by {}", touch.who(&self.launch))),
                (issue, "the wgmma is issued here".to_owned()),
            ],
            mbarrier: None,
            note: "no wgmma.wait_group covers the wgmma before this: a barrier of threads, or a fence, does not wait for it".to_owned(),
            help: "commit the wgmma to a group, and wait with `wgmma.wait_group` before its registers are touched".to_owned(),
        });
    }
}

impl Checker {
    /// A register that a load of tensor memory writes is touched before the wait for it.
    pub(crate) fn report_loading(&self, touch: Mark, load: u32, writes: bool) {
        let what = if writes { "written" } else { "read" };
        let issue = Mark { lanes: FULL, pc: load, ..touch };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::InFlight,
            message: format!("a register is {what} while the tcgen05.ld that writes it is under way"),
            places: vec![
                (touch, format!("{what} by {}", touch.who(&self.launch))),
                (issue, "the load is issued here".to_owned()),
            ],
            mbarrier: None,
            note: "tcgen05.ld is asynchronous: its registers are there after tcgen05.wait::ld, and a barrier of threads does not wait for it".to_owned(),
            help: "execute `tcgen05.wait::ld.sync.aligned` between the two".to_owned(),
        });
    }
}

/// What happens to a register of a multiply under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    Read,
    Written,
    /// It is the accumulator of another multiply, of another shape.
    Multiplied,
    /// It is an accumulator, and A of another multiply.
    Multiplicand,
}
