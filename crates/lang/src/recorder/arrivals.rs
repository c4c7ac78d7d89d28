//! The arrivals that an mbarrier is initialized for, and those that the kernel makes, where both are
//! known.

use rustc_hash::{FxHashMap, FxHashSet};
use warpwright_ir::{Body, Instruction, Label, Location, Operand, Register, Statement};

use super::Recorder;
use super::threads::Threads;

/// An mbarrier: its base register and offset.
type Barrier = (Register, i64);

/// Arrivals by one instruction.
struct Arrivals {
    /// How many, each time the block executes it; `None` if that is not known.
    count: Option<u64>,
    /// Whether it is in a loop.
    repeats: bool,
    location: Location,
}

/// What a kernel states of one mbarrier.
#[derive(Default)]
struct Account {
    /// The arrivals of a phase; `None` if they are not a constant.
    initialized: Vec<(Option<u64>, Location)>,
    arrivals: Vec<Arrivals>,
}

/// The threads that reach a statement, if they are known.
type Reaching = Option<Vec<bool>>;

struct Walk<'a> {
    threads: &'a Threads<'a>,
    accounts: FxHashMap<Barrier, Account>,
    /// Base registers of addresses that other instructions use: arrivals may go by them.
    escaped: FxHashSet<Register>,
    loops: u32,
    /// The threads that have not returned.
    alive: Reaching,
}

fn both(a: &Reaching, b: &Reaching) -> Reaching {
    let (a, b) = a.as_ref().zip(b.as_ref())?;
    Some(a.iter().zip(b).map(|(a, b)| *a && *b).collect())
}

fn without(a: &Reaching, b: &Reaching) -> Reaching {
    let (a, b) = a.as_ref().zip(b.as_ref())?;
    Some(a.iter().zip(b).map(|(a, b)| *a && !*b).collect())
}

impl Walk<'_> {
    /// Visits statements that the threads `reaching` reach. Returns those that go on after them.
    fn visit(&mut self, body: &Body, mut reaching: Reaching) -> Reaching {
        for statement in body {
            reaching = match statement {
                Statement::Instruction(instruction) if ends_thread(instruction) => self.end(&reaching),
                Statement::Instruction(instruction) => {
                    self.instruction(instruction, &reaching);
                    reaching
                }
                Statement::If { condition, then, otherwise, .. } => {
                    let holding = self.threads.holding(*condition);
                    let then_before = both(&reaching, &holding);
                    let otherwise_before = without(&reaching, &holding);
                    let after = self.visit(then, then_before).zip(self.visit(otherwise, otherwise_before));
                    match after {
                        Some((a, b)) => Some(a.iter().zip(&b).map(|(a, b)| *a || *b).collect()),
                        // Without a jump all threads go on, whichever took the branch.
                        None if !leaves(then, &mut vec![]) && !leaves(otherwise, &mut vec![]) => reaching,
                        None => None,
                    }
                }
                Statement::Loop { body, step, .. } => {
                    self.loops += 1;
                    let after = self.visit(body, reaching.clone());
                    self.visit(step, after);
                    self.loops -= 1;
                    both(&reaching, &self.alive)
                }
                Statement::Block { body, .. } => {
                    self.visit(body, reaching.clone());
                    both(&reaching, &self.alive)
                }
                Statement::Break(..) | Statement::Continue(..) => self.none(),
                Statement::Return(_) => self.end(&reaching),
                Statement::Print { .. } | Statement::Assert { .. } => reaching,
            };
        }
        reaching
    }

    fn end(&mut self, reaching: &Reaching) -> Reaching {
        self.alive = without(&self.alive, reaching);
        self.none()
    }

    fn none(&self) -> Reaching {
        Some(vec![false; self.threads.count() as usize])
    }

    fn instruction(&mut self, instruction: &Instruction, reaching: &Reaching) {
        let Instruction { guard, opcode, destinations, operands, location } = instruction;
        let words: Vec<&str> = opcode.split('.').collect();
        let mut barrier = None;
        for operand in &operands[*destinations..] {
            match operand {
                Operand::Address { base, offset, .. } => {
                    let Operand::Register(base) = **base else { continue };
                    if words[0] == "mbarrier" || opcode.starts_with("cp.async.mbarrier.arrive") {
                        barrier = Some((base, *offset));
                    } else if !opcode.starts_with("cp.async.bulk") {
                        self.escaped.insert(base);
                    }
                }
                Operand::Register(register) => {
                    self.escaped.insert(*register);
                }
                Operand::Vector(lanes) => self.escaped.extend(lanes.iter().filter_map(|lane| match lane {
                    Operand::Register(register) => Some(*register),
                    _ => None,
                })),
                _ => {}
            }
        }
        let Some(barrier) = barrier else { return };
        let after_address =
            operands.iter().skip_while(|operand| !matches!(operand, Operand::Address { .. })).nth(1);
        let number = match after_address {
            None => Some(1),
            Some(Operand::Integer(number)) => u64::try_from(*number).ok(),
            Some(_) => None,
        };
        let account = self.accounts.entry(barrier).or_default();
        let each = match words[1] {
            "init" => return account.initialized.push((number, *location)),
            "arrive" if words.contains(&"expect_tx") => Some(1),
            "arrive" => number,
            "async" if words.contains(&"noinc") => Some(1),
            "arrive_drop" => None,
            _ => return,
        };
        let threads = reaching.as_ref().filter(|_| guard.is_none());
        let threads = threads.map(|reaching| reaching.iter().filter(|reaches| **reaches).count() as u64);
        let count = each.zip(threads).map(|(each, threads)| each * threads);
        account.arrivals.push(Arrivals { count, repeats: self.loops > 0, location: *location });
    }
}

fn ends_thread(instruction: &Instruction) -> bool {
    matches!(instruction.opcode.as_ref(), "exit" | "trap")
}

/// Whether a statement leaves the body before its end; `inside` are the labels of loops and blocks in
/// it.
pub(super) fn leaves(body: &Body, inside: &mut Vec<Label>) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Break(label, _) | Statement::Continue(label, _) => !inside.contains(label),
        Statement::Return(_) => true,
        Statement::Instruction(instruction) => ends_thread(instruction),
        Statement::If { then, otherwise, .. } => leaves(then, inside) || leaves(otherwise, inside),
        Statement::Loop { label, body, .. } | Statement::Block { label, body } => {
            inside.push(*label);
            let leaves = leaves(body, inside);
            inside.pop();
            leaves
        }
        _ => false,
    })
}

impl Account {
    /// The position of a mistake, what it is, and a note.
    fn mistake(&self) -> Option<(Location, String, (Location, String))> {
        let &(expected, initialized) = self.initialized.first()?;
        let expected = expected.filter(|_| self.initialized.iter().all(|(other, _)| *other == expected))?;
        for Arrivals { count, location, .. } in &self.arrivals {
            if let Some(count) = count.filter(|count| *count > expected) {
                let message = format!(
                    "this makes {count} arrivals at an mbarrier that is initialized for {expected}: each thread that executes it \
                     counts"
                );
                return Some((*location, message, (initialized, "it is initialized here".to_owned())));
            }
        }
        let arrivals = self.arrivals.iter().map(|arrivals| arrivals.count.filter(|_| !arrivals.repeats));
        let sum = arrivals.sum::<Option<u64>>().filter(|sum| 0 < *sum && *sum < expected)?;
        let message = format!(
            "this initializes an mbarrier for {expected} arrivals, and the kernel makes {sum}: initialize it for the threads that \
             arrive"
        );
        Some((initialized, message, (self.arrivals.first()?.location, "a thread arrives here".to_owned())))
    }
}

impl Recorder {
    /// Refuses mbarriers whose phases have another number of arrivals than the kernel makes.
    pub(super) fn check_arrivals(&mut self) {
        let mut has_barriers = false;
        self.kernel.for_each_instruction(&mut |instruction| {
            has_barriers |= instruction.opcode.starts_with("mbarrier.init");
        });
        let Some(threads) = Threads::of(&self.kernel).filter(|_| has_barriers) else { return };
        let everyone = Some(vec![true; threads.count() as usize]);
        let mut walk = Walk {
            threads: &threads,
            accounts: FxHashMap::default(),
            escaped: FxHashSet::default(),
            loops: 0,
            alive: everyone.clone(),
        };
        walk.visit(&self.kernel.body, everyone);
        let Walk { accounts, escaped, .. } = walk;
        let is_whole = |base: &Register| self.allocations.contains_key(base) && !escaped.contains(base);
        let accounts = accounts.into_iter().filter(|((base, _), _)| is_whole(base));
        let mut mistakes: Vec<_> = accounts.filter_map(|(_, account)| account.mistake()).collect();
        mistakes.sort();
        for (location, message, note) in mistakes {
            self.error_with_notes(location, message, vec![note]);
        }
    }
}
