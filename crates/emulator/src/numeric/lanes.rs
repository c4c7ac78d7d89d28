//! The hot f32 operations over the 32 lanes of a warp.
//!
//! One source, compiled for the host's widest vectors. `fma` without the host's instruction uses
//! f64.

use super::single::canonical;

/// One register of all lanes.
pub type Column = [u32; 32];

macro_rules! column_operation {
    ($(#[$doc:meta])* $name:ident($($operand:ident),+), $wide:ident, $portable:expr, $fused:expr) => {
        $(#[$doc])*
        pub fn $name($($operand: &Column,)+ result: &mut Column) {
            #[cfg(target_arch = "x86_64")]
            {
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the two features that the function was compiled for were just
                    // detected.
                    return unsafe { $wide($($operand,)+ result) };
                }
            }
            for lane in 0..32 {
                result[lane] = $portable($($operand[lane]),+);
            }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $wide($($operand: &Column,)+ result: &mut Column) {
            for lane in 0..32 {
                result[lane] = $fused($($operand[lane]),+);
            }
        }
    };
}

#[inline(always)]
fn add_one(a: u32, b: u32) -> u32 {
    canonical(f32::from_bits(a) + f32::from_bits(b))
}

#[inline(always)]
fn mul_one(a: u32, b: u32) -> u32 {
    canonical(f32::from_bits(a) * f32::from_bits(b))
}

#[inline(always)]
fn fma_fused(a: u32, b: u32, c: u32) -> u32 {
    canonical(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)))
}

#[inline(always)]
fn fma_through_f64(a: u32, b: u32, c: u32) -> u32 {
    super::single::fma(a, b, c, super::FloatMode::NEAREST)
}

column_operation!(
    /// `add.rn.f32` of every lane.
    add_f32(a, b), add_f32_wide, add_one, add_one
);
column_operation!(
    /// `mul.rn.f32` of every lane.
    mul_f32(a, b), mul_f32_wide, mul_one, mul_one
);
column_operation!(
    /// `fma.rn.f32` of every lane.
    fma_f32(a, b, c), fma_f32_wide, fma_through_f64, fma_fused
);
