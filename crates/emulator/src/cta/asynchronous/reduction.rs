//! The operation of a reducing copy on each element (PTX ISA, "cp.reduce.async.bulk").

use warpwright_arch::tensor_map::ElementType;
use warpwright_ptx::syntax::Type;

use crate::memory::update::{Combine, Update, combine, combine_global, update};

/// A reduction of elements of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduction {
    combine: Combine,
    size: u32,
}

impl Reduction {
    /// A reduction in global memory; `None` if the type does not have it.
    pub(crate) fn in_global(operation: Update, ty: Type) -> Option<Self> {
        Some(Self { combine: combine_global(operation, ty)?, size: ty.bytes() })
    }

    /// A reduction in shared memory; `None` if the type does not have it.
    pub(crate) fn in_shared(operation: Update, ty: Type) -> Option<Self> {
        Some(Self { combine: combine(operation, ty)?, size: ty.bytes() })
    }

    /// The operation for a tensor map's type; `None` if the hardware traps (measured on H200).
    pub(crate) fn of_element(operation: Update, element: ElementType) -> Option<Self> {
        use ElementType::*;
        use Update::*;
        let (ty, known): (Type, &[Update]) = match element {
            U32 => (Type::U32, &[Add, Minimum, Maximum, Increment, Decrement, And, Or, Xor]),
            S32 => (Type::S32, &[Add, Minimum, Maximum, And, Or, Xor]),
            U64 => (Type::U64, &[Add, Minimum, Maximum, And, Or, Xor]),
            S64 => (Type::S64, &[Minimum, Maximum]),
            F16 => (Type::F16, &[Add, Minimum, Maximum]),
            Bf16 => (Type::Bf16, &[Add, Minimum, Maximum]),
            F32 | F32Ftz | Tf32 | Tf32Ftz => (Type::F32, &[Add]),
            F64 => (Type::F64, &[Add]),
            U8 | U16 | B4x16 | B4x16P64 | B6x16P32 => return None,
        };
        known.contains(&operation).then(|| Self::in_global(operation, ty)).flatten()
    }

    /// Reduces elements into others.
    ///
    /// # Safety
    /// `target` and `source` point to `bytes` bytes, whole elements, the target's aligned to them.
    pub(super) unsafe fn apply(&self, target: *mut u8, source: *const u8, bytes: usize) {
        let size = self.size as usize;
        for at in (0..bytes).step_by(size) {
            let mut operand = [0; 16];
            // SAFETY: the caller's promise: `size` more bytes at both.
            unsafe {
                operand[..size].copy_from_slice(std::slice::from_raw_parts(source.wrapping_add(at), size));
                let operand = u128::from_le_bytes(operand);
                update(target.wrapping_add(at), self.size, |old| (self.combine)(old, operand));
            }
        }
    }
}
