//! What is known of registers beyond their class.

use std::cell::Cell;

use rustc_hash::FxHashMap;
use warpwright_ir::Register;

use crate::cta_group::CtaGroup;

/// What the registers of a kernel hold.
#[derive(Default)]
pub(crate) struct Facts {
    /// The variable that a register is a copy of.
    pub(crate) copies: FxHashMap<Register, Register>,
    pub(crate) stages: FxHashMap<Register, Stages>,
    pub(crate) threads: FxHashMap<Register, (u32, &'static str)>,
    pub(crate) columns: FxHashMap<Register, Columns>,
    pub(crate) holders: FxHashMap<(Register, i64), u32>,
    pub(crate) group: Option<CtaGroup>,
}

/// The stages that a register counts, or that memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stages {
    pub(crate) count: u32,
    /// The pipeline that they belong to; those of a kernel's own ring belong to none.
    pub(crate) pipeline: Option<PipelineId>,
}

/// Columns of tensor memory from an address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) left: u32,
    pub(crate) allocated: u32,
}

/// The pipeline that an operand belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PipelineId(u32);

impl PipelineId {
    pub(crate) fn next() -> Self {
        thread_local! {
            static NEXT: Cell<u32> = const { Cell::new(0) };
        }
        Self(NEXT.replace(NEXT.get().wrapping_add(1)))
    }
}
