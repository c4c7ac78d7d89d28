//! The main loop of a type of Q, K and V: the products of a block, and the softmax between them.

use warpwright::lang::staging::Yields;
use warpwright::prelude::*;

use super::consumer::{Block, Part, Registers, Stages, Warpgroup};
use crate::gemm::problem::types::Operand;

/// What of the forward kernel depends on the type of Q, K and V. (FlashAttention-3: `CollectiveMainloopFwd`.)
pub(super) trait Mainloop {
    /// The elements of Q, K and V.
    type Element: Operand;
    /// The scales of a tile's heads.
    type Scales: DeviceValue + Copy + Yields<Self::Scales>;
    /// The softmax of a thread's rows.
    type Softmax: DeviceValue + Copy + Yields<Self::Softmax>;

    /// The scales of a tile's heads.
    fn scales(&self, warpgroup: &Warpgroup<'_>, part: &Part) -> Self::Scales;

    /// A thread's part of tile `number`, with the scales of its heads.
    #[track_caller]
    fn part(&self, warpgroup: &Warpgroup<'_>, number: Reg<u32>) -> (Part, Self::Scales) {
        let part = warpgroup.part(number);
        (part, self.scales(warpgroup, &part))
    }

    /// The softmax of a tile before its first block.
    fn softmax(&self, warpgroup: &Warpgroup<'_>, part: &Part) -> Self::Softmax;

    /// S of a tile's first block becomes P, and O zero.
    fn finish_first_scores(
        &self,
        warpgroup: &Warpgroup<'_>,
        part: &(Part, Self::Scales),
        registers: &mut Registers<Self::Element>,
        stages: &mut Stages,
        softmax: &mut Self::Softmax,
    );

    /// P·V of the block before is added to O, and S of a block becomes P.
    fn step(
        &self,
        warpgroup: &Warpgroup<'_>,
        block: Block<'_, Self::Scales>,
        registers: &mut Registers<Self::Element>,
        stages: &mut Stages,
        softmax: &mut Self::Softmax,
    );

    /// Starts to add P·V of a tile's last block to O.
    fn start_out(
        &self,
        warpgroup: &Warpgroup<'_>,
        registers: &mut Registers<Self::Element>,
        stages: &mut Stages,
        softmax: &Self::Softmax,
    );

    /// Waits for O, with at most `later` products in flight, and divides it by the sums of the weights.
    /// Returns the logarithms of the rows.
    fn finish_out(
        &self,
        registers: &mut Registers<Self::Element>,
        stages: &mut Stages,
        softmax: &Self::Softmax,
        later: u32,
    ) -> [Reg<f32>; 2];
}
