//! Every operation on device values: the instructions it records, and that the architecture's
//! table, the writer, the parser, and (where `WARPWRIGHT_PTXAS` names one) the real assembler
//! accept them.

use std::collections::BTreeSet;

use warpwright_arch::Capability;
use warpwright_ir::{self as ir, Statement};
use warpwright_lang::Reg;
use warpwright_lang::element::Element;
use warpwright_lang::parameter::KernelParameter;
use warpwright_lang::pointer::{Global, Shared};
use warpwright_lang::recorder::{self, stage};
use warpwright_lang::shared::shared_array;
use warpwright_lang::tensor_map::{TensorMap, UntypedTensorMap};
use warpwright_testing::ptxas::Assembler;

/// A parameter as an input of type `T`.
fn x<T: Element>() -> Reg<T> {
    input("x")
}

fn y<T: Element>() -> Reg<T> {
    input("y")
}

fn input<T: Element>(name: &str) -> Reg<T> {
    <T as KernelParameter>::declare(&numbered(name))
}

/// A name that no other parameter has.
fn numbered(name: &str) -> String {
    let number = recorder::with(|recorder| recorder.kernel().parameters.len());
    format!("{name}_{number}")
}

fn global<T: Element>() -> Global<T> {
    <&mut Global<T> as KernelParameter>::declare(&numbered("memory"))
}

/// Memory that the kernel only reads.
fn read<T: Element>() -> Global<T> {
    <&Global<T> as KernelParameter>::declare(&numbered("read"))
}

fn tile<T: Element>() -> Shared<T> {
    shared_array(256)
}

/// A tensor map: two instructions.
fn map() -> TensorMap {
    <&mut UntypedTensorMap as KernelParameter>::declare("map")
}

/// One operation: the first architecture that has it, the opcodes it records, and how it is
/// written.
type Case = (&'static str, &'static str, fn());

macro_rules! cases {
    ($($target:literal $opcodes:literal: $body:expr;)*) => {
        &[$(($target, $opcodes, || { let _ = $body; })),*]
    };
}

mod blackwell;
mod general;
mod hopper;
mod mbarrier;
mod warpgroup;

fn all_cases() -> impl Iterator<Item = &'static Case> {
    general::CASES.iter().chain(hopper::CASES).chain(blackwell::CASES)
}

fn staged(name: &str, operation: impl FnOnce()) -> ir::Kernel {
    stage(name, operation).unwrap_or_else(|errors| panic!("{name}: {errors:#?}"))
}

/// The opcodes of a kernel, those that read parameters apart.
fn opcodes(kernel: &ir::Kernel) -> String {
    let mut opcodes = Vec::new();
    let mut is_input = false;
    for statement in &kernel.body {
        let Statement::Instruction(instruction) = statement else { continue };
        let follows = is_input && matches!(&*instruction.opcode, "setp.ne.u16" | "cvta.to.global.u64");
        is_input = instruction.opcode.starts_with("ld.param");
        if !is_input && !follows {
            opcodes.push(instruction.opcode.to_string());
        }
    }
    opcodes.join(" ")
}

#[test]
fn operations_record_their_instructions() {
    let mut wrong = Vec::new();
    for (_, expected, operation) in all_cases() {
        let found = opcodes(&staged("operation", *operation));
        if found != *expected {
            wrong.push(format!("expected {expected}\n   found {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn instructions_carry_the_position_of_the_author() {
    let mut wrong = Vec::new();
    for (_, expected, operation) in all_cases() {
        for statement in &staged("operation", *operation).body {
            let Statement::Instruction(instruction) = statement else { continue };
            let file = instruction.location.file;
            if !file.contains("tests/operations/") {
                wrong.push(format!(
                    "{expected}: {} is said to be at {file}:{}",
                    instruction.opcode, instruction.location.line
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The kernels of all operations that begin with `target`.
fn module(target: &str) -> ir::Module {
    let capability = Capability::for_target(target).expect("a target of the table");
    let kernels = all_cases()
        .enumerate()
        .filter(|(_, case)| case.0 == target)
        .map(|(number, case)| staged(&format!("operation_{number}"), case.2));
    ir::Module::new(capability, kernels.collect())
}

const TARGETS: [&str; 4] = ["sm_80", "sm_89", "sm_90a", "sm_100a"];

#[test]
fn the_verifier_accepts_the_operations() {
    let mut wrong = Vec::new();
    for target in TARGETS {
        let module = module(target);
        for kernel in &module.kernels {
            if let Err(errors) = ir::verify(kernel, module.capability) {
                wrong.push(format!("{target} {}: {errors:?}", opcodes(kernel)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_assembler_accepts_the_operations() {
    for target in TARGETS {
        assemble(&module(target));
    }
}

/// Has ptxas accept a module.
fn assemble(module: &ir::Module) {
    let Some(assembler) = Assembler::from_environment() else { return };
    let target = module.capability.target;
    let accepted = assembler.assemble(target, &warpwright_ptx::write(module));
    accepted.unwrap_or_else(|said| panic!("{target}: {said}"));
}

/// The instructions of the table that no operation here records, and why.
const LACKING: &[(&str, &[&str])] = &[
    (
        "other spellings of what `bar` and `fence` say",
        &[
            "bar.cta",
            "barrier.arrive",
            "barrier.cta",
            "barrier.red",
            "barrier.sync",
            "fence.cluster",
            "fence.cta",
            "fence.gpu",
            "fence.sys",
            "membar",
        ],
    ),
    (
        "memory on the stack of a device function, where the language has registers and local arrays",
        &["alloca", "stackrestore", "stacksave"],
    ),
    (
        "what other operations do: comparisons and selections, wide products, plain loads, the end of the kernel",
        &["cnot", "ldu", "madc", "prefetchu", "ret", "set", "slct"],
    ),
    (
        "video instructions, which the hardware no longer has",
        &[
            "vabsdiff",
            "vabsdiff2",
            "vabsdiff4",
            "vadd",
            "vadd2",
            "vadd4",
            "vavrg2",
            "vavrg4",
            "vmad",
            "vmax",
            "vmax2",
            "vmax4",
            "vmin",
            "vmin2",
            "vmin4",
            "vset",
            "vset2",
            "vset4",
            "vshl",
            "vshr",
            "vsub",
            "vsub2",
            "vsub4",
        ],
    ),
    ("memory that several GPUs hold together", &["multimem.ld_reduce", "multimem.red", "multimem.st"]),
];

/// What an instruction is, for counting: its first word, with the next of those that stand for
/// many.
fn family(opcode: &str) -> String {
    let words: Vec<&str> = opcode.split('.').collect();
    let count = match words[..] {
        ["cp", ..] => 3,
        ["mbarrier" | "fence" | "barrier" | "bar" | "tensormap" | "multimem" | "griddepcontrol", ..]
        | ["st" | "red", "async", ..]
        | ["wmma" | "tcgen05", ..] => 2,
        _ => 1,
    };
    words[..count.min(words.len())].join(".")
}

#[test]
fn the_language_has_every_instruction_but_these() {
    let mut recorded: BTreeSet<String> =
        all_cases().flat_map(|case| case.1.split_whitespace().map(family)).collect();
    // Its own module walks it.
    recorded.insert("wgmma".to_owned());
    let table: BTreeSet<String> = warpwright_arch::instructions::forms()
        .flat_map(|form| form.instances(50))
        .map(|(name, _)| family(&name))
        .collect();
    let lacking: BTreeSet<String> =
        LACKING.iter().flat_map(|(_, families)| families.iter().map(|family| (*family).to_owned())).collect();
    let found: BTreeSet<String> = table.difference(&recorded).cloned().collect();
    assert_eq!(found, lacking, "left: what the operations lack; right: what they are said to");
}
