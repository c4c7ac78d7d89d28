//! Integer arithmetic: PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer
//! Arithmetic".
//!
//! Operations that Rust's wrapping operations provide (add, sub, the low half of a product, min,
//! max, logic) are not repeated here.

/// `mul.hi.u32`
#[inline(always)]
pub fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// `mul.hi.s32`
#[inline(always)]
pub fn mul_hi_s32(a: i32, b: i32) -> i32 {
    ((i64::from(a) * i64::from(b)) >> 32) as i32
}

/// `mul.hi.u64`
#[inline(always)]
pub fn mul_hi_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// `mul.hi.s64`
#[inline(always)]
pub fn mul_hi_s64(a: i64, b: i64) -> i64 {
    ((i128::from(a) * i128::from(b)) >> 64) as i64
}

/// `mul24.lo` and `mul24.hi`: the low or the high 32 bits of the 48-bit product of the low 24 bits
/// of each operand.
#[inline(always)]
pub fn mul24(a: u32, b: u32, signed: bool, high: bool) -> u32 {
    let low24 = |x: u32| if signed { i64::from((x << 8) as i32 >> 8) } else { i64::from(x & 0xff_ffff) };
    let product = low24(a) * low24(b);
    if high { (product >> 16) as u32 } else { product as u32 }
}

/// `div.u32`. By zero: all ones, as from the hardware's sequence.
#[inline(always)]
pub fn div_u32(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(u32::MAX)
}

/// `div.s32`. By zero: all ones (-1).
#[inline(always)]
pub fn div_s32(a: i32, b: i32) -> i32 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

/// `rem.u32`. By zero: all ones.
#[inline(always)]
pub fn rem_u32(a: u32, b: u32) -> u32 {
    a.checked_rem(b).unwrap_or(u32::MAX)
}

/// `rem.s32`. By zero: all ones.
#[inline(always)]
pub fn rem_s32(a: i32, b: i32) -> i32 {
    if b == 0 { -1 } else { a.wrapping_rem(b) }
}

/// `div.u64`. By zero: all ones.
#[inline(always)]
pub fn div_u64(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(u64::MAX)
}

/// `div.s64`. By zero: all ones (-1).
#[inline(always)]
pub fn div_s64(a: i64, b: i64) -> i64 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

/// `rem.u64`. By zero: all ones.
#[inline(always)]
pub fn rem_u64(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(u64::MAX)
}

/// `rem.s64`. By zero: all ones.
#[inline(always)]
pub fn rem_s64(a: i64, b: i64) -> i64 {
    if b == 0 { -1 } else { a.wrapping_rem(b) }
}

/// `sad`: `c + |a - b|`, the difference taken without overflow.
#[inline(always)]
pub fn sad_u32(a: u32, b: u32, c: u32) -> u32 {
    c.wrapping_add(a.abs_diff(b))
}

/// `sad.s32`
#[inline(always)]
pub fn sad_s32(a: i32, b: i32, c: u32) -> u32 {
    c.wrapping_add(a.abs_diff(b))
}

/// `sad.u64`
#[inline(always)]
pub fn sad_u64(a: u64, b: u64, c: u64) -> u64 {
    c.wrapping_add(a.abs_diff(b))
}

/// `sad.s64`
#[inline(always)]
pub fn sad_s64(a: i64, b: i64, c: u64) -> u64 {
    c.wrapping_add(a.abs_diff(b))
}

/// `add.cc` and `addc`: the sum with a carry in, and the carry out.
#[inline(always)]
pub fn add_carry_u32(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

/// `add.cc.u64` and `addc.u64`
#[inline(always)]
pub fn add_carry_u64(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let sum = u128::from(a) + u128::from(b) + u128::from(carry);
    (sum as u64, sum >> 64 != 0)
}

/// `sub.cc` and `subc`: the difference, and the carry out of `a + !b + carry`, which is one if no
/// borrow occurred.
///
/// The manual calls the CC.CF of a subtraction a borrow. The hardware keeps the carry of its
/// addition, which `addc` after `sub.cc` exposes (`ptxas` passes on the flag of `IADD3 P0 = a, -b`
/// unchanged; the compiler's own 128-bit division relies on it).
#[inline(always)]
pub fn sub_carry_u32(a: u32, b: u32, carry: bool) -> (u32, bool) {
    add_carry_u32(a, !b, carry)
}

/// `sub.cc.u64` and `subc.u64`
#[inline(always)]
pub fn sub_carry_u64(a: u64, b: u64, carry: bool) -> (u64, bool) {
    add_carry_u64(a, !b, carry)
}

#[inline(always)]
fn extend(value: u32, width: u32, signed: bool) -> i64 {
    let shift = 64 - width;
    let left = u64::from(value) << shift;
    if signed { left as i64 >> shift } else { (left >> shift) as i64 }
}

/// `dp4a`: `c` plus the dot product of four bytes.
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    (0..4).fold(c, |sum, byte| {
        let product = extend(a >> (8 * byte), 8, a_signed) * extend(b >> (8 * byte), 8, b_signed);
        sum.wrapping_add(product as u32)
    })
}

/// `dp2a.lo` and `dp2a.hi`: `c` plus the dot product of the two halves of `a` and the two low or
/// high bytes of `b`.
#[inline(always)]
pub fn dp2a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool, high: bool) -> u32 {
    let b = if high { b >> 16 } else { b };
    (0..2).fold(c, |sum, part| {
        let product = extend(a >> (16 * part), 16, a_signed) * extend(b >> (8 * part), 8, b_signed);
        sum.wrapping_add(product as u32)
    })
}
