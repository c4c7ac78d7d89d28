//! Running kernels under the checkers.

use warpwright_arch::Arch;
use warpwright_check::{Finding, FindingKind, LaunchChecks};
use warpwright_emulator::{Emulator, Fault, Launch, Schedule};

/// What a body starts with that is for Blackwell is `//sm_100a` or `//sm_103a`. A kernel's body, with what its
/// header would be. `%tid`, `%lane` and `%warp` hold the thread's numbers, `%buffer` the address of
/// 64 KiB of zeros with 4 KiB behind them that nothing has written, and `tile` is 4096 bytes of
/// shared memory.
pub(crate) fn kernel(body: &str) -> String {
    let mut text = String::from(
        "
.version 8.8
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 buffer) {
    .shared .align 128 .b8 tile[4096];
    .shared .align 8 .b8 barrier[32];
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    .reg .f32 %f<8>;
    .reg .pred %p<8>;
    .reg .b32 %tid, %lane, %warp, %cta, %tile, %own, %next;
    .reg .b64 %buffer, %mine;
    mov.u32 %tid, %tid.x;
    and.b32 %lane, %tid, 31;
    shr.u32 %warp, %tid, 5;
    mov.u32 %cta, %ctaid.x;
    ld.param.u64 %buffer, [buffer];
    mul.wide.u32 %mine, %tid, 4;
    add.u64 %mine, %buffer, %mine;
    mov.u32 %tile, tile;
    shl.b32 %own, %tid, 2;
    add.u32 %own, %own, %tile;
    add.u32 %next, %tid, 1;
    rem.u32 %next, %next, 64;
    shl.b32 %next, %next, 2;
    add.u32 %next, %next, %tile;
",
    );
    text.push_str(body);
    text.push_str("\n    ret;\n}\n");
    text
}

/// A body as the kernel language records it: its lines are of Rust.
pub(crate) fn recorded(body: &str) -> String {
    format!(".loc 1 5 3\n {body} ret; }} .file 1 \"kernel.rs\" .func rest() {{")
}

/// The shape a kernel is launched in.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) ctas: u32,
    pub(crate) threads: u32,
    pub(crate) cluster: u32,
}

pub(crate) const ONE: Grid = Grid { ctas: 1, threads: 64, cluster: 1 };
pub(crate) const TWO: Grid = Grid { ctas: 2, threads: 64, cluster: 1 };

/// What the checkers find in a body at a schedule, or what stops it.
pub(crate) fn run_at(body: &str, grid: Grid, schedule: Schedule) -> Result<Vec<Finding>, Box<Fault>> {
    let devices = [("//sm_100a", "b200", "sm_100a"), ("//sm_103a", "b300", "sm_103a")];
    let named = devices.into_iter().find(|(first, ..)| body.starts_with(first));
    let (_, name, target) = named.unwrap_or(("", "h200", "sm_90a"));
    let mut device = Emulator::with_threads(Arch::named(name).unwrap(), 2).unwrap();
    let text = kernel(body).replace("sm_90a", target);
    let module = warpwright_ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let program = device.load(&module).unwrap_or_else(|error| panic!("{error}"));
    device.track_initialization();
    let buffer = device.allocate(65536 + 4096).unwrap();
    device.fill(buffer, 0, 65536).unwrap();
    let launch = Launch {
        grid: [grid.ctas, 1, 1],
        block: [grid.threads, 1, 1],
        cluster: [grid.cluster, 1, 1],
        dynamic_shared_bytes: 0,
        parameters: &buffer.to_le_bytes(),
        schedule,
        ..Launch::default()
    };
    let info = device.describe(&program, "kernel", &launch).unwrap();
    let checks = LaunchChecks::new(&info, None);
    let observed = Launch { observers: &[&checks], ..launch };
    device.launch(&program, "kernel", &observed)?;
    Ok(checks.findings().to_vec())
}

/// The same of a body that runs to its end.
fn check_at(body: &str, grid: Grid, schedule: Schedule) -> Vec<Finding> {
    run_at(body, grid, schedule).unwrap_or_else(|fault| panic!("{fault}\n{body}"))
}

const SCHEDULES: [Schedule; 4] =
    [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2)];

/// The body is clean at every schedule.
#[track_caller]
pub(crate) fn clean(body: &str, grid: Grid) {
    for schedule in SCHEDULES {
        if let Some(finding) = check_at(body, grid, schedule).first() {
            panic!("{schedule:?}: {finding}\n{body}");
        }
    }
}

/// The fault of the body is found at every schedule: of this kind, at these instructions, of two
/// the later first.
#[track_caller]
pub(crate) fn found<const N: usize>(body: &str, grid: Grid, kind: FindingKind, places: [&str; N]) -> Finding {
    let mut first = None;
    for schedule in SCHEDULES {
        let findings = check_at(body, grid, schedule);
        let of_kind: Vec<&Finding> = findings.iter().filter(|finding| finding.kind == kind).collect();
        let told = || findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n");
        let hit = of_kind.iter().find(|finding| {
            let at = |label: usize| finding.labels[label].ptx_text.as_str();
            finding.labels.len() == places.len()
                && places.iter().enumerate().all(|(label, place)| at(label).contains(place))
        });
        match hit {
            Some(hit) => {
                first.get_or_insert_with(|| (*hit).clone());
            }
            None => panic!(
                "{schedule:?}: {kind:?} at {places:?} is not among what was found:\n{}\n{body}",
                told()
            ),
        }
    }
    first.unwrap()
}
