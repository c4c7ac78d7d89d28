//! The arrays that a kernel allocates or takes, and accesses to them at offsets that are known when
//! it is built.

use warpwright_ir::{Location, Operand, Register};

use super::Recorder;
use super::state::{Accessed, Allocation};

impl Recorder {
    /// Notes that a register holds the base address of an array.
    pub(crate) fn remember_allocation(&mut self, base: Register, allocation: Allocation) {
        self.allocations.insert(base, allocation);
    }

    /// Refuses a tensor whose layout reaches past the array that it begins in: `reach` elements of
    /// `element_bytes` at `offset` bytes from the base register.
    pub(crate) fn check_reach(
        &mut self,
        (base, offset): (Register, i64),
        reach: i64,
        element_bytes: i64,
        location: Location,
    ) {
        let Some(allocation) = self.allocations.get(&base) else { return };
        let Some(bytes) = allocation.bytes else { return };
        let left = (allocation.start + bytes - offset) / element_bytes;
        if reach > left {
            let message = format!(
                "`Tensor`: the layout reaches {reach} elements, and `{}` has room for {left} from here on: allocate as many as the \
                 layout reaches",
                allocation.call
            );
            let note = allocation.note();
            self.error_with_notes(location, message, vec![note]);
        }
    }

    /// Refuses accesses outside their array, and misaligned ones, at offsets that are known.
    pub(super) fn check_accesses(&mut self, opcode: &str, operands: &[Operand], location: Location) {
        if self.allocations.is_empty() {
            return;
        }
        for (position, operand) in operands.iter().enumerate() {
            let Operand::Address { base, offset, .. } = operand else { continue };
            let Operand::Register(base) = **base else { continue };
            let Some(allocation) = self.allocations.get(&base) else { continue };
            if let Some(mistake) = allocation.mistake(*offset, accessed(opcode, operands, position)) {
                let note = allocation.note();
                self.error_with_notes(location, mistake, vec![note]);
            }
        }
    }
}

/// What an instruction accesses at the address in operand `position`, as far as it says so.
fn accessed(opcode: &str, operands: &[Operand], position: usize) -> Accessed {
    let aligned = |bytes| Accessed { bytes, align: bytes };
    let unknown = Accessed { bytes: 1, align: 1 };
    // Copies: the target, the source, the size, and the mbarrier.
    let copied = match operands.get(2) {
        Some(Operand::Integer(bytes)) if position < 2 => i64::try_from(*bytes).unwrap_or(1),
        _ => 1,
    };
    let mut words = opcode.split('.');
    match words.next() {
        Some("ld" | "st" | "atom" | "red") if !opcode.contains(".async") => {
            let element = opcode.rsplit('.').next().and_then(bits).unwrap_or(8) / 8;
            let lanes = words.find_map(|word| word.strip_prefix('v')?.parse().ok()).unwrap_or(1);
            aligned(element * lanes)
        }
        Some("cp") if opcode.contains(".tensor") || opcode.contains("mbarrier.arrive") => unknown,
        // PTX ISA, "cp.async.bulk": both addresses are multiples of 16.
        Some("cp") if opcode.contains(".bulk") && position < 2 => Accessed { bytes: copied, align: 16 },
        Some("cp") if opcode.contains(".bulk") => unknown,
        Some("cp") => aligned(copied),
        Some("ldmatrix" | "stmatrix") => aligned(16),
        _ => unknown,
    }
}

/// The bits of a type's name: 32 of `f32`, 32 of `f16x2`.
fn bits(word: &str) -> Option<i64> {
    let number = word.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    match number.split_once('x') {
        Some((bits, lanes)) => Some(bits.parse::<i64>().ok()? * lanes.parse::<i64>().ok()?),
        None => number.parse().ok(),
    }
}
