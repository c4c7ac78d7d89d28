//! Every row of the instruction table, in its alternatives, through the real assembler.

mod assembler;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use assembler::Assembler;
use warpwright_arch::instructions::{
    Address, AddressWidth, Form, Operand, Scalar, Signature, forms, forms_of,
};
use warpwright_ptx::parse;
use warpwright_ptx::syntax::{Instruction, Statement};

/// Spellings tried of one row: all of most rows, a spread of those with many.
const SPELLINGS: usize = 48;

/// The first PTX version that knows a target.
fn version_of(target: &str) -> (u32, u32) {
    match target {
        "sm_80" => (7, 0),
        "sm_86" => (7, 1),
        "sm_89" | "sm_90" => (7, 8),
        "sm_90a" => (8, 0),
        "sm_100" | "sm_100a" => (8, 6),
        "sm_120a" => (8, 7),
        other => panic!("no version for {other}"),
    }
}

/// The targets a form must assemble for: the first that has it, or all that it is tied to.
fn targets(form: &Form) -> Vec<String> {
    match form.only_on {
        [] => vec![format!("sm_{}", form.first_sm)],
        targets => targets.iter().map(|target| (*target).to_owned()).collect(),
    }
}

/// Names operands by class, a different register each time.
#[derive(Default)]
struct Registers {
    next: u32,
}

impl Registers {
    fn name(&mut self, bits: u32) -> String {
        self.next += 1;
        let (prefix, count) = match bits {
            1 => ("%p", 8),
            16 => ("%rs", 64),
            32 => ("%r", 512),
            64 => ("%rd", 64),
            _ => ("%rq", 8),
        };
        format!("{prefix}{}", self.next % count)
    }

    /// Counts a literal as an operand too.
    fn literal(&mut self, name: &str) -> String {
        self.next += 1;
        literal_for(name, self.next - 1).to_owned()
    }

    fn scalar(&mut self, scalar: &Scalar, name: &str, literals: bool) -> String {
        match scalar {
            Scalar { literal: true, float: true, bits: 64, .. } if literals => {
                "0d3FF0000000000000".to_owned()
            }
            Scalar { literal: true, float: true, .. } if literals => "0f3F800000".to_owned(),
            Scalar { literal: true, .. } if literals => self.literal(name),
            Scalar { negatable: true, .. } if literals => format!("!{}", self.name(1)),
            Scalar { sink: true, .. } if literals => "_".to_owned(),
            Scalar { or_wider: true, bits, .. } if literals => self.name((bits * 2).clamp(32, 64)),
            scalar => self.name(scalar.bits),
        }
    }

    fn operand(&mut self, operand: &Operand, name: &str, literals: bool) -> String {
        match operand {
            Operand::Scalar(scalar) => self.scalar(scalar, name, literals),
            Operand::Pair { first, optional: true, .. } if literals => self.scalar(first, name, literals),
            Operand::Pair { first, second, .. } => {
                format!("{}|{}", self.scalar(first, name, literals), self.scalar(second, name, literals))
            }
            Operand::Vector { element, count } => {
                // Not all elements may be `_`.
                let elements: Vec<String> = (0..*count)
                    .map(|index| self.scalar(element, name, literals && (index == 0 || !element.sink)))
                    .collect();
                format!("{{{}}}", elements.join(", "))
            }
            Operand::Address(Address { coordinates: 0, width }) => {
                let is_narrow = match width {
                    AddressWidth::Narrow => true,
                    AddressWidth::Either => literals && !name.contains("global"),
                    AddressWidth::Wide => false,
                };
                format!("[{}]", self.name(if is_narrow { 32 } else { 64 }))
            }
            Operand::Address(Address { coordinates, .. }) => {
                let each: Vec<String> = (0..*coordinates).map(|_| self.name(32)).collect();
                format!("[{}, {{{}}}]", self.name(64), each.join(", "))
            }
            Operand::Literal => self.literal(name),
            Operand::Symbol if name.ends_with("32") => "%tid.x".to_owned(),
            Operand::Symbol => {
                let spaces = ["global", "local", "const"];
                let space = spaces.into_iter().find(|space| name.contains(space)).unwrap_or("shared");
                format!("{space}_array")
            }
            Operand::Sink => "_".to_owned(),
        }
    }
}

/// A literal that the instruction can have as its operand after `before` others: most take 1, some want a size.
fn literal_for(name: &str, before: u32) -> &'static str {
    match name.split('.').next() {
        Some("cp") if !name.contains("wait_group") => "16",
        Some("discard" | "applypriority" | "fence") => "128",
        Some("tensormap") if name.contains("cp_fenceproxy") => "128",
        Some("bar" | "barrier") if before > u32::from(name.contains(".red.")) => "32",
        Some("setmaxnreg") => "24",
        Some("tcgen05") if name.contains("alloc") => "32",
        Some("mma") => "0",
        _ => "1",
    }
}

fn instruction(name: &str, signature: &Signature, literals: bool) -> String {
    let mut registers = Registers::default();
    let count = if literals { signature.required } else { signature.operands.len() };
    // 8-bit elements of a sparse wgmma have but one sparsity selector, which is the fifth operand.
    let one_selector = name.starts_with("wgmma.mma_async.sp") && name.contains("k64.");
    let operands: Vec<String> = signature.operands[..count]
        .iter()
        .enumerate()
        .map(|(index, operand)| match operand {
            Operand::Literal if one_selector && index == 4 => "0".to_owned(),
            operand => registers.operand(operand, name, literals),
        })
        .collect();
    format!("{name} {};", operands.join(", "))
}

fn program(target: &str, version: (u32, u32), lines: &[String]) -> String {
    let header = format!(
        ".version {}.{}\n.target {target}\n.address_size 64\n.global .b64 global_array[8]; .const .b64 const_array[8]; .visible .entry all() {{ \
         .reg .pred %p<8>; .reg .b16 %rs<64>; .reg .b32 %r<512>; .reg .b64 %rd<64>; {} \
         .shared .b64 shared_array[8]; .local .b64 local_array[8];\n",
        version.0,
        version.1,
        if version >= (8, 3) { ".reg .b128 %rq<8>;" } else { "" },
    );
    format!("{header}{}\nret; }}\n", lines.join("\n"))
}

/// Lines of the program that are the header.
const HEADER_LINES: usize = 4;

/// The instructions that ptxas refuses, with what it says of them.
///
/// One run names every instruction with a wrong operand, but stops at the first it cannot parse, and says nothing
/// when it falls over: then the rest is run again, in halves.
fn refused(
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
        for target in targets(form) {
            for (name, signature) in form.instances(SPELLINGS) {
                let version = form.ptx_version_of(&name).max(version_of(&target));
                let lines = programs.entry((target.clone(), version)).or_default();
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

/// The newest target that is older than the first with a form, and so must refuse it.
fn target_before(form: &Form) -> Option<&'static str> {
    match (form.only_on, form.first_sm) {
        ([], 80) => None,
        ([], 86) => Some("sm_80"),
        ([], 89) => Some("sm_86"),
        ([], 90) => Some("sm_89"),
        ([], 100) => Some("sm_90a"),
        (["sm_90a", ..], _) => Some("sm_90"),
        (["sm_100a", ..], _) => Some("sm_100"),
        other => panic!("no target before {other:?}"),
    }
}

#[test]
fn rows_of_later_architectures_are_refused_by_earlier_ones() {
    let Some(assembler) = Assembler::from_environment() else { return };
    let mut programs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for form in forms() {
        let Some(target) = target_before(form) else { continue };
        let (name, signature) = form.instances(1).remove(0);
        programs.entry(target).or_default().push(instruction(&name, &signature, false));
    }
    for (target, mut lines) in programs {
        lines.sort();
        lines.dedup();
        let refused = refused(&assembler, target, (9, 0), &lines);
        let accepted: Vec<&String> = lines.iter().filter(|line| !refused.contains_key(*line)).collect();
        assert!(accepted.is_empty(), "{target} takes what the table gives to later ones only: {accepted:#?}");
    }
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled/ptx");
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the folder of compiled texts") {
        let path = entry.expect("an entry").path();
        let module = parse(&fs::read_to_string(&path).expect("a text file")).expect("PTX");
        for body in module.functions.iter().filter_map(|function| function.body.as_ref()) {
            for_each_instruction(body, &mut |instruction| {
                count += 1;
                let opcode = instruction.opcode.as_str();
                // A device function's return value is stored to a parameter, which kernels do not do.
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
    assert!(count > 1000, "{count} instructions in {}", folder.display());
}
