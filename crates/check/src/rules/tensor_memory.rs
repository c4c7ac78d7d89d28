//! Columns of tensor memory: their owners, and their uses.

use warpwright_events::{AccessKind, Actor, ByteRange, Cell, GRANULE, MemorySpace, TENSOR_ROWS};

use crate::checker::Checker;
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::state::shadow::Granule;

/// Columns, as a range for each row.
fn ranges(rank: u32, first: u32, columns: u32) -> Vec<ByteRange> {
    let first = |row: u32| Cell { row, column: first }.byte(rank);
    let bytes = u64::from(columns * 4);
    (0..TENSOR_ROWS)
        .map(|row| ByteRange {
            space: MemorySpace::Tensor,
            first: first(row),
            bytes,
            kind: AccessKind::Object,
            part: None,
        })
        .collect()
}

impl Checker {
    pub(crate) fn tensor_allocated(&mut self, actor: Actor, first: u32, columns: u32) {
        let mark = self.mark(actor);
        self.tensor[actor.rank as usize].held.push((first, columns, mark));
    }

    /// All uses of the columns must be complete; their contents are discarded.
    pub(crate) fn tensor_freed(&mut self, actor: Actor, first: u32, columns: u32) {
        self.check_freed(actor, &ranges(actor.rank, first, columns));
        let shadow = &mut self.tensor[actor.rank as usize];
        shadow.held.retain(|(held, ..)| *held != first);
        for row in 0..TENSOR_ROWS {
            let start = Cell { row, column: first }.byte(0);
            for granule in (start..start + u64::from(columns * 4)).step_by(GRANULE as usize) {
                *shadow.granule(granule) = Granule::default();
            }
        }
    }

    /// Reports columns that are not freed when the cluster ends.
    pub(crate) fn finish_tensor_memory(&self) {
        for (_, columns, mark) in self.tensor.iter().flat_map(|shadow| &shadow.held) {
            self.launch.report_misuse(Misuse {
                kind: FindingKind::Leak,
                message: format!(
                    "the kernel ends with {columns} tensor-memory columns that it has not freed"
                ),
                locations: vec![(*mark, format!("allocated by {}", mark.who(&self.launch.info)))],
                mbarrier: None,
                note: "a later CTA of this SM waits for them forever (PTX ISA, \"tcgen05.dealloc\")"
                    .to_owned(),
                help:
                    "free them (`tcgen05.dealloc`) in one warp, after a barrier of all threads that use them"
                        .to_owned(),
            });
        }
    }
}
