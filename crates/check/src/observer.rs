//! The observer of a launch.

use std::sync::{Arc, OnceLock};

use warpwright_events::{AddressNames, ClusterObserver, LaunchInfo, LaunchObserver};

use crate::checker::Checker;
use crate::host::HostLaunch;
use crate::launch::LaunchState;
use crate::report::finding::Finding;
use crate::report::order::ordered;
use crate::report::overlap::PreviousLaunch;

/// Finds data races and misuse of barriers, asynchronous copies and memory in a launch.
#[derive(Debug)]
pub struct LaunchChecks {
    state: Arc<LaunchState>,
    done: OnceLock<(Vec<Finding>, Arc<PreviousLaunch>)>,
}

impl LaunchChecks {
    /// Checkers of a launch, which may begin before the `previous` one of its stream has ended.
    pub fn new(launch: &LaunchInfo, previous: Option<Arc<PreviousLaunch>>) -> Self {
        Self { state: Arc::new(LaunchState::new(launch.clone(), previous, None)), done: OnceLock::new() }
    }

    /// The same of a launch that the host has put on a stream.
    pub fn on_stream(
        launch: &LaunchInfo,
        previous: Option<Arc<PreviousLaunch>>,
        on_stream: HostLaunch,
    ) -> Self {
        let state = LaunchState::new(launch.clone(), previous, Some(on_stream));
        Self { state: Arc::new(state), done: OnceLock::new() }
    }

    /// All findings after the launch has ended, as [`ordered`] places them.
    pub fn findings(&self) -> &[Finding] {
        self.done.get().map_or(&[], |(findings, _)| findings)
    }

    /// The record of a finished launch, for a dependent launch.
    pub fn done(&self) -> Option<Arc<PreviousLaunch>> {
        self.done.get().map(|(_, done)| done.clone())
    }
}

impl LaunchObserver for LaunchChecks {
    fn orders_strong_accesses(&self) -> bool {
        true
    }

    fn cluster(&self, ctas: &[u32]) -> Box<dyn ClusterObserver> {
        Box::new(Checker::new(self.state.clone(), ctas))
    }

    fn end(&self, names: &dyn AddressNames) {
        let (findings, done) = self.state.end(names);
        self.done.get_or_init(|| (ordered(&findings, None), Arc::new(done)));
    }
}
