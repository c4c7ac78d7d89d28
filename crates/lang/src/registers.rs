//! Moving registers between the warpgroups of a CTA: `setmaxnreg`, sm_90a. PTX ISA, `setmaxnreg`.

use warpwright_arch::limits;
use warpwright_ir::Operand;

use crate::operation::{here, perform, refuse};
use crate::recorder;
use crate::requirement::{Feature, require};

/// Raises the registers per thread of this warpgroup to `count`, once other warpgroups have
/// released enough. All warps of the warpgroup execute it together.
///
/// ```
/// use warpwright_lang::registers::{decrease_registers, increase_registers};
/// use warpwright_lang::{kernel, launch, special::warp_id};
///
/// #[kernel]
/// fn roles() {
///     launch::threads(384);
///     if warp_id() < 4 {
///         decrease_registers(40); // copies, and computes next to nothing
///     } else {
///         increase_registers(232); // multiplies
///     }
/// }
/// assert!(roles().is_ok());
/// ```
#[track_caller]
pub fn increase_registers(count: u32) {
    if set("inc", count) {
        demand_decrease();
    }
}

/// Lowers the registers per thread of this warpgroup to `count`, and releases the others. All warps
/// of the warpgroup execute it together.
#[track_caller]
pub fn decrease_registers(count: u32) {
    set("dec", count);
}

/// Refuses an increase in a kernel without a decrease: `setmaxnreg.inc` waits until the CTA has
/// enough released registers. PTX ISA, `setmaxnreg`.
#[track_caller]
fn demand_decrease() {
    let location = here();
    recorder::with(|recorder| {
        recorder.demand_at_end(location, |kernel| {
            let mut decreases = false;
            kernel.for_each_instruction(&mut |found| decreases |= found.opcode.starts_with("setmaxnreg.dec"));
            (!decreases).then(|| {
                "`increase_registers` waits for registers that other warpgroups release, and none does: call \
                 `decrease_registers` in another warpgroup"
                    .to_owned()
            })
        });
    });
}

/// Returns whether it is no mistake.
#[track_caller]
fn set(direction: &str, count: u32) -> bool {
    require(Feature::RegisterReallocation);
    let is_accepted = limits::setmaxnreg_accepts(count);
    if !is_accepted {
        refuse(format!("a thread has {count} registers: use a multiple of 8 from 24 to 256"));
    }
    let bounded = recorder::with(|recorder| {
        let launch = &recorder.kernel().launch;
        launch.required_block.is_some()
            || launch.maximum_threads.is_some()
            || launch.maximum_registers.is_some()
    });
    if !bounded {
        refuse(
            "`setmaxnreg` needs the CTA's threads, and ptxas ignores it otherwise: call `launch::threads(n)` before this line",
        );
    }
    perform(format!("setmaxnreg.{direction}.sync.aligned.u32"), [Operand::Integer(count.into())]);
    is_accepted && bounded
}
