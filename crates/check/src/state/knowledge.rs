//! Happens-before, as one thread knows it.

use warpwright_events::FULL;

use crate::state::agents::Role;
use crate::state::clock::Clock;
use crate::state::warp::START;

/// Happens-before, as one thread knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// What happened before.
    pub(crate) known: Clock,
    /// The part made visible to the asynchronous proxy by a fence.
    pub(crate) proxied: Clock,
    /// The same of the proxy that reads tensor maps.
    pub(crate) mapped: Clock,
    /// The part that precedes a `tcgen05.fence::after_thread_sync`.
    pub(crate) tensor: Clock,
    /// The part that precedes a `fence.sc` at GPU scope, executed by any thread.
    pub(crate) sequenced: Clock,
    /// What precedes a `fence.sc` before an observed event. It becomes known with a `fence.sc` of
    /// this thread.
    pub(crate) observed: Clock,
    /// What would be known if every strong access released and acquired.
    pub(crate) observable: Clock,
    /// The same for strong reads alone, limited to what writers did release.
    pub(crate) promised: Clock,
}

impl Knowledge {
    /// That a CTA has started.
    pub(crate) fn of_start(cta: u32) -> Self {
        let mut knowledge = Self::default();
        knowledge.known.raise(cta, Role::Warp(0).agent(), FULL, START);
        knowledge
    }

    /// Whether a CTA has certainly started.
    pub(crate) fn has_start(&self, cta: u32) -> bool {
        self.known.whole(cta, Role::Warp(0).agent()) >= START
    }

    pub(crate) fn join(&mut self, other: &Knowledge) {
        self.known.join(&other.known);
        self.proxied.join(&other.proxied);
        self.mapped.join(&other.mapped);
        self.tensor.join(&other.tensor);
        self.sequenced.join(&other.sequenced);
        self.observed.join(&other.observed);
        self.observable.join(&other.observable);
        self.promised.join(&other.promised);
    }
}
