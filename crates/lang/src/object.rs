//! What lies in shared memory, for reports: which element of which tile an address is.
//!
//! Who asks for shared memory says what it is for, and a tensor over it says which coordinates its elements have. That goes with the
//! kernel into the PTX as comments, and costs nothing but their text.

use warpwright_ir::MemoryObject;
use warpwright_layout::ComposedLayout;

use crate::element::Element;
use crate::operation::here;
use crate::pointer::Pointer;
use crate::recorder;
use crate::space::Space;

/// `count` elements of so many bytes, one after another.
#[track_caller]
pub(crate) fn array<T: Element, S: Space>(
    first: Pointer<T, S>,
    element: &'static str,
    bytes: u32,
    count: u64,
) {
    declare(first, element, bytes, format!("({count}):(1)"), false);
}

/// The elements of a layout, if all of it is known; `in_slots` where its last mode counts the slots of a ring.
#[track_caller]
pub(crate) fn tensor<T: Element, S: Space>(first: Pointer<T, S>, layout: &ComposedLayout, in_slots: bool) {
    if layout.is_known() {
        declare(first, T::NAME, T::BYTES, layout.to_string(), in_slots);
    }
}

#[track_caller]
fn declare<T: Element, S: Space>(
    first: Pointer<T, S>,
    element: &'static str,
    bytes: u32,
    layout: String,
    in_slots: bool,
) {
    let location = here();
    recorder::with(|recorder| {
        let (register, offset) = first.parts();
        let (Some(symbol), Ok(offset)) = (recorder.symbol_in(register), u64::try_from(offset)) else {
            return;
        };
        let symbol = symbol.to_owned();
        let objects = &mut recorder.kernel().objects;
        let is_told = objects.iter().any(|other| {
            (&other.symbol, other.offset, other.element, &other.layout) == (&symbol, offset, element, &layout)
        });
        if !is_told {
            let element_bits = 8 * bytes;
            objects.push(MemoryObject { symbol, offset, element, element_bits, layout, in_slots, location });
        }
    });
}
