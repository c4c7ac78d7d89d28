//! Positions in the sequence of a pipeline's stages.

use crate::DeviceValue;
use crate::device_value::assign;
use crate::operation::compute;
use crate::role::only_where;
use crate::value::{Reg, Value, constant};

/// A position in the sequence of stages: the stage, and the parity of its phase. (CUTLASS:
/// `PipelineState`.)
#[derive(Clone, Copy, DeviceValue)]
pub struct PipelineState {
    pub(super) stage: Reg<u32>,
    pub(super) parity: Reg<u32>,
}

impl PipelineState {
    /// The first position.
    #[track_caller]
    pub fn start() -> Self {
        Self { stage: copy_of(0u32), parity: copy_of(0u32) }
    }

    /// The position after `count` others of `stages` stages.
    #[track_caller]
    pub fn after(count: Reg<u32>, stages: u32) -> Self {
        Self { stage: count % stages, parity: count / stages % 2u32 }
    }

    /// The stage.
    pub fn stage(self) -> Reg<u32> {
        self.stage
    }

    /// The same position in stages that begin with stage `first` of a pipeline.
    #[track_caller]
    pub fn from_stage(self, first: Reg<u32>) -> Self {
        Self { stage: first + self.stage, ..self }
    }

    /// The parity of its phase.
    pub fn parity(self) -> Reg<u32> {
        self.parity
    }

    /// The next position of `stages` stages.
    #[track_caller]
    pub fn next(self, stages: u32) -> Self {
        let next = self.stage + 1u32;
        let wraps = next.eq(stages);
        Self { stage: wraps.select(0u32, next), parity: self.parity ^ wraps.to_u32() }
    }

    /// A copy, which [`step`](Self::step) does not change.
    #[track_caller]
    pub(super) fn now(&self) -> Self {
        Self { stage: copy_of(self.stage), parity: copy_of(self.parity) }
    }

    /// Goes on to the next position of `stages` stages, in place and by a branch: where a loop has many registers,
    /// [`next`](Self::next) may take one more (argmax of f16: 97 instead of 96, ptxas 13.0).
    #[track_caller]
    pub fn advance(&mut self, stages: u32) {
        let next = self.stage + 1u32;
        assign(&mut self.stage, next);
        only_where(self.stage.eq(stages), || {
            assign(&mut self.stage, constant(0u32));
            let parity = self.parity ^ 1u32;
            assign(&mut self.parity, parity);
        });
    }

    /// Goes on to the next position by selects.
    #[track_caller]
    pub(super) fn step(&mut self, stages: u32) {
        let next = self.stage + 1u32;
        let wraps = next.eq(stages);
        let parity = self.parity ^ wraps.to_u32();
        assign(self, Self { stage: wraps.select(0u32, next), parity });
    }
}

#[track_caller]
pub(super) fn copy_of(value: impl Value<u32>) -> Reg<u32> {
    compute("mov.u32", [value.operand()])
}
