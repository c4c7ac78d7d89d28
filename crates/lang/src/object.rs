//! The contents of shared memory, for reports: the tile and element at an address.
//!
//! An allocation names its elements, and a tensor over it gives their coordinates. The PTX carries
//! both as comments.

use warpwright_ir::MemoryObject;
use warpwright_layout::ComposedLayout;

use crate::element::Element;
use crate::operation::here;
use crate::pointer::Pointer;
use crate::recorder;
use crate::space::Space;

/// `count` consecutive elements of `bytes` bytes.
#[track_caller]
pub(crate) fn array<T: Element, S: Space>(
    first: Pointer<T, S>,
    element: &'static str,
    bytes: u32,
    count: u64,
) {
    declare(first, element, bytes, format!("({count}):(1)"), false);
}

/// Declares the elements of a layout, if all of it is known; `is_staged` if its last mode is the
/// stage.
#[track_caller]
pub(crate) fn tensor<T: Element, S: Space>(first: Pointer<T, S>, layout: &ComposedLayout, is_staged: bool) {
    if layout.is_known() {
        declare(first, T::NAME, T::BYTES, layout.to_string(), is_staged);
    }
}

#[track_caller]
fn declare<T: Element, S: Space>(
    first: Pointer<T, S>,
    element: &'static str,
    bytes: u32,
    layout: String,
    is_staged: bool,
) {
    let location = here();
    recorder::with(|recorder| {
        let (register, offset) = first.parts();
        let (Some(symbol), Ok(offset)) = (recorder.symbol_in(register), u64::try_from(offset)) else {
            return;
        };
        let symbol = symbol.to_owned();
        let objects = &mut recorder.kernel().objects;
        let is_declared = objects.iter().any(|other| {
            (&other.symbol, other.offset, other.element, &other.layout) == (&symbol, offset, element, &layout)
        });
        if !is_declared {
            let element_bits = 8 * bytes;
            objects.push(MemoryObject { symbol, offset, element, element_bits, layout, is_staged, location });
        }
    });
}
