//! Tensor maps encoded by the driver.

use std::ffi::{c_int, c_uint, c_void};

use warpwright_arch::tensor_map::{
    Access, Description, ElementType, Fill, Interleave, L2Promotion, Swizzle, TENSOR_MAP_BYTES,
};

use super::driver::{Driver, Failure};

/// `CUtensorMap`, with the alignment that the driver requires.
#[repr(C, align(64))]
struct Encoded([u8; TENSOR_MAP_BYTES]);

/// The driver's number of a value: its index in `all`, which is in the driver's order.
fn number<T: PartialEq>(all: &[T], value: &T) -> c_uint {
    all.iter().position(|it| it == value).expect("the list has every value") as c_uint
}

/// The driver's encoding of a valid description.
pub(super) fn encode(driver: &Driver, map: &Description) -> ([u8; TENSOR_MAP_BYTES], Result<(), Failure>) {
    let mut encoded = Encoded([0; TENSOR_MAP_BYTES]);
    let target: *mut c_void = encoded.0.as_mut_ptr().cast();
    let element = number(&ElementType::ALL, &map.element);
    let rank = map.rank() as c_uint;
    let address = std::ptr::with_exposed_provenance_mut(map.address as usize);
    let interleave = number(&Interleave::ALL, &map.interleave);
    let swizzle = number(&Swizzle::ALL, &map.swizzle);
    let l2_promotion = number(&L2Promotion::ALL, &map.l2_promotion);
    let fill = c_uint::from(map.fill == Fill::Nan);
    let (extents, strides) = (map.extents.as_ptr(), map.strides.as_ptr());
    let element_strides = map.element_strides.as_ptr();
    let outcome = match &map.access {
        // SAFETY: `target` is 64-byte aligned, and the description's rules fix the length of every
        // list.
        Access::Tiled { box_extents } => unsafe {
            driver.cuTensorMapEncodeTiled(
                target,
                element,
                rank,
                address,
                extents,
                strides,
                box_extents.as_ptr(),
                element_strides,
                interleave,
                swizzle,
                l2_promotion,
                fill,
            )
        },
        Access::Im2col { lower, upper, channels, pixels } => {
            let (lower, upper): (*const c_int, *const c_int) = (lower.as_ptr(), upper.as_ptr());
            // SAFETY: as above.
            unsafe {
                driver.cuTensorMapEncodeIm2col(
                    target,
                    element,
                    rank,
                    address,
                    extents,
                    strides,
                    lower,
                    upper,
                    *channels,
                    *pixels,
                    element_strides,
                    interleave,
                    swizzle,
                    l2_promotion,
                    fill,
                )
            }
        }
    };
    (encoded.0, outcome)
}
