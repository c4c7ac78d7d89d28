//! Why a launch is refused: every rule that holds on each device, in the order in which it is checked.
//!
//! 1. [`StatedShape`]: the block, cluster and shared memory that a kernel of the language states.
//! 2. [`Requirements::check_types`]: the element types and the extents that the PTX requires, of a launch whose argument
//!    types the compiler has not checked.
//! 3. [`Requirements::check`]: the device of the kernel; number and types of the arguments; tensor maps
//!    ([`tensor_map_parameter`]); devices of the buffers, and whether they are half-written; the limits of the device and
//!    the kernel; whether a cooperative grid is resident.
//!
//! A rule says what is broken, and what is allowed. A launch that keeps them may fail in the driver or on the emulator.

use std::sync::Arc;

use warpwright_arch::{Capability, KernelResources, Occupancy};
use warpwright_ir as ir;
use warpwright_ptx::syntax;

use crate::arguments::Argument;
use crate::attributes::KernelAttributes;
use crate::backend::{Backend, loads_kernels_of, same_device};
use crate::error::{Error, Result};
use crate::launch::{Extents, Launch};
use crate::signature::{self, Parameter};
use crate::tensor_map_parameter::{self, TensorMapParameter};

/// What a kernel requires of a launch.
#[derive(Clone, Default)]
pub(crate) struct Requirements {
    /// Absent if only the driver can parse the text.
    parameters: Option<Arc<[Parameter]>>,
    extents: RequiredExtents,
    /// The parameters that take tensor maps; none if the kernel is known by its PTX alone.
    tensor_maps: Arc<[TensorMapParameter]>,
    /// The element type of each parameter that is a pointer, where it is known.
    elements: Arc<[Option<&'static str>]>,
}

impl Requirements {
    /// What the PTX of a kernel requires.
    pub(crate) fn of(entry: &syntax::Function) -> Self {
        let parameters = Some(signature::parameters(entry).into());
        Self { parameters, extents: RequiredExtents::of(entry), ..Self::default() }
    }

    /// The same, with what the kernel's description says that its PTX does not.
    pub(crate) fn described_by(self, kernel: &ir::Kernel) -> Self {
        let element = |parameter: &ir::Parameter| match parameter.ty {
            ir::ParameterType::Pointer { element, .. } => Some(element),
            _ => None,
        };
        let elements = kernel.parameters.iter().map(element).collect();
        Self { tensor_maps: tensor_map_parameter::of_kernel(kernel).into(), elements, ..self }
    }

    pub(crate) fn parameters(&self) -> Option<&[Parameter]> {
        self.parameters.as_deref()
    }

    pub(crate) fn tensor_maps(&self) -> &[TensorMapParameter] {
        &self.tensor_maps
    }

    /// Returns an error if a launch, whose argument types the compiler has not checked, has other element types or
    /// extents.
    pub(crate) fn check_types(
        &self,
        kernel: &str,
        launch: &Launch,
        arguments: &[Argument<'_>],
    ) -> Result<()> {
        if let Some(parameters) = &self.parameters {
            check_elements(kernel, parameters, &self.elements, arguments)?;
        }
        self.extents.check(kernel, launch)
    }

    /// Returns an error if a launch breaks a rule. `loaded` is the device of the kernel with its attributes, and `on` the
    /// device of the stream.
    pub(crate) fn check(
        &self,
        kernel: &str,
        launch: &Launch,
        arguments: &[Argument<'_>],
        (loaded, attributes): (&Arc<Backend>, &KernelAttributes),
        on: &Arc<Backend>,
    ) -> Result<()> {
        loads_kernels_of(loaded, on)?;
        if let Some(parameters) = &self.parameters {
            check_arguments(kernel, parameters, arguments)?;
        }
        tensor_map_parameter::check(kernel, &self.tensor_maps, arguments)?;
        // Two loops: over one flattened iterator, a launch with three buffers took 114 ns of the host in place of 95.
        arguments.iter().try_for_each(|argument| {
            argument.allocations().try_for_each(|allocation| {
                same_device("a buffer among the arguments", allocation.backend(), on)?;
                allocation.check()
            })
        })?;
        if let Some(reason) = broken_rule(launch, on.properties.capability, attributes) {
            return Err(Error::bad_launch(kernel, reason));
        }
        if launch.is_cooperative {
            return check_resident(kernel, launch, loaded, attributes);
        }
        Ok(())
    }
}

/// Returns an error if the arguments differ from the parameters in number, size or kind.
fn check_arguments(kernel: &str, parameters: &[Parameter], arguments: &[Argument<'_>]) -> Result<()> {
    if parameters.len() != arguments.len() {
        let described: Vec<_> = parameters.iter().map(Parameter::describe).collect();
        return Err(Error::ArgumentCount {
            kernel: kernel.to_owned(),
            expected: parameters.len(),
            given: arguments.len(),
            parameters: if described.is_empty() { "it takes none".to_owned() } else { described.join(", ") },
        });
    }
    let misfit = parameters.iter().zip(arguments).position(|(parameter, argument)| !argument.fits(parameter));
    misfit.map_or(Ok(()), |position| {
        Err(Error::ArgumentType {
            kernel: kernel.to_owned(),
            position,
            parameter: parameters[position].describe(),
            given: arguments[position].describe(),
        })
    })
}

/// Returns an error if a buffer has elements of another type than the pointer that it is passed
/// for. `elements` are the types of the pointers among the parameters, where they are known.
fn check_elements(
    kernel: &str,
    parameters: &[Parameter],
    elements: &[Option<&'static str>],
    arguments: &[Argument<'_>],
) -> Result<()> {
    for (position, (element, argument)) in elements.iter().zip(arguments).enumerate() {
        if let (Some(needed), Some(given)) = (element, argument.element())
            && *needed != given
        {
            return Err(Error::ArgumentType {
                kernel: kernel.to_owned(),
                position,
                parameter: format!("`{}` is a pointer to {needed}", parameters[position].name),
                given: argument.describe(),
            });
        }
    }
    Ok(())
}

/// Returns an error if not all CTAs of the grid can be resident.
fn check_resident(
    kernel: &str,
    launch: &Launch,
    device: &Backend,
    attributes: &KernelAttributes,
) -> Result<()> {
    let per_sm = launch.occupancy(kernel, attributes, device.properties.capability)?.ctas_per_sm;
    let (ctas, fit) = (launch.ctas(), u64::from(per_sm) * u64::from(device.properties.sm_count));
    if ctas <= fit {
        return Ok(());
    }
    Err(Error::bad_launch(
        kernel,
        format_args!(
            "a cooperative grid of {ctas} CTAs exceeds the {fit} CTAs that can be resident; use a grid of at most {fit}"
        ),
    ))
}

impl Launch {
    /// The number of CTAs that an SM holds, and what limits it.
    pub(crate) fn occupancy(
        &self,
        kernel: &str,
        attributes: &KernelAttributes,
        capability: &Capability,
    ) -> Result<Occupancy> {
        let resources = KernelResources {
            threads_per_cta: self.block.0.iter().product(),
            registers_per_thread: attributes.registers_per_thread,
            shared_bytes: attributes.shared_bytes + self.dynamic_shared_bytes,
        };
        capability.occupancy(&resources).map_err(|error| Error::bad_launch(kernel, error))
    }
}

/// The first rule of the device or the kernel that the shape breaks. The rules and messages are the same on every
/// device.
fn broken_rule(launch: &Launch, limits: &Capability, attributes: &KernelAttributes) -> Option<String> {
    let extents = [
        ("grid", launch.grid, limits.grid_extents),
        ("block", launch.block, limits.cta_extents),
        ("cluster", launch.cluster, [limits.ctas_per_cluster_opt_in; 3]),
    ];
    for (what, given, most) in extents {
        for ((axis, given), most) in ["x", "y", "z"].into_iter().zip(given.0).zip(most) {
            if given == 0 || given > most {
                return Some(format!(
                    "the {what}'s {axis} extent is {given}, and it must be from 1 to {most} on {}",
                    limits.target
                ));
            }
        }
    }
    let threads = launch.block.product();
    let most = limits.threads_per_cta.min(attributes.threads_per_cta);
    if threads > u64::from(most) {
        let why = if most < limits.threads_per_cta {
            "which is all that its launch bounds and registers allow"
        } else {
            "which is all the device allows"
        };
        return Some(format!("a block has {threads} threads; use at most {most}, {why}"));
    }
    let ctas = launch.cluster.product();
    if ctas > u64::from(limits.ctas_per_cluster_opt_in) {
        let most = limits.ctas_per_cluster_opt_in;
        return Some(format!("a cluster has {ctas} CTAs; use at most {most}"));
    }
    for ((axis, grid), cluster) in ["x", "y", "z"].into_iter().zip(launch.grid.0).zip(launch.cluster.0) {
        if !grid.is_multiple_of(cluster) {
            return Some(format!(
                "the grid's {axis} extent, {grid}, is not a multiple of the cluster's, {cluster}"
            ));
        }
    }
    if launch.overlaps && limits.compute_capability < (9, 0) {
        return Some(format!(
            "programmatic dependent launch needs sm_90 or later, and this is {}",
            limits.target
        ));
    }
    let shared = u64::from(attributes.shared_bytes) + u64::from(launch.dynamic_shared_bytes);
    let most = limits.shared_bytes_per_cta_opt_in;
    (shared > u64::from(most)).then(|| {
        format!(
            "a CTA has {} bytes of static and {} of dynamic shared memory; {} allows {most} per CTA, \
             so use at most {} dynamic",
            attributes.shared_bytes,
            launch.dynamic_shared_bytes,
            limits.target,
            most.saturating_sub(attributes.shared_bytes)
        )
    })
}

/// The extents of a CTA and a cluster that a kernel's PTX requires.
#[derive(Clone, Copy, Default)]
struct RequiredExtents {
    /// `.reqntid`
    block: Option<Extents>,
    /// `.reqnctapercluster`
    cluster: Option<Extents>,
}

impl RequiredExtents {
    fn of(entry: &syntax::Function) -> Self {
        let extents = |word: &str| {
            let (_, numbers) = entry.directives.iter().find(|(name, _)| name == word)?;
            Some(Extents([0, 1, 2].map(|axis| numbers.get(axis).map_or(1, |&extent| extent as u32))))
        };
        Self { block: extents("reqntid"), cluster: extents("reqnctapercluster") }
    }

    /// Returns an error if the launch has other extents. A launch that names no cluster has that of
    /// the PTX.
    fn check(&self, kernel: &str, launch: &Launch) -> Result<()> {
        let cluster = self.cluster.filter(|_| launch.cluster != Extents([1; 3]));
        let extents = [
            ("a block", "threads", ".reqntid", self.block, launch.block),
            ("clusters", "CTAs", ".reqnctapercluster", cluster, launch.cluster),
        ];
        for (what, unit, directive, required, given) in extents {
            if let Some(required) = required
                && required != given
            {
                let reason = format!(
                    "the launch has {what} of {:?} {unit}, and the PTX requires {:?} (`{directive}`)",
                    given.0, required.0
                );
                return Err(Error::bad_launch(kernel, reason));
            }
        }
        Ok(())
    }
}

/// What a kernel of the language states about its launches.
#[derive(Clone, Copy)]
pub(crate) struct StatedShape {
    block: Option<Extents>,
    cluster: Extents,
    dynamic_shared_bytes: u32,
    /// The most threads along x that its plans have, and where.
    planned_threads: Option<(u32, ir::Location)>,
}

impl StatedShape {
    pub(crate) fn of(kernel: &ir::Kernel) -> Self {
        Self {
            block: kernel.launch.required_block.map(Extents),
            cluster: Extents(kernel.launch.cluster.unwrap_or([1; 3])),
            dynamic_shared_bytes: kernel.dynamic_shared_bytes,
            planned_threads: kernel.planned_threads,
        }
    }

    /// A launch of `grid` CTAs.
    pub(crate) fn launch(&self, grid: impl Into<Extents>) -> Launch {
        let block = self.block.unwrap_or(Launch::NO_BLOCK);
        Launch::new(grid, block).cluster(self.cluster.0).dynamic_shared(self.dynamic_shared_bytes)
    }

    /// Returns an error if the launch differs from what the kernel states.
    pub(crate) fn check(&self, kernel: &str, launch: &Launch) -> Result<()> {
        let Launch { block, cluster, dynamic_shared_bytes, .. } = *launch;
        let reason = match self.block {
            Some(stated) if stated != block => format!(
                "the launch has a block of {:?} threads, and the kernel states {:?}: omit the block size \
                 in the launch",
                block.0, stated.0
            ),
            None if block == Launch::NO_BLOCK => {
                "the kernel states no block: call `launch::threads(n)` in its body, or launch \
                 `kernel.shape(grid).block(n)`"
                    .to_owned()
            }
            _ if self.cluster != Extents([1; 3]) && self.cluster != cluster => format!(
                "the launch has clusters of {:?} CTAs, and the kernel states {:?}: omit the cluster in the launch",
                cluster.0, self.cluster.0
            ),
            _ if dynamic_shared_bytes < self.dynamic_shared_bytes => format!(
                "the launch has {dynamic_shared_bytes} bytes of dynamic shared memory, and the kernel allocates {}: \
                 launch `kernel.shape(grid)`",
                self.dynamic_shared_bytes
            ),
            _ => match self.planned_threads.filter(|(threads, _)| block.0[0] > *threads) {
                Some((threads, ir::Location { file, line, column })) => format!(
                    "the launch has a block of {:?} threads, and a `TiledMma` or `TiledCopy` that all of them take part in has \
                     {threads} ({file}:{line}:{column}): launch `kernel.shape(grid).block({threads})`",
                    block.0
                ),
                None => return Ok(()),
            },
        };
        Err(Error::bad_launch(kernel, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(launch: Launch, target: &str) -> Option<String> {
        let limits = Capability::for_target(target).expect("in the table");
        let attributes =
            KernelAttributes { shared_bytes: 1024, threads_per_cta: 512, ..KernelAttributes::default() };
        broken_rule(&launch, limits, &attributes)
    }

    #[test]
    fn what_fits_is_allowed() {
        assert_eq!(reason(Launch::new(1, 1), "sm_80"), None);
        assert_eq!(reason(Launch::new((0x7fff_ffff, 65535, 65535), (8, 8, 8)), "sm_80"), None);
        assert_eq!(
            reason(Launch::new((32, 2), 512).cluster((16, 1)).dynamic_shared(226 << 10), "sm_90a"),
            None
        );
    }

    #[test]
    fn each_rule_says_what_it_wants() {
        let cases = [
            (Launch::new(0, 1), "grid's x extent is 0"),
            (Launch::new((1, 65536), 1), "grid's y extent is 65536, and it must be from 1 to 65535"),
            (Launch::new(1, (1, 1, 65)), "block's z extent is 65"),
            (Launch::new(1, (1024, 2)), "2048 threads; use at most 512, which is all that its launch bounds"),
            (Launch::new(1, 1).cluster(17), "cluster's x extent is 17"),
            (Launch::new(36, 1).cluster((6, 6)), "a cluster has 36 CTAs; use at most 16"),
            (Launch::new(3, 1).cluster(2), "not a multiple of the cluster's, 2"),
            (Launch::new(1, 1).dynamic_shared((226 << 10) + 1), "so use at most 231424 dynamic"),
        ];
        for (launch, words) in cases {
            let reason = reason(launch, "sm_90a").expect("it breaks a rule");
            assert!(reason.contains(words), "{reason}");
        }
        let early = reason(Launch::new(1, 1).overlapping(), "sm_89").expect("not there yet");
        assert!(early.contains("needs sm_90 or later, and this is sm_89"), "{early}");
        assert_eq!(reason(Launch::new(1, 1).overlapping(), "sm_90a"), None);
        let none = reason(Launch::new(2, 1).cluster(2), "sm_80").expect("no clusters there");
        assert!(none.contains("from 1 to 1 on sm_80"), "{none}");
    }
}
