//! Allocation of shared and local memory.

use rustc_hash::FxHashMap;
use std::borrow::Cow;
use warpwright_arch::limits::{SHARED_BYTES_PER_CTA, STATIC_SHARED_BYTES};

use warpwright_ir::{
    Body, DYNAMIC_SHARED, DynamicArray, Instruction, Kernel, MemoryVariable, Operand, Statement,
};

use crate::element::Element;
use crate::length::Length;
use crate::object;
use crate::operation::{here, refuse};
use crate::pointer::{Local, Shared, pointer_to_symbol};
use crate::recorder::{self, Allocation};
use crate::requirement::target;

/// Alignment of shared variables for vector accesses and `cp.async`.
const ALIGN: u32 = 16;

/// Allocates `elements` elements of static shared memory, not initialized.
#[track_caller]
pub fn shared_array<T: Element>(elements: impl Length) -> Shared<T> {
    let elements = elements.elements();
    let bytes = u64::from(elements) * u64::from(T::BYTES);
    let call = format!("shared_array::<{}>({elements})", T::NAME);
    let array = shared_bytes(call, bytes, ALIGN.max(T::BYTES), T::BYTES).cast();
    object::array(array, T::NAME, T::BYTES, elements.into());
    array
}

/// `bytes` bytes of the CTA's shared memory, aligned to `align`, which `call` allocates as elements
/// of `element_bytes`. The caller [declares](object::array) their contents.
#[track_caller]
pub(crate) fn shared_bytes(
    call: impl Into<Cow<'static, str>>,
    bytes: u64,
    align: u32,
    element_bytes: u32,
) -> Shared<u8> {
    let location = here();
    let (name, total) = recorder::with(|recorder| {
        let variables = &mut recorder.kernel().shared;
        let name = format!("shared_{}", variables.len());
        variables.push(MemoryVariable { name: name.clone(), bytes, align, location });
        (
            name,
            variables
                .iter()
                .map(|variable| variable.bytes.next_multiple_of(variable.align.into()))
                .sum::<u64>(),
        )
    });
    if total > STATIC_SHARED_BYTES.into() {
        refuse(format!(
            "the kernel's static shared memory grows to {total} bytes here, and a CTA has {STATIC_SHARED_BYTES}: allocate it with `dynamic_shared`"
        ));
    }
    pointer_to_shared(name.clone(), name, allocation(call, 0, bytes, element_bytes))
}

/// An allocation at the author's line.
#[track_caller]
fn allocation(call: impl Into<Cow<'static, str>>, start: u64, bytes: u64, element_bytes: u32) -> Allocation {
    Allocation {
        call: call.into(),
        start: start as i64,
        bytes: Some(bytes as i64),
        element_bytes: i64::from(element_bytes.max(1)),
        location: here(),
    }
}

/// A pointer to the array `name` in a shared variable; the recorder notes both.
#[track_caller]
fn pointer_to_shared<T: Element>(name: String, variable: String, allocation: Allocation) -> Shared<T> {
    let pointer: Shared<T> = pointer_to_symbol(Operand::Symbol(name));
    recorder::with(|recorder| {
        recorder.remember_symbol(pointer.parts().0, variable);
        recorder.remember_allocation(pointer.parts().0, allocation);
    });
    pointer
}

/// Allocates `elements` elements of dynamic shared memory, up to the GPU's limit. Each call takes
/// the next bytes; the launch allocates the total.
#[track_caller]
pub fn dynamic_shared<T: Element>(elements: impl Length) -> Shared<T> {
    let elements = elements.elements();
    let call = format!("dynamic_shared::<{}>({elements})", T::NAME);
    dynamic_shared_by(call, elements, ALIGN.max(T::BYTES))
}

/// [`dynamic_shared`], aligned to `align` bytes: memory that TMA fills needs 128, and a swizzled tile the
/// period of its swizzle, 1024 for the swizzle of 128 bytes.
#[track_caller]
pub fn dynamic_shared_aligned<T: Element>(elements: impl Length, align: u32) -> Shared<T> {
    let elements = elements.elements();
    let call = format!("dynamic_shared_aligned::<{}>({elements}, {align})", T::NAME);
    dynamic_shared_by(call, elements, align)
}

#[track_caller]
fn dynamic_shared_by<T: Element>(call: String, elements: u32, align: u32) -> Shared<T> {
    let bytes = u64::from(elements) * u64::from(T::BYTES);
    let (name, start, end) = recorder::with(|recorder| {
        let kernel = recorder.kernel();
        let name = format!("dynamic_{}", kernel.dynamic_arrays.len());
        let start = u64::from(kernel.dynamic_shared_bytes).next_multiple_of(align.into());
        let end = start + bytes;
        kernel.dynamic_shared_bytes = u32::try_from(end).unwrap_or(u32::MAX);
        kernel.dynamic_shared_align = Some(kernel.dynamic_shared_align.unwrap_or(align).max(align));
        kernel.dynamic_arrays.push(DynamicArray { name: name.clone(), offset: start, bytes });
        (name, start, end)
    });
    let limit = target().map_or(SHARED_BYTES_PER_CTA, |capability| capability.shared_bytes_per_cta_opt_in);
    if end > limit.into() {
        refuse(format!(
            "the kernel's dynamic shared memory grows to {end} bytes here, and a CTA has at most {limit}: use smaller tiles or fewer stages"
        ));
    }
    let allocation = allocation(call, start, bytes, T::BYTES);
    let array = pointer_to_shared(name, DYNAMIC_SHARED.to_owned(), allocation).byte_offset(start as i64);
    object::array(array, T::NAME, T::BYTES, elements.into());
    array
}

/// Moves a kernel's static variables behind its dynamic shared memory, if it has any.
///
/// The driver puts dynamic shared memory right after the static variables, whatever alignment it is
/// declared with (measured on an H200: 64 bytes of mbarriers put a buffer for 128-byte swizzles at
/// 0x440). Alone, it begins at the start of the window.
pub(crate) fn join_static_to_dynamic(kernel: &mut Kernel) {
    let Some(align) = kernel.dynamic_shared_align else { return };
    let mut starts = FxHashMap::default();
    for variable in std::mem::take(&mut kernel.shared) {
        let start = u64::from(kernel.dynamic_shared_bytes).next_multiple_of(variable.align.into());
        let name = variable.name.clone();
        kernel.dynamic_arrays.push(DynamicArray { name, offset: start, bytes: variable.bytes });
        starts.insert(variable.name, start as i64);
        kernel.dynamic_shared_bytes = u32::try_from(start + variable.bytes).unwrap_or(u32::MAX);
        kernel.dynamic_shared_align = Some(align.max(variable.align));
    }
    if starts.is_empty() {
        return;
    }
    join_body(&mut kernel.body, &starts);
    for object in &mut kernel.objects {
        if let Some(&start) = starts.get(&object.symbol) {
            object.symbol = DYNAMIC_SHARED.to_owned();
            object.offset += start as u64;
        }
    }
}

/// After `mov register, variable`, the register is made to point behind the dynamic memory.
fn join_body(body: &mut Body, starts: &FxHashMap<String, i64>) {
    let mut at = 0;
    while at < body.len() {
        match &mut body[at] {
            Statement::Instruction(instruction) => {
                if let [destination, Operand::Symbol(name)] = instruction.operands.as_slice()
                    && let Some(&start) = starts.get(name)
                {
                    let operands =
                        vec![destination.clone(), destination.clone(), Operand::Integer(start.into())];
                    let advance = Instruction { opcode: "add.u32".into(), operands, ..instruction.clone() };
                    body.insert(at + 1, Statement::Instruction(advance));
                }
            }
            Statement::If { then, otherwise, .. } => {
                join_body(then, starts);
                join_body(otherwise, starts);
            }
            Statement::Loop { body, step, .. } => {
                join_body(body, starts);
                join_body(step, starts);
            }
            Statement::Block { body, .. } => join_body(body, starts),
            _ => {}
        }
        at += 1;
    }
}

/// Allocates `elements` elements of the thread's local memory, which is as slow as global memory.
/// Arrays in registers (Rust arrays of device values) are fast, but need build-time indices.
#[track_caller]
pub fn local_array<T: Element>(elements: impl Length) -> Local<T> {
    let elements = elements.elements();
    let location = here();
    let bytes = u64::from(elements) * u64::from(T::BYTES);
    let name = recorder::with(|recorder| {
        let variables = &mut recorder.kernel().local;
        let name = format!("local_{}", variables.len());
        variables.push(MemoryVariable { name: name.clone(), bytes, align: ALIGN, location });
        name
    });
    let pointer: Local<T> = pointer_to_symbol(Operand::Symbol(name));
    let allocation = allocation(format!("local_array::<{}>({elements})", T::NAME), 0, bytes, T::BYTES);
    recorder::with(|recorder| recorder.remember_allocation(pointer.parts().0, allocation));
    pointer
}
