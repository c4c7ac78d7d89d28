//! What a step does, counted on the emulator in a launch small enough for it.

use anyhow::{Context, Error, Result};
use serde_json::{Value, json};
use warpwright_count::Counts;
use warpwright_harness::{Ladder, Resources, Work};
use warpwright_runtime::{Counters, Device, LaunchRecord};

use crate::kernel::{self, KernelChoice};

/// What one launch of the small size did, and what its kernel takes.
pub(super) struct Counted {
    pub(super) counts: Counts,
    pub(super) work: Work,
    pub(super) resources: Resources,
}

impl Counted {
    /// Launches the step of these options once, at the ladder's small size, and checks what it
    /// left.
    pub(super) fn of(choice: &KernelChoice, ladder: &Ladder) -> Result<Self> {
        let mut small = choice.clone();
        for (name, value) in ladder.counted {
            small.workload.set(name, value)?;
        }
        let emulator = Device::named(ladder.counted_on)?.counted()?;
        let mut prepared = small.prepare(&emulator)?;
        // Launches of the preparation are not part of the step.
        emulator.take_counters();
        let launches = kernel::launches(prepared.as_mut(), &emulator.stream()?)?;
        let counts = total(&emulator.take_counters());
        kernel::verify(prepared.as_mut())?;
        Ok(Self { counts, work: small.workload.work(), resources: resources(&launches)? })
    }

    pub(super) fn as_json(&self) -> Value {
        let Counts { executions, copies, shared, .. } = &self.counts;
        let global = self.counts.global();
        json!({
            "operations": self.work.operations,
            "warp_instructions": executions,
            "global_requests": global.requests,
            "global_sectors": global.sectors,
            "excess_sectors": global.excess(),
            "copied_sectors": copies.sectors,
            "shared_requests": shared.requests,
            "shared_wavefronts": shared.wavefronts,
            "bank_conflicts": shared.conflicts(),
        })
    }
}

/// What launches did together.
pub(super) fn total(launches: &[Counters]) -> Counts {
    let mut counts = Counts::default();
    launches.iter().for_each(|launch| counts += launch.total().counts);
    counts
}

/// The resources of the first of the launches that has the most threads: the main kernel of a step.
pub(super) fn resources(launches: &[LaunchRecord]) -> Result<Resources> {
    let threads = |launch: &&LaunchRecord| {
        launch.launch.grid.0.iter().chain(&launch.launch.block.0).map(|&n| u64::from(n)).product::<u64>()
    };
    let main = launches.iter().rev().max_by_key(threads).context("the step launches no kernel")?;
    Resources::of(main).map_err(Error::from_boxed)
}

/// The options of a ladder's counted launch, as flags.
pub(super) fn flags(ladder: &Ladder) -> String {
    ladder.counted.iter().map(|(name, value)| format!("--{name} {value}")).collect::<Vec<_>>().join(" ")
}
