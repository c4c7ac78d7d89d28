//! Programs as PTX, and which word of the log is which result.

use std::fmt::Write;

use super::forms::Class;
use super::program::{Instruction, Program, Statement, Trips, bits_of};

/// Threads of a program: two warps.
pub(super) const THREADS: u64 = 64;
/// Bytes of each space that a thread has for itself.
pub(super) const OWN_BYTES: u64 = 64;
/// Bytes of a program's inputs: a word of 64 bits of each thread for each register.
pub(super) const INPUT_BYTES: u64 = REGISTERS * SLOT_BYTES;
/// Bytes of global memory that the threads of a program write.
pub(super) const OWN_GLOBAL_BYTES: u64 = OWN_BYTES * THREADS;
/// Bytes of the log that one result takes: 64 bits of each thread.
pub(super) const SLOT_BYTES: u64 = 8 * THREADS;

const REGISTERS: u64 = {
    let mut all = 0;
    let mut class = 0;
    while class < Class::STORED.len() {
        all += Class::STORED[class].registers().1;
        class += 1;
    }
    all
};

/// A program as text.
pub(super) struct Written {
    /// An entry and the functions that it calls.
    pub(super) text: String,
    /// The results that it logs, in order.
    pub(super) slots: Vec<Slot>,
}

/// A logged result.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The instruction that makes it.
    pub(super) instruction: String,
    pub(super) register: String,
    /// Which time around each loop, from the outermost.
    pub(super) iterations: Vec<u64>,
}

/// What every module begins with.
pub(super) const HEADER: &str =
    ".version 8.7\n.target sm_90\n.address_size 64\n.visible .global .align 8 .b64 zero;\n";

/// The entry of a program.
pub(super) fn entry(number: u64) -> String {
    format!("program_{number}")
}

/// Writes a program. Its functions have its number in their names, so that a module can hold several.
pub(super) fn write(program: &Program, number: u64) -> Written {
    let entry = entry(number);
    let mut writer = Writer { program, entry: &entry, labels: 0, masks: 0, counters: 0, deepest: 0 };
    let mut frame = Frame::default();
    writer.statements(&program.statements, &mut frame, "%mask");
    for (cell, operation) in program.cells.iter().enumerate() {
        if cell == 0 {
            frame.line("bar.sync 0;");
        }
        let text = format!("red.shared.{operation} [cells+{}]", 8 * cell);
        frame.line(&format!("ld.shared.b64 %w0, [cells+{}];", 8 * cell));
        frame.log(&text, "%w0");
    }
    for class in Class::STORED {
        let (prefix, count) = class.registers();
        (0..count).for_each(|at| frame.log("the registers at the end", &format!("{prefix}{at}")));
    }
    let mut text = String::new();
    for (at, function) in program.functions.iter().enumerate() {
        write_function(&mut text, &format!("{entry}_function{at}"), function);
    }
    let _ = write!(
        text,
        ".visible .entry {entry}(.param .u64 inputs, .param .u64 own, .param .u64 log)\n.reqntid {THREADS}\n{{\n"
    );
    declare(&mut text);
    let (masks, counters, deepest) = (writer.masks, writer.counters, writer.deepest);
    let _ = write!(
        text,
        ".reg .b32 %thread, %own_shared, %turn, %mask, %m<{}>, %c<{}>;\n\
         .reg .b64 %own_global, %generic_shared, %own_local, %generic_local, %inputs, %log0{};\n\
         .shared .align 16 .b8 own_shared[{}];\n.shared .align 8 .b8 turns[{}];\n.shared .align 8 .b64 cells[{}];\n\
         .local .align 16 .b8 own_local[{OWN_BYTES}];\n",
        masks + 1,
        counters + 1,
        (1..=deepest).map(|depth| format!(", %log{depth}")).collect::<String>(),
        OWN_BYTES * THREADS,
        8 * THREADS,
        super::program::MOST_CELLS,
    );
    text.push_str(
        "mov.u32 %thread, %tid.x; mov.u32 %mask, 0xffffffff;\n\
         ld.param.u64 %inputs, [inputs]; ld.param.u64 %own_global, [own]; ld.param.u64 %log0, [log];\n\
         mad.wide.u32 %log0, %thread, 8, %log0;\n",
    );
    let _ = write!(
        text,
        "mad.wide.u32 %own_global, %thread, {OWN_BYTES}, %own_global;\n\
         mov.u32 %t0, own_shared; mad.lo.u32 %own_shared, %thread, {OWN_BYTES}, %t0;\n\
         cvt.u64.u32 %w0, %own_shared; cvta.shared.u64 %generic_shared, %w0;\n\
         mov.u32 %t0, turns; mad.lo.u32 %turn, %thread, 8, %t0;\n\
         mov.u64 %own_local, own_local; cvta.local.u64 %generic_local, %own_local;\n\
         mov.b64 %w0, 0;\n"
    );
    for offset in (0..OWN_BYTES).step_by(16) {
        let _ = writeln!(
            text,
            "st.shared.v2.b64 [%own_shared+{offset}], {{%w0, %w0}}; st.local.v2.b64 [%own_local+{offset}], {{%w0, %w0}};"
        );
    }
    for cell in 0..program.cells.len() {
        let _ = writeln!(text, "st.shared.b64 [cells+{}], 0x5555aaaa;", 8 * cell);
    }
    let _ = writeln!(text, "st.shared.b64 [%turn], %w0; mad.wide.u32 %w1, %thread, 8, %inputs;");
    let mut slot = 0;
    for class in Class::STORED {
        let (prefix, count) = class.registers();
        for at in 0..count {
            let address = format!("[%w1+{}]", SLOT_BYTES * slot);
            let _ = match class {
                Class::Predicate => {
                    writeln!(text, "ld.global.b32 %t0, {address}; setp.ne.u32 {prefix}{at}, %t0, 0;")
                }
                _ => writeln!(text, "ld.global.b{} {prefix}{at}, {address};", class.bits()),
            };
            slot += 1;
        }
    }
    let _ = write!(text, "bar.sync 0;\n{}ret;\n}}\n", frame.text);
    Written { text, slots: frame.slots }
}

/// The registers that every function has.
fn declare(text: &mut String) {
    for class in Class::STORED {
        let (prefix, count) = class.registers();
        let ty = if class == Class::Predicate { "pred".to_owned() } else { format!("b{}", class.bits()) };
        let _ = writeln!(text, ".reg .{ty} {prefix}<{count}>;");
    }
    text.push_str(".reg .b32 %t<2>, %s<4>;\n.reg .b64 %w<2>, %l;\n.reg .b16 %u<2>;\n.reg .pred %q<3>;\n");
    text.push_str(".reg .b16 %zero16;\n.reg .b32 %zero32;\n.reg .b64 %zero64;\nld.volatile.global.b64 %zero64, [zero];\n");
    text.push_str("cvt.u32.u64 %zero32, %zero64; cvt.u16.u64 %zero16, %zero64;\n");
}

fn write_function(text: &mut String, name: &str, body: &[Instruction]) {
    let _ = write!(text, ".func (.param .b64 d) {name}(.param .b32 a, .param .b64 b)\n{{\n");
    declare(text);
    text.push_str("ld.param.b32 %t0, [a]; ld.param.b64 %w0, [b];\n");
    for class in Class::STORED {
        let (prefix, count) = class.registers();
        for at in 0..count {
            let step = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(at + 1);
            let low = step & 0x7fff_ffff;
            let _ = match class.bits() {
                1 => writeln!(text, "and.b32 %t1, %t0, {}; setp.ne.u32 {prefix}{at}, %t1, 0;", 1 << at),
                16 => writeln!(text, "xor.b32 %t1, %t0, {low}; cvt.u16.u32 {prefix}{at}, %t1;"),
                32 => writeln!(text, "xor.b32 {prefix}{at}, %t0, {low};"),
                _ => writeln!(text, "xor.b64 {prefix}{at}, %w0, {step};"),
            };
        }
    }
    let mut frame = Frame::default();
    for instruction in body {
        frame.instruction(instruction, "", "");
    }
    let _ = write!(
        text,
        "{}xor.b32 %r0, %r0, %f0; xor.b32 %r1, %r1, %x0; xor.b32 %r0, %r0, %r1; xor.b64 %d0, %d0, %g0;\n\
         cvt.u64.u32 %w0, %r0; add.u64 %d0, %d0, %w0; st.param.b64 [d], %d0;\nret;\n}}\n",
        frame.text
    );
}

struct Writer<'a> {
    program: &'a Program,
    entry: &'a str,
    labels: usize,
    masks: usize,
    counters: usize,
    deepest: usize,
}

/// The text and the log of statements that are executed equally often.
#[derive(Default)]
struct Frame {
    text: String,
    slots: Vec<Slot>,
    /// The register that holds the log's address is `%log{depth}`.
    depth: usize,
}

impl Frame {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn instruction(&mut self, instruction: &Instruction, mask: &str, entry: &str) {
        let place = |line: &str| line.replace("MASK", mask).replace("FUNCTION", &format!("{entry}_function"));
        for line in &instruction.before {
            self.line(&place(line));
        }
        let guard = instruction.guard.iter().map(|guard| format!("@{guard} ")).collect::<String>();
        self.line(&format!("{guard}{}", place(&instruction.text)));
        for line in &instruction.after {
            self.line(&place(line));
        }
    }

    /// Logs a register.
    fn log(&mut self, instruction: &str, register: &str) {
        let address = format!("[%log{}+{}]", self.depth, SLOT_BYTES * self.slots.len() as u64);
        match bits_of(register) {
            _ if register.starts_with("%w") => self.line(&format!("st.global.b64 {address}, {register};")),
            1 => self.line(&format!("selp.b32 %t0, 1, 0, {register}; st.global.b32 {address}, %t0;")),
            bits => self.line(&format!("st.global.b{bits} {address}, {register};")),
        }
        self.slots.push(Slot {
            instruction: instruction.to_owned(),
            register: register.to_owned(),
            iterations: Vec::new(),
        });
    }
}

impl Writer<'_> {
    fn label(&mut self) -> String {
        self.labels += 1;
        format!("$l{}", self.labels)
    }

    fn mask(&mut self) -> String {
        self.masks += 1;
        format!("%m{}", self.masks)
    }

    fn statements(&mut self, statements: &[Statement], frame: &mut Frame, mask: &str) {
        for statement in statements {
            match statement {
                Statement::Instruction(instruction) => {
                    frame.instruction(instruction, mask, self.entry);
                    if self.program.logs_all {
                        let guard = instruction.guard.iter().map(|guard| format!("@{guard} "));
                        let text = guard.collect::<String>() + &instruction.text;
                        instruction.results.iter().for_each(|register| frame.log(&text, register));
                    }
                }
                Statement::If { predicate, then, otherwise } => {
                    self.branch(predicate, then, otherwise, frame, mask);
                }
                Statement::Switch { selector, bodies } => self.switch(selector, bodies, frame, mask),
                Statement::Loop { trips, body } => self.repeat(trips, body, frame, mask),
            }
        }
    }

    fn branch(
        &mut self,
        predicate: &str,
        then: &[Statement],
        otherwise: &[Statement],
        frame: &mut Frame,
        mask: &str,
    ) {
        let (here, there) = (self.mask(), self.mask());
        let (other, end) = (self.label(), self.label());
        frame.line(&format!("vote.sync.ballot.b32 {here}, {predicate}, {mask};"));
        frame.line(&format!("not.b32 {there}, {here}; and.b32 {there}, {there}, {mask};"));
        let negated = predicate
            .strip_prefix('!')
            .map_or_else(|| format!("!{predicate}"), std::borrow::ToOwned::to_owned);
        frame.line(&format!("@{negated} bra {other};"));
        self.statements(then, frame, &here);
        frame.line(&format!("bra {end};"));
        frame.line(&format!("{other}:"));
        self.statements(otherwise, frame, &there);
        frame.line(&format!("{end}:"));
    }

    fn switch(&mut self, selector: &str, bodies: &[Vec<Statement>; 3], frame: &mut Frame, mask: &str) {
        let here = self.mask();
        let labels = [self.label(), self.label(), self.label()];
        let (table, end) = (self.label(), self.label());
        frame.line(&format!("and.b32 %t0, {selector}, 3; min.u32 %t0, %t0, 2;"));
        frame.line(&format!("match.any.sync.b32 {here}, %t0, {mask};"));
        frame.line(&format!("{table}: .branchtargets {};", labels.join(", ")));
        frame.line(&format!("brx.idx %t0, {table};"));
        for (label, body) in labels.iter().zip(bodies) {
            frame.line(&format!("{label}:"));
            self.statements(body, frame, &here);
            frame.line(&format!("bra {end};"));
        }
        frame.line(&format!("{end}:"));
    }

    fn repeat(&mut self, trips: &Trips, body: &[Statement], frame: &mut Frame, mask: &str) {
        let inside = self.mask();
        let counter = format!("%c{}", self.counters);
        self.counters += 1;
        let (again, end) = (self.label(), self.label());
        let mut inner = Frame { depth: frame.depth + 1, ..Frame::default() };
        self.deepest = self.deepest.max(inner.depth);
        self.statements(body, &mut inner, &inside);
        let first = frame.slots.len() as u64;
        match trips {
            Trips::Fixed(trips) => frame.line(&format!("mov.u32 {counter}, {trips};")),
            Trips::Of(register) => frame.line(&format!("and.b32 {counter}, {register}, {};", Trips::MOST)),
        }
        let (log, outer) = (format!("%log{}", inner.depth), format!("%log{}", frame.depth));
        frame.line(&format!("add.s64 {log}, {outer}, {}; mov.u32 {inside}, {mask};", SLOT_BYTES * first));
        frame.line(&format!("{again}: setp.ne.u32 %q2, {counter}, 0;"));
        frame.line(&format!("vote.sync.ballot.b32 {inside}, %q2, {inside};"));
        frame.line(&format!("@!%q2 bra {end};"));
        frame.text.push_str(&inner.text);
        let step = SLOT_BYTES * inner.slots.len() as u64;
        frame.line(&format!("add.s64 {log}, {log}, {step}; sub.u32 {counter}, {counter}, 1; bra {again};"));
        frame.line(&format!("{end}:"));
        for trip in 0..trips.most() {
            frame.slots.extend(inner.slots.iter().cloned().map(|mut slot| {
                slot.iterations.insert(0, trip);
                slot
            }));
        }
    }
}
