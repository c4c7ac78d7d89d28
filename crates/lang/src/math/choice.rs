//! A value that is computed anew where a device-time condition holds.

use crate::element::Element;
use crate::staging::{Condition, assign};
use crate::value::Reg;

/// `usual`, or where `condition` holds, `rare()`: a long computation, in a branch that is seldom
/// taken.
#[track_caller]
pub(super) fn unless<A: Element, B: Element>(
    condition: Reg<bool>,
    usual: (Reg<A>, Reg<B>),
    rare: impl FnOnce() -> (Reg<A>, Reg<B>),
) -> (Reg<A>, Reg<B>) {
    let (mut first, mut second) = usual;
    let mut branch = condition.branch();
    branch.then();
    let (rare_first, rare_second) = rare();
    assign(&mut first, rare_first);
    assign(&mut second, rare_second);
    branch.otherwise();
    branch.finish();
    (first, second)
}
