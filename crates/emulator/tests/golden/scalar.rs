//! Cases of one instruction on one element of each operand.

use crate::golden::case::{Case, Width};
use crate::golden::inputs::{ELEMENTS, Input, Kind};

pub(crate) fn width(kind: Kind) -> Width {
    match kind {
        Kind::U8 | Kind::Bytes => Width::B8,
        Kind::U16 | Kind::F16 | Kind::Bf16 => Width::B16,
        Kind::U64 | Kind::F64 => Width::B64,
        _ => Width::B32,
    }
}

/// The name of an input: a, b, c, e, ...; d is the result.
fn letter(position: usize) -> char {
    ['a', 'b', 'c', 'e'][position]
}

fn sources(kinds: &[Kind]) -> String {
    (0..kinds.len()).map(|position| format!(", %{}0", letter(position))).collect()
}

/// Operands `a`, `b`, ... of these kinds, and results `d` of that width.
pub(crate) fn operands(case: Case, kinds: &[Kind], result: Width, results: usize) -> Case {
    let case = kinds.iter().enumerate().fold(case, |case, (position, &kind)| {
        let arity = kinds.iter().filter(|&&other| other == kind).count();
        let place = kinds[..position].iter().filter(|&&other| other == kind).count();
        let input = Input { kind, arity, position: place, elements: ELEMENTS };
        case.input(letter(position), width(kind), input)
    });
    case.output(result, results)
}

/// `instruction %d0, %a0, %b0, ...;`, named after the instruction.
pub(crate) fn simple(family: &'static str, instruction: &str, kinds: &[Kind], result: Width) -> Case {
    let sources = sources(kinds);
    operands(Case::new(family, instruction), kinds, result, 1).body(format!("{instruction} %d0{sources};"))
}

/// One result register for each instruction of a list, all of the same operands.
pub(crate) fn several(
    family: &'static str,
    name: &str,
    instructions: &[String],
    kinds: &[Kind],
    result: Width,
) -> Case {
    let sources = sources(kinds);
    let body: Vec<String> = instructions
        .iter()
        .enumerate()
        .map(|(i, instruction)| format!("{instruction} %d{i}{sources};"))
        .collect();
    operands(Case::new(family, name), kinds, result, instructions.len()).body(body.join("\n"))
}

/// A bit of the result for each predicate that an instruction of a list sets.
pub(crate) fn predicates(family: &'static str, name: &str, instructions: &[String], kinds: &[Kind]) -> Case {
    let sources = sources(kinds);
    let mut body = String::from(".reg .pred %p;\n.reg .b32 %bit;\nmov.b32 %d0, 0;");
    for (i, instruction) in instructions.iter().enumerate() {
        body += &format!(
            "\n{instruction} %p{sources};\nselp.b32 %bit, {}, 0, %p;\nor.b32 %d0, %d0, %bit;",
            1u32 << i
        );
    }
    operands(Case::new(family, name), kinds, Width::B32, 1).body(body)
}
