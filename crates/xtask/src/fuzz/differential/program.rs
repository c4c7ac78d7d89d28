//! Random programs: trees of instructions, branches and loops, without undefined behaviour.
//!
//! Lanes that a branch parts keep a mask of those beside them, so that shuffles, votes, matches and
//! reductions name exactly the lanes that execute them. A thread writes bytes of its own only, until a
//! barrier; what all threads add to a cell of shared memory is added by one commutative operation.

use warpwright_harness::Random;

use super::super::mutate::{once_in, one};
use super::effects;
use super::forms::{Class, FAMILIES};

/// A program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) statements: Vec<Statement>,
    /// The functions that it calls: the instructions of each.
    pub(super) functions: Vec<Vec<Instruction>>,
    /// Whether every result is logged as it is made. Otherwise the registers are logged at the end
    /// only, and the assembler is free to change what is between.
    pub(super) logs_all: bool,
    /// The operations on the cells of shared memory.
    pub(super) cells: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) enum Statement {
    Instruction(Instruction),
    If {
        predicate: String,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    /// Three bodies, of which a register selects one.
    Switch {
        selector: String,
        bodies: [Vec<Statement>; 3],
    },
    Loop {
        trips: Trips,
        body: Vec<Statement>,
    },
}

/// How often a loop runs.
#[derive(Clone, Debug)]
pub(super) enum Trips {
    Fixed(u64),
    /// The low two bits of a register, so that lanes leave at different times.
    Of(String),
}

impl Trips {
    pub(super) const MOST: u64 = 3;

    pub(super) fn most(&self) -> u64 {
        if let Trips::Fixed(trips) = self { *trips } else { Self::MOST }
    }
}

/// What is executed at once: an instruction, and what prepares and completes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Instruction {
    pub(super) before: Vec<String>,
    pub(super) guard: Option<String>,
    /// `MASK` stands for the lanes that execute it.
    pub(super) text: String,
    pub(super) after: Vec<String>,
    /// The registers that it writes.
    pub(super) results: Vec<String>,
}

/// Bits of the registers of a name.
pub(super) fn bits_of(register: &str) -> u32 {
    let class = Class::STORED.into_iter().find(|class| register.starts_with(class.registers().0));
    class.map_or(32, Class::bits)
}

/// Instructions between two statements of control flow, and how deep these are nested.
const STATEMENTS: u64 = 60;
const DEEPEST: u64 = 3;
const FUNCTIONS: u64 = 2;
pub(super) const MOST_CELLS: usize = 8;

/// Makes a program.
pub(super) struct Generator<'a> {
    pub(super) random: &'a mut Random,
    pub(super) cells: Vec<&'static str>,
    pub(super) functions: u64,
    /// Instructions that may still be made.
    left: u64,
    /// The predicates that branches around the place were taken by. Nothing writes them there: where a
    /// loop within the branch does, ptxas 13.0 takes them for unchanged in the next iteration.
    held: Vec<String>,
}

/// Where a statement stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) depth: u64,
    /// Whether all threads of the CTA are here.
    pub(super) is_uniform: bool,
}

impl<'a> Generator<'a> {
    pub(super) fn program(random: &'a mut Random) -> Program {
        let functions = random.below(FUNCTIONS + 1);
        let left = 30 + random.below(2 * STATEMENTS);
        let logs_all = !once_in(random, 4);
        let mut generator = Generator { random, cells: Vec::new(), functions, left, held: Vec::new() };
        let functions = (0..functions).map(|_| generator.function()).collect();
        let mut statements = Vec::new();
        while generator.left > 0 {
            statements.extend(generator.statements(Place { depth: 0, is_uniform: true }));
        }
        Program { statements, functions, logs_all, cells: generator.cells }
    }

    fn function(&mut self) -> Vec<Instruction> {
        (0..4 + self.random.below(8)).map(|_| self.form()).collect()
    }

    fn statements(&mut self, place: Place) -> Vec<Statement> {
        let count = 2 + self.random.below(if place.depth == 0 { 20 } else { 8 });
        (0..count).map(|_| self.statement(place)).collect()
    }

    fn statement(&mut self, place: Place) -> Statement {
        self.left = self.left.saturating_sub(1);
        let inner = |is_uniform| Place { depth: place.depth + 1, is_uniform: place.is_uniform && is_uniform };
        match self.random.below(24) {
            0 | 1 if place.depth < DEEPEST => self.branch(inner(false)),
            2 if place.depth < DEEPEST && once_in(self.random, 2) => {
                let selector = self.register(Class::Word);
                let bodies = std::array::from_fn(|_| self.statements(inner(false)));
                Statement::Switch { selector, bodies }
            }
            3 if place.depth < 2 => {
                if once_in(self.random, 3) {
                    let trips = Trips::Fixed(1 + self.random.below(Trips::MOST));
                    Statement::Loop { trips, body: self.statements(inner(true)) }
                } else {
                    let trips = Trips::Of(self.register(Class::Word));
                    Statement::Loop { trips, body: self.statements(inner(false)) }
                }
            }
            4..8 => Statement::Instruction(effects::instruction(self, place)),
            _ => Statement::Instruction(self.form()),
        }
    }

    fn branch(&mut self, inside: Place) -> Statement {
        let predicate = self.negatable();
        self.held.push(predicate.trim_start_matches('!').to_owned());
        let then = self.statements(inside);
        let otherwise = if once_in(self.random, 2) { self.statements(inside) } else { Vec::new() };
        self.held.pop();
        Statement::If { predicate, then, otherwise }
    }

    /// An instruction that changes registers only.
    pub(super) fn form(&mut self) -> Instruction {
        if once_in(self.random, 16) {
            return self.several();
        }
        let all = FAMILIES.iter().map(|family| family.weight).sum();
        let mut drawn = self.random.below(all);
        let family = FAMILIES.iter().find(|family| {
            let is_drawn = drawn < family.weight;
            drawn = drawn.saturating_sub(family.weight);
            is_drawn
        });
        let family = family.unwrap_or(&FAMILIES[0]);
        let row = one(self.random, family.rows);
        let mut instruction = self.of_row(row);
        if family.is_hidden {
            let results = instruction.results.iter().filter(|register| bits_of(register) > 1);
            instruction.after.extend(results.map(|register| hidden(register)));
        }
        instruction
    }

    /// The instruction of a row.
    fn of_row(&mut self, row: &str) -> Instruction {
        let mark = row.chars().next().filter(|mark| matches!(mark, '~' | '!'));
        let row = row.trim_start_matches(['~', '!']);
        let (opcode, operands) = row.split_once(' ').unwrap_or((row, ""));
        let opcode = self.alternatives(opcode);
        let mut letters = operands.split(' ');
        let (destination, results) = self.destination(letters.next().unwrap_or("r"));
        let mut sources: Vec<_> = letters.map(|letter| self.source(letter, &opcode)).collect();
        // Of a register with itself ptxas takes `min` as a move, which keeps a NaN, and `copysign` as `abs`;
        // it sees that a selection is a copy.
        let is_folded =
            ["min", "max", "copysign", "selp", "slct"].iter().any(|name| opcode.starts_with(name));
        if is_folded && sources[0] == sources[1] {
            sources[1] = neighbour(&sources[1]);
        }
        let text = format!("{opcode} {destination}, {};", sources.join(", "));
        let after = if mark == Some('~') { canonical_nan(&opcode, &results[0]) } else { Vec::new() };
        let guard = (mark != Some('!') && once_in(self.random, 6)).then(|| self.negatable());
        Instruction { guard, text, after, results, ..Instruction::default() }
    }

    pub(super) fn alternatives(&mut self, opcode: &str) -> String {
        let mut chosen = String::new();
        let mut rest = opcode;
        while let Some((before, after)) = rest.split_once('{') {
            let (list, after) = after.split_once('}').unwrap_or((after, ""));
            let list: Vec<_> = list.split(',').collect();
            chosen = chosen + before + *one(self.random, &list);
            rest = after;
        }
        chosen + rest
    }

    fn destination(&mut self, letters: &str) -> (String, Vec<String>) {
        let class = Class::of(letters.chars().next().unwrap_or('r'));
        let mut registers = vec![self.result(class)];
        if letters == "pp" || letters == "p|p" && once_in(self.random, 2) {
            registers.push(self.free(neighbour(&registers[0])));
        }
        // Two destinations are two registers.
        if registers.len() == 2 && registers[0] == registers[1] {
            registers[1] = self.free(neighbour(&registers[0]));
        }
        (registers.join("|"), registers)
    }

    /// A register of a class to write.
    pub(super) fn result(&mut self, class: Class) -> String {
        let register = self.register(class);
        self.free(register)
    }

    /// The register, or the next one that no branch holds.
    fn free(&self, mut register: String) -> String {
        while self.held.contains(&register) {
            register = neighbour(&register);
        }
        register
    }

    /// A register of a class, at times of another of its width.
    pub(super) fn register(&mut self, class: Class) -> String {
        let class = if once_in(self.random, 12) { *one(self.random, class.others()) } else { class };
        self.register_of(class)
    }

    pub(super) fn register_of(&mut self, class: Class) -> String {
        let (prefix, count) = class.registers();
        format!("{prefix}{}", self.random.below(count))
    }

    /// Different registers of a class.
    pub(super) fn registers(&mut self, class: Class, count: u64) -> Vec<String> {
        let (prefix, all) = class.registers();
        let first = self.random.below(all);
        (0..count).map(|at| format!("{prefix}{}", (first + at) % all)).collect()
    }

    /// A predicate or its negation.
    pub(super) fn negatable(&mut self) -> String {
        let sign = if once_in(self.random, 3) { "!" } else { "" };
        sign.to_owned() + &self.register_of(Class::Predicate)
    }

    fn source(&mut self, letter: &str, opcode: &str) -> String {
        let letter = letter.chars().next().unwrap_or('r');
        if letter.is_ascii_digit() {
            return letter.to_string();
        }
        let class = Class::of(letter);
        // A conversion takes none, nor do instructions on the parts of a word.
        let has_immediate = !opcode.starts_with("cvt") && !opcode.starts_with('v') && !opcode.ends_with("x2");
        let immediate = has_immediate && once_in(self.random, 6);
        match class {
            Class::Predicate if letter == 'P' => self.negatable(),
            Class::Table => self.random.below(256).to_string(),
            Class::Amount if once_in(self.random, 2) => {
                // ptxas folds `bfe` and `bfi` wrongly where a literal is no bit of the value.
                let amounts = if opcode.starts_with("bf") { 32 } else { 65 };
                self.random.below(amounts).to_string()
            }
            Class::Word if immediate => integer(self.random, 32),
            Class::Short if immediate => integer(self.random, 15),
            Class::Long if immediate => integer(self.random, 63),
            // ptxas decides the bits of a NaN that it computes with.
            Class::Single if immediate => loop {
                let bits = super::values::single(self.random);
                if !f32::from_bits(bits).is_nan() {
                    break format!("0f{bits:08X}");
                }
            },
            Class::Double if immediate => loop {
                let bits = super::values::double(self.random);
                if !f64::from_bits(bits).is_nan() {
                    break format!("0d{bits:016X}");
                }
            },
            _ => self.register(class),
        }
    }

    /// Instructions that belong together.
    fn several(&mut self) -> Instruction {
        let (ty, class) = *one(self.random, &[("32", Class::Word), ("64", Class::Long)]);
        let [a, b, c, d] = std::array::from_fn(|_| self.register_of(class));
        let results = self.registers(class, 2);
        let [low, high] = [&results[0], &results[1]];
        match self.random.below(6) {
            0 | 1 => {
                let sign = *one(self.random, &["u", "s"]);
                let operation = *one(self.random, &["div", "rem"]);
                let temporary = if class == Class::Word { "%t0" } else { "%w0" };
                Instruction {
                    before: vec![format!("or.b{ty} {temporary}, {b}, 1;")],
                    text: format!("{operation}.{sign}{ty} {low}, {a}, {temporary};"),
                    results: vec![low.clone()],
                    ..Instruction::default()
                }
            }
            2 => Instruction {
                text: format!("add.cc.u{ty} {low}, {a}, {b}; addc.u{ty} {high}, {c}, {d};"),
                results,
                ..Instruction::default()
            },
            3 => Instruction {
                text: format!("sub.cc.u{ty} {low}, {a}, {b}; subc.u{ty} {high}, {c}, {d};"),
                results,
                ..Instruction::default()
            },
            4 => Instruction {
                text: format!("mad.lo.cc.u{ty} {low}, {a}, {b}, {c}; madc.hi.u{ty} {high}, {a}, {b}, {d};"),
                results,
                ..Instruction::default()
            },
            _ => self.packed(),
        }
    }

    /// A register of several, or several of one.
    fn packed(&mut self) -> Instruction {
        let (narrow, wide, bits) = *one(
            self.random,
            &[
                (Class::Short, Class::Word, 32),
                (Class::Half, Class::Pair, 32),
                (Class::Word, Class::Long, 64),
                (Class::Single, Class::Double, 64),
            ],
        );
        let whole = self.register_of(wide);
        let parts = self.registers(narrow, 2);
        let list = format!("{{{}, {}}}", parts[0], parts[1]);
        let (text, results) = if once_in(self.random, 2) {
            (format!("mov.b{bits} {whole}, {list};"), vec![whole])
        } else {
            (format!("mov.b{bits} {list}, {whole};"), parts)
        };
        Instruction { text, results, ..Instruction::default() }
    }
}

/// Changes nothing, but ptxas does not know: it takes the register for any value from then on.
pub(super) fn hidden(register: &str) -> String {
    let bits = bits_of(register);
    format!("xor.b{bits} {register}, {register}, %zero{bits};")
}

/// The next register of the same class.
fn neighbour(register: &str) -> String {
    let class = Class::STORED.into_iter().find(|class| register.starts_with(class.registers().0));
    let Some((prefix, count)) = class.map(Class::registers) else { return register.to_owned() };
    let number: u64 = register[prefix.len()..].parse().unwrap_or(0);
    format!("{prefix}{}", (number + 1) % count)
}

/// An integer of some bits, often at an edge.
fn integer(random: &mut Random, bits: u32) -> String {
    let all = u64::MAX >> (64 - bits);
    let value = match random.below(4) {
        0 => random.below(40),
        1 => all >> random.below(u64::from(bits)),
        2 => 1 << random.below(u64::from(bits)),
        _ => random.bits() & all,
    };
    value.to_string()
}

/// Makes a NaN of a result canonical.
fn canonical_nan(opcode: &str, register: &str) -> Vec<String> {
    let bits = bits_of(register);
    // What an instruction makes is named first: `cvt.rni.f32.f64`.
    let is_brain =
        opcode.split('.').find(|word| word.contains("f16")).is_some_and(|word| word.starts_with('b'));
    let half = if is_brain { "bf16" } else { "f16" };
    let is_pair = bits == 32 && opcode.ends_with("16x2");
    match bits {
        64 => vec![
            format!("setp.nan.f64 %q0, {register}, {register};"),
            format!("selp.b64 {register}, 0x7ff8000000000000, {register}, %q0;"),
        ],
        32 if is_pair => vec![
            format!("mov.b32 {{%u0, %u1}}, {register};"),
            format!("setp.nan.{half} %q0, %u0, %u0; setp.nan.{half} %q1, %u1, %u1;"),
            "selp.b16 %u0, 0x7fff, %u0, %q0; selp.b16 %u1, 0x7fff, %u1, %q1;".to_owned(),
            format!("mov.b32 {register}, {{%u0, %u1}};"),
        ],
        32 => vec![
            format!("setp.nan.f32 %q0, {register}, {register};"),
            format!("selp.b32 {register}, 0x7fffffff, {register}, %q0;"),
        ],
        _ => vec![
            format!("setp.nan.{half} %q0, {register}, {register};"),
            format!("selp.b16 {register}, 0x7fff, {register}, %q0;"),
        ],
    }
}
