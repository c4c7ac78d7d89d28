//! The indices of mbarriers in their array, as remainders of a number of stages.

use rustc_hash::FxHashMap;
use warpwright_ir::{Location, Operand, Register};

use super::Recorder;
use super::state::MbarrierIndex;

impl Recorder {
    /// Notes the index of an mbarrier in an array of `count`.
    pub(crate) fn note_mbarrier_index(
        &mut self,
        array: Register,
        count: u32,
        index: Register,
        location: Location,
    ) {
        self.notes.mbarrier_indices.push(MbarrierIndex { array, count, index, location });
    }

    /// Refuses remainders of a number that is not the array's: of a larger one, and of different ones.
    pub(super) fn check_mbarrier_indices(&mut self) {
        let indices = std::mem::take(&mut self.notes.mbarrier_indices);
        if indices.is_empty() {
            return;
        }
        let remainders = self.remainders();
        let mut of_array: FxHashMap<Register, (i128, Location)> = FxHashMap::default();
        for MbarrierIndex { array, count, index, location } in indices {
            let Some(&stages) = remainders.get(&index) else { continue };
            if stages > count.into() {
                let message = format!(
                    "the index is a remainder of {stages}, and there are {count} barriers: count as many stages as there are \
                     barriers"
                );
                self.error(location, message);
                continue;
            }
            let (known, there) = *of_array.entry(array).or_insert((stages, location));
            if known != stages {
                let message = format!(
                    "the index is a remainder of {stages}, and another one of these barriers of {known}: count the stages of a \
                     ring alike everywhere"
                );
                self.error_with_notes(location, message, vec![(there, format!("of {known} here"))]);
            }
        }
    }

    /// The numbers that registers are remainders of.
    fn remainders(&self) -> FxHashMap<Register, i128> {
        let mut remainders = FxHashMap::default();
        self.kernel.for_each_instruction(&mut |instruction| {
            let [Operand::Register(result), _, Operand::Integer(number)] = instruction.operands[..] else {
                return;
            };
            match instruction.opcode.as_ref() {
                "rem.u32" => remainders.insert(result, number),
                "and.b32" if (number + 1).count_ones() == 1 => remainders.insert(result, number + 1),
                _ => return,
            };
        });
        remainders
    }
}
