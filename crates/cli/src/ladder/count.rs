//! What a step does, counted on the emulator in a launch small enough for it.

use anyhow::{Error, Result};
use serde_json::{Value, json};
use warpwright_count::Counts;
use warpwright_kernels::registry::{Ladder, LibraryKernel, Options, Resources, Work};
use warpwright_runtime::Device;

/// Where instructions are counted.
pub(super) const COUNTED_ON: &str = "emu:h200";

/// What one launch of the small size did, and what its kernel takes.
pub(super) struct Counted {
    pub(super) counts: Counts,
    pub(super) work: Work,
    pub(super) resources: Option<Resources>,
}

impl Counted {
    /// Launches the step of these options once, at the ladder's small size, and checks what it left.
    pub(super) fn of(kernel: &dyn LibraryKernel, ladder: &Ladder, options: &Options) -> Result<Self> {
        let mut small = options.clone();
        for (name, value) in ladder.counted {
            small.set(name, value)?;
        }
        let emulator = Device::named(COUNTED_ON)?.counted()?;
        let mut prepared = kernel.prepare(&emulator, &small).map_err(Error::from_boxed)?;
        // What was launched to prepare is no part of the step.
        emulator.take_counters();
        prepared.launch(&emulator.stream()?).map_err(Error::from_boxed)?;
        let mut counts = Counts::default();
        emulator.take_counters().iter().for_each(|launch| counts += launch.total().counts);
        prepared.verify().map_err(Error::from_boxed)?;
        Ok(Self { counts, work: prepared.work(), resources: prepared.resources() })
    }

    pub(super) fn as_json(&self) -> Value {
        let Counts { executions, global, copies, shared, .. } = &self.counts;
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

/// The options of a ladder's counted launch, as flags.
pub(super) fn flags(ladder: &Ladder) -> String {
    ladder.counted.iter().map(|(name, value)| format!("--{name} {value}")).collect::<Vec<_>>().join(" ")
}
