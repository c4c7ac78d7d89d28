//! A value that a device-time condition decides, where only one of two computations runs.

use crate::staging::{Condition, DeviceValue, Yields};
use crate::value::Reg;

/// `then()` where `condition` holds and `otherwise()` elsewhere, with a branch: for a computation
/// that is long and rarely needed.
#[track_caller]
pub(super) fn branch<V: DeviceValue + Yields<V>>(
    condition: Reg<bool>,
    then: impl FnOnce() -> V,
    otherwise: impl FnOnce() -> V,
) -> V {
    let mut branch = condition.branch();
    branch.then();
    let then = then();
    branch.otherwise();
    let otherwise = otherwise();
    branch.join(Some(then), Some(otherwise)).expect("both branches reach their end")
}
