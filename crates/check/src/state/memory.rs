//! The shadows of the two shared spaces.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use warpwright_events::{GRANULE, InitializedBytes, PAGE};

use crate::state::shadow::{Granule, Page, Part, blank_page};

/// The granules of one CTA's shared memory.
#[derive(Debug, Default)]
pub(crate) struct SharedShadow {
    pages: Vec<Option<Page>>,
    /// The offset of the part that the system reserves.
    first_of_system: Option<u64>,
}

fn index_in_page(address: u64) -> usize {
    (address % PAGE / GRANULE) as usize
}

impl SharedShadow {
    /// The shadow of a CTA whose memory from an offset on is initialized by the system.
    pub(crate) fn of_system_from(offset: u64) -> Self {
        Self { first_of_system: Some(offset), ..Self::default() }
    }

    /// The granules that were accessed.
    pub(crate) fn granules(&self) -> impl Iterator<Item = &Granule> {
        self.pages.iter().flatten().flat_map(|page| page.iter())
    }

    /// The bytes of a granule that are written before the CTA runs.
    fn initially(&self, offset: u64) -> u16 {
        if self.first_of_system.is_none_or(|first| offset < first) { 0 } else { u16::MAX }
    }

    /// The bytes of the granule at an offset that are written.
    pub(crate) fn initialized(&self, offset: u64) -> u16 {
        match self.pages.get((offset / PAGE) as usize) {
            Some(Some(page)) => page[index_in_page(offset)].initialized,
            _ => self.initially(offset - offset % GRANULE),
        }
    }

    pub(crate) fn granule(&mut self, offset: u64) -> &mut Granule {
        let page = (offset / PAGE) as usize;
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        let start = offset - offset % PAGE;
        if self.pages[page].is_none() {
            self.pages[page] = Some(blank_page(|index| self.initially(start + index as u64 * GRANULE)));
        }
        let page = self.pages[page].as_mut().expect("it has just been added");
        &mut page[index_in_page(offset)]
    }
}

/// Number of locks that the pages of global memory are spread over.
const SHARDS: u64 = 256;
/// Maximum number of pages per shard: 64 Ki pages in all, the shadow of 256 MiB.
const PAGES_PER_SHARD: usize = 256;

/// The granules of global memory, shared by all clusters of a launch.
#[derive(Debug)]
pub(crate) struct GlobalShadow {
    shards: Vec<Mutex<HashMap<u64, Page>>>,
    initialized: Arc<InitializedBytes>,
}

impl GlobalShadow {
    pub(crate) fn new(initialized: Arc<InitializedBytes>) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), initialized }
    }

    fn page(&self, number: u64) -> Page {
        let written = self.initialized.load(number);
        blank_page(|index| written.as_ref().map_or(u16::MAX, |written| written[index]))
    }

    /// Adds what the launch has written to the memory, and passes each page to `keep`.
    pub(crate) fn finish(&self, mut keep: impl FnMut(u64, &Page)) {
        for shard in &self.shards {
            let mut pages = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (number, page) in pages.drain() {
                self.store(number, &page);
                keep(number, &page);
            }
        }
    }

    fn store(&self, number: u64, page: &Page) {
        self.initialized.store(number, page.iter().map(|granule| granule.initialized));
    }

    /// Calls `act` with each part's granule. Consecutive parts of one page share one lock.
    pub(crate) fn each(&self, parts: &[Part], mut act: impl FnMut(&Part, &mut Granule)) {
        for of_page in parts.chunk_by(|a, b| a.granule / PAGE == b.granule / PAGE) {
            let number = of_page[0].granule / PAGE;
            let shard = &self.shards[(number % SHARDS) as usize];
            let mut pages = shard.lock().unwrap_or_else(PoisonError::into_inner);
            if pages.len() >= PAGES_PER_SHARD && !pages.contains_key(&number) {
                // Dropping a page can hide a race and never produces a false one.
                let oldest = pages.keys().min().copied();
                if let Some((number, page)) = oldest.and_then(|oldest| pages.remove_entry(&oldest)) {
                    self.store(number, &page);
                }
            }
            let page = pages.entry(number).or_insert_with(|| self.page(number));
            of_page.iter().for_each(|part| act(part, &mut page[index_in_page(part.granule)]));
        }
    }
}
