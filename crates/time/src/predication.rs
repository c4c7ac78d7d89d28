//! Short branches that ptxas replaces by predicates.

use warpwright_arch::instructions::Class;
use warpwright_events::Code;

/// Operations that a branch skips, at most: ptxas 13 predicates 15 of `transpose`, two of them accesses.
const LONGEST: u32 = 16;

/// The branches of a program that ptxas replaces: each skips a few operations if its predicate holds, and the SM issues these
/// operations with a predicate instead. ptxas does so where loads of global memory can move ahead of one another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Predication {
    /// The branch and its target, sorted.
    branches: Vec<(u32, u32)>,
    /// The operations after a branch and at its target, sorted.
    joins: Vec<u32>,
}

impl Predication {
    pub(crate) fn of(code: &Code) -> Self {
        let is_short = |&(branch, target): &(u32, u32)| {
            let skipped = branch + 1..target;
            let class = |pc: u32| code.instruction(pc).form.map(|form| form.class);
            let goes_in = |branch: &warpwright_events::Branch| {
                skipped.contains(&branch.target) || skipped.contains(&branch.operation)
            };
            code.instruction(branch).guard.is_some()
                && !skipped.is_empty()
                && skipped.len() as u32 <= LONGEST
                && skipped.clone().all(|pc| class(pc).is_some_and(can_be_predicated))
                && skipped.clone().any(|pc| {
                    class(pc) == Some(Class::Load) && code.instruction(pc).name().contains(".global")
                })
                && !code.branches.iter().any(goes_in)
        };
        let mut branches: Vec<_> =
            code.branches.iter().map(|branch| (branch.operation, branch.target)).filter(is_short).collect();
        branches.sort_unstable();
        let mut joins: Vec<_> = branches.iter().flat_map(|&(branch, target)| [branch + 1, target]).collect();
        joins.sort_unstable();
        Self { branches, joins }
    }

    pub(crate) fn branches(&self) -> &[(u32, u32)] {
        &self.branches
    }

    /// Whether operations up to `end` and those from `from` on are issued in one sequence, which a branch or its target was
    /// between.
    pub(crate) fn continues(&self, end: u32, from: u32) -> bool {
        match from == end {
            true => self.joins.binary_search(&end).is_ok(),
            false => self.branches.binary_search(&(end.wrapping_sub(1), from)).is_ok(),
        }
    }

    /// Whether it is one of the branches.
    pub(crate) fn replaces(&self, branch: u32) -> bool {
        self.branches.binary_search_by_key(&branch, |&(branch, _)| branch).is_ok()
    }
}

fn can_be_predicated(class: Class) -> bool {
    matches!(
        class,
        Class::Integer
            | Class::IntegerMultiply
            | Class::Logic
            | Class::BitCount
            | Class::Compare
            | Class::Select
            | Class::Float
            | Class::FloatCompare
            | Class::Conversion
            | Class::Move
            | Class::Address
            | Class::Load
            | Class::Store
    )
}
