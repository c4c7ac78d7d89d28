//! One access to each kind of memory.
//!
//! `warpwright ptx mem-walkthrough --annotate` shows what each line becomes:
//!
//! ```text
//! parameters    ld.param     the launch's arguments, read-only: a bank of constant memory
//! global        ld.global    HBM through L2 and L1, seen by all threads
//! registers     mov, add     the thread's own
//! local         st.local     the thread's own too, but in global memory: what registers have no addresses for
//! shared        st.shared    the CTA's, on the SM
//! ```
//!
//! Constant memory has no line of its own, because the language declares no `.const` variables.
//! Build-time values are immediates in the instructions. Values known at launch are parameters,
//! including structs and arrays by value. Parameters *are* in constant memory (SASS reads them as
//! `c[0x0][..]`), so `ld.param` is the access to it: every lane reads the same word, through the
//! constant cache.
//!
//! (The notes that this example follows read an uninitialized element of local memory; here it is
//! the element that was written.)

use warpwright::prelude::*;
use warpwright_harness::{Options, Prepared, Result, Setup, Values, Work, Workload, exactly};

/// output = 2 · input + shift, through every kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemWalkthrough;

/// Threads of the single CTA.
const THREADS: u32 = 128;
/// Elements of a thread's local array.
const LOCAL: u32 = 64;

impl MemWalkthrough {
    /// Input and output have 128 elements.
    #[kernel]
    pub fn run(&self, input: &Global<f32>, output: &mut Global<f32>, shift: f32) {
        launch::threads(THREADS);
        // ANCHOR: walk
        let thread = thread_idx().x;
        let from_global = input[thread];
        let in_register = from_global + from_global;
        let local = local_array::<f32>(LOCAL);
        local.at(thread % LOCAL).store(in_register);
        let from_local = local.at(thread % LOCAL).load();
        let shared = shared_array::<f32>(THREADS);
        shared.at(thread).store(from_local);
        sync_threads();
        let from_shared = shared.at(thread).load();
        output[thread] = from_shared + shift;
        // ANCHOR_END: walk
    }
}

/// Accesses each kind of memory once.
#[derive(Clone, Debug, Options)]
pub(crate) struct MemWalkthroughWorkload {}

impl Workload for MemWalkthroughWorkload {
    const NAME: &'static str = "mem-walkthrough";

    fn work(&self) -> Work {
        Work { operations: 2.0 * f64::from(THREADS), bytes: 8.0 * f64::from(THREADS) }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let kernel = setup.device().compile(&MemWalkthrough.run()?)?;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.values::<f32>(Values::Normal, seed, THREADS as usize)?;
            Ok((input, setup.output::<f32>(THREADS as usize)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, output)| Ok(kernel.launch(stream, 1, (input, output, 1.0))?))
            .verify(|(input, output)| {
                let input = input.to_vec()?;
                exactly(&output.to_vec()?, |index| f64::from(2.0 * input[index] + 1.0))
            }))
    }
}
