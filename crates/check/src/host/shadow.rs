//! The shadow of a device's memory: the operations of streams that may still use each byte.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use warpwright_events::{GRANULE, PAGE};

use crate::host::clock::{Number, StreamClock};
use crate::state::footprint::UseKind;

/// The most pages that are kept: the shadow of 256 MiB. Dropping a page can hide a conflict and never
/// produces a false one.
const MOST_PAGES: usize = 1 << 16;

/// A use of bytes of a granule by an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationUse {
    pub(crate) stream: u32,
    pub(crate) operation: Number,
    pub(crate) pc: u32,
    pub(crate) bytes: u16,
    pub(crate) kind: UseKind,
}

impl OperationUse {
    fn has_ended(&self, clock: &StreamClock) -> bool {
        clock.covers(self.stream, self.operation)
    }

    /// Whether what conflicts with an earlier, ended use conflicts with this one.
    fn replaces(&self, earlier: &Self) -> bool {
        self.kind == UseKind::Write || self.kind == earlier.kind
    }
}

type Page = Box<[SmallVec<[OperationUse; 1]>]>;

/// The operations that may still use each byte.
#[derive(Debug, Default)]
pub(crate) struct DeviceShadow {
    pages: BTreeMap<u64, Page>,
}

impl DeviceShadow {
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
    }

    /// Records a use of a granule. `known` is what has ended before it, and `host` what has ended
    /// before every later operation. Calls `conflict` with each earlier use in conflict with it.
    pub(crate) fn record(
        &mut self,
        granule: u64,
        used: OperationUse,
        (known, host): (&StreamClock, &StreamClock),
        mut conflict: impl FnMut(&OperationUse, u16),
    ) {
        let number = granule / PAGE;
        if self.pages.len() >= MOST_PAGES && !self.pages.contains_key(&number) {
            self.pages.pop_first();
        }
        let blank = || vec![SmallVec::new(); (PAGE / GRANULE) as usize].into();
        let page = self.pages.entry(number).or_insert_with(blank);
        let uses = &mut page[(granule % PAGE / GRANULE) as usize];
        uses.retain(|earlier| {
            let common = earlier.bytes & used.bytes;
            if earlier.has_ended(host) {
                return false;
            }
            if common == 0 || earlier.operation == used.operation {
                return true;
            }
            if !earlier.has_ended(known) {
                if !used.kind.agrees_with(earlier.kind) {
                    conflict(earlier, common);
                }
            } else if used.replaces(earlier) {
                earlier.bytes &= !common;
            }
            earlier.bytes != 0
        });
        uses.push(used);
    }
}
