//! Conflicts and broken rules, as findings.

pub(crate) mod conflict;
pub(crate) mod explain;
pub(crate) mod finding;
pub(crate) mod firsts;
pub(crate) mod group;
pub(crate) mod guess;
pub(crate) mod merge;
mod missing;
pub(crate) mod misuse;
pub(crate) mod order;
pub(crate) mod overlap;
pub(crate) mod overrun;
pub(crate) mod parting;
pub(crate) mod render;
pub(crate) mod tile;
