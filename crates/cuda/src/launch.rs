//! Launches: what a call is refused for, and the work of a stream.

use std::sync::Arc;

use serde_json::json;
use warpwright_runtime::{Launch, RawDevice, RawStream};

use crate::edge::In;
use crate::function::{Function, capability};
use crate::machine::{machine, variables};
use crate::report;
use crate::status::{Result, Status};

/// A launch of a kernel, with its parameters.
#[derive(Clone)]
pub(crate) struct KernelLaunch {
    pub(crate) function: Arc<Function>,
    pub(crate) launch: Launch,
    pub(crate) parameters: Arc<[u8]>,
}

/// Extra values of `cuLaunchKernel` that give the parameters as one buffer.
const PARAMETER_BUFFER: usize = 1;
const PARAMETER_BUFFER_SIZE: usize = 2;

impl KernelLaunch {
    /// A launch that the device and the kernel allow.
    pub(crate) fn new(function: Arc<Function>, launch: Launch, parameters: Arc<[u8]>) -> Result<Self> {
        check(&function, &launch)?;
        Ok(Self { function, launch, parameters })
    }

    /// Launches.
    pub(crate) fn run(&self, raw: &RawDevice, stream: RawStream) -> warpwright_runtime::Result<()> {
        let outcome = raw.launch(stream, &self.function.loaded, &self.launch, &self.parameters);
        if std::env::var_os(variables::LAUNCHES).is_some() {
            self.note(raw, outcome.as_ref().map_or(0, |counts| counts.warp_instructions));
        }
        outcome.map(|_| ())
    }

    /// Adds the launch to the file of launches.
    fn note(&self, raw: &RawDevice, warp_instructions: u64) {
        let microseconds: Option<f64> = raw
            .device()
            .take_predictions()
            .iter()
            .map(|time| time.microseconds)
            .reduce(|sum, time| sum + time);
        let line = json!({
            "kernel": report::demangled(self.function.loaded.name()),
            "grid": self.launch.grid.0,
            "block": self.launch.block.0,
            "cluster": self.launch.cluster.0,
            "dynamic_shared_bytes": self.launch.dynamic_shared_bytes,
            "warp_instructions": warp_instructions,
            "microseconds": microseconds,
        });
        report::append(variables::LAUNCHES, &line);
    }
}

/// Refuses a launch as the driver does, before it is added to a stream.
fn check(function: &Function, launch: &Launch) -> Result<()> {
    let (capability, attributes) = (capability()?, function.loaded.attributes());
    let (grid, block, cluster) = (launch.grid.0, launch.block.0, launch.cluster.0);
    let is_extent = |extents: [u32; 3], most: [u32; 3]| {
        extents.iter().zip(most).all(|(extent, most)| (1..=most).contains(extent))
    };
    if !is_extent(grid, capability.grid_extents) || !is_extent(block, capability.cta_extents) {
        return Err(Status::INVALID_VALUE);
    }
    let threads: u32 = block.iter().product();
    if threads > capability.threads_per_cta {
        return Err(Status::INVALID_VALUE);
    }
    if threads > attributes.threads_per_cta {
        return Err(Status::LAUNCH_OUT_OF_RESOURCES);
    }
    if launch.dynamic_shared_bytes > function.most_dynamic_shared() {
        return Err(Status::INVALID_VALUE);
    }
    let ctas: u32 = cluster.iter().fold(1, |product: u32, extent| product.saturating_mul(*extent));
    let divides = (0..3).all(|axis| cluster[axis] > 0 && grid[axis].is_multiple_of(cluster[axis]));
    let opts_in = function.attribute(14)? != 0;
    let most = if opts_in { capability.ctas_per_cluster_opt_in } else { capability.ctas_per_cluster };
    if ctas != 1 && (!divides || ctas > most) {
        return Err(Status::INVALID_CLUSTER_SIZE);
    }
    let resident = function.ctas_per_sm(threads, launch.dynamic_shared_bytes);
    if resident == 0 {
        return Err(Status::LAUNCH_OUT_OF_RESOURCES);
    }
    let ctas: u64 = grid.iter().map(|extent| u64::from(*extent)).product();
    if launch.is_cooperative && ctas > u64::from(resident) * u64::from(machine()?.arch.sm_count) {
        return Err(Status::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}

/// The parameters of a launch, from an array of pointers to them or from one buffer.
pub(crate) fn parameters(function: &Function, pointers: In<usize>, extra: In<usize>) -> Result<Arc<[u8]>> {
    let bytes = function.parameter_bytes();
    if !pointers.is_null() {
        let mut bank = vec![0; bytes];
        for (index, (start, size)) in function.parameters.iter().enumerate() {
            let value = In::<u8>::at_address(pointers.at(index).get()?).bytes(*size)?;
            bank[*start..start + size].copy_from_slice(&value);
        }
        return Ok(bank.into());
    }
    if extra.is_null() {
        return if bytes == 0 { Ok(Arc::default()) } else { Err(Status::INVALID_VALUE) };
    }
    let (mut buffer, mut size) = (0, 0);
    for index in (0..16).step_by(2) {
        match extra.at(index).get()? {
            PARAMETER_BUFFER => buffer = extra.at(index + 1).get()?,
            PARAMETER_BUFFER_SIZE => size = In::<usize>::at_address(extra.at(index + 1).get()?).get()?,
            _ => break,
        }
    }
    let mut bank = In::<u8>::at_address(buffer).bytes(size.min(bytes))?;
    bank.resize(bytes, 0);
    Ok(bank.into())
}
