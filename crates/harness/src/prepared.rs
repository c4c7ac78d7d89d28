//! A workload on a device: its buffers, how it is launched, and how its result is verified.

use std::sync::{Arc, Mutex, PoisonError};

use warpwright::runtime::{LaunchCounts, Stream};

use crate::compare::{Verified, merge};
use crate::error::Result;

/// A workload with its inputs and outputs on a device.
pub trait Prepared {
    /// Launches it once. Every launch computes the same.
    ///
    /// # Errors
    /// The kernel failed.
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts>;

    /// Compares every element of what the launches left with the reference.
    ///
    /// # Errors
    /// A [`Mismatch`](crate::Mismatch), or the result cannot be read.
    fn verify(&mut self) -> Result<Verified>;
}

/// Sets of buffers that launches use in rotation: [`Setup::buffers`](crate::Setup::buffers).
pub struct Rotation<Set> {
    pub(crate) sets: Vec<Set>,
}

impl<Set: 'static> Rotation<Set> {
    /// Adds the launch on a set of buffers.
    pub fn launch<L>(self, launch: L) -> Launched<Set, L>
    where
        L: FnMut(&Stream, &mut Set) -> Result<LaunchCounts> + 'static,
    {
        Launched { sets: self.sets, launch }
    }

    /// The sets for several launches that take turns, such as the candidates of a search.
    pub fn shared(self) -> SharedRotation<Set> {
        SharedRotation(Arc::new(Mutex::new((self.sets, 0))))
    }
}

/// Sets of buffers that several workloads launch on. Every launch uses the set after that of the
/// previous launch, whichever workload it was of.
pub struct SharedRotation<Set>(Arc<Mutex<(Vec<Set>, usize)>>);

impl<Set: 'static> SharedRotation<Set> {
    /// A workload on these buffers. `verify` compares what the last launch left.
    pub fn prepare(
        &self,
        launch: impl FnMut(&Stream, &mut Set) -> Result<LaunchCounts> + 'static,
        verify: impl FnMut(&Set) -> Result<Verified> + 'static,
    ) -> Box<dyn Prepared> {
        Box::new(Sharing { sets: self.0.clone(), launch, verify })
    }
}

struct Sharing<Set, L, V> {
    /// The sets, and the launches so far.
    sets: Arc<Mutex<(Vec<Set>, usize)>>,
    launch: L,
    verify: V,
}

impl<Set, L, V> Prepared for Sharing<Set, L, V>
where
    L: FnMut(&Stream, &mut Set) -> Result<LaunchCounts>,
    V: FnMut(&Set) -> Result<Verified>,
{
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        let (sets, launches) = &mut *self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = *launches % sets.len();
        *launches += 1;
        (self.launch)(stream, &mut sets[turn])
    }

    fn verify(&mut self) -> Result<Verified> {
        let (sets, launches) = &*self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        (self.verify)(&sets[launches.saturating_sub(1) % sets.len()])
    }
}

/// Buffers and their launch.
pub struct Launched<Set, L> {
    sets: Vec<Set>,
    launch: L,
}

impl<Set: 'static, L> Launched<Set, L>
where
    L: FnMut(&Stream, &mut Set) -> Result<LaunchCounts> + 'static,
{
    /// Adds the comparison of what a launch left in a set of buffers with the reference.
    pub fn verify(self, verify: impl FnMut(&Set) -> Result<Verified> + 'static) -> Box<dyn Prepared> {
        let Self { sets, launch } = self;
        Box::new(Whole { sets, launches: 0, launch, verify })
    }
}

struct Whole<Set, L, V> {
    sets: Vec<Set>,
    launches: usize,
    launch: L,
    verify: V,
}

impl<Set, L, V> Prepared for Whole<Set, L, V>
where
    L: FnMut(&Stream, &mut Set) -> Result<LaunchCounts>,
    V: FnMut(&Set) -> Result<Verified>,
{
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        let turn = self.launches % self.sets.len();
        self.launches += 1;
        (self.launch)(stream, &mut self.sets[turn])
    }

    fn verify(&mut self) -> Result<Verified> {
        let launched = self.sets.iter().take(self.launches).map(&mut self.verify);
        let verified = launched.collect::<Result<Vec<_>>>()?;
        Ok(merge(verified.into_iter().map(Ok))?)
    }
}
