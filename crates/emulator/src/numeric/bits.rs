//! Bit operations: PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions",
//! `prmt`.

/// `shl`: an amount beyond the width gives zero.
#[inline(always)]
pub fn shl_b32(a: u32, amount: u32) -> u32 {
    if amount > 31 { 0 } else { a << amount }
}

/// `shl.b64`
#[inline(always)]
pub fn shl_b64(a: u64, amount: u32) -> u64 {
    if amount > 63 { 0 } else { a << amount }
}

/// `shl.b16`
#[inline(always)]
pub fn shl_b16(a: u16, amount: u32) -> u16 {
    if amount > 15 { 0 } else { a << amount }
}

/// `shr.u32`
#[inline(always)]
pub fn shr_u32(a: u32, amount: u32) -> u32 {
    if amount > 31 { 0 } else { a >> amount }
}

/// `shr.u64`
#[inline(always)]
pub fn shr_u64(a: u64, amount: u32) -> u64 {
    if amount > 63 { 0 } else { a >> amount }
}

/// `shr.u16`
#[inline(always)]
pub fn shr_u16(a: u16, amount: u32) -> u16 {
    if amount > 15 { 0 } else { a >> amount }
}

/// `shr.s32`: an amount past the width fills with the sign.
#[inline(always)]
pub fn shr_s32(a: i32, amount: u32) -> i32 {
    a >> amount.min(31)
}

/// `shr.s64`
#[inline(always)]
pub fn shr_s64(a: i64, amount: u32) -> i64 {
    a >> amount.min(63)
}

/// `shr.s16`
#[inline(always)]
pub fn shr_s16(a: i16, amount: u32) -> i16 {
    a >> amount.min(15)
}

/// `shf.l`: the high half of `high:low` shifted left. `wrap` takes the amount modulo 32; otherwise
/// it is clamped to 32.
#[inline(always)]
pub fn shf_left(low: u32, high: u32, amount: u32, wrap: bool) -> u32 {
    let amount = if wrap { amount & 31 } else { amount.min(32) };
    ((((u64::from(high) << 32) | u64::from(low)) << amount) >> 32) as u32
}

/// `shf.r`: the low half of `high:low` shifted right.
#[inline(always)]
pub fn shf_right(low: u32, high: u32, amount: u32, wrap: bool) -> u32 {
    let amount = if wrap { amount & 31 } else { amount.min(32) };
    (((u64::from(high) << 32) | u64::from(low)) >> amount) as u32
}

/// `lop3`: bit (a, b, c) of `table` for each bit position, a the highest.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    (0..8u32).fold(0, |result, row| {
        let term = |x: u32, bit: u32| if row >> bit & 1 == 1 { x } else { !x };
        let selected = 0u32.wrapping_sub(u32::from(table) >> row & 1);
        result | term(a, 2) & term(b, 1) & term(c, 0) & selected
    })
}

/// `bfe` of 32 bits. Only the low byte of position and length counts; a signed field reaching past
/// the top is filled with the sign bit of the value.
#[inline(always)]
pub fn bfe_b32(a: u32, position: u32, length: u32, signed: bool) -> u32 {
    bfe(u64::from(a), 32, position & 0xff, length & 0xff, signed) as u32
}

/// `bfe` of 64 bits. Position and length count in full (measured on H200).
#[inline(always)]
pub fn bfe_b64(a: u64, position: u32, length: u32, signed: bool) -> u64 {
    bfe(a, 64, position.min(255), length.min(255), signed)
}

#[inline(always)]
fn bfe(a: u64, width: u32, position: u32, length: u32, signed: bool) -> u64 {
    if length == 0 {
        return 0;
    }
    let last = (position + length - 1).min(width - 1);
    let sign = 0u64.wrapping_sub(if signed { a >> last & 1 } else { 0 });
    let field = shr_u64(a, position);
    let mask = if length > 63 { u64::MAX } else { (1 << length) - 1 };
    // Bits past the top of the value, and past the field, are the sign.
    let present = if position >= width { 0 } else { u64::MAX >> (64 - (width - position)) };
    let taken = mask & present;
    field & taken | sign & !taken
}

/// `bfi.b32`: the low `length` bits of `a`, put into `b` at `position`.
#[inline(always)]
pub fn bfi_b32(a: u32, b: u32, position: u32, length: u32) -> u32 {
    bfi(u64::from(a), u64::from(b), position & 0xff, length & 0xff) as u32
}

/// `bfi.b64`. Position and length count in full (measured on H200).
#[inline(always)]
pub fn bfi_b64(a: u64, b: u64, position: u32, length: u32) -> u64 {
    bfi(a, b, position, length)
}

#[inline(always)]
fn bfi(a: u64, b: u64, position: u32, length: u32) -> u64 {
    let field = if length > 63 { u64::MAX } else { (1 << length) - 1 };
    let mask = shl_b64(field, position);
    b & !mask | shl_b64(a, position) & mask
}

/// `bfind`: the position of the top bit that differs from the sign (signed) or is one (unsigned);
/// with `shift_amount`, the left shift that moves it to the top. All ones if no such bit exists.
#[inline(always)]
pub fn bfind_b32(a: u32, signed: bool, shift_amount: bool) -> u32 {
    let a = if signed && a >> 31 == 1 { !a } else { a };
    match (a, shift_amount) {
        (0, _) => u32::MAX,
        (_, false) => 31 - a.leading_zeros(),
        (_, true) => a.leading_zeros(),
    }
}

/// `bfind` of 64 bits.
#[inline(always)]
pub fn bfind_b64(a: u64, signed: bool, shift_amount: bool) -> u32 {
    let a = if signed && a >> 63 == 1 { !a } else { a };
    match (a, shift_amount) {
        (0, _) => u32::MAX,
        (_, false) => 63 - a.leading_zeros(),
        (_, true) => a.leading_zeros(),
    }
}

/// `fns`: the position of the `offset`-th set bit counted from `base`: upward and including it if
/// positive, downward if negative; zero selects the bit at `base` itself. All ones if no such bit
/// exists.
pub fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    let set = |bit: u32| bit < 32 && mask >> bit & 1 == 1;
    let nth = |mut bits: Box<dyn Iterator<Item = u32>>, n: u32| bits.nth(n as usize).unwrap_or(u32::MAX);
    match offset {
        0 => {
            if set(base) {
                base
            } else {
                u32::MAX
            }
        }
        1.. => nth(Box::new((base.min(32)..32).filter(move |&bit| set(bit))), offset as u32 - 1),
        _ => nth(Box::new((0..=base.min(31)).rev().filter(move |&bit| set(bit))), offset.unsigned_abs() - 1),
    }
}

/// `bmsk`: `length` ones from `position` up. `wrap` takes both modulo 32; otherwise they are
/// clamped to 32.
#[inline(always)]
pub fn bmsk(position: u32, length: u32, wrap: bool) -> u32 {
    let limit = |x: u32| if wrap { x & 31 } else { x.min(32) };
    (((1u64 << limit(length)) - 1) << limit(position)) as u32
}

/// `szext`: the low `width` bits of `a`, extended by sign or zero. `wrap` takes the width modulo
/// 32; otherwise it is clamped to 32.
#[inline(always)]
pub fn szext(a: u32, width: u32, signed: bool, wrap: bool) -> u32 {
    let width = if wrap { width & 31 } else { width.min(32) };
    if width == 0 {
        return 0;
    }
    let shift = 32 - width;
    if signed { ((a << shift) as i32 >> shift) as u32 } else { a << shift >> shift }
}

/// The byte choice of `prmt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermuteMode {
    /// Four selectors of four bits.
    Index,
    /// `.f4e`: four bytes from the selector upward.
    Forward4,
    /// `.b4e`: four bytes from the selector downward.
    Backward4,
    /// `.rc8`: one byte, everywhere.
    Replicate8,
    /// `.ecl`: edge clamp to the left.
    EdgeLeft,
    /// `.ecr`: edge clamp to the right.
    EdgeRight,
    /// `.rc16`: one half, twice.
    Replicate16,
}

/// `prmt`: four bytes out of the eight of `b:a`.
#[inline(always)]
pub fn prmt(a: u32, b: u32, control: u32, mode: PermuteMode) -> u32 {
    let bytes = (u64::from(b) << 32) | u64::from(a);
    let low = control & 3;
    (0..4u32).fold(0, |result, place| {
        let selector = match mode {
            PermuteMode::Index => control >> (4 * place) & 0xf,
            PermuteMode::Forward4 => low + place,
            PermuteMode::Backward4 => (low + 8 - place) & 7,
            PermuteMode::Replicate8 => low,
            PermuteMode::EdgeLeft => low.max(place),
            PermuteMode::EdgeRight => low.min(place),
            PermuteMode::Replicate16 => (control & 1) * 2 + (place & 1),
        };
        let byte = (bytes >> (8 * (selector & 7))) as u32 & 0xff;
        // The selector's top bit replicates the byte's sign over it.
        let byte = if selector & 8 != 0 { 0xff * (byte >> 7) } else { byte };
        result | byte << (8 * place)
    })
}
