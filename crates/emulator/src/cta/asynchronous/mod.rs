//! Copies that move their data at some time between their issue and the wait for them.
//!
//! Under [`Schedule::Eager`] a copy executes when it is issued. Under `Latest` it executes as late
//! as the program allows: when its thread waits for its group, or when nothing else in the cluster
//! can proceed. Then copies whose mbarrier a thread waits for go first, and of the others the
//! oldest. Under `Random` a seeded generator repeatedly selects copies in flight and the number of
//! rows they advance. A copy reads its source when it executes, not when it is issued.
//!
//! A bulk or tensor copy is a [`Transfer`], a `cp.async` of a lane a [`PendingCopy`].

pub(crate) mod lane_copy;
mod motion;
mod observe;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod reduction;
mod shared_tile;
pub(crate) mod transfer;
