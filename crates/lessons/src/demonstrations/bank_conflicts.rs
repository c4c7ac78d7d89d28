//! The cost of bank conflicts in shared memory.
//!
//! Shared memory has 32 banks; consecutive 32-bit words are in consecutive banks. Lane l reads word
//! l·s. With stride s, gcd(s, 32) lanes access the same bank and are served one after another. With
//! stride 0 all lanes read the same word, which is a broadcast: one pass.
//!
//! ```text
//! stride    0 (broadcast)   1    2    8    31    32    33
//! passes    1               1    2    8     1    32     1
//! ```

use warpwright::prelude::*;
use warpwright_harness::{Options, Prepared, Result, Setup, Work, Workload, exactly};

/// One warp reads shared memory repeatedly. Each address is the value of the previous read, so that
/// the reads do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BankConflicts {
    /// Stride between lanes, in words.
    pub stride: u32,
}

/// Words of shared memory; addresses wrap around at this size.
const WORDS: u32 = 2048;
/// Reads per lane.
const READS: u32 = 64;

impl BankConflicts {
    /// The passes of one read, in closed form.
    pub fn passes(&self) -> u32 {
        let (mut a, mut b) = (self.stride % 32, 32);
        while a != 0 {
            (a, b) = (b % a, a);
        }
        if self.stride == 0 { 1 } else { b }
    }

    /// Stores each lane's last word and the cycles of its reads.
    #[kernel]
    pub fn run(&self, last: &mut Global<u32>, cycles: &mut Global<u32>) {
        launch::threads(32);
        let lane = thread_idx().x;
        let memory = shared_array::<u32>(WORDS);
        // Each word contains its own index.
        for word in (0..WORDS).step_by(32) {
            memory.at(lane + word).store(lane + word);
        }
        sync_threads();
        let mut word = lane * self.stride % WORDS;
        // ANCHOR: reads
        let begin = clock();
        for _ in 0..READS {
            word = memory.at(word).load();
        }
        cycles[lane] = clock() - begin;
        // ANCHOR_END: reads
        last[lane] = word;
    }
}

/// Reads shared memory with a stride: lanes whose words are in the same bank are served one after
/// another.
#[derive(Clone, Debug, Options)]
pub(crate) struct BankConflictsWorkload {
    /// Stride between lanes, in words. 0 is a broadcast.
    #[option(default = 1)]
    stride: u32,
}

impl Workload for BankConflictsWorkload {
    const NAME: &'static str = "bank-conflicts";

    fn work(&self) -> Work {
        Work::default()
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let conflicts = BankConflicts { stride: self.stride % WORDS };
        let kernel = setup.device().compile(&conflicts.run()?)?;
        let buffers =
            setup.buffers(self.work(), |_| Ok((setup.output::<u32>(32)?, setup.output::<u32>(32)?)))?;
        Ok(buffers
            .launch(move |stream, (last, cycles)| Ok(kernel.launch(stream, 1, (last, cycles))?))
            .verify(move |(last, _)| {
                exactly(&last.to_vec()?, |lane| f64::from(lane as u32 * conflicts.stride % WORDS))
            }))
    }
}

#[cfg(test)]
mod tests {
    use warpwright::layout::{Access, Layout};

    use super::*;

    #[test]
    fn the_closed_form_is_what_the_banks_say() {
        for stride in (0..70).chain([128, 511, 1024]) {
            let lanes: Layout = format!("(32,1):({stride},1)").parse().expect("a layout");
            let memory: Layout = format!("{WORDS}:1").parse().expect("a layout");
            // Where 32 strides wrap around, the layout continues in a straight line: the banks are
            // the same.
            let memory = if 32 * stride > WORDS {
                format!("{}:1", 64 * 2048).parse().expect("a layout")
            } else {
                memory
            };
            let conflicts = Access::new(lanes, 32).and_then(|access| access.conflicts(&memory.into()));
            let passes = conflicts.expect("an access").wavefronts;
            assert_eq!(i64::from(BankConflicts { stride }.passes()), passes, "stride {stride}");
        }
    }
}
