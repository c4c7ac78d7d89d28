//! Instructions that reach memory, other lanes or other warps.
//!
//! The writer gives a thread 64 bytes of its own in global, shared and local memory, at `%own_global`,
//! `%own_shared` and `%own_local`; eight bytes of shared memory that others read between barriers, at
//! `%turn`; cells that all threads add to, at `cells`; and inputs that nothing writes, at `%inputs`.

use super::super::mutate::{once_in, one};
use super::forms::Class;
use super::program::{Generator, Instruction, Place, hidden};
use super::write::{INPUT_BYTES, OWN_BYTES};

pub(super) fn instruction(generator: &mut Generator<'_>, place: Place) -> Instruction {
    match generator.random.below(16) {
        0 => input(generator),
        1..3 => load(generator),
        3..5 => store(generator),
        5 => atomic(generator),
        6 => cell(generator),
        7 if place.is_uniform => exchange(generator),
        7 => warp_exchange(generator),
        8 if place.is_uniform => barrier_reduction(generator),
        9 if place.is_uniform => matrix(generator),
        10 if generator.functions > 0 => call(generator),
        11..13 if place.is_uniform => shuffle(generator),
        11..13 => broadcast(generator),
        13 => vote(generator),
        14 => matched(generator),
        _ => reduction(generator),
    }
}

/// Registers that an access of some elements reads or writes: the type, the class and how many.
const ACCESSES: [(&str, Class, u64); 20] = [
    ("b8", Class::Short, 1),
    ("u8", Class::Word, 1),
    ("s8", Class::Word, 1),
    ("u8", Class::Long, 1),
    ("b16", Class::Half, 1),
    ("u16", Class::Word, 1),
    ("s16", Class::Word, 1),
    ("b16", Class::Short, 1),
    ("b32", Class::Word, 1),
    ("f32", Class::Single, 1),
    ("b32", Class::Pair, 1),
    ("s32", Class::Long, 1),
    ("b64", Class::Long, 1),
    ("f64", Class::Double, 1),
    ("v2.b16", Class::Half, 2),
    ("v4.u8", Class::Word, 4),
    ("v2.b32", Class::Word, 2),
    ("v4.b32", Class::Single, 4),
    ("v2.b64", Class::Long, 2),
    ("v2.s16", Class::Word, 2),
];

/// Bytes of one element, from the digits of its type.
fn element_bytes(ty: &str) -> u64 {
    let element = ty.rsplit('.').next().unwrap_or(ty);
    element[1..].parse::<u64>().map_or(4, |bits| bits / 8)
}

fn vector(registers: &[String]) -> String {
    if let [register] = registers { register.clone() } else { format!("{{{}}}", registers.join(", ")) }
}

/// An address of `bytes` bytes within the thread's own: what computes it, the space and the address.
fn own(generator: &mut Generator<'_>, bytes: u64) -> (Vec<String>, &'static str, String) {
    let spaces = [
        (".global", "%own_global", true),
        (".shared", "%own_shared", false),
        (".local", "%own_local", true),
        ("", "%own_global", true),
        ("", "%generic_shared", true),
        ("", "%generic_local", true),
    ];
    let (space, base, is_wide) = *one(generator.random, &spaces);
    if once_in(generator.random, 2) {
        let offset = generator.random.below(OWN_BYTES / bytes) * bytes;
        return (Vec::new(), space, format!("[{base}+{offset}]"));
    }
    let index = generator.register_of(Class::Word);
    let mut before = vec![format!("and.b32 %t0, {index}, {};", OWN_BYTES - bytes)];
    if is_wide {
        before.push(format!("cvt.u64.u32 %w0, %t0; add.s64 %w0, %w0, {base};"));
        (before, space, "[%w0]".to_owned())
    } else {
        before.push(format!("add.u32 %t0, %t0, {base};"));
        (before, space, "[%t0]".to_owned())
    }
}

fn input(generator: &mut Generator<'_>) -> Instruction {
    let (ty, class, count) = *one(generator.random, &ACCESSES);
    let bytes = count * element_bytes(ty);
    let index = generator.register_of(Class::Word);
    let results = generator.registers(class, count);
    let space = *one(generator.random, &[".global", ".global.nc", ""]);
    // Only a power of two can be a mask.
    let extent = 1u64 << INPUT_BYTES.ilog2();
    Instruction {
        before: vec![
            format!("and.b32 %t0, {index}, {};", extent - bytes),
            "cvt.u64.u32 %w0, %t0; add.s64 %w0, %w0, %inputs;".to_owned(),
        ],
        guard: once_in(generator.random, 6).then(|| generator.negatable()),
        text: format!("ld{space}.{ty} {}, [%w0];", vector(&results)),
        after: hidden_numbers(ty, &results),
        results,
    }
}

/// ptxas takes what a load of a float leaves for a number, wherever the register is read.
fn hidden_numbers(ty: &str, results: &[String]) -> Vec<String> {
    if ty.starts_with('f') { results.iter().map(|register| hidden(register)).collect() } else { Vec::new() }
}

fn load(generator: &mut Generator<'_>) -> Instruction {
    let (ty, class, count) = *one(generator.random, &ACCESSES);
    let (before, space, address) = own(generator, count * element_bytes(ty));
    let results = generator.registers(class, count);
    let guard = once_in(generator.random, 6).then(|| generator.negatable());
    let text = format!("ld{space}.{ty} {}, {address};", vector(&results));
    Instruction { before, guard, text, after: hidden_numbers(ty, &results), results }
}

fn store(generator: &mut Generator<'_>) -> Instruction {
    let (ty, class, count) = *one(generator.random, &ACCESSES);
    let (mut before, space, address) = own(generator, count * element_bytes(ty));
    let mut sources = generator.registers(class, count);
    let guard = once_in(generator.random, 6).then(|| generator.negatable());
    // ptxas converts the result of an f32 instruction to the integer type of a narrow store, not its bits, and
    // later takes a register for what a narrow store of it leaves.
    let ty = ty.replace(['u', 's'], "b");
    if element_bytes(&ty) * 8 < u64::from(class.bits()) {
        let bits = class.bits();
        for (at, source) in sources.iter_mut().enumerate() {
            let copy = match bits {
                64 => "%l".to_owned(),
                32 => format!("%s{at}"),
                _ => "%u0".to_owned(),
            };
            before.push(format!("xor.b{bits} {copy}, {source}, %zero{bits};"));
            *source = copy;
        }
    }
    let text = format!("st{space}.{ty} {address}, {};", vector(&sources));
    Instruction { before, guard, text, ..Instruction::default() }
}

/// An atomic operation on the thread's own memory.
fn atomic(generator: &mut Generator<'_>) -> Instruction {
    let rows = [
        ("add.u32", Class::Word, 1),
        ("add.s32", Class::Word, 1),
        ("add.u64", Class::Long, 1),
        ("add.f32", Class::Single, 1),
        ("add.noftz.f16x2", Class::Pair, 1),
        ("add.noftz.bf16x2", Class::Pair, 1),
        ("exch.b32", Class::Word, 1),
        ("exch.b64", Class::Long, 1),
        ("cas.b32", Class::Word, 2),
        ("cas.b64", Class::Long, 2),
        ("cas.b16", Class::Short, 2),
        ("min.u32", Class::Word, 1),
        ("max.s32", Class::Word, 1),
        ("min.s64", Class::Long, 1),
        ("max.u64", Class::Long, 1),
        ("and.b32", Class::Word, 1),
        ("or.b32", Class::Word, 1),
        ("xor.b64", Class::Long, 1),
        ("inc.u32", Class::Word, 1),
        ("dec.u32", Class::Word, 1),
    ];
    let (operation, class, sources) = *one(generator.random, &rows);
    let offset = generator.random.below(OWN_BYTES / 8) * 8;
    let (space, base) = *one(
        generator.random,
        &[
            (".global", "%own_global"),
            (".shared", "%own_shared"),
            ("", "%own_global"),
            ("", "%generic_shared"),
        ],
    );
    let result = generator.register_of(class);
    let sources: Vec<_> = (0..sources).map(|_| generator.register_of(class)).collect();
    let guard = once_in(generator.random, 6).then(|| generator.negatable());
    let text = format!("atom{space}.{operation} {result}, [{base}+{offset}], {};", sources.join(", "));
    Instruction { guard, text, results: vec![result], ..Instruction::default() }
}

/// Adds to a cell of all threads, by its operation.
fn cell(generator: &mut Generator<'_>) -> Instruction {
    const OPERATIONS: [&str; 8] =
        ["add.u32", "add.u64", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "max.s64"];
    if generator.cells.is_empty()
        || generator.cells.len() < super::program::MOST_CELLS && once_in(generator.random, 2)
    {
        generator.cells.push(*one(generator.random, &OPERATIONS));
    }
    let cell = generator.random.below(generator.cells.len() as u64) as usize;
    let operation = generator.cells[cell];
    let class = if operation.ends_with("64") { Class::Long } else { Class::Word };
    let source = generator.register_of(class);
    let guard = once_in(generator.random, 4).then(|| generator.negatable());
    let text = format!("red.shared.{operation} [cells+{}], {source};", 8 * cell);
    Instruction { guard, text, ..Instruction::default() }
}

/// All threads of the CTA write a word and read another thread's.
fn exchange(generator: &mut Generator<'_>) -> Instruction {
    let (from, index) = (generator.register_of(Class::Long), generator.register_of(Class::Word));
    let result = generator.register_of(Class::Long);
    let barrier = *one(generator.random, &["bar.sync 0;", "barrier.sync 1;", "barrier.sync.aligned 2, 64;"]);
    Instruction {
        before: vec![
            format!("st.shared.b64 [%turn], {from}; {barrier}"),
            format!("and.b32 %t0, {index}, 63; shl.b32 %t0, %t0, 3; mov.u32 %t1, turns;"),
            "add.u32 %t0, %t0, %t1;".to_owned(),
        ],
        text: format!("ld.shared.b64 {result}, [%t0];"),
        after: vec![barrier.to_owned()],
        results: vec![result],
        ..Instruction::default()
    }
}

/// The lanes that are here write a word each and read that of one of them.
fn warp_exchange(generator: &mut Generator<'_>) -> Instruction {
    let from = generator.register_of(Class::Long);
    let result = generator.register_of(Class::Long);
    Instruction {
        before: vec![
            format!("st.shared.b64 [%turn], {from}; bar.warp.sync MASK;"),
            "bfind.u32 %t0, MASK; and.b32 %t1, %thread, 32; add.u32 %t0, %t0, %t1;".to_owned(),
            "shl.b32 %t0, %t0, 3; mov.u32 %t1, turns; add.u32 %t0, %t0, %t1;".to_owned(),
        ],
        text: format!("ld.shared.b64 {result}, [%t0];"),
        after: vec!["bar.warp.sync MASK;".to_owned()],
        results: vec![result],
        ..Instruction::default()
    }
}

fn barrier_reduction(generator: &mut Generator<'_>) -> Instruction {
    let source = generator.negatable();
    let operation = *one(generator.random, &["popc", "and", "or"]);
    let (ty, class) = if operation == "popc" { ("u32", Class::Word) } else { ("pred", Class::Predicate) };
    let result = generator.result(class);
    Instruction {
        text: format!("bar.red.{operation}.{ty} {result}, 3, {source};"),
        results: vec![result],
        ..Instruction::default()
    }
}

/// A shuffle where all lanes are.
fn shuffle(generator: &mut Generator<'_>) -> Instruction {
    let mode = *one(generator.random, &["up", "down", "bfly", "idx"]);
    let segment = *one(generator.random, &[0u32, 0x1000, 0x1800, 0x1c00, 0x1e00]);
    let clamp = if mode == "up" { segment } else { segment | 31 };
    let class = *one(generator.random, &[Class::Word, Class::Single, Class::Pair]);
    let (result, from) = (generator.register_of(class), generator.register_of(class));
    let lane = if once_in(generator.random, 2) {
        generator.register_of(Class::Word)
    } else {
        generator.random.below(32).to_string()
    };
    let predicate = once_in(generator.random, 2).then(|| generator.result(Class::Predicate));
    let both = predicate.iter().fold(result.clone(), |both, predicate| format!("{both}|{predicate}"));
    Instruction {
        text: format!("shfl.sync.{mode}.b32 {both}, {from}, {lane}, {clamp}, MASK;"),
        results: std::iter::once(result).chain(predicate).collect(),
        ..Instruction::default()
    }
}

/// A shuffle from the first or the last of the lanes that are here.
fn broadcast(generator: &mut Generator<'_>) -> Instruction {
    let (result, from) = (generator.register_of(Class::Word), generator.register_of(Class::Word));
    let lane = match generator.random.below(2) {
        0 => "bfind.u32 %t0, MASK;",
        _ => "brev.b32 %t0, MASK; clz.b32 %t0, %t0;",
    };
    Instruction {
        before: vec![lane.to_owned()],
        text: format!("shfl.sync.idx.b32 {result}, {from}, %t0, 31, MASK;"),
        results: vec![result],
        ..Instruction::default()
    }
}

fn vote(generator: &mut Generator<'_>) -> Instruction {
    let source = generator.negatable();
    let mode = *one(generator.random, &["all.pred", "any.pred", "uni.pred", "ballot.b32"]);
    let class = if mode == "ballot.b32" { Class::Word } else { Class::Predicate };
    let result = generator.result(class);
    let text = format!("vote.sync.{mode} {result}, {source}, MASK;");
    Instruction { text, results: vec![result], ..Instruction::default() }
}

fn matched(generator: &mut Generator<'_>) -> Instruction {
    let (bits, class, temporary) =
        *one(generator.random, &[(32, Class::Word, "%t0"), (64, Class::Long, "%w0")]);
    let from = generator.register_of(class);
    // Few values, so that some lanes have the same.
    let before = vec![format!("and.b{bits} {temporary}, {from}, {};", generator.random.below(4))];
    let result = generator.register_of(Class::Word);
    let (text, results) = if once_in(generator.random, 2) {
        (format!("match.any.sync.b{bits} {result}, {temporary}, MASK;"), vec![result])
    } else {
        let all = generator.result(Class::Predicate);
        let text = format!("match.all.sync.b{bits} {result}|{all}, {temporary}, MASK;");
        (text, vec![result, all])
    };
    Instruction { before, text, results, ..Instruction::default() }
}

fn reduction(generator: &mut Generator<'_>) -> Instruction {
    let operations =
        ["add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32"];
    let operation = *one(generator.random, &operations);
    let (result, from) = (generator.register_of(Class::Word), generator.register_of(Class::Word));
    let text = format!("redux.sync.{operation} {result}, {from}, MASK;");
    Instruction { text, results: vec![result], ..Instruction::default() }
}

/// An instruction of the whole warp on matrices whose results are exact.
fn matrix(generator: &mut Generator<'_>) -> Instruction {
    if once_in(generator.random, 4) {
        return matrix_load(generator);
    }
    // The shape and types, and the registers of D, A and B; C is as D.
    let rows: [(&str, Class, [u64; 3]); 9] = [
        ("m8n8k16.row.col.s32.{u8,s8}.{u8,s8}.s32", Class::Word, [2, 1, 1]),
        ("m16n8k16.row.col.s32.{u8,s8}.{u8,s8}.s32", Class::Word, [4, 2, 1]),
        ("m16n8k32.row.col.satfinite.s32.{u8,s8}.{u8,s8}.s32", Class::Word, [4, 4, 2]),
        ("m8n8k32.row.col.s32.{u4,s4}.{u4,s4}.s32", Class::Word, [2, 1, 1]),
        ("m16n8k64.row.col.s32.{u4,s4}.{u4,s4}.s32", Class::Word, [4, 4, 2]),
        ("m16n8k8.row.col.f16.f16.f16.f16", Class::Pair, [2, 2, 1]),
        ("m16n8k16.row.col.f16.f16.f16.f16", Class::Pair, [2, 4, 2]),
        ("m16n8k4.row.col.f32.tf32.tf32.f32", Class::Single, [4, 2, 1]),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", Class::Single, [4, 4, 2]),
    ];
    let (opcode, class, [d, a, b]) = *one(generator.random, &rows);
    let opcode = generator.alternatives(opcode);
    let results = generator.registers(class, d);
    let sources = [a, b, d].map(|count| vector_of(&generator.registers(class, count)));
    Instruction {
        text: format!("mma.sync.aligned.{opcode} {}, {};", vector_of(&results), sources.join(", ")),
        results,
        ..Instruction::default()
    }
}

fn vector_of(registers: &[String]) -> String {
    format!("{{{}}}", registers.join(", "))
}

/// Matrices out of the own bytes of all threads, between barriers.
fn matrix_load(generator: &mut Generator<'_>) -> Instruction {
    if once_in(generator.random, 3) {
        let (result, from) = (generator.register_of(Class::Word), generator.register_of(Class::Word));
        let text = format!("movmatrix.sync.aligned.m8n8.trans.b16 {result}, {from};");
        // ptxas takes the transpose of what all lanes share for shared by all, too.
        let after = vec![hidden(&result)];
        return Instruction { text, after, results: vec![result], ..Instruction::default() };
    }
    let count = *one(generator.random, &[1, 2, 4]);
    let results = generator.registers(Class::Word, count);
    let transposed = *one(generator.random, &["", ".trans"]);
    let index = generator.register_of(Class::Word);
    Instruction {
        before: vec![
            "bar.sync 0;".to_owned(),
            format!("and.b32 %t0, {index}, {}; mov.u32 %t1, own_shared;", 64 * OWN_BYTES - 16),
            "add.u32 %t0, %t0, %t1;".to_owned(),
        ],
        text: format!(
            "ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {}, [%t0];",
            vector_of(&results)
        ),
        after: vec!["bar.sync 0;".to_owned()],
        results,
        ..Instruction::default()
    }
}

/// A call of one of the program's functions.
fn call(generator: &mut Generator<'_>) -> Instruction {
    let function = generator.random.below(generator.functions);
    let (a, b) = (generator.register_of(Class::Word), generator.register_of(Class::Long));
    let result = generator.register_of(Class::Long);
    Instruction {
        before: vec![
            "{ .param .b32 a; .param .b64 b; .param .b64 d;".to_owned(),
            format!("st.param.b32 [a], {a}; st.param.b64 [b], {b};"),
        ],
        text: format!("call (d), FUNCTION{function}, (a, b);"),
        after: vec![format!("ld.param.b64 {result}, [d]; }}")],
        results: vec![result],
        ..Instruction::default()
    }
}
