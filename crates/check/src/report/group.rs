//! Asynchronous work whose group nothing has waited for, in words.

use warpwright_events::{AsyncKind, Awaited, Code};

use crate::state::work::Progress;

/// The words for one kind of work.
pub(crate) struct Group {
    unit: &'static str,
    commit: &'static str,
    /// The call that waits, and its instruction.
    wait: (&'static str, &'static str),
}

impl Group {
    /// The words for work that a program commits to groups; `None` for work of tensor cores.
    pub(crate) fn of(kind: AsyncKind, awaited: Awaited) -> Option<Self> {
        let (unit, commit, wait) = match (kind, awaited) {
            (AsyncKind::Copy, _) => (
                "copy",
                "`commit_async_copies()` (`cp.async.commit_group`)",
                ("wait_async_copies", "cp.async.wait_group"),
            ),
            (AsyncKind::Bulk, Awaited::Sources) => (
                "bulk copy",
                "`bulk_commit()` (`cp.async.bulk.commit_group`)",
                ("bulk_wait_read", "cp.async.bulk.wait_group.read"),
            ),
            (AsyncKind::Bulk, Awaited::Everything) => (
                "bulk copy",
                "`bulk_commit()` (`cp.async.bulk.commit_group`)",
                ("bulk_wait", "cp.async.bulk.wait_group"),
            ),
            (AsyncKind::Multiply, _) => (
                "wgmma",
                "`commit_multiplications()` (`wgmma.commit_group`)",
                ("wait_multiplications", "wgmma.wait_group"),
            ),
            (AsyncKind::TensorCore | AsyncKind::TensorLoad | AsyncKind::TensorStore, _) => return None,
        };
        Some(Self { unit, commit, wait })
    }

    /// What is missing, and how to add it, if the issuer has done something towards the completion
    /// that is not enough.
    pub(crate) fn missing(&self, progress: Progress, code: &Code) -> Option<(String, String)> {
        let Self { unit, commit, wait: (call, instruction) } = self;
        let at = |pc: u32| {
            let instruction = code.instruction(pc);
            match &instruction.source {
                Some(source) => format!("at {source}"),
                None => format!("at PTX line {}", instruction.line),
            }
        };
        match progress {
            Progress::Uncommitted { wait: Some(wait) } => Some((
                format!(
                    "the {unit} was never committed: `{call}` (`{instruction}`) {} waits for committed groups only",
                    at(wait)
                ),
                format!("call {commit} after the {unit} is issued, before the wait"),
            )),
            Progress::Uncommitted { wait: None } => Some((
                format!("the {unit} was never committed, and nothing has waited for it"),
                format!("call {commit} after the {unit} is issued, then `{call}(0)` (`{instruction} 0`)"),
            )),
            Progress::Committed { early_wait: Some(wait) } => Some((
                format!(
                    "the {unit} was committed after `{call}` (`{instruction}`) {}, which waits for committed groups only",
                    at(wait)
                ),
                format!("call {commit} before the wait"),
            )),
            Progress::Left { wait, allowed, needed } => {
                let groups =
                    if allowed == 1 { "latest group".to_owned() } else { format!("{allowed} latest groups") };
                Some((
                    format!(
                        "`{call}({allowed})` (`{instruction} {allowed}`) {} leaves the {groups} in flight, and this {unit} \
                         is in {}",
                        at(wait),
                        if allowed == 1 { "it" } else { "one of them" },
                    ),
                    format!("pass {needed}, or commit a group in every round, also an empty one"),
                ))
            }
            Progress::Committed { early_wait: None } | Progress::Awaited => None,
        }
    }

    /// What is missing where the issuer has waited for the work.
    pub(crate) fn missing_barrier(&self) -> (String, String) {
        (
            format!(
                "the thread that issued the {} has waited for it, and this thread has not synchronized with it since",
                self.unit
            ),
            "put a barrier after the wait, before other threads access the bytes".to_owned(),
        )
    }
}
