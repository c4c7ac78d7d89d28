//! What a pointer is, by the numbers of `CUpointer_attribute`.

use std::ffi::c_int;

use crate::edge::Out;
use crate::space::{self, Kind, Region};
use crate::status::{Result, Status};

/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`
const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// Writes an attribute of the memory at an address, which is known.
pub(crate) fn attribute(value: Out<u8>, attribute: c_int, address: u64) -> Result<()> {
    value.check()?;
    write(value, attribute, address, space::find(address).as_ref().ok_or(Status::INVALID_VALUE)?)
}

/// Writes an attribute, or zeros for memory that is not known.
pub(crate) fn attribute_or_zero(value: Out<u8>, number: c_int, address: u64) -> Result<()> {
    match space::find(address) {
        Some(region) => write(value, number, address, &region),
        None => match number {
            1 | 3 | 4 | 7 | 11 | 12 | 17 | 18 | 19 => value.cast::<u64>().set(0),
            9 => value.cast::<c_int>().set(-2),
            2 | 6 | 8 | 10 | 13..=16 | 20 | 21 => value.cast::<u32>().set(0),
            _ => Err(Status::INVALID_VALUE),
        },
    }
}

fn write(value: Out<u8>, attribute: c_int, address: u64, region: &Region) -> Result<()> {
    let (long, word) = (value.cast::<u64>(), value.cast::<u32>());
    let byte = |is: bool| value.set(u8::from(is));
    match attribute {
        1 => long.set(region.context as u64),
        2 => word.set(if matches!(region.kind, Kind::Host { .. } | Kind::Registered { .. }) {
            HOST
        } else {
            DEVICE
        }),
        3 => long.set(address),
        4 if region.is_of_host() => long.set(address),
        7 => long.set(region.id),
        6 | 10 | 15 | 21 => byte(false),
        8 => byte(region.kind == Kind::Managed),
        9 => value.cast::<c_int>().set(0),
        11 | 19 => long.set(region.start),
        12 | 18 => long.set(region.bytes),
        13 => byte(true),
        14 => long.set(0),
        16 => word.set(3),
        17 => match region.kind {
            Kind::Device { pool } => long.set(pool as u64),
            _ => long.set(0),
        },
        20 => long.set(region.id),
        _ => Err(Status::INVALID_VALUE),
    }
}
