//! The verifier: every mistake it knows, and that sound kernels pass.

use crate::building::{Builder, at, int, reg};
use warpwright_arch::Capability;
use warpwright_ir::{
    Body, DYNAMIC_SHARED, Fault, Kernel, Label, LaunchBounds, Location, MemoryVariable, Operand, Parameter,
    ParameterType, Register, RegisterClass, Statement, VerifyError, verify,
};

fn on(target: &str) -> &'static Capability {
    Capability::for_target(target).expect("a known target")
}

/// Line and message of each mistake on sm_80.
fn mistakes(kernel: &Kernel) -> Vec<(u32, String)> {
    match verify(kernel, on("sm_80")) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.iter().map(|error| (error.location.line, error.fault.to_string())).collect(),
    }
}

/// A kernel with a predicate, two 32-bit registers, one of 64 bits and two labels.
fn kernel(make: impl FnOnce(&mut Builder, Register, [Register; 2], Register) -> Body) -> Kernel {
    let mut b = Builder::new();
    let p = b.register(RegisterClass::Predicate);
    let words = [0; 2].map(|_| b.register(RegisterClass::B32));
    let wide = b.register(RegisterClass::B64);
    b.kernel.labels = 2;
    let body = make(&mut b, p, words, wide);
    b.done(body)
}

#[test]
fn sound_kernels_pass() {
    let sound = kernel(|b, p, [x, y], wide| {
        b.kernel.parameters.push(Parameter {
            name: "out".into(),
            ty: ParameterType::Pointer { element: "u32", element_bytes: 4, writable: true },
        });
        vec![
            b.op("mov.u32", 1, &[reg(x), Operand::Special("%tid.x".into())]),
            b.op("setp.lt.u32", 1, &[reg(p), reg(x), int(7)]),
            b.op("shfl.sync.idx.b32", 1, &[Operand::Pair(y, p), reg(x), int(0), int(31), int(-1)]),
            b.op("mov.b64", 1, &[reg(wide), Operand::Vector(vec![reg(x), reg(y)])]),
            b.op("mov.b64", 1, &[Operand::Vector(vec![reg(x), Operand::Sink]), reg(wide)]),
            b.op("ld.param.u64", 1, &[reg(wide), at(Operand::Symbol("out".into()), 0)]),
            b.op("st.global.v2.u32", 0, &[at(reg(wide), 8), Operand::Vector(vec![reg(x), reg(y)])]),
            b.op("mov.f32", 1, &[reg(x), Operand::F32(0)]),
            b.op("and.b32", 1, &[reg(x), reg(x), int(0xFFFF_FFFF)]),
            b.op("bar.sync", 0, &[int(0)]),
        ]
    });
    assert_eq!(mistakes(&sound), []);
}

#[test]
fn unknown_instructions_are_named_with_what_there_is() {
    let wrong = kernel(|b, _, [x, _], _| {
        vec![
            b.op("mov.u32", 1, &[reg(x), int(1)]),
            b.op("tanh.f32", 1, &[reg(x), reg(x)]),
            b.op("frob", 0, &[]),
        ]
    });
    let mistakes = mistakes(&wrong);
    assert_eq!(mistakes.len(), 2);
    assert_eq!(mistakes[0].0, 2);
    assert!(
        mistakes[0].1.starts_with("PTX has no instruction `tanh.f32`; it has `tanh.approx.f32`"),
        "{mistakes:?}"
    );
    assert_eq!(mistakes[1], (3, "PTX has no instruction `frob`".to_owned()));
}

#[test]
fn operands_are_held_against_the_table() {
    let wrong = kernel(|b, p, [x, y], wide| {
        vec![
            b.op("mov.u32", 1, &[reg(x), int(1)]),
            b.op("mov.u64", 1, &[reg(wide), int(1)]),
            b.op("setp.eq.u32", 1, &[reg(p), reg(x), int(1)]),
            b.op("add.u32", 1, &[reg(y), reg(x), reg(wide)]),
            b.op("add.u32", 1, &[reg(y), reg(x)]),
            b.op("add.f32", 1, &[reg(y), reg(x), int(1)]),
            b.op("ld.global.u32", 1, &[reg(y), at(reg(x), 0)]),
            b.op("selp.b32", 1, &[reg(y), reg(x), reg(x), Operand::Not(p)]),
            b.op("st.global.v2.u32", 0, &[at(reg(wide), 0), Operand::Vector(vec![reg(x), reg(wide)])]),
            b.op("add.u32", 0, &[reg(x), reg(x), reg(x)]),
            b.op("ld.shared.u32", 1, &[reg(y), at(reg(x), 0)]),
            b.op("mov.u32", 1, &[reg(y), int(1 << 32)]),
            b.op("mov.u32", 1, &[reg(y), int((1 << 32) - 1)]),
            b.op("mov.u32", 1, &[reg(y), int(-(1 << 31) - 1)]),
        ]
    });
    let mistakes = mistakes(&wrong);
    assert_eq!(mistakes.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4, 5, 6, 7, 8, 9, 10, 12, 14]);
    assert_eq!(mistakes[0].1, "`add.u32` takes `b32 = b32, b32`, not `b32 = b32, b64`");
    assert_eq!(mistakes[4].1, "`selp.b32` takes `b32 = b32, b32, pred`, not `b32 = b32, b32, !pred`");
}

#[test]
fn instructions_of_other_architectures_are_refused() {
    let hopper = kernel(|b, _, _, _| vec![b.op("wgmma.fence.sync.aligned", 0, &[])]);
    assert_eq!(
        mistakes(&hopper),
        [(1, "`wgmma.fence.sync.aligned` does not exist on sm_80; it needs sm_90a".to_owned())]
    );
    assert_eq!(verify(&hopper, on("sm_90a")), Ok(()));
    assert!(verify(&hopper, on("sm_100a")).is_err());
}

#[test]
fn reads_before_writes_are_found_on_every_path() {
    let unwritten = "a value is read here that is not assigned on every path to this line; assign it before the branch or loop at";
    // One branch writes.
    let one_branch = kernel(|b, p, [x, y], _| {
        vec![
            b.op("setp.eq.u32", 1, &[reg(p), int(1), int(2)]),
            {
                let then = vec![b.op("mov.u32", 1, &[reg(x), int(1)])];
                b.branch(p, then, vec![])
            },
            b.op("mov.u32", 1, &[reg(y), reg(x)]),
            b.op("mov.u32", 1, &[reg(y), reg(x)]),
        ]
    });
    let found = mistakes(&one_branch);
    assert_eq!(found.len(), 1, "one register is reported once: {found:?}");
    assert!(found[0].0 == 4 && found[0].1.starts_with(unwritten), "{found:?}");
    assert!(found[0].1.ends_with(":3:5"), "the branch is named: {found:?}");

    // Nothing writes.
    let never = kernel(|b, _, [x, y], _| vec![b.op("mov.u32", 1, &[reg(y), reg(x)])]);
    let message = "a value is read here, and nothing before this line assigns it; assign it first";
    assert_eq!(mistakes(&never), [(1, message.to_owned())]);

    // Both branches write, or the other one leaves.
    let both = kernel(|b, p, [x, y], _| {
        let branch = vec![b.op("mov.u32", 1, &[reg(x), int(1)])];
        let leave = vec![Statement::Return(b.here())];
        vec![
            b.op("setp.eq.u32", 1, &[reg(p), int(1), int(2)]),
            b.branch(p, branch.clone(), leave),
            b.op("mov.u32", 1, &[reg(y), reg(x)]),
        ]
    });
    assert_eq!(mistakes(&both), []);

    // A loop left before the write, and one left after.
    for (breaks_first, count) in [(true, 1), (false, 0)] {
        let left = kernel(|b, p, [x, y], _| {
            let test = b.op("setp.eq.u32", 1, &[reg(p), int(1), int(2)]);
            let leave = vec![Statement::Break(Label(0), b.here())];
            let leave = b.branch(p, leave, vec![]);
            let write = b.op("mov.u32", 1, &[reg(x), int(1)]);
            let body = if breaks_first { vec![test, leave, write] } else { vec![test, write, leave] };
            let repeat = Statement::Loop { label: Label(0), body, step: vec![], location: b.here() };
            vec![repeat, b.op("mov.u32", 1, &[reg(y), reg(x)])]
        });
        assert_eq!(mistakes(&left).len(), count, "{left:?}");
    }

    // `continue` reaches the step without the write.
    let skipped = kernel(|b, p, [x, y], _| {
        let test = b.op("setp.eq.u32", 1, &[reg(p), int(1), int(2)]);
        let next = vec![Statement::Continue(Label(0), b.here())];
        let next = b.branch(p, next, vec![]);
        let write = b.op("mov.u32", 1, &[reg(x), int(1)]);
        let step = vec![b.op("mov.u32", 1, &[reg(y), reg(x)])];
        vec![Statement::Loop { label: Label(0), body: vec![test, next, write], step, location: b.here() }]
    });
    assert_eq!(mistakes(&skipped).len(), 1);

    // A block left early.
    let block = kernel(|b, p, [x, y], _| {
        let test = b.op("setp.eq.u32", 1, &[reg(p), int(1), int(2)]);
        let leave = vec![Statement::Break(Label(1), b.here())];
        let leave = b.branch(p, leave, vec![]);
        let write = b.op("mov.u32", 1, &[reg(x), int(1)]);
        let block = Statement::Block { label: Label(1), body: vec![test, leave, write] };
        vec![block, b.op("mov.u32", 1, &[reg(y), reg(x)])]
    });
    assert_eq!(mistakes(&block).len(), 1);
}

#[test]
fn registers_and_conditions_must_be_what_they_seem() {
    let wrong = kernel(|b, _, [x, _], _| {
        vec![
            b.op("mov.u32", 1, &[reg(x), int(1)]),
            b.op("mov.u32", 1, &[reg(Register(99)), int(1)]),
            b.branch(x, vec![], vec![]),
            b.branch(Register(77), vec![], vec![]),
        ]
    });
    let found = mistakes(&wrong);
    assert_eq!(
        found,
        [
            (2, "register 99 was never declared".to_owned()),
            (3, "a condition must be a predicate, not a 32-bit value".to_owned()),
            (4, "register 77 was never declared".to_owned()),
        ]
    );
}

#[test]
fn labels_must_be_around() {
    let wrong = kernel(|b, _, _, _| {
        let block = Statement::Block { label: Label(0), body: vec![Statement::Continue(Label(0), b.here())] };
        let inner = Statement::Loop { label: Label(1), body: vec![], step: vec![], location: b.here() };
        let outer = Statement::Loop { label: Label(1), body: vec![inner], step: vec![], location: b.here() };
        vec![block, Statement::Break(Label(0), b.here()), outer]
    });
    let faults: Vec<Fault> = verify(&wrong, on("sm_80"))
        .expect_err("three mistakes")
        .into_iter()
        .map(|error| error.fault)
        .collect();
    assert_eq!(faults, [Fault::ContinueOutsideLoop, Fault::UnknownLabel, Fault::NestedLabel]);
}

#[test]
fn symbols_must_be_known_and_single() {
    let location = Location { file: "lesson.rs", line: 50, column: 1 };
    let mut wrong = kernel(|b, _, [x, _], _| {
        vec![
            b.op("ld.shared.u32", 1, &[reg(x), at(Operand::Symbol("tile".into()), 0)]),
            b.op("ld.shared.u32", 1, &[reg(x), at(Operand::Symbol("tyle".into()), 0)]),
            b.op("ld.shared.u32", 1, &[reg(x), at(Operand::Symbol(DYNAMIC_SHARED.into()), 0)]),
        ]
    });
    let tile = MemoryVariable { name: "tile".into(), bytes: 16, align: 3, location };
    let nothing = MemoryVariable { name: "nothing".into(), bytes: 0, align: 4, location };
    wrong.shared = vec![tile.clone(), nothing];
    wrong.local = vec![tile];
    let found = mistakes(&wrong);
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [50, 50, 50, 50, 2, 3]);
    assert_eq!(found[2].1, "`nothing` has no bytes; give it at least one element, or leave it out");
    assert_eq!(found[0].1, "`tile` names two parameters or variables of this kernel");
    assert_eq!(found[1].1, "`tile` is aligned to 3 bytes; an alignment must be a power of two");
}

#[test]
fn resources_stay_within_the_device() {
    let location = |line| Location { file: "lesson.rs", line, column: 1 };
    let mut big = kernel(|b, _, _, _| vec![Statement::Return(b.here())]);
    let memory = |name: &str, bytes, line| MemoryVariable {
        name: name.into(),
        bytes,
        align: 16,
        location: location(line),
    };
    big.shared = vec![memory("a", 40 * 1024, 10), memory("b", 9 * 1024, 11), memory("c", 16, 12)];
    big.dynamic_shared_align = Some(128);
    big.dynamic_shared_bytes = 150 * 1024;
    big.local = vec![memory("d", 600 * 1024, 13)];
    big.parameters =
        vec![Parameter { name: "p".into(), ty: ParameterType::Bytes { size: 40_000, align: 16 } }];
    big.launch = LaunchBounds {
        required_block: Some([32, 32, 2]),
        maximum_threads: None,
        minimum_blocks_per_sm: None,
        maximum_registers: Some(256),
        cluster: Some([2, 1, 1]),
    };
    let errors: Vec<VerifyError> = verify(&big, on("sm_80")).expect_err("too big in every way");
    assert_eq!(errors.len(), 7, "{errors:#?}");
    assert_eq!(
        errors[0].to_string(),
        "lesson.rs:11:1: static shared memory reaches 50176 bytes here; the limit is 49152; use dynamic shared memory"
    );
    assert!(matches!(errors[1].fault, Fault::TooMuchShared { bytes, limit, .. } if bytes > limit));
    let mut fits = big.clone();
    fits.shared.clear();
    fits.local.clear();
    fits.parameters.clear();
    fits.launch = LaunchBounds::default();
    assert_eq!(verify(&fits, on("sm_80")), Ok(()));
    assert!(verify(&fits, on("sm_86")).is_err());
}

#[test]
fn printing_is_checked() {
    let wrong = kernel(|b, p, [x, _], _| {
        let start =
            vec![b.op("mov.u32", 1, &[reg(x), int(1)]), b.op("setp.eq.u32", 1, &[reg(p), reg(x), int(1)])];
        let mut print = |format: &str, arguments: &[Register]| Statement::Print {
            format: format.into(),
            arguments: arguments.iter().map(|register| (*register, false)).collect(),
            location: b.here(),
        };
        let prints =
            vec![print("%d 100%%\n", &[x]), print("%d %d", &[x]), print("%d", &[p]), print("%*d", &[x, x])];
        [start, prints].concat()
    });
    let found = mistakes(&wrong);
    assert_eq!(
        found,
        [
            (4, "the format string has 2 conversions for 1 values".to_owned()),
            (5, "printf takes values of 32 or 64 bits; convert this predicate value first".to_owned()),
        ]
    );
}
