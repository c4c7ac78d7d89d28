//! What lanes of a warp that meet in a bank of shared memory cost.
//!
//! Shared memory has 32 banks; neighbouring 32-bit words are in neighbouring banks. Lane l reads word l·s: with stride s,
//! gcd(s, 32) lanes meet in a bank and are served one after another. With stride 0 all read one word, which is served at once.
//!
//! ```text
//! stride    0 (broadcast)   1    2    8    31    32    33
//! passes    1               1    2    8     1    32     1
//! ```

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::exactly;
use warpwright_kernels::prepared::{Ready, ptx};
use warpwright_kernels::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};

/// One warp reads shared memory again and again, each time at an address that it has just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BankConflicts {
    /// Words from lane to lane.
    pub stride: u32,
}

/// Words of shared memory, over which addresses wrap.
const WORDS: u32 = 2048;
/// Reads of each lane.
const READS: u32 = 64;

impl BankConflicts {
    /// The passes that a read takes: the closed form.
    pub fn passes(&self) -> u32 {
        let (mut a, mut b) = (self.stride % 32, 32);
        while a != 0 {
            (a, b) = (b % a, a);
        }
        if self.stride == 0 { 1 } else { b }
    }

    /// Each lane's last word and the cycles that its reads took.
    #[kernel]
    pub fn run(&self, last: &mut Global<u32>, cycles: &mut Global<u32>) {
        launch::threads(32);
        let lane = thread_idx().x;
        let memory = shared_array::<u32>(WORDS);
        // Each word names itself.
        for word in (0..WORDS).step_by(32) {
            memory.at(lane + word).store(lane + word);
        }
        sync_threads();
        let mut word = lane * self.stride % WORDS;
        let begin = clock();
        for _ in 0..READS {
            word = memory.at(word).load();
        }
        cycles[lane] = clock() - begin;
        last[lane] = word;
    }
}

/// [`BankConflicts`] for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] =
    &[OptionSpec::number("stride", 1, "words from lane to lane; 0 is a broadcast")];

fn kernel(options: &Options) -> Result<BankConflicts> {
    Ok(BankConflicts { stride: options.u32("stride")? % WORDS })
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "bank-conflicts"
    }

    fn summary(&self) -> &'static str {
        "a warp reads shared memory with a stride: lanes that meet in a bank wait"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        ptx(kernel(options)?.run()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let kernel = kernel(options)?;
        let last = Rc::new(device.uninitialized::<u32>(32)?);
        let cycles = device.uninitialized::<u32>(32)?;
        let compiled = device.compile(&kernel.run()?)?;
        let result = Rc::clone(&last);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                Ok(compiled.function().launch(stream, compiled.shape(1), (&*last, &cycles))?)
            },
            verify: move || exactly(&result.to_vec()?, |lane| f64::from(lane as u32 * kernel.stride % WORDS)),
            work: Work::default(),
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
            // Where 32 strides wrap, the layout goes on in a straight line: the banks are the same.
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
