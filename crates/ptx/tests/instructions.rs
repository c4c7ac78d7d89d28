//! Every row of the instruction table, in its alternatives, through the real assembler.

use std::collections::BTreeMap;

use crate::spelling::{SPELLINGS, instruction, oldest_version, program, targets};
use warpwright_arch::instructions::{Signature, forms, forms_of};
use warpwright_ptx::parse;
use warpwright_ptx::syntax::{Instruction, Statement};
use warpwright_testing::corpus;
use warpwright_testing::ptxas::Assembler;

/// Lines of the program that are the header.
const HEADER_LINES: usize = 4;

/// The instructions that ptxas refuses, with what it says of them.
///
/// One run names every instruction with a wrong operand, but stops at the first it cannot parse,
/// and says nothing when it falls over: then the rest is run again, in halves.
pub(crate) fn refused(
    assembler: &Assembler,
    target: &str,
    version: (u32, u32),
    lines: &[String],
) -> BTreeMap<String, String> {
    let Err(said) = assembler.assemble(target, &program(target, version, lines)) else {
        return BTreeMap::new();
    };
    let errors = said.lines().filter_map(|message| {
        let (before, what) = message.split_once(';')?;
        let line: usize = before.rsplit("line ").next()?.parse().ok()?;
        Some((lines.get(line.checked_sub(HEADER_LINES + 1)?)?.clone(), what.to_owned()))
    });
    let mut errors: BTreeMap<String, String> = errors.collect();
    if errors.is_empty() && lines.len() == 1 {
        return BTreeMap::from([(lines[0].clone(), said)]);
    }
    let stopped_early = said.contains("Parsing error");
    if stopped_early || errors.is_empty() {
        let rest: Vec<String> = lines.iter().filter(|line| !errors.contains_key(*line)).cloned().collect();
        for half in rest.chunks(rest.len().div_ceil(2).max(1)) {
            errors.extend(refused(assembler, target, version, half));
        }
    }
    errors
}

#[test]
fn every_row_assembles() {
    let Some(assembler) = Assembler::from_environment() else { return };
    let mut programs: BTreeMap<(String, (u32, u32)), Vec<String>> = BTreeMap::new();
    for form in forms() {
        for (name, signature) in form.instances(SPELLINGS) {
            let availability = form.availability(&name);
            if availability.until.is_some() {
                continue;
            }
            for target in targets(&availability) {
                let version = oldest_version(&availability, &target);
                let lines = programs.entry((target, version)).or_default();
                lines.push(instruction(&name, &signature, false));
                lines.push(instruction(&name, &signature, true));
            }
        }
    }
    let mut count = 0;
    let mut failures = Vec::new();
    for ((target, version), mut lines) in programs {
        lines.sort();
        lines.dedup();
        count += lines.len();
        for (line, said) in refused(&assembler, &target, version, &lines) {
            failures.push(format!("{target} {version:?}: {line} {said}"));
        }
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
    println!("{count} instructions assembled");
}

/// Instructions that only text has: the IR has structured control flow instead.
const TEXT_ONLY: [&str; 3] = ["bra", "brx", "call"];

fn for_each_instruction(statements: &[Statement], visit: &mut dyn FnMut(&Instruction)) {
    for statement in statements {
        match statement {
            Statement::Instruction(instruction) => visit(instruction),
            Statement::Block(block) => for_each_instruction(block, visit),
            _ => {}
        }
    }
}

#[test]
fn every_instruction_that_compilers_wrote_is_in_the_table() {
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let mut count = 0;
    for (path, text) in corpus::texts() {
        let module = parse(&text).expect("PTX");
        for body in module.functions.iter().filter_map(|function| function.body.as_ref()) {
            for_each_instruction(body, &mut |instruction| {
                count += 1;
                let opcode = instruction.opcode.as_str();
                // A device function's return value is stored to a parameter, which kernels do not
                // do.
                let is_text_only =
                    TEXT_ONLY.contains(&instruction.opcode.base()) || opcode.starts_with("st.param");
                let operands = instruction.operands.len();
                let fits = |signature: &Signature| {
                    (signature.required..=signature.operands.len()).contains(&operands)
                };
                if !is_text_only && !forms_of(opcode).iter().any(|(_, signature)| fits(signature)) {
                    missing.insert(opcode.to_owned(), format!("{}: {instruction}", path.display()));
                }
            });
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count > 1000, "{count} instructions in the corpus");
}
