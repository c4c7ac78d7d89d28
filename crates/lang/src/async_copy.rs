//! Asynchronous copies from global to shared memory: `cp.async`, sm_80.

use warpwright_ir::Operand;

use crate::element::Element;
use crate::operation::{here, perform, record, refuse};
use crate::pointer::{Global, Shared};
use crate::recorder;
use crate::value::{Reg, Value};

/// Sizes of an asynchronous copy, in bytes.
const WIDTHS: [u32; 3] = [4, 8, 16];

/// Copies `elements` consecutive elements (4, 8 or 16 bytes together). Both addresses must be
/// multiples of that size.
#[track_caller]
pub fn copy_async<T: Element>(target: Shared<T>, source: Global<T>, elements: u32) {
    start(target, source, elements, None, None);
}

/// [`copy_async`] where `condition` holds; elsewhere `target` is filled with zeros and `source` is
/// not read.
#[track_caller]
pub fn copy_async_or_zero<T: Element>(
    target: Shared<T>,
    source: Global<T>,
    elements: u32,
    condition: impl Value<bool>,
) {
    let bytes = elements * T::BYTES;
    let bytes = condition.reg().select(bytes, 0u32);
    start(target, source, elements, Some(bytes), None);
}

/// [`copy_async`] of the first `present` elements; the rest of `target` is filled with zeros.
#[track_caller]
pub fn copy_async_first<T: Element>(
    target: Shared<T>,
    source: Global<T>,
    elements: u32,
    present: impl Value<u32>,
) {
    let bytes = present.reg() * T::BYTES;
    start(target, source, elements, Some(bytes), None);
}

/// [`copy_async`] with an L2 cache policy.
#[track_caller]
pub fn copy_async_with_policy<T: Element>(
    target: Shared<T>,
    source: Global<T>,
    elements: u32,
    policy: Reg<u64>,
) {
    start(target, source, elements, None, Some(policy));
}

#[track_caller]
fn start<T: Element>(
    target: Shared<T>,
    source: Global<T>,
    elements: u32,
    present_bytes: Option<Reg<u32>>,
    policy: Option<Reg<u64>>,
) {
    let bytes = elements * T::BYTES;
    if !WIDTHS.contains(&bytes) {
        let legal: Vec<String> = WIDTHS
            .iter()
            .filter(|width| *width % T::BYTES == 0)
            .map(|width| (width / T::BYTES).to_string())
            .collect();
        return refuse(format!(
            "an asynchronous copy moves 4, 8 or 16 bytes, and {elements} elements of {} are {bytes}: move {} at a \
             time",
            T::NAME,
            legal.join(", ")
        ));
    }
    // Only L2 caches 16-byte copies with `.cg`; the narrower ones exist with `.ca` alone.
    let cache = if bytes == 16 { "cg" } else { "ca" };
    let hint = if policy.is_some() { ".L2::cache_hint" } else { "" };
    let mut operands = vec![target.operand(), source.operand(), Operand::Integer(bytes.into())];
    operands.extend(present_bytes.map(Reg::operand));
    operands.extend(policy.map(Reg::operand));
    record(format!("cp.async.{cache}.shared.global{hint}"), 0, operands);
}

/// Commits the asynchronous copies that this thread has started since the last commit to a group.
#[track_caller]
pub fn commit_async_copies() {
    perform("cp.async.commit_group", []);
}

/// Waits until at most the `pending` latest groups of this thread are in flight.
#[track_caller]
pub fn wait_async_copies(pending: u32) {
    demand_commit();
    perform("cp.async.wait_group", [Operand::Integer(pending.into())]);
}

/// Waits for all of this thread's asynchronous copies.
#[track_caller]
pub fn wait_all_async_copies() {
    perform("cp.async.wait_all", []);
}

/// Refuses a wait for groups in a kernel that commits none: it would wait for no copy.
#[track_caller]
fn demand_commit() {
    let location = here();
    recorder::with(|recorder| {
        recorder.demand_at_end(location, |kernel| {
            let (mut copies, mut commits) = (false, false);
            kernel.for_each_instruction(&mut |found| {
                commits |= found.opcode.starts_with("cp.async.commit_group");
                copies |= found.opcode.starts_with("cp.async.ca.") || found.opcode.starts_with("cp.async.cg.");
            });
            (copies && !commits).then(|| {
                "this waits for groups of copies, and the kernel commits none: call `commit_async_copies` after the copies"
                    .to_owned()
            })
        });
    });
}
