//! The verifier: checks a kernel before it becomes PTX.

mod fault;
mod flow;
mod operand;
mod resource;
mod unwritten;

use warpwright_arch::Capability;

use crate::kernel::{Kernel, Location, first_location};
pub use fault::{Fault, VerifyError};
pub(crate) use operand::form_of;
pub use unwritten::{Accumulator, Unwritten};

/// Checks a kernel for `capability`.
///
/// Every instruction must be in the [instruction table](warpwright_arch::instructions), take the
/// operands it was given and exist on the target; every register must have a value where it is
/// read; labels and names must be known; memory, parameters and launch bounds must be within the
/// limits of the device.
///
/// # Errors
/// All mistakes, each with the author's position, in the order of the source. A line that makes
/// the same mistake in several instructions makes it once.
pub fn verify(kernel: &Kernel, capability: &'static Capability) -> Result<(), Vec<VerifyError>> {
    let begin = first_location(&kernel.body).unwrap_or(Location { file: "", line: 0, column: 0 });
    let mut errors = Vec::new();
    let symbols = resource::symbols(kernel, begin, &mut errors);
    resource::check(kernel, capability, begin, &mut errors);
    let mut walk = flow::Walk::new(kernel, capability, &symbols);
    walk.kernel();
    errors.append(&mut walk.errors);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
