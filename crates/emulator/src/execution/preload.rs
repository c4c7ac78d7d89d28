//! The values of special registers, and of the other columns that are filled when a function is
//! entered.

use std::time::Duration;

use warpwright_events::{LANES, shared_base};

use crate::kernel::image::{Preload, PreloadPlace, PreloadValue};
use crate::kernel::special::{Clock, SpecialRegister, WarpPosition};
use crate::launch::context::LaunchContext;
use crate::launch::time::Moment;
use crate::registers::{Registers, blend};

impl Preload {
    /// Fills the column, in the lanes of a mask.
    pub(crate) fn fill(
        &self,
        registers: &mut Registers,
        launch: &LaunchContext<'_>,
        position: WarpPosition,
        mask: u32,
    ) {
        let values = match self.value {
            PreloadValue::Bits(bits) => [bits; LANES],
            PreloadValue::Special(register) => register.column(launch, position),
            PreloadValue::Shared(offset) => [shared_address(launch, position, offset); LANES],
            PreloadValue::DynamicShared(offset) => {
                let offset = i64::from(launch.kernel.dynamic_shared_offset).wrapping_add(offset);
                [shared_address(launch, position, offset); LANES]
            }
            PreloadValue::Parameter { offset, bytes, signed } => {
                [launch.parameter(offset, bytes, signed); LANES]
            }
        };
        match self.place {
            PreloadPlace::Word(slot) => {
                blend(registers.word_mut(slot), mask, values.map(|value| value as u32))
            }
            PreloadPlace::Long(slot) => blend(registers.long_mut(slot), mask, values),
            PreloadPlace::Predicate(slot) => {
                registers.set_predicate(slot, mask, if values[0] != 0 { u32::MAX } else { 0 });
            }
        }
    }
}

/// The address of an offset in the shared memory of a warp's CTA.
fn shared_address(launch: &LaunchContext<'_>, position: WarpPosition, offset: i64) -> u64 {
    shared_base(launch.rank_in_cluster(position.cta)).wrapping_add_signed(offset)
}

impl SpecialRegister {
    /// Its values in a warp.
    pub(crate) fn column(self, launch: &LaunchContext<'_>, position: WarpPosition) -> [u64; LANES] {
        let all = |value: u32| [u64::from(value); LANES];
        let lanes = |of: fn(u32) -> u32| std::array::from_fn(|lane| u64::from(of(lane as u32)));
        let linear = launch.linear_cta(position.cta);
        match self {
            SpecialRegister::ThreadIndex(axis) => std::array::from_fn(|lane| {
                let thread = position.warp * LANES as u32 + lane as u32;
                let [x, y, _] = launch.block;
                u64::from([thread % x, thread / x % y, thread / (x * y)][axis])
            }),
            SpecialRegister::CtaExtent(axis) => all(launch.block[axis]),
            SpecialRegister::CtaIndex(axis) => all(position.cta[axis]),
            SpecialRegister::ClusterIndex(axis) => all(position.cta[axis] / launch.cluster[axis]),
            SpecialRegister::GridExtent(axis) => all(launch.grid[axis]),
            SpecialRegister::ClusterCount(axis) => all(launch.clusters()[axis]),
            SpecialRegister::Lane => lanes(|lane| lane),
            SpecialRegister::Warp => all(position.warp),
            SpecialRegister::Warps => all(launch.arch.capability.warps_per_sm),
            SpecialRegister::Sm => all((linear % u64::from(launch.arch.sm_count)) as u32),
            SpecialRegister::Sms => all(launch.arch.sm_count),
            SpecialRegister::Grid => [launch.grid_id; LANES],
            SpecialRegister::LaneMaskEqual => lanes(|lane| 1 << lane),
            SpecialRegister::LaneMaskLess => lanes(|lane| (1 << lane) - 1),
            SpecialRegister::LaneMaskLessEqual => lanes(|lane| (1 << lane) | ((1 << lane) - 1)),
            SpecialRegister::LaneMaskGreater => lanes(|lane| !((1 << lane) | ((1 << lane) - 1))),
            SpecialRegister::LaneMaskGreaterEqual => lanes(|lane| !((1 << lane) - 1)),
            SpecialRegister::DynamicSharedBytes => all(launch.dynamic_shared_bytes),
            SpecialRegister::TotalSharedBytes => all(launch.shared_bytes),
            SpecialRegister::AggregateSharedBytes => {
                all(launch.shared_bytes + launch.arch.capability.shared_bytes_reserved)
            }
            SpecialRegister::ReservedSharedStart => all(launch.reserved_shared_start()),
            SpecialRegister::ReservedSharedEnd => {
                all(launch.reserved_shared_start() + launch.arch.capability.shared_bytes_reserved)
            }
            SpecialRegister::ReservedSharedBytes => all(launch.arch.capability.shared_bytes_reserved),
            SpecialRegister::CtaInCluster(axis) => all(position.cta[axis] % launch.cluster[axis]),
            SpecialRegister::CtaRankInCluster => all(launch.rank_in_cluster(position.cta)),
            SpecialRegister::ClusterExtent(axis) => all(launch.cluster[axis]),
            SpecialRegister::CtasInCluster => all(launch.ctas_per_cluster()),
            SpecialRegister::ClusterIsExplicit => all(launch.explicit_cluster.into()),
            SpecialRegister::Zero => all(0),
        }
    }
}

impl Clock {
    /// Its value at a moment of the launch.
    pub(crate) fn read(self, launch: &LaunchContext<'_>, moment: Moment) -> u64 {
        let mhz = u64::from(launch.arch.boost_mhz);
        let (cycles, elapsed) = match moment {
            Moment::Elapsed(elapsed) => ((elapsed.as_nanos() as u64).wrapping_mul(mhz) / 1000, elapsed),
            Moment::Cycle(cycle) => (cycle, Duration::from_nanos(cycle * 1000 / mhz)),
        };
        let nanoseconds = || launch.clock.date(elapsed).as_nanos() as u64;
        match self {
            Clock::Cycles => cycles,
            Clock::CyclesHigh => cycles >> 32,
            Clock::Nanoseconds => nanoseconds(),
            Clock::NanosecondsHigh => nanoseconds() >> 32,
        }
    }
}
