//! Checks the resources of a kernel: memory, parameters, launch bounds.

use rustc_hash::FxHashSet;
use warpwright_arch::Capability;
use warpwright_arch::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES};

use super::fault::{Fault, VerifyError};
use crate::kernel::{DYNAMIC_SHARED, Kernel, Location, MemoryVariable, Parameter, ParameterType};

/// The names an operand can refer to; duplicate names are errors.
pub(super) fn symbols<'a>(
    kernel: &'a Kernel,
    at: Location,
    errors: &mut Vec<VerifyError>,
) -> FxHashSet<&'a str> {
    let parameters = kernel.parameters.iter().map(|parameter| (parameter.name.as_str(), at));
    let memory =
        kernel.shared.iter().chain(&kernel.local).map(|memory| (memory.name.as_str(), memory.location));
    let dynamic = kernel.dynamic_shared_align.map(|_| (DYNAMIC_SHARED, at));
    let mut symbols = FxHashSet::default();
    let arrays = kernel.dynamic_arrays.iter().map(|array| (array.name.as_str(), at));
    for (name, location) in parameters.chain(memory).chain(dynamic).chain(arrays) {
        if !symbols.insert(name) {
            errors.push(VerifyError { location, fault: Fault::DuplicateSymbol(name.to_owned()) });
        }
    }
    symbols
}

/// Memory, parameters and launch bounds against the limits of `capability`.
pub(super) fn check(
    kernel: &Kernel,
    capability: &'static Capability,
    at: Location,
    errors: &mut Vec<VerifyError>,
) {
    let mut error = |location, fault| errors.push(VerifyError { location, fault });
    for memory in kernel.shared.iter().chain(&kernel.local) {
        if !memory.align.is_power_of_two() {
            let fault = Fault::BadAlignment { name: memory.name.clone(), align: memory.align };
            error(memory.location, fault);
        }
        if memory.bytes == 0 {
            error(memory.location, Fault::EmptyVariable(memory.name.clone()));
        }
    }
    let target = capability.target;
    let limit = u64::from(capability.shared_bytes_per_cta);
    let (static_shared, exceeded) = extent(&kernel.shared, limit);
    if let Some((location, bytes)) = exceeded {
        error(location, Fault::TooMuchStaticShared { bytes, limit });
    }
    let limit = u64::from(capability.shared_bytes_per_cta_opt_in);
    let dynamic_align = u64::from(kernel.dynamic_shared_align.unwrap_or(1).max(1));
    let bytes = static_shared.next_multiple_of(dynamic_align) + u64::from(kernel.dynamic_shared_bytes);
    if bytes > limit {
        error(at, Fault::TooMuchShared { bytes, limit, target });
    }
    let limit = u64::from(capability.local_bytes_per_thread);
    if let (_, Some((location, bytes))) = extent(&kernel.local, limit) {
        error(location, Fault::TooMuchLocal { bytes, limit });
    }
    let (bytes, limit) = (parameter_bytes(&kernel.parameters), u64::from(capability.parameter_bytes));
    if bytes > limit {
        error(at, Fault::TooManyParameters { bytes, limit });
    }
    for (what, value, limit) in launch_extents(kernel, capability) {
        if value > limit {
            error(at, Fault::LaunchTooLarge { what, value, limit, target });
        }
    }
}

/// Bytes of `variables` laid out in order, and the first that ends past `limit` with where it ends.
fn extent(variables: &[MemoryVariable], limit: u64) -> (u64, Option<(Location, u64)>) {
    let mut end = 0u64;
    let mut exceeded = None;
    for variable in variables {
        end = end.next_multiple_of(u64::from(variable.align.max(1))).saturating_add(variable.bytes);
        if end > limit && exceeded.is_none() {
            exceeded = Some((variable.location, end));
        }
    }
    (end, exceeded)
}

fn parameter_bytes(parameters: &[Parameter]) -> u64 {
    parameters.iter().fold(0, |end: u64, parameter| {
        let (size, align) = match &parameter.ty {
            ParameterType::Pointer { .. } => (8, 8),
            ParameterType::Scalar { bytes, .. } => (*bytes, bytes.next_power_of_two().min(16)),
            ParameterType::Bytes { size, align } => (*size, *align),
            ParameterType::TensorMaps { needs, .. } => {
                ((needs.len() * TENSOR_MAP_BYTES) as u32, TENSOR_MAP_ALIGN as u32)
            }
        };
        end.next_multiple_of(u64::from(align.max(1))) + u64::from(size)
    })
}

/// Each launch bound with its limit.
fn launch_extents(kernel: &Kernel, capability: &Capability) -> Vec<(&'static str, u64, u64)> {
    let launch = &kernel.launch;
    let volume = |extents: [u32; 3]| extents.iter().map(|extent| u64::from(*extent)).product::<u64>();
    let threads = launch.required_block.map(volume).max(launch.maximum_threads.map(u64::from));
    let registers = launch.maximum_registers.map(u64::from);
    let cluster = launch.cluster.map(volume);
    let bounds = [
        ("the number of threads of a CTA", threads, capability.threads_per_cta),
        ("the number of registers of a thread", registers, capability.registers_per_thread),
        ("the number of CTAs of a cluster", cluster, capability.ctas_per_cluster_opt_in),
    ];
    bounds.into_iter().filter_map(|(what, value, limit)| Some((what, value?, limit.into()))).collect()
}
