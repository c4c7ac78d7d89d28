//! `mma` of m16n8k8 and m16n8k16 from f16 or bf16 into f32, which most programs use: computed in
//! the host's vector registers.
//!
//! The lanes of an accumulator register are (row, pair of columns). For each step along k, every
//! lane needs the A element of its row and the B element of its column. Both are the same shuffle
//! of a whole register for all steps, so the loop is two shuffles of B, two of A and four fused
//! multiply-adds. Products are exact in f32.

use super::Column;

type Floats = [f32; 32];

/// The two types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
}

/// D = A B + C; A has 2 registers for each of the `K` registers of B.
#[inline(always)]
pub fn multiply<const K: usize>(
    half: Half,
    a: [[&Column; 2]; K],
    b: [&Column; K],
    c: [&Column; 4],
) -> [Column; 4] {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as detected;
        if detected!("avx512f") && detected!("avx512bw") && detected!("avx512dq") && detected!("avx512vl") {
            // SAFETY: the features that the function was compiled for were just detected.
            return unsafe {
                match half {
                    Half::F16 => avx512::<K, false>(a, b, c),
                    Half::Bf16 => avx512::<K, true>(a, b, c),
                }
            };
        }
        if detected!("avx2") && detected!("fma") {
            // SAFETY: as above.
            return unsafe {
                match half {
                    Half::F16 => avx2::<K, false>(a, b, c),
                    Half::Bf16 => avx2::<K, true>(a, b, c),
                }
            };
        }
    }
    let separate = |x: f32, y: f32, z: f32| x * y + z;
    match half {
        Half::F16 => body::<K, false>(a, b, c, separate),
        Half::Bf16 => body::<K, true>(a, b, c, separate),
    }
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
/// 16-31. Loops are written out because closures and iterators would not be compiled for these
/// vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn avx512<const K: usize, const BRAIN: bool>(
    a: [[&Column; 2]; K],
    b: [&Column; K],
    c: [&Column; 4],
) -> [Column; 4] {
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
        for block in 0..2 {
            let left = [widen_avx512::<BRAIN>(a[step][block], 0), widen_avx512::<BRAIN>(a[step][block], 1)];
            let [first, second] = [2 * block, 2 * block + 1];
            macro_rules! depth {
                ($($quarter:literal, $half:literal;)*) => {$(
                    let even = _mm512_add_epi32(columns, _mm512_set1_epi32($quarter));
                    let odd = _mm512_add_epi32(columns, _mm512_set1_epi32($quarter + 4));
                    let even = _mm512_permutex2var_ps(right[0][$half], even, right[1][$half]);
                    let odd = _mm512_permutex2var_ps(right[0][$half], odd, right[1][$half]);
                    let row = _mm512_permute_ps::<{ 0x55 * $quarter }>(left[0][$half]);
                    sums[first][0] = _mm512_fmadd_ps(row, even, sums[first][0]);
                    sums[second][0] = _mm512_fmadd_ps(row, odd, sums[second][0]);
                    let row = _mm512_permute_ps::<{ 0x55 * $quarter }>(left[1][$half]);
                    sums[first][1] = _mm512_fmadd_ps(row, even, sums[first][1]);
                    sums[second][1] = _mm512_fmadd_ps(row, odd, sums[second][1]);
                )*};
            }
            depth! { 0, 0; 0, 1; 1, 0; 1, 1; 2, 0; 2, 1; 3, 0; 3, 1; }
        }
    }
    let mut result = [[0; 32]; 4];
    for index in 0..4 {
        for part in 0..2 {
            let sum = sums[index][part];
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(sum, sum);
            let bits = _mm512_mask_set1_epi32(_mm512_castps_si512(sum), nan, 0x7fff_ffff);
            // SAFETY: the slice is 16 words.
            unsafe {
                _mm512_storeu_si512(result[index][16 * part..16 * part + 16].as_mut_ptr().cast(), bits)
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
) -> [Column; 4] {
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
) -> [Column; 4] {
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
    sums.map(|sum| sum.map(|value| if value.is_nan() { 0x7fff_ffff } else { value.to_bits() }))
}
