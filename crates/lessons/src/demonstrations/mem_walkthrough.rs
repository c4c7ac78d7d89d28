//! One access to each memory that a thread can reach.
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
//! Constant memory has no other line, since the language declares no `.const` variables: what is
//! known when the kernel is built stands in the instructions themselves, and what only the launch
//! knows comes as a parameter, structs and arrays by value included. Parameters *are* in constant
//! memory (SASS reads them as `c[0x0][..]`), so `ld.param` is the access to it: every lane reads
//! one word, through the constant cache.
//!
//! (The notes this follows read an element of local memory that nothing had written; here it is the
//! one written.)

use warpwright::prelude::*;
use warpwright_harness::{Options, Prepared, Result, Setup, Values, Work, Workload, exactly};

/// output = 2 · input + shift, by way of every memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemWalkthrough;

/// Threads of the only CTA.
const THREADS: u32 = 128;
/// Elements of a thread's local array.
const LOCAL: u32 = 64;

impl MemWalkthrough {
    /// Input and output have 128 elements.
    #[kernel]
    pub fn run(&self, input: &Global<f32>, output: &mut Global<f32>, shift: f32) {
        launch::threads(THREADS);
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
    }
}

/// Accesses each memory that a thread can reach once.
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
