//! Labels and branches do what the structured control flow they were made of does.

#[path = "../../ir/tests/random_kernel.rs"]
mod random_kernel;

use std::collections::HashMap;

use proptest::prelude::*;
use random_kernel::Thread;
use warpwright_arch::Capability;
use warpwright_ir::{Kernel, Module, optimize};
use warpwright_ptx::syntax::{AddressBase, Operand, Statement};
use warpwright_ptx::{lower, parse, write};

/// Instructions after which a run is cut off: more than the rounds of the structured run take.
const STEPS: usize = 5_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lowered_kernels_store_the_same(kernel in random_kernel::kernels()) {
        let expected = random_kernel::run(&kernel);
        prop_assert!(is_same(&expected, &run_lowered(&kernel)), "{}", text(kernel));
        let mut optimized = kernel;
        optimize(&mut optimized);
        prop_assert!(is_same(&expected, &run_lowered(&optimized)), "{}", text(optimized));
    }

    #[test]
    fn written_text_parses_to_the_tree_it_was_printed_from(kernel in random_kernel::kernels()) {
        let module = module_of(kernel);
        let text = write(&module);
        let mut parsed = parse(&text).expect("our own text");
        prop_assert_eq!(warpwright_ptx::print(&parsed), text);
        parsed.erase_lines();
        prop_assert_eq!(parsed, lower(&module));
    }
}

fn module_of(kernel: Kernel) -> Module {
    Module::new(Capability::for_target("sm_80").expect("in the table"), vec![kernel])
}

fn text(kernel: Kernel) -> String {
    write(&module_of(kernel))
}

/// Whether `stored` is what the structured run stored; one that was cut off says only how it
/// begins.
fn is_same(expected: &random_kernel::Run, stored: &[u32]) -> bool {
    if expected.was_cut { stored.starts_with(&expected.stores) } else { stored == expected.stores }
}

/// What the lowered kernel stores, for at most [`STEPS`] instructions.
fn run_lowered(kernel: &Kernel) -> Vec<u32> {
    let module = lower(&module_of(kernel.clone()));
    let body = module.functions[0].body.as_ref().expect("a body");
    let labels: HashMap<&str, usize> = (body.iter().enumerate())
        .filter_map(|(index, statement)| match statement {
            Statement::Label(name) => Some((name.as_str(), index)),
            _ => None,
        })
        .collect();
    let mut thread = Thread::default();
    let mut next = 0;
    for _ in 0..STEPS {
        let Some(statement) = body.get(next) else { break };
        next += 1;
        let Statement::Instruction(instruction) = statement else { continue };
        let runs =
            (instruction.guard.as_ref()).is_none_or(|guard| thread.allows(&guard.predicate, !guard.negated));
        if !runs {
            continue;
        }
        let operands: Vec<String> = instruction.operands.iter().map(spelling).collect();
        match instruction.opcode.base() {
            "bra" => next = labels[operands[0].as_str()],
            "ret" => break,
            _ => thread.step(instruction.opcode.as_str(), &operands),
        }
    }
    thread.stores
}

fn spelling(operand: &Operand) -> String {
    match operand {
        Operand::Address(address) => match &address.base {
            AddressBase::Name(name) => name.clone(),
            AddressBase::Absolute(address) => address.to_string(),
        },
        other => other.to_string(),
    }
}
