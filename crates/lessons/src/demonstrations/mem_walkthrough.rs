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
//! Constant memory has no other line, since the language declares no `.const` variables: what is known when the kernel is built stands in the
//! instructions themselves, and what only the launch knows comes as a parameter, structs and arrays by value included. Parameters *are* in constant
//! memory (SASS reads them as `c[0x0][..]`), so `ld.param` is the access to it: every lane reads one word, through the constant cache.
//!
//! (The notes this follows read an element of local memory that nothing had written; here it is the one written.)

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::exactly;
use warpwright_kernels::number::Values;
use warpwright_kernels::prepared::{Ready, ptx};
use warpwright_kernels::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};

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

/// [`MemWalkthrough`] for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[OptionSpec::number("seed", 1, "of the input")];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "mem-walkthrough"
    }

    fn summary(&self) -> &'static str {
        "one access to each memory that a thread can reach"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, _options: &Options) -> Result<String> {
        ptx(MemWalkthrough.run()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let input: Vec<f32> = Values::Normal.numbers(options.number("seed"), THREADS as usize);
        let input_there = device.buffer_from(&input)?;
        let output = Rc::new(device.uninitialized::<f32>(THREADS as usize)?);
        let compiled = device.compile(&MemWalkthrough.run()?)?;
        let result = Rc::clone(&output);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                let shape = compiled.shape(1);
                Ok(compiled.function().launch(stream, shape, (&input_there, &*output, 1f32))?)
            },
            verify: move || exactly(&result.to_vec()?, |index| f64::from(2.0 * input[index] + 1.0)),
            work: Work { operations: 2.0 * f64::from(THREADS), bytes: 8.0 * f64::from(THREADS) },
        }))
    }
}
