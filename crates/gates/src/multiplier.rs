//! The product of two integers.

use crate::netlist::{Bus, Netlist, Wire};

impl Netlist {
    /// `a * b`, as on paper: a row of ANDs for each bit of `b`, added one after another by ripple adders.
    pub fn multiply_by_rows(&mut self, a: &[Wire], b: &[Wire]) -> Bus {
        let width = a.len() + b.len();
        let mut sum = Self::constant(0, width);
        for (place, bit) in b.iter().enumerate() {
            let row = self.and_each(a, *bit);
            let upper = self.ripple(&sum[place..place + a.len()], &row, Self::ZERO);
            sum.splice(place..place + a.len() + 1, upper);
        }
        sum
    }

    /// The same by a tree (Wallace, 1964): of three bits of one weight, a full adder makes one of that weight and one of the
    /// next, all at once; a lookahead adder adds the two rows that are left.
    pub fn multiply(&mut self, a: &[Wire], b: &[Wire]) -> Bus {
        let width = a.len() + b.len();
        let mut columns: Vec<Bus> = vec![Bus::new(); width];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                let bit = self.and(*a, *b);
                columns[i + j].push(bit);
            }
        }
        self.add_columns(columns)
    }

    /// The sum of bits by their weights, modulo 2^(number of columns).
    pub fn add_columns(&mut self, mut columns: Vec<Bus>) -> Bus {
        let width = columns.len();
        while columns.iter().any(|column| column.len() > 2) {
            let mut next: Vec<Bus> = vec![Bus::new(); width + 1];
            for (weight, column) in columns.iter().enumerate() {
                let mut threes = column.chunks_exact(3);
                for three in &mut threes {
                    let (sum, carry) = self.full_adder(three[0], three[1], three[2]);
                    next[weight].push(sum);
                    next[weight + 1].push(carry);
                }
                next[weight].extend(threes.remainder());
            }
            next.truncate(width);
            columns = next;
        }
        let row = |index: usize| -> Bus {
            columns.iter().map(|column| column.get(index).copied().unwrap_or(Self::ZERO)).collect()
        };
        let (first, second) = (row(0), row(1));
        self.sum(&first, &second)
    }
}
