//! `ptx!`: what is recorded of an instruction that is written out.

use warpwright_ir::{Instruction, Operand, Statement};
use warpwright_lang::pointer::Global;
use warpwright_lang::{Reg, kernel, ptx};

#[kernel]
fn written_out(x: u32, y: u32, output: &mut Global<u32>) {
    let majority = ptx!("lop3.b32 {d}, {a}, {b}, 0xff, 0xe8;", d = out Reg<u32>, a = x, b = y);
    let (low, carry) = ptx!("@{p} shfl.sync.down.b32 {d}|{q}, {a}, 1, 31, -1;", d = out Reg<u32>, q = out Reg<bool>, a = majority, p = x.lt(y));
    ptx!("st.global.v2.b32 [{at} + 8], {{a}, {b}};", at = *output, a = low, b = 7u32);
    ptx!("@!{p} bar.sync 0;", p = carry);
    let lane = ptx!("mov.u32 {d}, %laneid", d = out Reg<u32>);
    output[0] = lane;
}

#[kernel]
fn wrong(x: u32) {
    ptx!("add.u32 {d}, {a}, bananas;", a = x, d = out Reg<u32>);
}

fn instructions() -> Vec<Instruction> {
    let kernel = written_out().unwrap_or_else(|errors| panic!("{errors}"));
    let statements = kernel.into_ir().body.into_iter().map(|statement| match statement {
        Statement::Instruction(instruction) => instruction,
        other => panic!("{other:?}"),
    });
    statements.collect()
}

fn find(instructions: &[Instruction], opcode: &str) -> Instruction {
    instructions.iter().find(|instruction| instruction.opcode == opcode).expect("it was written").clone()
}

#[test]
fn operands_are_what_was_written() {
    let all = instructions();
    let majority = find(&all, "lop3.b32");
    assert_eq!((majority.destinations, majority.operands.len()), (1, 5));
    assert_eq!(majority.operands[3..], [Operand::Integer(0xff), Operand::Integer(0xe8)]);

    let shuffle = find(&all, "shfl.sync.down.b32");
    assert!(matches!(shuffle.guard, Some((_, true))));
    assert_eq!(shuffle.destinations, 1);
    let Operand::Pair(low, carry) = shuffle.operands[0] else { panic!("{shuffle:?}") };
    assert_eq!(shuffle.operands[4], Operand::Integer(-1));

    let store = find(&all, "st.global.v2.b32");
    assert_eq!(store.destinations, 0);
    assert!(matches!(&store.operands[0], Operand::Address { offset: 8, .. }));
    assert_eq!(store.operands[1], Operand::Vector(vec![Operand::Register(low), Operand::Integer(7)]));

    assert_eq!(find(&all, "bar.sync").guard, Some((carry, false)));
    assert_eq!(find(&all, "mov.u32").operands[1], Operand::Special("%laneid".into()));
    assert!(all.iter().all(|instruction| instruction.location.file.ends_with("instruction.rs")));
}

#[test]
fn what_is_no_operand_is_refused() {
    let errors = wrong().expect_err("bananas are no operand");
    assert_eq!(
        errors.0[0].message,
        "`bananas` is not an operand: write `{name}`, a literal, an address or a special register"
    );
}
