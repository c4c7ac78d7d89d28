//! Shifts by a variable amount: a row of choices for each bit of the amount.

use crate::netlist::{Bus, Netlist, Wire};

impl Netlist {
    /// `bus << amount`.
    pub fn shift_left(&mut self, bus: &[Wire], amount: &[Wire]) -> Bus {
        let mut bus = bus.to_vec();
        for (bit, select) in amount.iter().enumerate() {
            let distance = 1usize.checked_shl(bit as u32).unwrap_or(usize::MAX).min(bus.len());
            let shifted: Bus = std::iter::repeat_n(Self::ZERO, distance)
                .chain(bus[..bus.len() - distance].to_vec())
                .collect();
            bus = self.choose_bus(*select, &shifted, &bus);
        }
        bus
    }

    /// `bus >> amount`, and whether a bit that is 1 was shifted out (the sticky bit).
    pub fn shift_right(&mut self, bus: &[Wire], amount: &[Wire]) -> (Bus, Wire) {
        let (mut bus, mut sticky) = (bus.to_vec(), Self::ZERO);
        for (bit, select) in amount.iter().enumerate() {
            let distance = 1usize.checked_shl(bit as u32).unwrap_or(usize::MAX).min(bus.len());
            let lost = self.any(&bus[..distance]);
            let lost = self.and(lost, *select);
            sticky = self.or(sticky, lost);
            let shifted = Self::resized(&bus[distance..], bus.len());
            bus = self.choose_bus(*select, &shifted, &bus);
        }
        (bus, sticky)
    }

    /// The bus shifted left until its highest bit is 1, and by how much. A bus of zeros stays, and the amount is
    /// the largest that its bits express.
    pub fn normalize(&mut self, bus: &[Wire]) -> (Bus, Bus) {
        let mut bus = bus.to_vec();
        let stages = usize::BITS - (bus.len() - 1).leading_zeros();
        let mut amount = Bus::new();
        for stage in (0..stages).rev() {
            let distance = 1 << stage;
            let top = bus.len().saturating_sub(distance);
            let is_set = self.any(&bus[top..]);
            let shifts = self.not(is_set);
            let shifted: Bus =
                std::iter::repeat_n(Self::ZERO, bus.len() - top).chain(bus[..top].to_vec()).collect();
            bus = self.choose_bus(shifts, &shifted, &bus);
            amount.insert(0, shifts);
        }
        (bus, amount)
    }
}
