//! AND, OR, XOR and choice, of NAND and NOT.

use crate::netlist::{Bus, Netlist, Wire};

/// Operations of a bit.
impl Netlist {
    /// 1 if both are 1.
    pub fn and(&mut self, a: Wire, b: Wire) -> Wire {
        let nand = self.nand(a, b);
        self.not(nand)
    }

    /// 1 if one is 1, or both.
    pub fn or(&mut self, a: Wire, b: Wire) -> Wire {
        let (a, b) = (self.not(a), self.not(b));
        self.nand(a, b)
    }

    /// 1 if one is 1, and not both: four NANDs.
    pub fn xor(&mut self, a: Wire, b: Wire) -> Wire {
        let both = self.nand(a, b);
        let (left, right) = (self.nand(a, both), self.nand(b, both));
        self.nand(left, right)
    }

    /// `one` if `select` is 1, else `zero`: three NANDs and an inverter.
    pub fn choose(&mut self, select: Wire, one: Wire, zero: Wire) -> Wire {
        if one == zero {
            return one;
        }
        let inverse = self.not(select);
        let (one, zero) = (self.nand(select, one), self.nand(inverse, zero));
        self.nand(one, zero)
    }
}

/// Operations of buses.
impl Netlist {
    /// The lowest `width` bits of a number.
    pub fn constant(value: u64, width: usize) -> Bus {
        (0..width).map(|bit| if value >> bit & 1 == 1 { Self::ONE } else { Self::ZERO }).collect()
    }

    /// The bus with zeros above it, or without its upper bits.
    pub fn resized(bus: &[Wire], width: usize) -> Bus {
        let zeros = std::iter::repeat(Self::ZERO);
        bus.iter().copied().chain(zeros).take(width).collect()
    }

    /// The inverse of each bit.
    pub fn not_each(&mut self, a: &[Wire]) -> Bus {
        a.iter().map(|a| self.not(*a)).collect()
    }

    /// Each bit AND `b`.
    pub fn and_each(&mut self, a: &[Wire], b: Wire) -> Bus {
        a.iter().map(|a| self.and(*a, b)).collect()
    }

    /// Each bit XOR `b`: the inverse of the bus if `b` is 1.
    pub fn xor_each(&mut self, a: &[Wire], b: Wire) -> Bus {
        a.iter().map(|a| self.xor(*a, b)).collect()
    }

    /// `one` if `select` is 1, else `zero`.
    pub fn choose_bus(&mut self, select: Wire, one: &[Wire], zero: &[Wire]) -> Bus {
        one.iter().zip(zero).map(|(one, zero)| self.choose(select, *one, *zero)).collect()
    }

    /// 1 if any bit is 1, by a tree.
    pub fn any(&mut self, bits: &[Wire]) -> Wire {
        match bits {
            [] => Self::ZERO,
            [bit] => *bit,
            _ => {
                let (low, high) = bits.split_at(bits.len() / 2);
                let (low, high) = (self.any(low), self.any(high));
                self.or(low, high)
            }
        }
    }

    /// 1 if all bits are 1, by a tree.
    pub fn all(&mut self, bits: &[Wire]) -> Wire {
        match bits {
            [] => Self::ONE,
            [bit] => *bit,
            _ => {
                let (low, high) = bits.split_at(bits.len() / 2);
                let (low, high) = (self.all(low), self.all(high));
                self.and(low, high)
            }
        }
    }
}
