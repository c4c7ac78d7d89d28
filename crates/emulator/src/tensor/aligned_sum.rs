//! How tensor cores add, for whole blocks at once and at the speed of the host's vectors.
//!
//! The rule is that of [`accumulate`](super::accumulate): the products of a group of steps along k
//! and the accumulator are aligned to the largest exponent among them, truncated some bits below
//! it, added exactly and rounded once. Products of narrow floats are exact in f32, and so is their
//! product with the power of two that aligns them; truncated, it is an integer of at most 28 bits,
//! and 16 of these add up in 32 bits. The rule costs two multiplications, a conversion and an
//! addition per element and step, and an addition and a maximum of 16-bit exponents.
//!
//! A *block* is 16 rows by 4 columns of an accumulator, as the lanes of a warp hold them in two
//! registers: element `l` is of row `l % 32 / 4 + 8 (l / 32)` and column `l % 4` (one of every two
//! neighbors).

use super::accumulate::LEAST_ALIGNMENT;
use crate::numeric::Rounding;
use crate::numeric::format::{Format, power_of_two};

/// Rows of a block.
pub const ROWS: usize = 16;

/// Elements of a block.
pub const BLOCK: usize = ROWS * COLUMNS;

/// Columns of a block.
pub const COLUMNS: usize = 4;

/// The NaN that floating-point MMAs produce.
const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// The exponent of zero, below that of every product even after adding another.
const ZERO_EXPONENT: i16 = -4000;

/// The exponent of infinities and NaNs, above that of every product even after adding that of zero.
const SPECIAL_EXPONENT: i16 = 12000;

/// Exponents for which everything below is an ordinary f32. Elements with others are done one by
/// one.
const ORDINARY: std::ops::RangeInclusive<i32> = -100..=120;

/// Values beyond f32 are infinite, although results are rounded toward zero.
const OVERFLOW: f64 = power_of_two(128);

/// A group of products, and the rounding of their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignedSum {
    /// Steps of the depth that are added at once.
    pub group: usize,
    /// Bits kept below the leading bit of the largest exponent.
    pub fraction_bits: i32,
    /// The bits kept of f32 results, which are rounded toward zero: `!0`, or fewer leading bits.
    /// `None` if results are rounded to nearest into f16.
    pub kept: Option<u32>,
}

/// A of one warp: for each step of the depth, the value and exponent that each element of a block
/// is multiplied by.
#[derive(Clone, Debug, Default)]
pub struct Left {
    values: Vec<[f32; BLOCK]>,
    exponents: Vec<[i16; BLOCK]>,
}

/// B: for every eight columns, and for them for each step of the depth, the values and exponents of
/// the columns of their two blocks.
#[derive(Clone, Debug, Default)]
pub struct Right {
    values: Vec<[f32; 2 * COLUMNS]>,
    exponents: Vec<[i16; 2 * COLUMNS]>,
}

/// The exponent of a number's leading bit, at least `least`; that of zero is below all others.
#[inline(always)]
fn exponent(value: f32, least: i16) -> i16 {
    let bits = value.to_bits();
    let field = (bits >> 23 & 0xff) as i16;
    let finite = if bits << 1 == 0 { ZERO_EXPONENT } else { (field - 127).max(least) };
    if field == 255 { SPECIAL_EXPONENT } else { finite }
}

impl Left {
    /// Reserves memory for `steps` steps.
    pub fn reserve(&mut self, depth: usize) {
        self.values.resize(depth, [0.0; BLOCK]);
        self.exponents.resize(depth, [0; BLOCK]);
    }

    /// Sets the elements of all rows at one step. Exponents are not below `least`.
    #[inline(always)]
    pub fn set(&mut self, step: usize, rows: &[f32; ROWS], least: i16) {
        let mut exponents = [0; ROWS];
        for row in 0..ROWS {
            exponents[row] = exponent(rows[row], least);
        }
        let places = self.values[step].chunks_exact_mut(COLUMNS);
        let places = places.zip(self.exponents[step].chunks_exact_mut(COLUMNS));
        for ((values, places), row) in places.zip(0..) {
            values.fill(rows[row]);
            places.fill(exponents[row]);
        }
    }
}

impl Right {
    /// Reserves memory for the columns and steps: for every eight columns and every step, the even
    /// ones and the odd ones.
    pub fn reserve(&mut self, columns: usize, depth: usize) -> &mut [f32] {
        self.values.resize(columns / 8 * depth, [0.0; 2 * COLUMNS]);
        self.exponents.resize(columns / 8 * depth, [0; 2 * COLUMNS]);
        self.values.as_flattened_mut()
    }

    /// Finds the exponents of the elements. They are not below `least`.
    #[inline(always)]
    pub fn find_exponents(&mut self, least: i16) {
        let (values, exponents) = (self.values.as_flattened(), self.exponents.as_flattened_mut());
        for (place, &value) in exponents.iter_mut().zip(values) {
            *place = exponent(value, least);
        }
    }
}

/// An accumulator of a warp, of which eight columns are two blocks: the even ones and the odd ones.
pub trait Accumulator {
    /// The `eight`-th eight columns.
    fn get(&self, eight: usize) -> [[f32; BLOCK]; 2];
    /// Sets the `eight`-th eight columns.
    fn set(&mut self, eight: usize, blocks: &[[f32; BLOCK]; 2]);
}

impl AlignedSum {
    /// Adds A B to `columns` columns of an accumulator.
    #[inline(always)]
    pub fn accumulate(self, left: &Left, right: &Right, columns: usize, accumulator: &mut impl Accumulator) {
        let depth = left.values.len();
        #[cfg(target_arch = "x86_64")]
        let wide = crate::lanes::width() == crate::lanes::Width::Avx512;
        for eight in 0..columns / 8 {
            let mut blocks = accumulator.get(eight);
            for start in (0..depth).step_by(self.group) {
                let steps = start..depth.min(start + self.group);
                let before = blocks;
                #[cfg(target_arch = "x86_64")]
                let unusual = if wide {
                    // SAFETY: the processor has the vectors that the function was compiled for.
                    unsafe { avx512::add(self, left, right, eight, steps.clone(), &mut blocks) }
                } else {
                    self.add_both(left, right, eight, steps.clone(), &mut blocks)
                };
                #[cfg(not(target_arch = "x86_64"))]
                let unusual = self.add_both(left, right, eight, steps.clone(), &mut blocks);
                for odd in (0..2).filter(|&odd| unusual[odd] != 0) {
                    let (index, steps) = (2 * eight + odd, steps.clone());
                    self.mend(left, right, index, steps, &before[odd], unusual[odd], &mut blocks[odd]);
                }
            }
            accumulator.set(eight, &blocks);
        }
    }

    #[inline(always)]
    fn add_both(
        self,
        left: &Left,
        right: &Right,
        eight: usize,
        steps: std::ops::Range<usize>,
        blocks: &mut [[f32; BLOCK]; 2],
    ) -> [u64; 2] {
        let [even, odd] = blocks;
        [
            self.add(left, right, 2 * eight, steps.clone(), even),
            self.add(left, right, 2 * eight + 1, steps, odd),
        ]
    }

    /// Adds a group of products to one block. Returns the elements with special values, whose
    /// results are wrong.
    #[inline(always)]
    fn add(
        self,
        left: &Left,
        right: &Right,
        index: usize,
        steps: std::ops::Range<usize>,
        block: &mut [f32; BLOCK],
    ) -> u64 {
        let (first, odd) = (index / 2 * left.values.len(), index % 2 * COLUMNS);
        let mut largest = [2 * ZERO_EXPONENT; BLOCK];
        for step in steps.clone() {
            let (a, b) = (&left.exponents[step], &right.exponents[first + step]);
            for element in 0..BLOCK {
                largest[element] = largest[element].max(a[element] + b[odd + element % COLUMNS]);
            }
        }
        let (mut scale, mut aligned, mut clamped) = ([0f32; BLOCK], [0i32; BLOCK], [0i32; BLOCK]);
        let mut unusual = 0;
        for element in 0..BLOCK {
            let held = block[element];
            let top = i32::from(largest[element].max(exponent(held, -126)));
            clamped[element] = top.clamp(*ORDINARY.start(), *ORDINARY.end());
            let nothing = top < i32::from(ZERO_EXPONENT / 2) && held.to_bits() == 0;
            unusual |= u64::from(top != clamped[element] && !nothing) << element;
            scale[element] = f32::from_bits(((127 + self.fraction_bits - clamped[element]) as u32) << 23);
        }
        for step in steps {
            let (a, b) = (&left.values[step], &right.values[first + step]);
            for element in 0..BLOCK {
                let product = a[element] * b[odd + element % COLUMNS];
                aligned[element] = aligned[element].wrapping_add((product * scale[element]) as i32);
            }
        }
        for element in 0..BLOCK {
            let held = (block[element] * scale[element]) as i32;
            let unit = f64::from_bits(((1023 + clamped[element] - self.fraction_bits) as u64) << 52);
            block[element] = self.round((f64::from(aligned[element]) + f64::from(held)) * unit);
        }
        unusual
    }

    /// Rounds the sum of a group.
    #[inline(always)]
    fn round(self, sum: f64) -> f32 {
        let Some(kept) = self.kept else {
            // A sum that is rounded to zero has no sign, here and below (measured on H200).
            return Format::F16.decode(Format::F16.encode(sum, Rounding::NearestEven, false)) as f32 + 0.0;
        };
        // Truncated to 24 bits; sums of ordinary elements are zero or far above the smallest normal
        // f32.
        let cut = f64::from_bits(sum.to_bits() & !((1 << 29) - 1)) as f32;
        f32::from_bits(cut.to_bits() & kept)
    }

    /// Does the unusual elements of a block one by one.
    #[cold]
    #[allow(clippy::too_many_arguments)] // all that a group is, and where it was found unusual
    fn mend(
        self,
        left: &Left,
        right: &Right,
        index: usize,
        steps: std::ops::Range<usize>,
        before: &[f32; BLOCK],
        unusual: u64,
        block: &mut [f32; BLOCK],
    ) {
        let (first, odd) = (index / 2 * left.values.len(), index % 2 * COLUMNS);
        for element in (0..BLOCK).filter(|element| unusual >> element & 1 != 0) {
            let products = steps.clone().map(|step| {
                let (at, column) = (first + step, odd + element % COLUMNS);
                let exponent = left.exponents[step][element] + right.exponents[at][column];
                let product = f64::from(left.values[step][element]) * f64::from(right.values[at][column]);
                (product, i32::from(exponent))
            });
            block[element] = self.one(products, before[element]);
        }
    }

    /// The sum of one element's products, given with their exponents, and its accumulator.
    fn one(self, products: impl Iterator<Item = (f64, i32)> + Clone, held: f32) -> f32 {
        let start = i32::from(exponent(held, -126)).max(LEAST_ALIGNMENT);
        let largest = products.clone().fold(start, |largest, (_, exponent)| largest.max(exponent));
        let scale = power_of_two((self.fraction_bits - largest).clamp(-1000, 1000));
        let held = f64::from(held);
        let (mut plain, mut aligned) = (held, (held * scale).trunc());
        for (product, _) in products {
            plain += product;
            aligned += (product * scale).trunc();
        }
        let sum = aligned / scale;
        match self.kept {
            _ if plain.is_nan() => NAN,
            _ if plain.is_infinite() => plain as f32,
            None => self.round(sum),
            Some(_) if sum.abs() >= OVERFLOW => (sum.signum() * f64::INFINITY) as f32,
            Some(kept) => without_negative_zero(Format::F32.encode(sum, Rounding::Zero, false) & kept),
        }
    }
}

/// The hardware's sum is an integer, whose zero has no sign: what is cut to zero is +0 (measured on
/// H200).
#[inline(always)]
fn without_negative_zero(bits: u32) -> f32 {
    f32::from_bits(if bits << 1 == 0 { 0 } else { bits })
}

/// The same as `add`, sixteen elements to a vector, and two blocks at once to read A half as often.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{AlignedSum, BLOCK, COLUMNS, Left, ORDINARY, Right, ZERO_EXPONENT};

    /// Vectors of a block.
    const VECTORS: usize = BLOCK / 16;
    const BOTH: usize = 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
    #[inline]
    pub(super) fn add(
        sum: AlignedSum,
        left: &Left,
        right: &Right,
        eight: usize,
        steps: std::ops::Range<usize>,
        blocks: &mut [[f32; BLOCK]; BOTH],
    ) -> [u64; BOTH] {
        let first = eight * left.values.len();
        let mut largest = [[_mm512_set1_epi16(2 * ZERO_EXPONENT); 2]; BOTH];
        for step in steps.clone() {
            let a = &left.exponents[step];
            // SAFETY: a row of exponents is 32 elements twice.
            let a = unsafe { [load(a.as_ptr().cast()), load(a[32..].as_ptr().cast())] };
            for which in 0..BOTH {
                let b = &right.exponents[first + step][which * COLUMNS..][..COLUMNS];
                // SAFETY: four exponents are 64 bits.
                let b = _mm512_set1_epi64(unsafe { b.as_ptr().cast::<i64>().read_unaligned() });
                for half in 0..2 {
                    let product = _mm512_add_epi16(a[half], b);
                    largest[which][half] = _mm512_max_epi16(largest[which][half], product);
                }
            }
        }
        let zero = _mm512_setzero_si512();
        let (mut any, mut outsiders) = (0, [[0; VECTORS]; BOTH]);
        let mut clamped = [[zero; VECTORS]; BOTH];
        let mut scale = [[_mm512_setzero_ps(); VECTORS]; BOTH];
        let mut aligned = [[zero; VECTORS]; BOTH];
        for which in 0..BOTH {
            for vector in 0..VECTORS {
                // SAFETY: a block is 16 elements `VECTORS` times.
                let held = unsafe { load(blocks[which][16 * vector..].as_ptr().cast()) };
                let field = _mm512_srli_epi32::<24>(_mm512_slli_epi32::<1>(held));
                let own = _mm512_sub_epi32(field, _mm512_set1_epi32(127));
                let own = _mm512_max_epi32(own, _mm512_set1_epi32(-126));
                let is_zero = _mm512_testn_epi32_mask(held, _mm512_set1_epi32(i32::MAX));
                let own = _mm512_mask_set1_epi32(own, is_zero, i32::from(ZERO_EXPONENT));
                let half = largest[which][vector / 2];
                let half = match vector % 2 {
                    0 => _mm512_castsi512_si256(half),
                    _ => _mm512_extracti64x4_epi64::<1>(half),
                };
                let top = _mm512_max_epi32(_mm512_cvtepi16_epi32(half), own);
                let within = _mm512_max_epi32(top, _mm512_set1_epi32(*ORDINARY.start()));
                let within = _mm512_min_epi32(within, _mm512_set1_epi32(*ORDINARY.end()));
                let nothing = _mm512_cmplt_epi32_mask(top, _mm512_set1_epi32(i32::from(ZERO_EXPONENT / 2)))
                    & _mm512_testn_epi32_mask(held, held);
                let outside = _mm512_cmpneq_epi32_mask(top, within) & !nothing;
                any |= outside;
                outsiders[which][vector] = outside;
                clamped[which][vector] = within;
                let field = _mm512_sub_epi32(_mm512_set1_epi32(127 + sum.fraction_bits), within);
                scale[which][vector] = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(field));
                let held = _mm512_mul_ps(_mm512_castsi512_ps(held), scale[which][vector]);
                // The accumulator waits in the block for the products, whose sum alone fits in 32
                // bits.
                let held = _mm512_castsi512_ps(_mm512_cvttps_epi32(held));
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(blocks[which][16 * vector..].as_mut_ptr(), held) };
            }
        }
        for step in steps {
            let a = &left.values[step];
            for vector in 0..VECTORS {
                // SAFETY: a row of values is 16 elements `VECTORS` times.
                let a = unsafe { _mm512_loadu_ps(a[16 * vector..].as_ptr()) };
                for which in 0..BOTH {
                    let b = &right.values[first + step][which * COLUMNS..][..COLUMNS];
                    // SAFETY: the columns are four elements.
                    let b = _mm512_broadcast_f32x4(unsafe { _mm_loadu_ps(b.as_ptr()) });
                    let product = _mm512_mul_ps(_mm512_mul_ps(a, b), scale[which][vector]);
                    let product = _mm512_cvttps_epi32(product);
                    aligned[which][vector] = _mm512_add_epi32(aligned[which][vector], product);
                }
            }
        }
        for which in 0..BOTH {
            for vector in 0..VECTORS {
                let place = &mut blocks[which][16 * vector..16 * vector + 16];
                // SAFETY: as above.
                let held = unsafe { load(place.as_ptr().cast()) };
                let (products, within) = (aligned[which][vector], clamped[which][vector]);
                let low = finish(
                    sum,
                    _mm512_castsi512_si256(products),
                    _mm512_castsi512_si256(held),
                    _mm512_castsi512_si256(within),
                );
                let high = finish(
                    sum,
                    _mm512_extracti64x4_epi64::<1>(products),
                    _mm512_extracti64x4_epi64::<1>(held),
                    _mm512_extracti64x4_epi64::<1>(within),
                );
                let both = _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high);
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(place.as_mut_ptr(), both) };
            }
        }
        let mut unusual = [0; BOTH];
        if any != 0 {
            for which in 0..BOTH {
                for vector in 0..VECTORS {
                    unusual[which] |= u64::from(outsiders[which][vector]) << (16 * vector);
                }
            }
        }
        unusual
    }

    /// Adds the aligned accumulator to the aligned products, and rounds.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
    #[inline]
    fn finish(sum: AlignedSum, products: __m256i, held: __m256i, exponents: __m256i) -> __m256 {
        let total = _mm512_add_pd(_mm512_cvtepi32_pd(products), _mm512_cvtepi32_pd(held));
        let field = _mm512_add_epi64(
            _mm512_cvtepi32_epi64(exponents),
            _mm512_set1_epi64(i64::from(1023 - sum.fraction_bits)),
        );
        let total = _mm512_mul_pd(total, _mm512_castsi512_pd(_mm512_slli_epi64::<52>(field)));
        let cut = _mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(total);
        if let Some(kept) = sum.kept {
            return _mm256_and_ps(cut, _mm256_castsi256_ps(_mm256_set1_epi32(kept as i32)));
        }
        // Rounded to odd, so that rounding it again into f16 is rounding once.
        let inexact = _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(_mm512_cvtps_pd(cut), total);
        let bits = _mm256_castps_si256(cut);
        let odd = _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1));
        let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_castsi256_ps(odd));
        let rounded = _mm512_castps512_ps256(_mm512_cvtph_ps(_mm256_castsi128_si256(half)));
        _mm256_add_ps(rounded, _mm256_setzero_ps())
    }

    /// # Safety
    /// There must be 64 bytes at `place`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn load(place: *const i32) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(place.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::super::accumulate::FloatSum;
    use super::super::tile::Tile;
    use super::*;
    use warpwright_arch::DataType;

    /// splitmix64.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Numbers of an element type: about one, over many binades, or any bits at all.
    fn number(element: DataType, state: &mut u64, which: u64) -> f32 {
        let bits = random(state);
        let near = (bits & 0x8000) >> 15 << 31 | (120 + (bits >> 16) % (1 + 7 * which)) << 23 | bits >> 41;
        match (element, which) {
            (DataType::F16, 2) => half_of(bits as u16),
            (DataType::F16, _) => half_of(half::f16::from_f32(f32::from_bits(near as u32)).to_bits()),
            (DataType::F32, 2) => f32::from_bits(bits as u32),
            (DataType::F32, _) => f32::from_bits(near as u32),
            (_, 2) => f32::from_bits((bits as u32) << 16),
            _ => f32::from_bits(near as u32 & 0xffff_0000),
        }
    }

    impl Accumulator for [[f32; BLOCK]; 2] {
        fn get(&self, _: usize) -> [[f32; BLOCK]; 2] {
            *self
        }

        fn set(&mut self, _: usize, blocks: &[[f32; BLOCK]; 2]) {
            *self = *blocks;
        }
    }

    fn half_of(bits: u16) -> f32 {
        half::f16::from_bits(bits).to_f32()
    }

    /// As an H200 adds two products of tf32, the second below 2^-158 or not.
    #[test]
    fn products_below_the_least_alignment_do_not_count() {
        let sum = AlignedSum { group: 8, fraction_bits: 25, kept: Some(!0) };
        let with = |small: i32| {
            let products = [(-1.125 * power_of_two(-146), -146), (1.0625 * power_of_two(small), small)];
            sum.one(products.into_iter(), 0.0).to_bits()
        };
        assert_eq!([with(-156), with(-162)], [0x8000_0008, 0x8000_0009]);
    }

    /// The machine's vectors and the plain loop against the rule in f64.
    #[test]
    fn blocks_are_added_as_the_rule_says() {
        let mut state = 7;
        for (operand, result) in
            [(DataType::F16, DataType::F32), (DataType::Bf16, DataType::F32), (DataType::F16, DataType::F16)]
        {
            let depth = 32;
            let sum =
                AlignedSum { group: 16, fraction_bits: 25, kept: (result == DataType::F32).then_some(!0) };
            let rule = FloatSum::of(Shape::new(16, 8, depth), operand, result);
            let least = if operand == DataType::Bf16 { -126 } else { -14 };
            for round in 0..300 {
                let which = round % 3;
                let mut draw = |element, count: usize, zero: u64| -> Vec<f32> {
                    let mut one = |_| match random(&mut state) % 8 < zero {
                        true => 0.0,
                        false => number(element, &mut state, which),
                    };
                    (0..count).map(&mut one).collect()
                };
                let zero = [0, 4, 8][round as usize / 3 % 3];
                let (a, b) = (draw(operand, 16 * depth, zero), draw(operand, 8 * depth, zero / 2));
                let held = if result == DataType::F16 { DataType::F16 } else { DataType::F32 };
                let c = draw(held, 16 * 8, zero);
                let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
                let columns: Vec<f64> =
                    (0..depth * 8).map(|at| f64::from(b[at % 8 * depth + at / 8])).collect();
                let expected = rule.multiply(
                    &Tile::from_rows(16, wide(&a)),
                    &Tile::from_rows(depth, columns),
                    &Tile::from_rows(16, wide(&c)),
                );
                let (mut left, mut right) = (Left::default(), Right::default());
                left.reserve(depth);
                for (at, value) in right.reserve(8, depth).iter_mut().enumerate() {
                    *value = b[(at % 4 * 2 + at / 4 % 2) * depth + at / 8];
                }
                right.find_exponents(least);
                for step in 0..depth {
                    left.set(step, &std::array::from_fn(|row| a[row * depth + step]), least);
                }
                let place = |block: usize, at: usize| (at % 32 / 4 + at / 32 * 8, 2 * (at % 4) + block);
                let blocks: [[f32; BLOCK]; 2] = std::array::from_fn(|block| {
                    std::array::from_fn(|at| {
                        let (row, column) = place(block, at);
                        c[row * 8 + column]
                    })
                });
                let (mut vectors, mut plain) = (blocks, blocks);
                sum.accumulate(&left, &right, 8, &mut vectors);
                for start in [0, 16] {
                    let (steps, before) = (start..start + 16, plain);
                    let unusual = sum.add_both(&left, &right, 0, steps.clone(), &mut plain);
                    for odd in 0..2 {
                        let block = &mut plain[odd];
                        sum.mend(&left, &right, odd, steps.clone(), &before[odd], unusual[odd], block);
                    }
                }
                for (block, at) in (0..2).flat_map(|block| (0..BLOCK).map(move |at| (block, at))) {
                    let (row, column) = place(block, at);
                    let wanted = super::super::accumulate::result_bits(result, expected.get(row, column));
                    for (who, found) in [("vectors", vectors[block][at]), ("plain", plain[block][at])] {
                        let found = match result {
                            DataType::F16 => {
                                Format::F16.encode(f64::from(found), Rounding::NearestEven, false)
                            }
                            _ => found.to_bits(),
                        };
                        assert_eq!(
                            found, wanted,
                            "{who} {operand:?} {result:?} round {round} ({row}, {column}): {found:#x} {wanted:#x}"
                        );
                    }
                }
            }
        }
    }
}
