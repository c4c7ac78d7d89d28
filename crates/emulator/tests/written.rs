//! Executing an instruction changes the registers that its row writes, and no others: every row that has
//! only registers and literals is executed. The description of every row has the same registers.

use std::collections::BTreeSet;

use warpwright_arch::instructions::{Class, Form, Operand, Signature, forms};
use warpwright_emulator::{Launch, Schedule};

use crate::common::{Shape, device, device_of, load, longs, shape, try_run};
use crate::table::spelling::{instruction, targets};

/// Alternatives tried of each row, about.
const SPELLINGS: usize = 6;
const LANES: usize = 32;

/// Whether a row can be executed with any values in its registers.
fn is_executable(form: &Form, name: &str, signature: &Signature) -> bool {
    let is_register =
        |operand: &Operand| !matches!(operand, Operand::Address(_) | Operand::Symbol | Operand::Sink);
    // They read memory through a descriptor, allocate, wait, or take the response of another instruction
    // apart.
    let excluded =
        [Class::WarpgroupMma, Class::CtaBarrier, Class::ClusterLaunch, Class::Mbarrier].contains(&form.class);
    signature.destinations > 0
        && signature.operands.iter().all(is_register)
        && !excluded
        && !name.starts_with("alloca")
        && !name.starts_with("testp.f")
}

/// The registers that a text names.
fn registers(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c != '%' && !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with('%')).map(str::to_owned).collect()
}

/// The operands of an instruction, as text.
fn operands(line: &str) -> Vec<String> {
    let (mut depth, mut operands) = (0, vec![String::new()]);
    for c in line.trim_end_matches(';').split_once(' ').map_or("", |(_, operands)| operands).chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                operands.push(String::new());
                continue;
            }
            _ => {}
        }
        operands.last_mut().unwrap().push(c);
    }
    operands
}

/// The type of a register of the program, by its name.
fn bits(register: &str) -> u32 {
    match register.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "%p" => 1,
        "%rb" => 8,
        "%rs" => 16,
        "%r" => 32,
        "%rd" => 64,
        _ => 128,
    }
}

/// Statements that give a register another value in each lane.
fn initial(register: &str, number: usize) -> String {
    let word = format!("mad.lo.u32 %x, %t, {}, {};", 0x9e37_79b1u32 | 1, number * 0x51_3d05 + 7);
    let rest = match bits(register) {
        1 => format!("shr.u32 %x, %t, {}; and.b32 %x, %x, 1; setp.ne.u32 {register}, %x, 0;", number % 5),
        8 => format!("cvt.u8.u32 {register}, %x;"),
        16 => format!("cvt.u16.u32 {register}, %x;"),
        32 => format!("mov.b32 {register}, %x;"),
        64 => format!("mul.wide.u32 {register}, %x, 0x3fe14b2d;"),
        _ => format!("mul.wide.u32 %y, %x, 0x3fe14b2d; mov.b128 {register}, {{%y, %y}};"),
    };
    format!("{word} {rest}\n")
}

/// Statements that store what a register holds.
fn stored(register: &str, place: usize) -> String {
    let widened = match bits(register) {
        1 => format!("selp.u64 %y, 1, 0, {register};"),
        bits @ (8 | 16 | 32) => format!("cvt.u64.u{bits} %y, {register};"),
        64 => format!("mov.b64 %y, {register};"),
        _ => format!("mov.b128 {{%y, %z}}, {register}; add.u64 %y, %y, %z;"),
    };
    format!("{widened} st.global.u64 [%a+{}], %y;\n", 8 * LANES * place)
}

fn program(target: &str, line: &str, used: &BTreeSet<String>) -> String {
    let quads = if used.iter().any(|register| bits(register) == 128) { ".reg .b128 %rq<8>;" } else { "" };
    let initial: String =
        used.iter().enumerate().map(|(number, register)| initial(register, number)).collect();
    let stores = |first: usize| -> String {
        used.iter().enumerate().map(|(place, register)| stored(register, first + place)).collect()
    };
    format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p) {{
        .reg .pred %p<8>; .reg .b8 %rb<8>; .reg .b16 %rs<64>; .reg .b32 %r<512>; .reg .b64 %rd<64>; {quads}
        .reg .b32 %t, %x; .reg .b64 %a, %y, %z;
        mov.u32 %t, %tid.x; ld.param.u64 %a, [p]; mul.wide.u32 %y, %t, 8; add.u64 %a, %a, %y;
        {initial}{}
        {line}
        {}ret; }}",
        stores(0),
        stores(used.len())
    )
}

/// An instruction of a row, with all lanes in the mask of an exchange.
fn line(form: &Form, name: &str, signature: &Signature) -> String {
    let line = instruction(name, signature, false);
    let exchanges = [Class::Exchange, Class::Vote, Class::Match, Class::WarpReduction];
    if !exchanges.contains(&form.class) || !name.contains(".sync") || name.starts_with("movmatrix") {
        return line;
    }
    let (before, _) = line.rsplit_once(',').unwrap();
    format!("{before}, -1;")
}

/// The registers that an instruction writes.
fn written(line: &str, signature: &Signature) -> BTreeSet<String> {
    registers(&operands(line)[..signature.destinations].join(","))
}

#[test]
fn executing_an_instruction_writes_the_operands_that_its_row_writes() {
    let (mut executed, mut rows, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for form in forms().filter(|form| form.until.is_none()) {
        for (name, signature) in form.instances(SPELLINGS) {
            if !is_executable(form, &name, &signature) {
                continue;
            }
            let line = line(form, &name, &signature);
            let (used, written) = (registers(&line), written(&line, &signature));
            let target = targets(&form.availability(&name)).remove(0);
            let out = longs(vec![0; 2 * LANES * used.len()]);
            let unchecked = Shape { checked: false, schedule: Schedule::Eager, ..shape(1, LANES as u32) };
            let found = match try_run(&program(&target, &line, &used), unchecked, std::slice::from_ref(&out))
            {
                Ok(finished) => finished.longs(0),
                Err(fault) => panic!("{line} {fault}"),
            };
            let (before, after) = found.split_at(LANES * used.len());
            for (place, register) in used.iter().enumerate() {
                let range = place * LANES..(place + 1) * LANES;
                if (before[range.clone()] != after[range]) != written.contains(register) {
                    wrong.push(format!("{line} {register}"));
                }
            }
            executed += 1;
            rows.insert((form.name, form.operands));
        }
    }
    assert!(wrong.is_empty(), "{}: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
    assert!(rows.len() > 250 && executed > 2000, "{} rows, {executed} instructions", rows.len());
}

/// Observers see as written what a row writes, and as read what else its operands name.
#[test]
fn descriptions_follow_the_rows() {
    let (mut described, mut wrong) = (0, Vec::new());
    for form in forms().filter(|form| form.until.is_none()) {
        for (name, signature) in form.instances(1) {
            let line = line(form, &name, &signature);
            let (used, written) = (registers(&line), written(&line, &signature));
            if line.contains("_array") || line.contains("%tid") {
                continue;
            }
            let target = targets(&form.availability(&name)).remove(0);
            let text = program(&target, &line, &used);
            let mut device = device(device_of(&text));
            let program = load(&mut device, &text);
            let launch = Launch { parameters: &[0; 8], ..Launch::default() };
            let info = device.describe(&program, "k", &launch).unwrap();
            let at = text.lines().position(|own| own.trim() == line).unwrap() as u32 + 1;
            // Hints have no operation.
            let Some(found) = info.code.instructions.iter().find(|own| own.line == at) else { continue };
            described += 1;
            let count = |registers: &[_]| registers.iter().collect::<BTreeSet<_>>().len();
            let accumulated = if signature.accumulates { written.len() } else { 0 };
            let expected = (written.len(), used.difference(&written).count() + accumulated);
            if (count(&found.writes), count(&found.reads)) != expected {
                wrong.push(format!("{line} writes {} and reads {}", found.writes.len(), found.reads.len()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
    assert!(described > 2000, "{described} instructions");
}
