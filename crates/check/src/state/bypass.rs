//! Lanes that pass by an aligned barrier, or an exchange whose mask names them.

/// Lanes of a warp that have arrived at an aligned barrier or at an exchange, and what the others
/// that it waits for do without it.
///
/// Others that return are no error: a barrier waits for the threads that have not exited (Volta
/// Tuning Guide, "Independent Thread Scheduling"), as an exchange does. Others that continue where
/// the arrived lanes continue have passed it by, and if that is only the end of the kernel, too. In
/// the PTX of a compiler, that end is no evidence: `if (i >= n) return;` before a barrier and a
/// barrier in a branch are the same.
#[derive(Debug)]
pub(crate) struct Bypass {
    /// The instruction.
    pub(crate) pc: u32,
    pub(crate) arrived: u32,
    /// Lanes it waits for that had neither arrived nor exited.
    pub(crate) others: u32,
    /// The instructions by which the others have accessed memory or exited since, and their lanes.
    acts: Vec<(u32, u32)>,
}

impl Bypass {
    pub(crate) fn new(pc: u32, arrived: u32, others: u32) -> Self {
        Self { pc, arrived, others, acts: Vec::new() }
    }

    /// Lanes execute an instruction. Returns the lanes that execute it without the barrier, if
    /// lanes that have arrived execute it as well.
    pub(crate) fn note(&mut self, pc: u32, lanes: u32) -> Option<u32> {
        let passed_by = lanes & self.others;
        if passed_by != 0 {
            match self.acts.iter_mut().find(|(known, _)| *known == pc) {
                Some((_, known)) => *known |= passed_by,
                None => self.acts.push((pc, passed_by)),
            }
        }
        if lanes & self.arrived == 0 {
            return None;
        }
        self.acts.iter().find(|(known, _)| *known == pc).map(|(_, lanes)| *lanes)
    }
}
