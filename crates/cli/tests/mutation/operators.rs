//! The faults that are put into a text: classes of them, and what each does to a statement.

use std::collections::HashSet;
use std::ops::Range;

use crate::mutation::text::{Kernel, Statement};

/// A fault put into a text.
pub(crate) struct Mutant {
    pub(crate) class: &'static Class,
    /// The line of the first statement that is changed.
    pub(crate) line: usize,
    /// What was there, and what is there now.
    pub(crate) before: String,
    pub(crate) after: String,
    edits: Vec<(Range<usize>, String)>,
}

impl Mutant {
    /// The text with the fault in it.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut broken = text.to_owned();
        for (range, new) in self.edits.iter().rev() {
            broken.replace_range(range.clone(), new);
        }
        broken
    }
}

/// Faults of one kind.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    /// What may become of a statement.
    changes: fn(&Statement<'_>, &Guards) -> Vec<String>,
    /// Whether a wrong result is always a fault in the sense of the memory model, which the
    /// checkers must find. It is not where the change makes another correct program, which computes
    /// something else.
    pub(crate) must_be_found: bool,
}

/// Predicates that decide whether memory is accessed.
pub(crate) struct Guards(HashSet<String>);

impl Guards {
    /// Those of a kernel: of accesses and of branches, and what they are computed from.
    fn of(kernel: &Kernel<'_>) -> Self {
        let mut guards = HashSet::new();
        for statement in kernel.statements.iter().rev() {
            let is_access = statement.is(&["ld.", "st.", "atom.", "red.", "cp.async", "bra"]);
            if let Some(guard) = statement.guard_name().filter(|_| is_access) {
                guards.insert(guard.to_owned());
            }
            let combines = statement.is(&["and.pred", "or.pred", "not.pred", "xor.pred"]);
            if combines && guards.contains(statement.operand(0)) {
                guards.extend(statement.operands[1..].iter().map(|&operand| operand.to_owned()));
            }
        }
        Self(guards)
    }
}

fn deleted(applies: bool) -> Vec<String> {
    if applies { vec![String::new()] } else { Vec::new() }
}

/// A number that stands in the statement becomes another one.
fn number(statement: &Statement<'_>, operand: usize, change: impl Fn(u64) -> Vec<u64>) -> Vec<String> {
    let Ok(now) = statement.operand(operand).parse::<u64>() else { return Vec::new() };
    change(now).into_iter().map(|new| statement.with_operand(operand, &new.to_string())).collect()
}

/// An operand of 32 bits goes through an instruction first.
fn through(statement: &Statement<'_>, operand: usize, instruction: &str, amount: i32) -> String {
    let changed = statement.with_operand(operand, "%mutated");
    let value = statement.operand(operand);
    format!("{{ .reg .b32 %mutated; {instruction} %mutated, {value}, {amount}; {changed} }}")
}

/// An operand of 32 bits, and something added to it.
fn plus(statement: &Statement<'_>, operand: usize, amount: i32) -> String {
    through(statement, operand, "add.s32", amount)
}

fn renamed(statement: &Statement<'_>, pairs: &[(&str, &str)]) -> Vec<String> {
    let parts: Vec<&str> = statement.opcode.split('.').collect();
    let mut results = Vec::new();
    for (from, to) in pairs {
        if let Some(at) = parts.iter().position(|part| part == from) {
            let mut parts = parts.clone();
            parts[at] = to;
            results.push(statement.with_opcode(&parts.join(".")));
        }
    }
    results
}

/// Accesses and fences that order others.
fn orders(statement: &Statement<'_>) -> bool {
    statement.is(&["ld.", "st.", "atom.", "red.", "fence.", "mbarrier.", "barrier.cluster."])
        && !statement.is(&["fence.proxy", "fence.mbarrier_init"])
}

/// Bulk copies whose bytes an mbarrier counts: those of others are the author's business.
fn is_counted_copy(statement: &Statement<'_>) -> bool {
    statement.is(&["cp.async.bulk.shared", "cp.reduce.async.bulk.shared"])
        && statement.opcode.contains("mbarrier::complete_tx")
}

/// A class whose wrong results must be found.
const fn class(name: &'static str, changes: fn(&Statement<'_>, &Guards) -> Vec<String>) -> Class {
    Class { name, changes, must_be_found: true }
}

/// All of them.
pub(crate) const CLASSES: &[Class] = &[
    class("a barrier of the CTA deleted", |s, _| {
        deleted(s.is(&["bar.sync", "barrier.sync", "barrier.cta.sync"]))
    }),
    class("a barrier waits for a warp more or less", |s, _| {
        let waits =
            s.is(&["bar.sync", "barrier.sync", "bar.arrive", "barrier.arrive"]) && s.operands.len() == 2;
        if waits { number(s, 1, |count| vec![count + 32, count - 32]) } else { Vec::new() }
    }),
    class("bar.arrive deleted", |s, _| {
        deleted(s.is(&["bar.arrive", "barrier.arrive", "barrier.cta.arrive"]))
    }),
    class("bar.warp.sync deleted", |s, _| deleted(s.is(&["bar.warp.sync"]))),
    class("half of a cluster barrier deleted", |s, _| {
        deleted(s.is(&["barrier.cluster.arrive", "barrier.cluster.wait"]))
    }),
    class(CLUSTER_BARRIER, |_, _| Vec::new()),
    class("fence deleted", |s, _| deleted(s.is(&["fence.acq", "fence.sc", "fence.rel", "membar"]))),
    class("fence.proxy.async deleted", |s, _| deleted(s.is(&["fence.proxy.async"]))),
    class("fence.proxy.tensormap deleted", |s, _| deleted(s.is(&["fence.proxy.tensormap"]))),
    class("fence.mbarrier_init deleted", |s, _| deleted(s.is(&["fence.mbarrier_init"]))),
    class("wgmma.fence deleted", |s, _| deleted(s.is(&["wgmma.fence"]))),
    class("commit deleted", |s, _| {
        deleted(s.is(&["wgmma.commit_group", "cp.async.commit_group", "cp.async.bulk.commit_group"]))
    }),
    class("wait for a group deleted", |s, _| {
        deleted(s.is(&[
            "wgmma.wait_group",
            "cp.async.wait_group",
            "cp.async.wait_all",
            "cp.async.bulk.wait_group",
        ]))
    }),
    class("wait leaves a group more", |s, _| {
        let waits = s.is(&["wgmma.wait_group", "cp.async.wait_group", "cp.async.bulk.wait_group"]);
        if waits { number(s, 0, |groups| vec![groups + 1]) } else { Vec::new() }
    }),
    class("wait for bulk stores only reads", |s, _| {
        let waits = s.opcode == "cp.async.bulk.wait_group";
        if waits { vec![s.with_opcode("cp.async.bulk.wait_group.read")] } else { Vec::new() }
    }),
    class("mbarrier wait passes", |s, _| {
        let waits = s.is(&["mbarrier.try_wait", "mbarrier.test_wait"]);
        let passed = || format!("{}setp.eq.u32 {}, 0, 0;", s.guard, s.operand(0));
        waits.then(passed).into_iter().collect()
    }),
    class("parity flipped", |s, _| {
        let waits = s.is(&["mbarrier.try_wait.parity", "mbarrier.test_wait.parity"]);
        waits.then(|| through(s, 2, "xor.b32", 1)).into_iter().collect()
    }),
    class("expect_tx of 16 bytes less", |s, _| expects(s, -16)),
    class("expect_tx of 16 bytes more", |s, _| expects(s, 16)),
    class("mbarrier.init counts one more or less", |s, _| {
        if !s.is(&["mbarrier.init"]) {
            return Vec::new();
        }
        let less = (s.operand(1) != "1").then(|| plus(s, 1, -1));
        [Some(plus(s, 1, 1)), less].into_iter().flatten().collect()
    }),
    class("arrival deleted", |s, _| {
        let passes = s.operand(0) == "_" || s.operand(0).starts_with('[');
        deleted(s.is(&["mbarrier.arrive", "mbarrier.expect_tx", "cp.async.mbarrier.arrive"]) && passes)
    }),
    class("bulk copy of 16 bytes more or less", |s, _| {
        if is_counted_copy(s) { vec![plus(s, 2, 16), plus(s, 2, -16)] } else { Vec::new() }
    }),
    class("order weakened", |s, _| {
        let weaker = [("release", "relaxed"), ("acquire", "relaxed"), ("acq_rel", "relaxed")];
        if orders(s) && !s.is(&["fence"]) { renamed(s, &weaker) } else { Vec::new() }
    }),
    class("scope narrowed to the CTA", |s, _| {
        let narrower = [("gpu", "cta"), ("sys", "cta"), ("cluster", "cta"), ("gl", "cta")];
        if orders(s) && !s.is(&["mbarrier.", "barrier."]) || s.is(&["membar"]) {
            renamed(s, &narrower)
        } else {
            Vec::new()
        }
    }),
    Class {
        name: "bound off by one",
        changes: |s, guards| {
            let integers =
                [".s32", ".u32", ".s64", ".u64", ".s16", ".u16"].iter().any(|kind| s.opcode.ends_with(kind));
            if !(integers && s.is(&["setp."]) && guards.0.contains(s.operand(0))) {
                return Vec::new();
            }
            renamed(s, &[("lt", "le"), ("ge", "gt"), ("le", "lt"), ("gt", "ge")])
        },
        must_be_found: false,
    },
];

const CLUSTER_BARRIER: &str = "cluster barrier deleted";

fn expects(statement: &Statement<'_>, more: i32) -> Vec<String> {
    if !statement.opcode.contains("expect_tx") {
        return Vec::new();
    }
    vec![plus(statement, statement.operands.len() - 1, more)]
}

/// Every mutant of a kernel, in the order of its statements.
pub(crate) fn mutants(kernel: &Kernel<'_>) -> Vec<Mutant> {
    let guards = Guards::of(kernel);
    let mut mutants = Vec::new();
    for (index, statement) in kernel.statements.iter().enumerate() {
        for class in CLASSES {
            for after in (class.changes)(statement, &guards) {
                mutants.push(Mutant {
                    class,
                    line: statement.line,
                    before: statement.text.to_owned(),
                    after: after.clone(),
                    edits: vec![(statement.range.clone(), after)],
                });
            }
            if class.name == CLUSTER_BARRIER && statement.is(&["barrier.cluster.arrive"]) {
                let after = &kernel.statements[index + 1..];
                if let Some(wait) = after.iter().find(|other| other.is(&["barrier.cluster.wait"])) {
                    mutants.push(Mutant {
                        class,
                        line: statement.line,
                        before: format!("{} {}", statement.text, wait.text),
                        after: String::new(),
                        edits: [statement, wait].map(|gone| (gone.range.clone(), String::new())).into(),
                    });
                }
            }
        }
    }
    mutants
}
