//! The state that an executing operation may access.

use warpwright_events::{Actor, MbarrierAddress};

use crate::cta::block::{Block, Blocks, Peers};
use crate::lanes::{Width, width};
use crate::launch::context::LaunchContext;
use crate::launch::failure::Failure;
use crate::memory::{LocalMemory, RegionCache, Space};
use crate::registers::Registers;

/// The location that a path last read and other threads may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watched {
    /// An mbarrier whose phase of this parity it found open.
    Mbarrier { address: MbarrierAddress, parity: bool },
    /// An address of a space.
    Memory { space: Space, address: u64 },
}

/// The state that an effect may access.
pub(crate) struct Execution<'a> {
    pub(crate) launch: &'a LaunchContext<'a>,
    /// The CTA that executes.
    pub(crate) block: &'a mut Block,
    /// The other CTAs of its cluster.
    pub(crate) peers: Peers<'a>,
    pub(crate) registers: &'a mut Registers,
    pub(crate) local: &'a mut LocalMemory,
    pub(crate) cache: &'a mut RegionCache,
    /// The warp's index in the CTA.
    pub(crate) warp: u32,
    /// The instruction, for effects beyond the registers.
    pub(crate) pc: u32,
    /// Set by operations that a waiting thread repeats.
    pub(crate) polled: bool,
    /// The location that a waiting thread last read.
    pub(crate) watched: Option<Watched>,
    /// The number of operations that may have changed what other threads observe.
    pub(crate) changes: u32,
}

impl Execution<'_> {
    /// Marks the executing effect as changing nothing that other threads observe.
    #[inline(always)]
    pub(crate) fn changes_nothing(&mut self) {
        self.changes -= 1;
    }

    /// All CTAs of the cluster.
    pub(crate) fn cluster(&mut self) -> Blocks<'_> {
        Blocks { own: self.block, peers: self.peers.reborrow() }
    }

    /// Lanes of the warp, at this instruction.
    #[inline(always)]
    pub(crate) fn actor(&self, lanes: u32) -> Actor {
        Actor { rank: self.block.rank, warp: self.warp, lanes, pc: self.pc }
    }
}

/// An operation that reaches beyond the registers.
pub(crate) trait Effect: Send + Sync {
    /// Executes in the lanes of `mask`, which is not empty.
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>>;
}

/// A test of what other threads complete.
pub(crate) trait Test: Send + Sync {
    /// Executes in the lanes of `mask`. Returns whether it succeeds in any of them.
    fn test(&self, execution: &mut Execution<'_>, mask: u32) -> Result<bool, Box<Failure>>;
}

/// An operation that may have to wait.
pub(crate) trait Attempt: Send + Sync {
    /// Executes in the lanes of `mask`. Returns whether it could; if not, it is retried later.
    fn attempt(&self, execution: &mut Execution<'_>, mask: u32) -> Result<bool, Box<Failure>>;
    /// What it waits for.
    fn reason(&self, block: &Block, warp: u32) -> String;
}

/// An effect whose body is compiled for the machine's vectors.
pub(crate) trait EffectBody: Send + Sync + 'static {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>>;
}

struct Portable<E>(E);

impl<E: EffectBody> Effect for Portable<E> {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        self.0.execute(execution, mask)
    }
}

/// A body compiled for a wider machine. Only `vectored_effect` creates one, after feature
/// detection.
#[cfg(target_arch = "x86_64")]
struct Avx512<E>(E);
#[cfg(target_arch = "x86_64")]
struct Avx2<E>(E);

#[cfg(target_arch = "x86_64")]
impl<E: EffectBody> Effect for Avx512<E> {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
        )]
        fn run<E: EffectBody>(
            body: &E,
            execution: &mut Execution<'_>,
            mask: u32,
        ) -> Result<(), Box<Failure>> {
            body.execute(execution, mask)
        }
        // SAFETY: `vectored_effect` makes this type only on a processor that has these features.
        unsafe { run(&self.0, execution, mask) }
    }
}

#[cfg(target_arch = "x86_64")]
impl<E: EffectBody> Effect for Avx2<E> {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
        fn run<E: EffectBody>(
            body: &E,
            execution: &mut Execution<'_>,
            mask: u32,
        ) -> Result<(), Box<Failure>> {
            body.execute(execution, mask)
        }
        // SAFETY: `vectored_effect` makes this type only on a processor that has these features.
        unsafe { run(&self.0, execution, mask) }
    }
}

/// An effect compiled for the machine's vectors.
pub(crate) fn vectored_effect<E: EffectBody>(body: E) -> Box<dyn Effect> {
    match width() {
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => Box::new(Avx512(body)),
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => Box::new(Avx2(body)),
        Width::Portable => Box::new(Portable(body)),
    }
}
