//! `mma` of m16n8k8 and m16n8k16 from f16 or bf16 into f32, which most programs use: computed in
//! the host's vector registers.
//!
//! The lanes of an accumulator register are (row, pair of columns). For each step along k, every
//! lane needs the A element of its row and the B element of its column. Both are the same shuffle
//! of a whole register for all steps, so the loop is two shuffles of B, two of A and four fused
//! multiply-adds. Products are exact in f32.

use super::Column;
use crate::lanes::{Width, width};

type Floats = [f32; 32];

/// The two types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
}

/// The four registers of D, aligned to the machine's vectors: stores of a vector that cross the lines
/// of the cache take twice as long.
#[repr(align(64))]
pub struct Product(pub [Column; 4]);

/// D = A B + C; A has 2 registers for each of the `K` registers of B.
pub type Function<const K: usize> = fn([[&Column; 2]; K], [&Column; K], [&Column; 4]) -> Product;

/// The MMA of a type, compiled for the widest vectors of this processor.
pub fn function<const K: usize>(half: Half) -> Function<K> {
    match (width(), half) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has the vectors that the function is compiled for.
        (Width::Avx512, Half::F16) => |a, b, c| unsafe { avx512::<K, false>(a, b, c) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Width::Avx512, Half::Bf16) => |a, b, c| unsafe { avx512::<K, true>(a, b, c) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Width::Avx2, Half::F16) => |a, b, c| unsafe { avx2::<K, false>(a, b, c) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Width::Avx2, Half::Bf16) => |a, b, c| unsafe { avx2::<K, true>(a, b, c) },
        (Width::Portable, Half::F16) => |a, b, c| body::<K, false>(a, b, c, separate),
        (Width::Portable, Half::Bf16) => |a, b, c| body::<K, true>(a, b, c, separate),
    }
}

/// A multiply-add for processors without a fused one.
fn separate(x: f32, y: f32, z: f32) -> f32 {
    x * y + z
}

/// Sixteen lanes of a column, widened: the low halves, then the high ones.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
#[inline]
fn widen_avx512<const BRAIN: bool>(column: &Column, part: usize) -> [std::arch::x86_64::__m512; 2] {
    use std::arch::x86_64::*;
    // SAFETY: the slice is 16 words.
    let words = unsafe { _mm512_loadu_si512(column[16 * part..16 * part + 16].as_ptr().cast()) };
    if BRAIN {
        let high = _mm512_and_si512(words, _mm512_set1_epi32(0xffff_0000_u32 as i32));
        [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)), _mm512_castsi512_ps(high)]
    } else {
        let high = _mm512_srli_epi32::<16>(words);
        [_mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)), _mm512_cvtph_ps(_mm512_cvtepi32_epi16(high))]
    }
}

/// Sixteen lanes to a vector. Lane t wants, at depth 2 q + h of a step, half h of lane 4 (t / 4) +
/// q of A, which is a broadcast within four lanes, and half h of lane 8 (t % 4) + q of B (4 further
/// for the odd column), which is one permutation of both vectors, the same for lanes 0-15 and
/// 16-31. Each is made once and used for all rows, so that everything stays in registers. Loops are
/// written out because closures and iterators would not be compiled for these vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn avx512<const K: usize, const BRAIN: bool>(
    a: [[&Column; 2]; K],
    b: [&Column; K],
    c: [&Column; 4],
) -> Product {
    use std::arch::x86_64::*;
    let mut sums = [[_mm512_setzero_ps(); 2]; 4];
    for index in 0..4 {
        for part in 0..2 {
            // SAFETY: the slice is 16 words.
            let words = unsafe { _mm512_loadu_si512(c[index][16 * part..16 * part + 16].as_ptr().cast()) };
            sums[index][part] = _mm512_castsi512_ps(words);
        }
    }
    let columns = _mm512_setr_epi32(0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24);
    for step in 0..K {
        let right = [widen_avx512::<BRAIN>(b[step], 0), widen_avx512::<BRAIN>(b[step], 1)];
        let upper = [widen_avx512::<BRAIN>(a[step][0], 0), widen_avx512::<BRAIN>(a[step][0], 1)];
        let lower = [widen_avx512::<BRAIN>(a[step][1], 0), widen_avx512::<BRAIN>(a[step][1], 1)];
        macro_rules! depth {
            ($($quarter:literal, $half:literal;)*) => {$(
                let even = _mm512_add_epi32(columns, _mm512_set1_epi32($quarter));
                let odd = _mm512_add_epi32(columns, _mm512_set1_epi32($quarter + 4));
                let even = _mm512_permutex2var_ps(right[0][$half], even, right[1][$half]);
                let odd = _mm512_permutex2var_ps(right[0][$half], odd, right[1][$half]);
                for part in 0..2 {
                    let row = _mm512_permute_ps::<{ 0x55 * $quarter }>(upper[part][$half]);
                    sums[0][part] = _mm512_fmadd_ps(row, even, sums[0][part]);
                    sums[1][part] = _mm512_fmadd_ps(row, odd, sums[1][part]);
                    let row = _mm512_permute_ps::<{ 0x55 * $quarter }>(lower[part][$half]);
                    sums[2][part] = _mm512_fmadd_ps(row, even, sums[2][part]);
                    sums[3][part] = _mm512_fmadd_ps(row, odd, sums[3][part]);
                }
            )*};
        }
        depth! { 0, 0; 0, 1; 1, 0; 1, 1; 2, 0; 2, 1; 3, 0; 3, 1; }
    }
    let mut result = Product([[0; 32]; 4]);
    for index in 0..4 {
        for part in 0..2 {
            let sum = sums[index][part];
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(sum, sum);
            let bits = _mm512_mask_set1_epi32(_mm512_castps_si512(sum), nan, 0x7fff_ffff);
            // SAFETY: the slice is 16 words.
            unsafe {
                _mm512_storeu_si512(result.0[index][16 * part..16 * part + 16].as_mut_ptr().cast(), bits)
            };
        }
    }
    result
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<const K: usize, const BRAIN: bool>(
    a: [[&Column; 2]; K],
    b: [&Column; K],
    c: [&Column; 4],
) -> Product {
    body::<K, BRAIN>(a, b, c, f32::mul_add)
}

/// The low or high half of every lane's register, as f32.
#[inline(always)]
fn widen<const BRAIN: bool>(column: &Column, high: bool) -> Floats {
    column.map(|word| {
        let bits = if high { word >> 16 } else { word & 0xffff };
        if BRAIN {
            return f32::from_bits(bits << 16);
        }
        // The exponent bias of f16 is 112 less than that of f32; multiplying by 2^112 corrects it,
        // also for subnormals.
        let magnitude = (bits & 0x7fff) << 13;
        let scaled = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
        let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
        f32::from_bits(scaled | special | (bits & 0x8000) << 16)
    })
}

#[inline(always)]
fn body<const K: usize, const BRAIN: bool>(
    a: [[&Column; 2]; K],
    b: [&Column; K],
    c: [&Column; 4],
    fused: impl Fn(f32, f32, f32) -> f32 + Copy,
) -> Product {
    let mut sums = c.map(|column| column.map(f32::from_bits));
    for step in 0..K {
        let left = a[step].map(|column| [widen::<BRAIN>(column, false), widen::<BRAIN>(column, true)]);
        let right = [widen::<BRAIN>(b[step], false), widen::<BRAIN>(b[step], true)];
        macro_rules! depth {
            ($($quarter:literal, $half:literal;)*) => {$(
                let even: Floats = std::array::from_fn(|lane| right[$half][8 * (lane % 4) + $quarter]);
                let odd: Floats = std::array::from_fn(|lane| right[$half][8 * (lane % 4) + 4 + $quarter]);
                for block in 0..2 {
                    let row: Floats = std::array::from_fn(|lane| left[block][$half][lane / 4 * 4 + $quarter]);
                    for lane in 0..32 {
                        sums[2 * block][lane] = fused(row[lane], even[lane], sums[2 * block][lane]);
                        sums[2 * block + 1][lane] = fused(row[lane], odd[lane], sums[2 * block + 1][lane]);
                    }
                }
            )*};
        }
        depth! { 0, 0; 0, 1; 1, 0; 1, 1; 2, 0; 2, 1; 3, 0; 3, 1; }
    }
    Product(sums.map(|sum| sum.map(|value| if value.is_nan() { 0x7fff_ffff } else { value.to_bits() })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine's vectors give what the plain loop gives, of any bits.
    #[test]
    fn vectors_multiply_as_the_plain_loop_does() {
        let mut state = 1u64;
        let mut column = |round: usize| -> Column {
            std::array::from_fn(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Mostly near one, since sums with NaN are NaN.
                let bits = (state >> 32) as u32;
                if round.is_multiple_of(4) { bits } else { bits & 0x8fff_8fff | 0x3000_3000 }
            })
        };
        for round in 0..200 {
            let columns: [Column; 10] = std::array::from_fn(|_| column(round));
            let [a0, a1, a2, a3, b0, b1, c @ ..] = columns.each_ref();
            let (a, b) = ([[a0, a1], [a2, a3]], [b0, b1]);
            let f16 = (function(Half::F16)([a[0]], [b0], c), function(Half::F16)(a, b, c));
            assert_eq!(f16.0.0, body::<1, false>([a[0]], [b0], c, f32::mul_add).0);
            assert_eq!(f16.1.0, body::<2, false>(a, b, c, f32::mul_add).0);
            let bf16 = (function(Half::Bf16)([a[0]], [b0], c), function(Half::Bf16)(a, b, c));
            assert_eq!(bf16.0.0, body::<1, true>([a[0]], [b0], c, f32::mul_add).0);
            assert_eq!(bf16.1.0, body::<2, true>(a, b, c, f32::mul_add).0);
        }
    }
}
