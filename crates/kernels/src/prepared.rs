//! A kernel ready to launch and check, made of two closures over its buffers.

use warpwright::arch::Capability;
use warpwright::lang::Kernel;
use warpwright::runtime::{self, LaunchCounts, Stream};

use crate::registry::{Prepared, Resources, Result, Verified, Work};

/// A kernel with its inputs on a device: how to launch it, and how to check what it left.
pub struct Ready<Launch, Verify> {
    /// Launches it once.
    pub launch: Launch,
    /// Compares what the last launch left with the reference.
    pub verify: Verify,
    /// What a launch does at the least.
    pub work: Work,
}

impl<Launch, Verify> Prepared for Ready<Launch, Verify>
where
    Launch: FnMut(&Stream) -> Result<LaunchCounts>,
    Verify: FnMut() -> Result<Verified>,
{
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        (self.launch)(stream)
    }

    fn verify(&mut self) -> Result<Verified> {
        (self.verify)()
    }

    fn work(&self) -> Work {
        self.work
    }
}

/// A kernel whose resources are known.
struct Known {
    prepared: Box<dyn Prepared>,
    resources: Resources,
}

/// `prepared`, with what its kernel takes of an SM.
pub fn with_resources(prepared: Box<dyn Prepared>, resources: Resources) -> Box<dyn Prepared> {
    Box::new(Known { prepared, resources })
}

impl Prepared for Known {
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        self.prepared.launch(stream)
    }

    fn verify(&mut self) -> Result<Verified> {
        self.prepared.verify()
    }

    fn work(&self) -> Work {
        self.prepared.work()
    }

    fn resources(&self) -> Option<Resources> {
        Some(self.resources)
    }
}

/// SMs that PTX without a device is planned for: an H200's.
pub const PLANNED_SMS: u32 = 132;

/// The capability of GPUs of `.target` `target`.
pub fn capability_of(target: &str) -> Result<&'static Capability> {
    Capability::for_target(target).ok_or_else(|| format!("there is no architecture {target} here").into())
}

/// The PTX of a kernel for `.target` `target`.
pub fn ptx<Args>(kernel: Kernel<Args>, target: &str) -> Result<String> {
    Ok(runtime::ptx(&kernel, capability_of(target)?)?)
}
