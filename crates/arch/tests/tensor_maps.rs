//! The rules of tensor maps against the driver's own verdict.
//!
//! Each line of `tensor_maps.txt` is a description, and whether `cuTensorMapEncodeTiled` or
//! `cuTensorMapEncodeIm2col` of driver 580.159 (CUDA 13.0) on an H200 took it: the verdict, the
//! element type's number, the address modulo what it was aligned to, extents, strides, the box or
//! im2col's lower and upper corner, channels and pixels, element strides, and the numbers of
//! interleave, swizzle, L2 promotion and fill.

use std::str::FromStr;

use warpwright_arch::Capability;
use warpwright_arch::tensor_map::{
    Access, Description, ElementType, Fill, Interleave, L2Promotion, Swizzle, TensorMapError,
};

fn numbers<T: FromStr>(text: &str) -> Vec<T> {
    if text == "-" {
        return Vec::new();
    }
    text.split(',').map(|number| number.parse().ok().expect("a number")).collect()
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}

fn access(text: &str) -> Access {
    let mut parts = text.split(':');
    match parts.next() {
        Some("box") => Access::Tiled { box_extents: numbers(parts.next().expect("extents")) },
        _ => {
            let mut next = || parts.next().expect("four parts");
            Access::Im2col {
                lower: numbers(next()),
                upper: numbers(next()),
                channels: number(next()) as u32,
                pixels: number(next()) as u32,
            }
        }
    }
}

#[test]
fn the_rules_are_the_drivers() {
    let hopper = Capability::for_target("sm_90a").expect("in the table");
    let (mut taken, mut wrong) = (0, Vec::new());
    for line in include_str!("tensor_maps.txt").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [verdict, element, address, extents, strides, box_, steps, interleave, swizzle, promotion, fill] =
            fields[..]
        else {
            panic!("not a description: {line}");
        };
        let map = Description {
            element: ElementType::ALL[number(element)],
            address: number(address) as u64,
            extents: numbers(extents),
            strides: numbers(strides),
            access: access(box_),
            element_strides: numbers(steps),
            interleave: Interleave::ALL[number(interleave)],
            swizzle: Swizzle::ALL[number(swizzle)],
            l2_promotion: L2Promotion::ALL[number(promotion)],
            fill: [Fill::Zeros, Fill::Nan][number(fill)],
        };
        let ours = map.check().and_then(|()| map.check_on(hopper));
        taken += usize::from(ours.is_ok());
        match (ours, verdict) {
            (Ok(()), "yes") | (Err(_), "no") => {}
            // The driver counts such boxes in a number that overflows; no kernel could use one.
            (Err(TensorMapError::TooLarge { .. }), _) => {}
            // The driver takes such an axis for one of no pixels, and lets it pass where the
            // corners are outside the tensor.
            (Err(TensorMapError::PixelExtent { .. }), _) => {}
            (ours, _) => wrong.push(format!("{line}: {ours:?}")),
        }
    }
    assert!(taken > 400, "{taken}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
