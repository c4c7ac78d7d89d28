//! What a kernel does to its mbarriers: the arrivals and bytes of their phases, compared where they are
//! known when it is built.

mod act;
mod arrivals;
mod bytes;
mod place;
mod walk;

use warpwright_ir::Location;

use self::walk::Deeds;
use super::Recorder;
use super::threads::Threads;

/// A mistake: its position, what it is, and a position that explains it.
type Mistake = (Location, String, (Location, String));

impl Recorder {
    /// Refuses mbarriers whose phases wait for other arrivals or bytes than the kernel makes.
    pub(super) fn check_mbarriers(&mut self) {
        let mut has_barriers = false;
        self.kernel.for_each_instruction(&mut |instruction| {
            has_barriers |= instruction.opcode.contains("mbarrier");
        });
        // A kernel with another mistake lacks what was refused.
        if !has_barriers || self.has_errors() {
            return;
        }
        let threads = Threads::of_cluster(&self.kernel);
        let deeds = Deeds::of(self, &threads);
        let (mut mistakes, miscounted) = deeds.arrival_mistakes();
        mistakes.extend(deeds.byte_mistakes(&miscounted));
        let outside = deeds.outside_the_cluster();
        mistakes.sort();
        for (location, message, note) in mistakes {
            self.error_with_notes(location, message, vec![note]);
        }
        for (location, message) in outside {
            self.error(location, message);
        }
    }
}
