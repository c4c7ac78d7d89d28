//! What [`verify`] takes and refuses is what ptxas takes and refuses: spellings of every row of the
//! instruction table, and changes of them, for every target and version.

use std::collections::{BTreeMap, BTreeSet};

use crate::spelling::{instruction, oldest_version, program, targets, version_of};
use warpwright_arch::Target;
use warpwright_arch::instructions::{self, forms};
use warpwright_ptx::{parse, verify};
use warpwright_testing::one_in;
use warpwright_testing::ptxas::Assembler;

/// Lines of a program before its instructions.
const HEADER_LINES: usize = 4;

/// Instructions of one program, at most.
const CHUNK: usize = 400;

/// The instructions that ptxas refuses when it reads them, with what it says first of each.
///
/// ptxas names the wrong instructions of a program until it meets one that it cannot parse, or falls
/// over; the others are read again.
fn refused_by_ptxas(
    assembler: &Assembler,
    target: &str,
    version: (u32, u32),
    lines: &[String],
) -> BTreeMap<String, String> {
    let mut refused = BTreeMap::new();
    let mut left: Vec<Vec<String>> = lines.chunks(CHUNK).map(<[String]>::to_vec).collect();
    while let Some(lines) = left.pop() {
        let Err(said) = assembler.read(target, &program(target, version, &lines)) else { continue };
        let is_whole = said.contains("aborted due to errors");
        let named =
            said.lines().filter(|message| is_whole && !message.contains("<builtin>")).filter_map(|message| {
                let (before, what) = message.split_once("; error")?;
                let line: usize = before.rsplit("line ").next()?.parse().ok()?;
                let line = lines.get(line.checked_sub(HEADER_LINES + 1)?)?;
                is_about(what, line).then(|| (line.clone(), what.to_owned()))
            });
        let named: BTreeMap<String, String> = named.collect();
        let rest: Vec<String> = lines.iter().filter(|line| !named.contains_key(*line)).cloned().collect();
        if named.is_empty() && lines.len() == 1 {
            if said.lines().any(|message| message.contains("error") && is_about(message, &lines[0])) {
                refused.insert(lines[0].clone(), said);
            }
        } else if named.is_empty() {
            left.extend(rest.chunks(rest.len().div_ceil(2)).map(<[String]>::to_vec));
        } else if !rest.is_empty() {
            left.push(rest);
        }
        refused.extend(named);
    }
    refused
}

/// Whether a message of ptxas can be about a line. ptxas names the lines of its own library like those
/// of the program, but each message names its instruction.
fn is_about(message: &str, line: &str) -> bool {
    let named = message.split_once("for instruction '").and_then(|(_, rest)| rest.split('\'').next());
    named.is_none_or(|named| line.starts_with(named.split('.').next().unwrap_or(named)))
}

/// The instructions that do not parse or that [`verify`] refuses, with its messages.
fn refused_here(target: &str, version: (u32, u32), lines: &[String]) -> BTreeMap<String, String> {
    let mut refused = BTreeMap::new();
    for lines in lines.chunks(CHUNK) {
        let text = program(target, version, lines);
        match parse(&text) {
            Ok(module) => {
                for error in verify(&module) {
                    let line = lines.get((error.line as usize).wrapping_sub(HEADER_LINES + 1));
                    let line = line.unwrap_or_else(|| panic!("{error}"));
                    refused.entry(line.clone()).or_insert(error.message);
                }
            }
            Err(error) if lines.len() == 1 => {
                refused.insert(lines[0].clone(), error.to_string());
            }
            Err(_) => {
                for half in lines.chunks(lines.len().div_ceil(2)) {
                    refused.extend(refused_here(target, version, half));
                }
            }
        }
    }
    refused
}

/// Errors of values, which the emulator finds when it decodes the instruction.
const OF_VALUES: [&str; 4] = ["unexpected value", "out of range", "multiple of", "expected to be"];

/// Whether the instruction has what ptxas 13.0 takes against the PTX ISA: a predicate in a vector of
/// other registers, the bare register of a shared address beside a tensor's coordinates, `red.async`
/// without its mbarrier, `red` of `_` (on which ptxas then crashes), a type of integers beside those of an
/// MMA of small floats, a negated predicate as the source of a conversion, and with packed floats of
/// `multimem` any register and an accumulator that it does not use; and whether it has an address
/// of .global in a register of 32 bits, which ptxas refuses after it has read the module.
fn is_slip_of_ptxas(line: &str) -> bool {
    let mut vectors = line.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let is_bare = line.starts_with("cp.async.bulk.tensor") || line.starts_with("cp.reduce.async.bulk.tensor");
    let is_odd_type =
        line.contains(".kind::") && [".b1.", ".s4.", ".u4."].iter().any(|odd| line.contains(odd));
    let is_negated = line.starts_with("cvt") && line.contains("!%p");
    let is_packed = line.starts_with("multimem") && ["x2 ", "x4 "].iter().any(|end| line.contains(end));
    let has_narrow_space = [".shared", ".local", ".const", ".param"].iter().any(|space| line.contains(space));
    let is_narrow = !has_narrow_space
        && ["ld", "st", "atom", "red", "prefetch"].iter().any(|base| line.starts_with(base))
        && ["[%r", "[%u", "[%s"].iter().any(|narrow| line.contains(narrow) && !line.contains("[%rd"));
    vectors.any(|vector| vector.contains("%p"))
        || is_bare
        || is_odd_type
        || is_negated
        || is_packed
        || is_narrow
        || line.starts_with("red.async")
        || line.starts_with("red.") && line.contains(" _,")
}

/// Where `verify` and ptxas differ.
#[derive(Default)]
struct Differences {
    compared: usize,
    /// What ptxas takes and `verify` refuses.
    refused: Vec<String>,
    /// What ptxas refuses and `verify` takes.
    taken: Vec<String>,
}

impl Differences {
    fn compare(
        &mut self,
        assembler: &Assembler,
        target: &str,
        version: (u32, u32),
        lines: &BTreeSet<String>,
    ) {
        let lines: Vec<String> = lines.iter().cloned().collect();
        let theirs = refused_by_ptxas(assembler, target, version, &lines);
        let ours = refused_here(target, version, &lines);
        self.compared += lines.len();
        for line in &lines {
            let place = format!("{target} {}.{}: {line}", version.0, version.1);
            match (ours.get(line), theirs.get(line)) {
                (Some(said), None) if !is_slip_of_ptxas(line) => {
                    self.refused.push(format!("{place}  {said}"))
                }
                (None, Some(said)) if !OF_VALUES.iter().any(|words| said.contains(words)) => {
                    self.taken.push(format!("{place}  {said}"));
                }
                _ => {}
            }
        }
    }

    /// Fails if `verify` refuses anything that ptxas takes, or takes more than one in `taken` of what was
    /// compared that ptxas refuses.
    fn report(&self, taken: usize) {
        println!("{} compared", self.compared);
        assert!(
            self.refused.is_empty() && self.taken.len().saturating_mul(taken) <= self.compared,
            "{} compared.\n{} that ptxas takes are refused:\n{}\n{} that ptxas refuses are taken:\n{}",
            self.compared,
            self.refused.len(),
            self.refused.join("\n"),
            self.taken.len(),
            self.taken.join("\n"),
        );
    }
}

/// Lines by target and version.
type Programs = BTreeMap<(String, (u32, u32)), BTreeSet<String>>;

fn compare(programs: &Programs) -> Option<Differences> {
    let assembler = Assembler::from_environment()?;
    let mut differences = Differences::default();
    for ((target, version), lines) in programs {
        differences.compare(&assembler, target, *version, lines);
    }
    Some(differences)
}

/// The newest version that ptxas 13.0 has.
const NEWEST: (u32, u32) = (9, 0);

/// Spellings of a row that are tried for every target.
const SPELLINGS: usize = 4;

#[test]
fn every_row_exists_where_ptxas_has_it() {
    let mut programs = Programs::new();
    let targets: Vec<Target> = Target::all().filter(|target| target.number >= 50).collect();
    for (index, form) in one_in(5, forms().enumerate()) {
        for (name, signature) in form.instances(SPELLINGS) {
            let line = instruction(&name, &signature, index % 2 == 0);
            for target in &targets {
                programs.entry((target.to_string(), NEWEST)).or_default().insert(line.clone());
            }
        }
    }
    let Some(differences) = compare(&programs) else { return };
    differences.report(usize::MAX);
}

#[test]
fn every_row_exists_since_ptxas_has_it() {
    let mut programs = Programs::new();
    for (index, form) in one_in(5, forms().enumerate()) {
        for (name, signature) in form.instances(SPELLINGS) {
            let line = instruction(&name, &signature, index % 2 == 1);
            let availability = form.availability(&name);
            for target in targets(&availability) {
                let first = oldest_version(&availability, &target);
                let versions = VERSIONS.iter().filter(|version| **version >= version_of(&target));
                let before = versions.clone().rfind(|version| **version < first);
                for version in before.into_iter().chain([&first, &NEWEST]) {
                    programs.entry((target.clone(), *version)).or_default().insert(line.clone());
                }
            }
        }
    }
    let Some(differences) = compare(&programs) else { return };
    differences.report(usize::MAX);
}

/// Every version of PTX since sm_50.
const VERSIONS: [(u32, u32); 31] = [
    (4, 0),
    (4, 1),
    (4, 2),
    (4, 3),
    (5, 0),
    (5, 1),
    (6, 0),
    (6, 1),
    (6, 2),
    (6, 3),
    (6, 4),
    (6, 5),
    (7, 0),
    (7, 1),
    (7, 2),
    (7, 3),
    (7, 4),
    (7, 5),
    (7, 6),
    (7, 7),
    (7, 8),
    (8, 0),
    (8, 1),
    (8, 2),
    (8, 3),
    (8, 4),
    (8, 5),
    (8, 6),
    (8, 7),
    (8, 8),
    (9, 0),
];

/// Operands that replace one of an instruction.
const OPERANDS: [&str; 15] = [
    "%p1",
    "%rs1",
    "%r1",
    "%rd1",
    "%f1",
    "%fd1",
    "%u1",
    "%s1",
    "%h1",
    "1",
    "0f3F800000",
    "_",
    "[%rd2]",
    "!%p1",
    "%tid.x",
];

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// An instruction of which one word or operand is removed, added, moved or replaced.
    fn changed(&mut self, line: &str, words: &[&str]) -> String {
        let line = line.trim_end_matches(';');
        let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
        let (mut name, mut operands): (Vec<_>, Vec<_>) =
            (name.split('.').collect(), operands.split(", ").filter(|part| !part.is_empty()).collect());
        let in_name = name.len() > 1 && self.below(3) > 0;
        let (list, token, first) = match in_name {
            true => (&mut name, words[self.below(words.len())], 1),
            false => (&mut operands, OPERANDS[self.below(OPERANDS.len())], 0),
        };
        if list.len() > first {
            let at = first + self.below(list.len() - first);
            match self.below(4) {
                0 => drop(list.remove(at)),
                1 => list.insert(at, token),
                2 => {
                    let other = first + self.below(list.len() - first);
                    list.swap(at, other);
                }
                _ => list[at] = token,
            }
        }
        format!("{} {};", name.join("."), operands.join(", "))
    }
}

/// The words of the instructions whose first word is `base`.
fn words_of(base: &str) -> Vec<&'static str> {
    let own = forms().filter(|form| {
        form.name
            .split_whitespace()
            .next()
            .is_some_and(|names| names.split('|').any(|name| name.split('.').next() == Some(base)))
    });
    let words: BTreeSet<&str> = own
        .flat_map(|form| form.name.split([' ', '.', '|', '?']))
        .filter(|word| !word.is_empty() && instructions::has_word(base, word))
        .collect();
    words.into_iter().collect()
}

/// Changes instructions of every row, for the target that has the most.
fn changes(seed: u64, share: usize, count: usize) -> Programs {
    let mut random = Random(seed);
    let mut programs = Programs::new();
    let mut words: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for form in one_in(share, forms()) {
        for (name, signature) in form.instances(count) {
            let availability = form.availability(&name);
            let on = ["sm_90a", "sm_100a", "sm_120a", "sm_103a", "sm_62"];
            let Some(target) = on.into_iter().find(|target| availability.exists_on(NEWEST, target)) else {
                continue;
            };
            let base = name.split('.').next().unwrap_or("").to_owned();
            let words = words.entry(base.clone()).or_insert_with(|| words_of(&base));
            if words.is_empty() {
                continue;
            }
            for literals in [false, true] {
                let line = instruction(&name, &signature, literals);
                let lines = programs.entry((target.to_owned(), NEWEST)).or_default();
                lines.insert(random.changed(&line, words));
            }
        }
    }
    programs
}

#[test]
fn changed_instructions_are_taken_where_ptxas_takes_them() {
    let Some(differences) = compare(&changes(1, 4, 4)) else { return };
    differences.report(150);
}

#[test]
#[ignore = "takes minutes"]
fn many_changed_instructions_are_taken_where_ptxas_takes_them() {
    for seed in 0..10 {
        let Some(differences) = compare(&changes(seed, 1, 12)) else { return };
        differences.report(150);
    }
}
