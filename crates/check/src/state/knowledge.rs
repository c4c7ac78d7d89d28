//! What has happened before, as someone knows it.

use crate::state::clock::Clock;

/// What has happened before, as someone knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// What happened before.
    pub(crate) known: Clock,
    /// Of that, what a fence lies after that makes it visible to the asynchronous proxy.
    pub(crate) proxied: Clock,
    /// The same of the proxy that reads tensor maps.
    pub(crate) mapped: Clock,
    /// Of what is known, what `tcgen05.fence::after_thread_sync` lies after.
    pub(crate) tensor: Clock,
    /// Of what is known, what lies before a `fence.sc` of the GPU's threads, whichever thread executed it.
    pub(crate) sequenced: Clock,
    /// What lies before a `fence.sc` that something seen came after: known, after a `fence.sc` of one's own.
    pub(crate) observed: Clock,
    /// What would be known if every strong access released and acquired.
    pub(crate) heard: Clock,
    /// The same of every strong read, and only of what writers did release.
    pub(crate) promised: Clock,
}

impl Knowledge {
    pub(crate) fn join(&mut self, other: &Knowledge) {
        self.known.join(&other.known);
        self.proxied.join(&other.proxied);
        self.mapped.join(&other.mapped);
        self.tensor.join(&other.tensor);
        self.sequenced.join(&other.sequenced);
        self.observed.join(&other.observed);
        self.heard.join(&other.heard);
        self.promised.join(&other.promised);
    }
}
