//! Buffers in rotation: several sets of inputs and outputs, each with data of its own, used one after the other, so that no
//! launch finds in a cache what the one before it touched.

use warpwright::runtime::{Device, LaunchCounts, Stream};

use crate::registry::{Prepared, Result, Verified, Work};

/// All sets together are this many times as large as the L2 cache, or there are [`MOST_SETS`] of them.
const CACHES: u64 = 4;
/// No more sets than this, however small they are.
const MOST_SETS: u64 = 64;

/// How many sets of `bytes` bytes each to rotate through. An emulator has no cache to get past.
pub fn sets(device: &Device, bytes: u64) -> u64 {
    let properties = device.properties();
    if properties.is_emulated {
        1
    } else {
        (CACHES * properties.l2_bytes).div_ceil(bytes.max(1)).min(MOST_SETS)
    }
}

/// A kernel with sets of buffers that its launches take in turn.
struct Rotation<Set, Launch, Verify> {
    sets: Vec<Set>,
    launches: usize,
    launch: Launch,
    verify: Verify,
    work: Work,
}

/// A kernel whose buffers rotate: `make` makes the set of a seed; `launch` launches on one, and `verify` checks what a
/// launch left in it.
pub fn rotating<Set: 'static>(
    device: &Device,
    seed: u64,
    work: Work,
    make: impl Fn(u64) -> Result<Set>,
    launch: impl FnMut(&Stream, &mut Set) -> Result<LaunchCounts> + 'static,
    verify: impl FnMut(&Set) -> Result<Verified> + 'static,
) -> Result<Box<dyn Prepared>> {
    let count = sets(device, work.bytes as u64);
    let sets = (0..count).map(|set| make(seed.wrapping_add(set << 32))).collect::<Result<_>>()?;
    Ok(Box::new(Rotation { sets, launches: 0, launch, verify, work }))
}

impl<Set, Launch, Verify> Prepared for Rotation<Set, Launch, Verify>
where
    Launch: FnMut(&Stream, &mut Set) -> Result<LaunchCounts>,
    Verify: FnMut(&Set) -> Result<Verified>,
{
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        let turn = self.launches % self.sets.len();
        self.launches += 1;
        (self.launch)(stream, &mut self.sets[turn])
    }

    fn verify(&mut self) -> Result<Verified> {
        let mut all = Verified { elements: 0, worst: 0.0 };
        for set in self.sets.iter().take(self.launches) {
            let verified = (self.verify)(set)?;
            all.elements += verified.elements;
            all.worst = all.worst.max(verified.worst);
        }
        Ok(all)
    }

    fn work(&self) -> Work {
        self.work
    }
}
