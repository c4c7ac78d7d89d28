//! The accesses of a launch to global memory, for the launches beside and after it.

use std::collections::HashMap;

use smallvec::SmallVec;
use warpwright_events::{GRANULE, PAGE, Scope, Strength};

use crate::state::shadow::{Access, Page};

/// How bytes are accessed, as far as other launches are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseKind {
    Read,
    Write,
    /// A strong access, at a scope that includes other launches.
    StrongRead,
    StrongWrite,
    /// A reduction by a copy, which is strong and asynchronous.
    Reduction,
}

impl UseKind {
    fn of(access: &Access) -> Self {
        let is_strong = matches!(access.strength, Strength::Strong { scope, .. } if scope >= Scope::Gpu);
        match (is_strong, access.kind.writes()) {
            (true, true) if access.proxy.is_some() => Self::Reduction,
            (true, true) => Self::StrongWrite,
            (true, false) => Self::StrongRead,
            (false, true) => Self::Write,
            (false, false) => Self::Read,
        }
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::StrongWrite | Self::Reduction)
    }

    pub(crate) fn is_strong(self) -> bool {
        matches!(self, Self::StrongRead | Self::StrongWrite | Self::Reduction)
    }

    /// Whether two launches may do both to the same bytes at the same time.
    pub(crate) fn agrees_with(self, other: Self) -> bool {
        !(self.writes() || other.writes()) || (self.is_strong() && other.is_strong())
    }

    /// `a read`
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Read => "a read",
            Self::Write => "a write",
            Self::StrongRead => "a strong read",
            Self::StrongWrite => "an atomic operation or strong write",
            Self::Reduction => "a reduction",
        }
    }
}

/// An access to bytes of a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) bytes: u16,
    pub(crate) kind: UseKind,
    pub(crate) pc: u32,
}

/// The uses of a granule.
pub(crate) type Uses = SmallVec<[Use; 2]>;

/// The accesses of a launch to global memory.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    pages: HashMap<u64, Box<[Uses]>>,
}

impl Footprint {
    /// Adds the accesses to a page.
    pub(crate) fn add(&mut self, number: u64, page: &Page) {
        let mut pages = vec![Uses::new(); (PAGE / GRANULE) as usize];
        for (granule, uses) in page.iter().zip(&mut pages) {
            for access in &granule.accesses {
                let (kind, pc) = (UseKind::of(access), access.pc);
                match uses.iter_mut().find(|used| (used.kind, used.pc) == (kind, pc)) {
                    Some(used) => used.bytes |= access.bytes,
                    None => uses.push(Use { bytes: access.bytes, kind, pc }),
                }
            }
        }
        self.pages.insert(number, pages.into());
    }

    /// The uses of the granule at an address.
    pub(crate) fn at(&self, granule: u64) -> &[Use] {
        match self.pages.get(&(granule / PAGE)) {
            Some(page) => &page[(granule % PAGE / GRANULE) as usize],
            None => &[],
        }
    }

    /// The granules that are used, page by page in the order of their addresses.
    pub(crate) fn granules(&self) -> impl Iterator<Item = (u64, &[Use])> {
        let mut numbers: Vec<u64> = self.pages.keys().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().flat_map(|number| {
            let addresses = (number * PAGE..).step_by(GRANULE as usize);
            let used = addresses.zip(&self.pages[&number]).filter(|(_, uses)| !uses.is_empty());
            used.map(|(address, uses)| (address, uses.as_slice()))
        })
    }
}
