//! A cache with sectors.

/// Bytes of a line.
const LINE_BYTES: u64 = 128;
const WAYS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The line, as its address divided by the bytes of a line; `u64::MAX`: none.
    line: u64,
    /// The sectors that it has.
    sectors: u8,
    /// The number of the access that used it last.
    used: u32,
    /// The cycle at which the last of its sectors arrives.
    filled: u64,
}

/// A set-associative cache of lines with four sectors, which replaces the line used longest ago.
#[derive(Debug)]
pub(super) struct Cache {
    sets: Vec<[Entry; WAYS]>,
    accesses: u32,
}

/// The result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The sectors that it lacked, as a mask.
    pub(super) missing: u8,
    /// The cycle at which the others have arrived.
    pub(super) filled: u64,
}

impl Cache {
    /// A cache of about these bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let empty = Entry { line: u64::MAX, sectors: 0, used: 0, filled: 0 };
        Self { sets: vec![[empty; WAYS]; (bytes / LINE_BYTES / WAYS as u64).max(1) as usize], accesses: 0 }
    }

    fn set(&mut self, line: u64) -> &mut [Entry; WAYS] {
        // Hardware hashes addresses, so that strides do not meet in one set.
        let hashed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let count = self.sets.len() as u64;
        &mut self.sets[(hashed % count) as usize]
    }

    /// Accesses sectors of a line, which are in the cache afterwards.
    pub(super) fn access(&mut self, line: u64, sectors: u8) -> Found {
        self.accesses = self.accesses.wrapping_add(1);
        let now = self.accesses;
        let set = self.set(line);
        if let Some(entry) = set.iter_mut().find(|entry| entry.line == line) {
            let missing = sectors & !entry.sectors;
            entry.sectors |= sectors;
            entry.used = now;
            return Found { missing, filled: entry.filled };
        }
        let oldest = set.iter_mut().min_by_key(|entry| if entry.line == u64::MAX { 0 } else { entry.used });
        *oldest.expect("a set has ways") = Entry { line, sectors, used: now, filled: 0 };
        Found { missing: sectors, filled: 0 }
    }

    /// The missing sectors of the last access to a line arrive at a cycle.
    pub(super) fn fill(&mut self, line: u64, at: u64) {
        if let Some(entry) = self.set(line).iter_mut().find(|entry| entry.line == line) {
            entry.filled = entry.filled.max(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_missed_once_and_old_lines_are_replaced() {
        let mut cache = Cache::new(1 << 16);
        assert_eq!(cache.access(7, 0b0011).missing, 0b0011);
        assert_eq!(cache.access(7, 0b0110).missing, 0b0100);
        assert_eq!(cache.access(7, 0b0111).missing, 0);
        for line in 100..2000 {
            cache.access(line, 15);
        }
        assert_eq!(cache.access(7, 1).missing, 1);
        let lines = 1 << 16 >> 7;
        let hits = (2000 - lines / 4..2000).filter(|&line| cache.access(line, 15).missing == 0).count();
        assert!(hits as u64 * 10 > lines / 4 * 9, "{hits}");
    }
}
