//! The values of matrix elements.

use warpwright_arch::DataType;

use crate::numeric::format::Format;

/// The floating-point format of a type, if it is one narrower than f64.
#[inline(always)]
pub fn format(data_type: DataType) -> Option<Format> {
    Some(match data_type {
        DataType::F16 => Format::F16,
        DataType::Bf16 => Format::BF16,
        DataType::Tf32 => Format::TF32,
        DataType::F32 => Format::F32,
        DataType::E4m3 => Format::E4M3,
        DataType::E5m2 => Format::E5M2,
        DataType::E3m2 => Format::E3M2,
        DataType::E2m3 => Format::E2M3,
        DataType::E2m1 => Format::E2M1,
        _ => return None,
    })
}

/// The value of a floating-point element. The low 13 bits of tf32 are ignored (measured on H200).
#[inline(always)]
pub fn float(data_type: DataType, bits: u64) -> f64 {
    match data_type {
        DataType::F64 => f64::from_bits(bits),
        DataType::Tf32 => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
        DataType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => format(data_type).map_or(0.0, |format| format.decode(bits as u32)),
    }
}

/// The value of an integer element; for b1, a word of 32 elements as it is.
#[inline(always)]
pub fn integer(data_type: DataType, bits: u64) -> i32 {
    let bits = bits as i32;
    match data_type {
        DataType::S8 => i32::from(bits as i8),
        DataType::U8 => bits & 0xff,
        DataType::S4 => bits << 28 >> 28,
        DataType::U4 => bits & 0xf,
        _ => bits,
    }
}
