//! Random inputs from a seed, the same on every machine.

use rayon::prelude::*;

/// A sequence of random numbers.
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// 64 random bits: splitmix64.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer below `limit`, nearly uniform.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// A number in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// `count` numbers of the standard normal distribution, by the Box-Muller transform.
    pub fn normal(&mut self, count: usize) -> Vec<f32> {
        let mut values = Vec::with_capacity(count + 1);
        while values.len() < count {
            let (radius, angle) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
            values.push((radius * angle.cos()) as f32);
            values.push((radius * angle.sin()) as f32);
        }
        values.truncate(count);
        values
    }
}

/// `count` elements made by `make`. Beyond 2^24 the elements repeat, so that large inputs are made
/// quickly. The period is prime, so that no two rows, tiles or lanes of a large problem are equal.
pub fn tiled<T: Copy>(count: usize, make: impl FnOnce(usize) -> Vec<T>) -> Vec<T> {
    /// The largest prime below 2^24.
    const PERIOD: usize = (1 << 24) - 3;
    let made = make(count.min(PERIOD));
    if made.len() == count {
        return made;
    }
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        all.extend_from_slice(&made[..made.len().min(count - all.len())]);
    }
    all
}

/// Elements that a host thread makes at a time, from a seed of their own.
const CHUNK: usize = 1 << 16;

/// `count` elements that `fill` makes of random numbers, a chunk at a time on all host threads.
/// `initial` is overwritten.
pub fn generate<T: Copy + Send>(
    seed: u64,
    count: usize,
    initial: T,
    fill: impl Fn(&mut Random, &mut [T]) + Sync,
) -> Vec<T> {
    let mut elements = vec![initial; count];
    elements.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, elements)| {
        fill(&mut Random::new(seed.wrapping_add((chunk as u64).rotate_left(40))), elements);
    });
    elements
}

/// `count` elements made of numbers of the standard normal distribution, on all host threads.
pub fn normal<T: Send + Sync>(seed: u64, count: usize, of: impl Fn(f32) -> T + Sync) -> Vec<T> {
    normal_f32(seed, count).into_iter().map(of).collect()
}

fn normal_f32(seed: u64, count: usize) -> Vec<f32> {
    let chunks = (0..count.div_ceil(CHUNK)).into_par_iter().flat_map_iter(|chunk| {
        let mut random = Random::new(Random::new(seed).0 ^ chunk as u64);
        random.normal(CHUNK.min(count - chunk * CHUNK))
    });
    chunks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_inputs_repeat_a_short_one() {
        let tiled = |count| tiled(count, |count| (0..count as u32).collect::<Vec<_>>());
        assert_eq!(tiled(5), [0, 1, 2, 3, 4]);
        let long = tiled((1 << 25) + 1);
        assert_eq!(long.len(), (1 << 25) + 1);
        assert_eq!(long[(1 << 24) - 4..][..3], [(1 << 24) - 4, 0, 1]);
        assert_eq!(long[1 << 25], 6);
    }
}
