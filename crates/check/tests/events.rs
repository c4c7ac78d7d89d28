//! Checkers of lists of events that are written by hand, with no emulator and no PTX.

use std::sync::Arc;

use warpwright_check::{FindingKind, LaunchChecks};
use warpwright_events::{
    AccessKind, Actor, AddressName, AddressNames, Class, Code, Event, FULL, Inlining, Instruction, LANES,
    LaunchInfo, LaunchObserver, LoadPath, MemorySpace, Strength, Unit, Work,
};

/// Nothing is known of any address.
struct Nameless;

impl AddressNames for Nameless {
    fn name(&self, _: MemorySpace, _: u64) -> AddressName {
        AddressName::default()
    }
}

fn instruction(text: &str, class: Class) -> Instruction {
    Instruction {
        line: 1,
        text: text.into(),
        source: None,
        inlining: Inlining::default(),
        form: None,
        class,
        is_parameter_access: false,
        guard: None,
        work: Work { unit: Unit::Memory, by_lane: 0, by_warp: 0 },
        writes: Box::default(),
        reads: Box::default(),
        arrays: Box::default(),
        bases: Box::default(),
    }
}

/// What the checkers find in the events of one CTA of 64 threads.
fn findings(events: &[Event<'_>]) -> Vec<FindingKind> {
    let code = Code {
        kernel: "kernel".to_owned(),
        instructions: vec![
            instruction("st.shared.u32", Class::Store),
            instruction("bar.sync", Class::CtaBarrier { aligned: true }),
            instruction("ld.shared.u32", Class::Load(LoadPath::Coherent)),
        ],
        of_operation: vec![0, 1, 2],
        register_words: Vec::new(),
        arrays: Vec::new(),
        branches: Vec::new(),
    };
    let info = LaunchInfo {
        code: Arc::new(code),
        grid: [1; 3],
        block: [64, 1, 1],
        cluster: [1; 3],
        shared_bytes: 1024,
        most_registers: None,
        least_ctas_per_sm: None,
        system_shared: 1024,
        initialized: Arc::default(),
    };
    let checks = LaunchChecks::new(&info, None);
    let mut cluster = checks.cluster(&[0]);
    events.iter().for_each(|event| cluster.event(event));
    cluster.event(&Event::End);
    checks.end(&Nameless);
    checks.findings().iter().map(|finding| finding.kind).collect()
}

fn actor(warp: u32, pc: u32) -> Actor {
    Actor { rank: 0, warp, lanes: FULL, pc }
}

fn access(actor: Actor, addresses: &[u64; LANES], kind: AccessKind) -> Event<'_> {
    let space = MemorySpace::Shared;
    Event::Access { actor, space, addresses, bytes: 4, kind, strength: Strength::Weak, values: None }
}

#[test]
fn a_barrier_between_a_store_and_another_warps_load_orders_them() {
    let addresses = std::array::from_fn(|lane| 4 * lane as u64);
    let store = access(actor(0, 0), &addresses, AccessKind::Write);
    let load = access(actor(1, 2), &addresses, AccessKind::Read);
    let arrive = |warp| Event::BarrierArrive { actor: actor(warp, 1), barrier: 0, generation: 0, all: true };
    let leave = |warp| Event::BarrierLeave { actor: actor(warp, 1), barrier: 0, generation: 0 };
    assert_eq!(findings(&[store, load]), [FindingKind::Race]);
    assert_eq!(findings(&[store, arrive(0), arrive(1), leave(0), leave(1), load]), []);
    assert_eq!(findings(&[arrive(0), arrive(1), leave(0), leave(1), store, load]), [FindingKind::Race]);
}

#[test]
fn a_load_of_bytes_that_nothing_has_written_is_found() {
    let addresses = [64; LANES];
    assert_eq!(findings(&[access(actor(0, 2), &addresses, AccessKind::Read)]), [FindingKind::Uninitialized]);
}
