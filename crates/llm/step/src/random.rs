//! Random numbers from a seed, the same on every machine.

/// What splitmix64 adds to its state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): a bijection that changes half the
/// bits.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(STEP);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The sequence of splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        bits
    }

    /// An integer below `end`, nearly uniform; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// An index of a list of this length; 0 of an empty one.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }
}
