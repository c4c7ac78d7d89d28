//! A value that is computed anew where a device-time condition holds.

use crate::device_value::assign;
use crate::element::Element;
use crate::staging::Condition;
use crate::value::Reg;

/// Values that a branch assigns.
pub(super) trait Values: Copy {
    /// Sets the variables of `self`.
    #[track_caller]
    fn set(&mut self, values: Self);
}

impl<T: Element> Values for Reg<T> {
    #[track_caller]
    fn set(&mut self, value: Self) {
        assign(self, value);
    }
}

impl<A: Element, B: Element> Values for (Reg<A>, Reg<B>) {
    #[track_caller]
    fn set(&mut self, values: Self) {
        assign(&mut self.0, values.0);
        assign(&mut self.1, values.1);
    }
}

/// `usual`, or where `condition` holds, `other()`, which is computed only there.
#[track_caller]
pub(super) fn unless<V: Values>(condition: Reg<bool>, usual: V, other: impl FnOnce() -> V) -> V {
    let mut result = usual;
    let mut branch = condition.branch();
    branch.then();
    result.set(other());
    branch.otherwise();
    branch.finish();
    result
}
