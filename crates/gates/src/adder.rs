//! Adders of integers.

use crate::netlist::{Bus, Netlist, Wire};

impl Netlist {
    /// The sum of two bits, and the carry: 4 NANDs and a NOT.
    pub fn half_adder(&mut self, a: Wire, b: Wire) -> (Wire, Wire) {
        (self.xor(a, b), self.and(a, b))
    }

    /// The sum of three bits, and the carry: 9 NANDs.
    pub fn full_adder(&mut self, a: Wire, b: Wire, carry: Wire) -> (Wire, Wire) {
        let half = self.xor(a, b);
        let sum = self.xor(half, carry);
        // Both are built already: the first NANDs of the two XORs.
        let (generated, propagated) = (self.nand(a, b), self.nand(half, carry));
        (sum, self.nand(generated, propagated))
    }

    /// `a + b + carry` by a chain of full adders: the sum, with the carry as its highest bit.
    pub fn ripple(&mut self, a: &[Wire], b: &[Wire], carry: Wire) -> Bus {
        let mut carry = carry;
        let mut sum = Bus::new();
        for (a, b) in a.iter().zip(b) {
            let (bit, next) = self.full_adder(*a, *b, carry);
            sum.push(bit);
            carry = next;
        }
        sum.push(carry);
        sum
    }

    /// The same by carry-lookahead: all carries at once, as a scan of (generate, propagate) in which step s combines
    /// neighbors 2^s apart (Kogge and Stone, 1973).
    pub fn lookahead(&mut self, a: &[Wire], b: &[Wire], carry: Wire) -> Bus {
        let pairs: Vec<(Wire, Wire)> = a.iter().copied().zip(b.iter().copied()).collect();
        let halves: Bus = pairs.iter().map(|(a, b)| self.xor(*a, *b)).collect();
        // Place 0 is the carry that comes in.
        let mut scan: Vec<(Wire, Wire)> = vec![(carry, Self::ZERO)];
        scan.extend(pairs.iter().zip(&halves).map(|((a, b), half)| (self.and(*a, *b), *half)));
        let mut distance = 1;
        while distance < scan.len() {
            for place in (distance..scan.len()).rev() {
                let ((generate, propagate), (before, propagate_before)) =
                    (scan[place], scan[place - distance]);
                let through = self.and(propagate, before);
                scan[place] = (self.or(generate, through), self.and(propagate, propagate_before));
            }
            distance *= 2;
        }
        let mut sum: Bus =
            halves.iter().zip(&scan).map(|(half, (carry, _))| self.xor(*half, *carry)).collect();
        sum.push(scan[halves.len()].0);
        sum
    }

    /// `a - b` of the same width, and whether `a >= b`.
    pub fn subtract(&mut self, a: &[Wire], b: &[Wire]) -> (Bus, Wire) {
        let inverse = self.not_each(b);
        let mut difference = self.lookahead(a, &inverse, Self::ONE);
        let is_positive = difference.pop().unwrap_or(Self::ONE);
        (difference, is_positive)
    }

    /// `a + b` of the same width, without its carry.
    pub fn sum(&mut self, a: &[Wire], b: &[Wire]) -> Bus {
        let mut sum = self.lookahead(a, b, Self::ZERO);
        sum.pop();
        sum
    }
}
