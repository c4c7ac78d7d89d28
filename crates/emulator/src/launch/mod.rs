//! State that all CTAs of a launch share.

pub(crate) mod address_names;
pub(crate) mod context;
pub(crate) mod failure;
pub(crate) mod limit;
pub(crate) mod observer;
pub(crate) mod pending;
pub(crate) mod schedule;
pub(crate) mod time;
