//! Copies that move their data some time between their issue and the moment the program waits for them.
//!
//! Under [`Schedule::Eager`] a copy is made when it is issued. Under `Latest` it is made at the last moment that the program
//! allows: when its thread waits for its group; or, when nothing else in the cluster can go on, the copies whose mbarrier
//! a thread waits for, and of others the oldest one. Under `Random` a seeded generator decides again and again which of
//! those under way go on, and by how many rows. What a copy reads it reads when it moves, never when it is issued.
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
