//! Decoded instructions, ready to execute.

pub(crate) mod barrier;
pub(crate) mod call;
pub(crate) mod collective;
pub(crate) mod kind;
pub(crate) mod warpgroup;
