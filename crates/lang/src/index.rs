//! Indices, and the meaning of `a[i]` and `a[i] = v` in attributed code.

use std::ops;

use warpwright_ir::Operand;

use crate::element::Element;
use crate::operation::refuse;
use crate::reg::Reg;

/// A number of elements.
#[derive(Clone, Debug)]
pub enum ElementOffset {
    /// Known at build time.
    Known(i64),
    /// A device value, and its PTX type.
    Device {
        /// The register.
        index: Operand,
        /// `u32`, `s32`, `u64` or `s64`.
        word: &'static str,
    },
}

/// A number of elements: a device integer of 32 or 64 bits, or a build-time integer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot index a pointer",
    note = "index with an integer: `u32`, `i32`, `u64` or `i64`, on the device or known at build time"
)]
pub trait Index: Copy {
    /// The index as an offset.
    fn element_offset(self) -> ElementOffset;
}

macro_rules! indices {
    ($($ty:ty),*) => {
        $(
            impl Index for Reg<$ty> {
                fn element_offset(self) -> ElementOffset {
                    ElementOffset::Device { index: Reg::operand(self), word: <$ty>::PTX }
                }
            }

            impl Index for $ty {
                fn element_offset(self) -> ElementOffset {
                    ElementOffset::Known(self as i64)
                }
            }
        )*
    };
}

indices!(u32, i32, u64, i64);

impl Index for usize {
    fn element_offset(self) -> ElementOffset {
        ElementOffset::Known(self as i64)
    }
}

/// Something that `a[i]` reads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be indexed by `{I}`",
    note = "pointers are indexed by integers, tensors by an integer or a tuple with one for each mode"
)]
pub trait Indexed<I> {
    /// What is read.
    type Value;

    /// Reads the element at `index`.
    #[track_caller]
    fn load_at(&self, index: I) -> Self::Value;
}

/// Something that `a[i] = v` writes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no element at `{I}` that could be set to a `{V}`",
    note = "device arithmetic does not convert by itself: use `.convert()` on the value"
)]
pub trait IndexedMut<I, V>: Indexed<I> {
    /// Writes the element at `index`.
    #[track_caller]
    fn store_at(&self, index: I, value: V);
}

macro_rules! indexed_by_the_device {
    ($($collection:ty),*) => {
        $(
            /// A mistake, refused where it is made: the device holds no such collection.
            impl<V, I> ops::Index<Reg<I>> for $collection {
                type Output = V;

                #[track_caller]
                fn index(&self, _: Reg<I>) -> &V {
                    refuse_device_index();
                    &self[0]
                }
            }

            /// A mistake, refused where it is made: the device holds no such collection.
            impl<V, I> ops::IndexMut<Reg<I>> for $collection {
                #[track_caller]
                fn index_mut(&mut self, _: Reg<I>) -> &mut V {
                    refuse_device_index();
                    &mut self[0]
                }
            }
        )*
    };
}

indexed_by_the_device!([V], Vec<V>);

#[track_caller]
fn refuse_device_index() {
    refuse(
        "a device value indexes an array of Rust, which exists only while the kernel is built: index it by \
         build-time values (unroll the loop), select by comparisons, keep its values in shared, local or \
         constant memory, or make one tensor of several and `slice` it by the index",
    );
}
