//! Finds data races and misuse of barriers, asynchronous copies and memory in the events of a
//! launch, in the terms of the PTX memory model.
//!
//! [`LaunchChecks`] observes a launch, and [`HostChecks`] what the host does between launches. The checkers assume that asynchronous work may access its
//! bytes at any moment until the program has observed its completion, under every schedule of the
//! emulator. `docs/checking.md` gives the rules.

mod checker;
mod host;
mod launch;
mod observer;
mod report;
mod rules;
mod state;

pub use host::{Elements, HostChecks, HostLaunch, Transfer};
pub use observer::LaunchChecks;
pub use report::explain::{codes, explain};
pub use report::finding::{Finding, FindingKind};
pub use report::order::ordered;
pub use report::overlap::PreviousLaunch;
pub use report::render::{SourceFiles, render, render_causes};
pub use warpwright_events::{FaultKind, Label, Source};
