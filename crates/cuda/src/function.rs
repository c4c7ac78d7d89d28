//! Kernels: their parameters, attributes and occupancy.

use std::sync::atomic::{AtomicI32, Ordering};

use warpwright_arch::Capability;
use warpwright_ptx::syntax::{StateSpace, Statement, Variable};
use warpwright_runtime::{Function as Loaded, Launch};

use crate::handles::Handles;
use crate::machine::machine;
use crate::status::{Result, Status};

/// Kernels by their handles, `CUfunction` and `CUkernel`.
pub(crate) static FUNCTIONS: Handles<Function> = Handles::new();

/// The numbers of `CUfunction_attribute` that a program sets.
const MAX_DYNAMIC_SHARED: i32 = 8;
const CARVEOUT: i32 = 9;
const CLUSTER_WIDTH: i32 = 11;
const CLUSTER_DEPTH: i32 = 13;
const NON_PORTABLE_CLUSTER: i32 = 14;
const CLUSTER_SCHEDULING: i32 = 15;
const ATTRIBUTES: usize = 16;

/// A kernel.
pub(crate) struct Function {
    pub(crate) number: usize,
    pub(crate) loaded: Loaded,
    /// The handle of its module.
    pub(crate) module: usize,
    /// Offset and size of each parameter.
    pub(crate) parameters: Vec<(usize, usize)>,
    settings: [AtomicI32; ATTRIBUTES],
}

impl Function {
    pub(crate) fn new(number: usize, loaded: Loaded, module: usize) -> Self {
        let mut parameters = Vec::new();
        let mut end: usize = 0;
        for parameter in loaded.parameters().unwrap_or_default() {
            let start = end.next_multiple_of(parameter.align);
            parameters.push((start, parameter.bytes));
            end = start + parameter.bytes;
        }
        let settings: [AtomicI32; ATTRIBUTES] = std::array::from_fn(|_| AtomicI32::new(0));
        settings[CARVEOUT as usize].store(-1, Ordering::Relaxed);
        let function = Self { number, loaded, module, parameters, settings };
        let most = function.default_dynamic_shared();
        function.settings[MAX_DYNAMIC_SHARED as usize].store(most, Ordering::Relaxed);
        function
    }

    /// The size of all parameters.
    pub(crate) fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |(start, bytes)| start + bytes)
    }

    fn default_dynamic_shared(&self) -> i32 {
        let most = capability().map_or(0, |capability| capability.shared_bytes_per_cta);
        most.saturating_sub(self.loaded.attributes().shared_bytes) as i32
    }

    /// Dynamic shared memory that a launch may have.
    pub(crate) fn most_dynamic_shared(&self) -> u32 {
        self.settings[MAX_DYNAMIC_SHARED as usize].load(Ordering::Relaxed).max(0) as u32
    }

    /// An attribute, by its number in `CUfunction_attribute`.
    pub(crate) fn attribute(&self, attribute: i32) -> Result<i32> {
        let (attributes, capability) = (self.loaded.attributes(), capability()?);
        let (major, minor) = capability.compute_capability;
        let version = (major * 10 + minor) as i32;
        Ok(match attribute {
            0 => attributes.threads_per_cta as i32,
            1 => attributes.shared_bytes as i32,
            2 => self.memory_of_text().0,
            3 => self.memory_of_text().1,
            // The emulator assigns no registers: a number that any launch has room for.
            4 => (attributes.registers_per_thread as i32).max(32),
            5 | 6 => version,
            7 | 10 | 16 => 0,
            MAX_DYNAMIC_SHARED | CARVEOUT | CLUSTER_WIDTH..=CLUSTER_SCHEDULING => {
                self.settings[attribute as usize].load(Ordering::Relaxed)
            }
            _ => return Err(Status::INVALID_VALUE),
        })
    }

    /// The bytes of constant memory of its module, and of local memory of a thread, as the PTX declares them.
    fn memory_of_text(&self) -> (i32, i32) {
        let Ok(module) = warpwright_ptx::parse(self.loaded.ptx()) else { return (0, 0) };
        let own =
            module.functions.iter().find(|function| function.is_entry && function.name == self.loaded.name());
        let body = own.and_then(|function| function.body.as_deref()).unwrap_or_default();
        let constant = module.variables.iter().filter(|variable| variable.space == StateSpace::Constant);
        (constant.map(bytes).sum::<u64>() as i32, local_bytes(body) as i32)
    }

    /// Sets an attribute.
    pub(crate) fn set_attribute(&self, attribute: i32, value: i32) -> Result<()> {
        let capability = capability()?;
        let is_valid = match attribute {
            MAX_DYNAMIC_SHARED => {
                let most = capability.shared_bytes_per_cta_opt_in as i32
                    - self.loaded.attributes().shared_bytes as i32;
                (0..=most).contains(&value)
            }
            CARVEOUT => (-1..=100).contains(&value),
            CLUSTER_WIDTH..=CLUSTER_DEPTH => value >= 0 && capability.ctas_per_cluster > 1,
            NON_PORTABLE_CLUSTER => capability.ctas_per_cluster > 1,
            CLUSTER_SCHEDULING => (0..=2).contains(&value),
            _ => false,
        };
        if !is_valid {
            return Err(Status::INVALID_VALUE);
        }
        self.settings[attribute as usize].store(value, Ordering::Relaxed);
        Ok(())
    }

    /// CTAs of this size that an SM holds.
    pub(crate) fn ctas_per_sm(&self, threads: u32, dynamic_shared_bytes: u32) -> u32 {
        let launch = Launch::new(1, threads).dynamic_shared(dynamic_shared_bytes);
        self.loaded.occupancy(&launch).map_or(0, |occupancy| occupancy.ctas_per_sm)
    }

    /// The block size with the most threads per SM, and the grid that fills the device. `shared` is the dynamic shared
    /// memory of a block size; `limit` is 0 or the largest block.
    pub(crate) fn best_block(&self, shared: &dyn Fn(u32) -> u32, limit: u32) -> Result<(u32, u32)> {
        let sm_count = machine()?.arch.sm_count;
        let most = self.loaded.attributes().threads_per_cta;
        let most = if limit == 0 { most } else { limit.min(most) };
        let sizes = (1..=most.div_ceil(32)).rev().map(|warps| (warps * 32).min(most));
        let resident = sizes.map(|threads| (threads, self.ctas_per_sm(threads, shared(threads))));
        let best = resident.fold((0, 0), |best, of| if of.0 * of.1 > best.0 * best.1 { of } else { best });
        Ok((best.0, best.1 * sm_count))
    }
}

/// The bytes of a variable.
fn bytes(variable: &Variable) -> u64 {
    let elements: u64 = variable.dimensions.iter().map(|extent| extent.unwrap_or(0)).product();
    elements * u64::from(variable.vector.max(1)) * u64::from(variable.ty.bytes())
}

/// The bytes of the variables in local memory that statements declare.
fn local_bytes(statements: &[Statement]) -> u64 {
    let of_statement = |statement: &Statement| match statement {
        Statement::Variable(variable) if variable.space == StateSpace::Local => bytes(variable),
        Statement::Block(inner) => local_bytes(inner),
        _ => 0,
    };
    statements.iter().map(of_statement).sum()
}

pub(crate) fn capability() -> Result<&'static Capability> {
    Ok(machine()?.arch.capability)
}
