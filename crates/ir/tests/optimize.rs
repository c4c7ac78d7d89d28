//! The passes: what each does on a small case, and that none changes what a kernel stores.

use crate::building::{Builder, at, int, reg};
use proptest::prelude::*;
use warpwright_arch::Capability;
use warpwright_ir::{Body, Kernel, Label, Operand, Register, RegisterClass, Statement, optimize, verify};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn optimized_kernels_store_the_same(kernel in crate::random_kernel::kernels()) {
        let mut optimized = kernel.clone();
        optimize(&mut optimized);
        prop_assert_eq!(crate::random_kernel::run(&kernel), crate::random_kernel::run(&optimized), "{:#?}", optimized.body);
        let capability = Capability::for_target("sm_80").expect("in the table");
        prop_assert_eq!(verify(&optimized, capability), Ok(()));
        let mut again = optimized.clone();
        optimize(&mut again);
        prop_assert_eq!(crate::random_kernel::run(&again), crate::random_kernel::run(&optimized));
    }
}

/// What is left of a body over words r0 to r3, predicate r4 and pointer r5, one statement a line.
fn optimized(make: impl FnOnce(&mut Builder, [Register; 4], Register, Register) -> Body) -> String {
    let mut b = Builder::new();
    let words = [0; 4].map(|_| b.register(RegisterClass::B32));
    let (p, pointer) = (b.register(RegisterClass::Predicate), b.register(RegisterClass::B64));
    b.kernel.labels = 2;
    let body = make(&mut b, words, p, pointer);
    let mut kernel = b.done(body);
    optimize(&mut kernel);
    text(&kernel)
}

fn text(kernel: &Kernel) -> String {
    let mut text = String::new();
    lines(&kernel.body, 0, &mut text);
    text
}

fn lines(body: &[Statement], depth: usize, into: &mut String) {
    for statement in body {
        let line = match statement {
            Statement::Instruction(instruction) => {
                let sign = |value| if value { "" } else { "!" };
                let guard = instruction.guard.map(|(guard, value)| format!("@{}r{} ", sign(value), guard.0));
                let operands: Vec<String> = instruction.operands.iter().map(operand).collect();
                format!("{}{} {}", guard.unwrap_or_default(), instruction.opcode, operands.join(", "))
            }
            Statement::If { condition, .. } => format!("if r{}", condition.0),
            Statement::Loop { .. } => "loop".to_owned(),
            Statement::Block { .. } => "block".to_owned(),
            Statement::Break(..) => "break".to_owned(),
            Statement::Continue(..) => "continue".to_owned(),
            Statement::Return(..) => "return".to_owned(),
            Statement::Print { .. } => "print".to_owned(),
            Statement::Assert { .. } => "assert".to_owned(),
        };
        *into += &format!("{}{line}\n", "  ".repeat(depth));
        match statement {
            Statement::If { then: first, otherwise: second, .. }
            | Statement::Loop { body: first, step: second, .. } => {
                lines(first, depth + 1, into);
                lines(second, depth + 1, into);
            }
            Statement::Block { body, .. } => lines(body, depth + 1, into),
            _ => {}
        }
    }
}

fn operand(value: &Operand) -> String {
    match value {
        Operand::Register(register) => format!("r{}", register.0),
        Operand::Integer(value) => value.to_string(),
        Operand::Address { base, .. } => format!("[{}]", operand(base)),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_read_of_a_variable_needs_no_copy() {
    // let mut sum = 1; loop { let t = sum; sum = t + x; store(sum) }
    let text = optimized(|b, [sum, t, u, x], _, pointer| {
        let body = vec![
            b.op("mov.u32", 1, &[reg(t), reg(sum)]),
            b.op("add.u32", 1, &[reg(u), reg(t), reg(x)]),
            b.op("mov.u32", 1, &[reg(sum), reg(u)]),
            b.op("st.global.u32", 0, &[at(reg(pointer), 0), reg(sum)]),
        ];
        let start = [
            b.op("mov.u64", 1, &[reg(pointer), int(0)]),
            b.op("mov.u32", 1, &[reg(sum), int(1)]),
            b.op("mov.u32", 1, &[reg(x), Operand::Special("%tid.x".into())]),
        ];
        let repeat = Statement::Loop { label: Label(0), body, step: vec![], location: b.here() };
        start.into_iter().chain([repeat]).collect()
    });
    assert!(text.ends_with("loop\n  add.u32 r0, r0, r3\n  st.global.u32 [r5], r0\n"), "{text}");
}

#[test]
fn a_value_taken_before_an_assignment_stays() {
    // let y = x; x = x + 1; store(y); store(x)
    let text = optimized(|b, [x, y, t, _], _, pointer| {
        vec![
            b.op("mov.u64", 1, &[reg(pointer), int(0)]),
            b.op("mov.u32", 1, &[reg(x), Operand::Special("%tid.x".into())]),
            b.op("mov.u32", 1, &[reg(y), reg(x)]),
            b.op("add.u32", 1, &[reg(t), reg(x), int(1)]),
            b.op("mov.u32", 1, &[reg(x), reg(t)]),
            b.op("st.global.u32", 0, &[at(reg(pointer), 0), reg(y)]),
            b.op("st.global.u32", 0, &[at(reg(pointer), 4), reg(x)]),
        ]
    });
    let tail = "mov.u32 r1, r0\nadd.u32 r0, r0, 1\nst.global.u32 [r5], r1\nst.global.u32 [r5], r0\n";
    assert!(text.ends_with(tail), "{text}");
}

#[test]
fn an_asynchronous_instruction_keeps_its_registers() {
    // The fragment is a copy made on purpose: `wgmma` reads it while the original already changes.
    let text = optimized(|b, [original, copy, sum, _], p, pointer| {
        let fragment = Operand::Vector(vec![reg(copy); 4]);
        let accumulators = Operand::Vector(vec![reg(sum); 4]);
        vec![
            b.op("mov.u64", 1, &[reg(pointer), int(0)]),
            b.op("setp.eq.u32", 1, &[reg(p), int(1), int(1)]),
            b.op("mov.u32", 1, &[reg(original), Operand::Special("%tid.x".into())]),
            b.op("mov.u32", 1, &[reg(sum), int(0)]),
            b.op("mov.b32", 1, &[reg(copy), reg(original)]),
            b.op(
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
                1,
                &[accumulators, fragment, reg(pointer), reg(p), int(1), int(1), int(0)],
            ),
            b.op("add.u32", 1, &[reg(original), reg(original), int(1)]),
            b.op("st.shared.u32", 0, &[at(reg(pointer), 0), reg(original)]),
        ]
    });
    assert!(text.contains("mov.b32 r1, r0\nwgmma"), "{text}");
}

#[test]
fn a_register_is_not_written_before_the_wait_for_what_reads_it() {
    // The next fragment is loaded while a `wgmma`, of an earlier round say, may still read the last
    // one.
    let optimized = |between: &'static str| {
        optimized(|b, [loaded, fragment, sum, _], p, pointer| {
            let accumulators = Operand::Vector(vec![reg(sum); 4]);
            let left = Operand::Vector(vec![reg(fragment); 4]);
            vec![
                b.op("mov.u64", 1, &[reg(pointer), int(0)]),
                b.op("setp.eq.u32", 1, &[reg(p), int(1), int(1)]),
                b.op("mov.u32", 1, &[reg(sum), int(0)]),
                b.op("ld.shared.b32", 1, &[reg(loaded), at(reg(pointer), 0)]),
                b.op(between, 0, &[int(0)]),
                b.op("mov.b32", 1, &[reg(fragment), reg(loaded)]),
                b.op(
                    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
                    1,
                    &[accumulators, left, reg(pointer), reg(p), int(1), int(1), int(0)],
                ),
            ]
        })
    };
    let behind_the_wait = optimized("wgmma.wait_group.sync.aligned");
    assert!(behind_the_wait.contains("ld.shared.b32 r0, [r5]\n"), "{behind_the_wait}");
    assert!(behind_the_wait.contains("wait_group.sync.aligned 0\nmov.b32 r1, r0\n"), "{behind_the_wait}");
    let behind_a_barrier = optimized("bar.sync");
    assert!(behind_a_barrier.contains("ld.shared.b32 r1, [r5]\nbar.sync 0\nwgmma"), "{behind_a_barrier}");
}

#[test]
fn a_known_condition_picks_its_branch() {
    let text = optimized(|b, [x, y, _, _], p, pointer| {
        let then = vec![b.op("st.global.u32", 0, &[at(reg(pointer), 0), int(1)])];
        let otherwise = vec![b.op("st.global.u32", 0, &[at(reg(pointer), 0), int(2)])];
        vec![
            b.op("mov.u64", 1, &[reg(pointer), int(0)]),
            b.op("mov.u32", 1, &[reg(x), int(-1)]),
            b.op("mov.u32", 1, &[reg(y), reg(x)]),
            b.op("setp.lt.u32", 1, &[reg(p), reg(y), int(5)]),
            b.branch(p, then, otherwise),
        ]
    });
    assert_eq!(text, "mov.u64 r5, 0\nst.global.u32 [r5], 2\n");
}

#[test]
fn a_small_branch_becomes_guards_and_a_barrier_does_not() {
    let made = |inner: &'static str, operands: Vec<Operand>| {
        optimized(move |b, [x, ..], p, pointer| {
            let then = vec![b.op(inner, 0, &operands)];
            let otherwise = vec![b.op("st.global.u32", 0, &[at(reg(pointer), 4), reg(x)])];
            vec![
                b.op("mov.u64", 1, &[reg(pointer), int(0)]),
                b.op("mov.u32", 1, &[reg(x), Operand::Special("%tid.x".into())]),
                b.op("setp.lt.u32", 1, &[reg(p), reg(x), int(5)]),
                b.branch(p, then, otherwise),
            ]
        })
    };
    let store = made("st.global.u32", vec![at(reg(Register(5)), 0), int(7)]);
    assert!(store.ends_with("@r4 st.global.u32 [r5], 7\n@!r4 st.global.u32 [r5], r0\n"), "{store}");
    let barrier = made("bar.sync", vec![int(0)]);
    assert!(barrier.ends_with("if r4\n  bar.sync 0\n  st.global.u32 [r5], r0\n"), "{barrier}");
}

#[test]
fn a_branch_that_changes_its_own_condition_stays() {
    let text = optimized(|b, [x, ..], p, pointer| {
        let then = vec![
            b.op("setp.lt.u32", 1, &[reg(p), reg(x), int(3)]),
            b.op("st.global.u32", 0, &[at(reg(pointer), 0), reg(x)]),
        ];
        let branch = b.branch(p, then, vec![]);
        vec![
            b.op("mov.u64", 1, &[reg(pointer), int(0)]),
            b.op("mov.u32", 1, &[reg(x), Operand::Special("%tid.x".into())]),
            b.op("setp.lt.u32", 1, &[reg(p), reg(x), int(5)]),
            branch,
            b.op("selp.b32", 1, &[reg(x), int(1), int(2), reg(p)]),
            b.op("st.global.u32", 0, &[at(reg(pointer), 0), reg(x)]),
        ]
    });
    assert!(text.contains("if r4\n  setp.lt.u32 r4, r0, 3\n  st.global.u32"), "{text}");
}

#[test]
fn loads_and_clocks_are_kept_and_pure_work_is_not() {
    let text = optimized(|b, [x, y, z, w], _, pointer| {
        vec![
            b.op("mov.u64", 1, &[reg(pointer), int(0)]),
            b.op("ld.global.u32", 1, &[reg(x), at(reg(pointer), 0)]),
            b.op("mov.u32", 1, &[reg(y), Operand::Special("%clock".into())]),
            b.op("mov.u32", 1, &[reg(z), Operand::Special("%tid.x".into())]),
            b.op("add.u32", 1, &[reg(w), reg(z), int(1)]),
        ]
    });
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("ld.global.u32") && text.contains("clock"), "{text}");
}

#[test]
fn what_nothing_reaches_is_removed() {
    let text = optimized(|b, _, _, pointer| {
        let inner = vec![
            Statement::Break(Label(0), b.here()),
            b.op("st.global.u32", 0, &[at(reg(pointer), 0), int(1)]),
        ];
        vec![
            Statement::Block { label: Label(0), body: inner },
            Statement::Return(b.here()),
            b.op("bar.sync", 0, &[int(0)]),
        ]
    });
    assert_eq!(text, "return\n");
}
