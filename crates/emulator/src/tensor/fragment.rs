//! Fragment layouts: from a lane's elements to their coordinates in a matrix.
//!
//! Every fragment of `mma` except those of m8n8k4 of f16 consists of the same *core matrix*: 8 rows
//! of 128 bits (256 for f64), of which lane `t` holds the `t % 4`-th quarter of row `t / 4`. A
//! operands stack core matrices down, then to the right; B operands hold the transpose, because B
//! is stored by columns; accumulators are 8 columns wide, two adjacent ones per lane (PTX ISA,
//! "Matrix Fragments for mma.m8n8k4" to "... for mma.m16n8k256").

use super::tile::Tile;
use super::{LANES, Order};

/// A matrix spread over the registers of a warp.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    rows: usize,
    columns: usize,
    element_bits: u32,
    elements: usize,
    /// The row and column of element `e` of lane `t`, at `t * elements + e`.
    places: Vec<(u16, u16)>,
}

/// The arrangement of a fragment's core matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lying {
    /// A lane's neighbors are in one row.
    Along,
    /// A lane's neighbors are in one column.
    Across,
}

impl Fragment {
    /// A matrix of `rows` by `columns`, of which every lane holds `elements`, at the coordinates
    /// that `place` computes from a lane and the index of its element.
    pub fn new(
        (rows, columns): (usize, usize),
        element_bits: u32,
        elements: usize,
        place: impl Fn(usize, usize) -> (usize, usize),
    ) -> Fragment {
        let places = (0..LANES)
            .flat_map(|lane| (0..elements).map(move |element| (lane, element)))
            .map(|(lane, element)| place(lane, element))
            .map(|(row, column)| (row as u16, column as u16))
            .collect();
        Fragment { rows, columns, element_bits, elements, places }
    }

    /// A matrix made of core matrices, with the first row and column of each, in the order of the
    /// registers. Every lane holds `per_core` neighbors of each.
    pub fn of_cores(
        size: (usize, usize),
        element_bits: u32,
        per_core: usize,
        origins: &[(usize, usize)],
        lying: Lying,
    ) -> Fragment {
        Fragment::new(size, element_bits, per_core * origins.len(), |lane, element| {
            let (row, column) = origins[element / per_core];
            let (outer, inner) = (lane / 4, lane % 4 * per_core + element % per_core);
            match lying {
                Lying::Along => (row + outer, column + inner),
                Lying::Across => (row + inner, column + outer),
            }
        })
    }

    /// An A operand of `mma`: `rows` by `columns`, elements of this width.
    pub fn left(rows: usize, columns: usize, element_bits: u32) -> Fragment {
        let width = quarter(element_bits);
        let cores = (0..columns).step_by(4 * width);
        let origins: Vec<_> =
            cores.flat_map(|column| (0..rows).step_by(8).map(move |row| (row, column))).collect();
        Fragment::of_cores((rows, columns), element_bits, width, &origins, Lying::Along)
    }

    /// A B operand of `mma`: `rows` by 8.
    pub fn right(rows: usize, element_bits: u32) -> Fragment {
        let width = quarter(element_bits);
        let origins: Vec<_> = (0..rows).step_by(4 * width).map(|row| (row, 0)).collect();
        Fragment::of_cores((rows, 8), element_bits, width, &origins, Lying::Across)
    }

    /// An accumulator of `mma`: `rows` by 8.
    pub fn accumulator(rows: usize, element_bits: u32) -> Fragment {
        let origins: Vec<_> = (0..rows).step_by(8).map(|row| (row, 0)).collect();
        Fragment::of_cores((rows, 8), element_bits, 2, &origins, Lying::Along)
    }

    /// The A operand of m8n8k4 of f16: four matrices of 8 by 4, one below the other. Each belongs
    /// to four lanes of the lower half of the warp and four of the upper.
    pub fn quad_left(order: Order) -> Fragment {
        Fragment::new((32, 4), 16, 4, |lane, element| {
            let (quad, half, inside) = quad_lane(lane);
            match order {
                Order::Row => (8 * quad + 4 * half + inside, element),
                Order::Column => (8 * quad + 4 * half + element, inside),
            }
        })
    }

    /// The B operand of m8n8k4 of f16: four matrices of 4 by 8, one below the other.
    pub fn quad_right(order: Order) -> Fragment {
        Fragment::new((16, 8), 16, 4, |lane, element| {
            let (quad, half, inside) = quad_lane(lane);
            match order {
                Order::Row => (4 * quad + inside, 4 * half + element),
                Order::Column => (4 * quad + element, 4 * half + inside),
            }
        })
    }

    /// An accumulator of m8n8k4 of f16: four matrices of 8 by 8, one below the other.
    pub fn quad_accumulator(element_bits: u32) -> Fragment {
        Fragment::new((32, 8), element_bits, 8, |lane, element| {
            let (quad, half, inside) = quad_lane(lane);
            if element_bits == 16 {
                return (8 * quad + 4 * half + inside, element);
            }
            let row = (inside & 1) + (element & 2);
            (8 * quad + 4 * half + row, (element & 4) + (inside & 2) + (element & 1))
        })
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the matrix.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Elements that each lane holds.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Registers that each lane holds them in: of 64 bits for elements of 64 bits, else of 32.
    pub fn registers(&self) -> usize {
        self.elements.div_ceil(32usize.checked_div(self.element_bits as usize).unwrap_or(0).max(1))
    }

    /// The row and column of one of a lane's elements.
    #[inline(always)]
    pub fn place(&self, lane: usize, element: usize) -> (usize, usize) {
        let (row, column) = self.places[lane * self.elements + element];
        (usize::from(row), usize::from(column))
    }

    /// Collects the matrix from registers.
    #[inline(always)]
    pub fn gather<W: Register, T: Copy + Default>(
        &self,
        registers: &[[W; LANES]],
        value: impl Fn(u64) -> T,
    ) -> Tile<T> {
        let mut tile = Tile::zeros(self.rows, self.columns);
        let each = (W::BITS / self.element_bits) as usize;
        for lane in 0..LANES {
            for element in 0..self.elements {
                let (row, column) = self.place(lane, element);
                let bits =
                    registers[element / each][lane].into() >> (element % each * self.element_bits as usize);
                tile.set(row, column, value(bits));
            }
        }
        tile
    }

    /// Spreads a matrix over registers, of which the bits beyond the elements become zero.
    #[inline(always)]
    pub fn scatter<W: Register, T: Copy + Default>(
        &self,
        tile: &Tile<T>,
        registers: &mut [[W; LANES]],
        bits: impl Fn(T) -> W,
    ) {
        let each = (W::BITS / self.element_bits) as usize;
        for lane in 0..LANES {
            for element in 0..self.elements {
                let (row, column) = self.place(lane, element);
                let register = &mut registers[element / each][lane];
                let below = (element % each * self.element_bits as usize) as u32;
                let held = if below == 0 { W::default() } else { *register };
                *register = held.with(bits(tile.get(row, column)), below);
            }
        }
    }
}

/// Elements in the quarter of a core matrix's row that one lane holds.
fn quarter(element_bits: u32) -> usize {
    (32 / element_bits as usize).max(1)
}

/// A lane's matrix of the four of m8n8k4, its half of the warp, and its index among four.
fn quad_lane(lane: usize) -> (usize, usize, usize) {
    (lane % 16 / 4, lane / 16, lane % 4)
}

/// A register of 32 or 64 bits.
pub trait Register: Copy + Default + Into<u64> {
    /// Its width.
    const BITS: u32;
    /// The register with `bits` put in above the lowest `below` bits, which stay.
    fn with(self, bits: Self, below: u32) -> Self;
}

impl Register for u32 {
    const BITS: u32 = 32;
    #[inline(always)]
    fn with(self, bits: u32, below: u32) -> u32 {
        self | bits << below
    }
}

impl Register for u64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn with(self, bits: u64, below: u32) -> u64 {
        self | bits << below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_one_owner() {
        let mut fragments = vec![
            Fragment::quad_left(Order::Row),
            Fragment::quad_left(Order::Column),
            Fragment::quad_right(Order::Row),
            Fragment::quad_right(Order::Column),
            Fragment::quad_accumulator(16),
            Fragment::quad_accumulator(32),
        ];
        for bits in [4, 8, 16, 32, 64] {
            let core = 4 * quarter(bits);
            for cores in 1..=4 {
                fragments.push(Fragment::left(8, core * cores, bits));
                fragments.push(Fragment::left(16, core * cores, bits));
                fragments.push(Fragment::right(core * cores, bits));
            }
            fragments.extend([Fragment::accumulator(8, bits), Fragment::accumulator(16, bits)]);
        }
        for fragment in fragments {
            let mut owners = Tile::<u32>::zeros(fragment.rows(), fragment.columns());
            for lane in 0..LANES {
                for element in 0..fragment.elements() {
                    let (row, column) = fragment.place(lane, element);
                    owners.set(row, column, owners.get(row, column) + 1);
                }
            }
            for row in 0..fragment.rows() {
                assert!(owners.row(row).iter().all(|&owners| owners == 1), "{fragment:?}");
            }
        }
    }
}
