//! The scan in three kernels: scan each section, scan the totals of the sections, and add the
//! prefix of each section to its elements.
//!
//! ```text
//! sections    [ a ab abc ]  [ d de def ]  [ g gh ghi ]      every element read and written
//! totals         abc         abc+def       ..               the same scan of far fewer elements
//! add         [ a ab abc ]  [ abcd ..  ]  [ abcdefg .. ]    every element read and written again
//! ```
//!
//! The lesson is how a section is scanned: [`kogge_stone`], [`brent_kung`], [`blelloch`], [`warp`],
//! [`coarsened`]. In every case the elements are read and written twice, which is why
//! [`single_pass`](warpwright_kernels::scan::single_pass) can be twice as fast.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::section::Section;
use super::{blelloch, brent_kung, coarsened, kogge_stone, warp};
use crate::rules::{expect_declared_shared, expect_power_of_two_threads};
use warpwright_kernels::monoid::InPlace;
use warpwright_kernels::operations::{Operations, Result, Scratch, both, expect_length};
use warpwright_kernels::scan::ScanKind;

/// How a section is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// [`kogge_stone`]
    KoggeStone,
    /// [`brent_kung`], in padded memory or not.
    BrentKung {
        /// Whether the section is padded, and each lane has its own part of it.
        padded: bool,
    },
    /// [`blelloch`], in padded memory or not.
    Blelloch {
        /// Whether the section is padded, and each lane has its own part of it.
        padded: bool,
    },
    /// [`warp`]
    Warp,
    /// [`coarsened`]
    Coarsened,
}

/// The scan by `monoid` in sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segmented<M> {
    /// The operation.
    pub monoid: M,
    /// Whether a result includes the element at its own index.
    pub kind: ScanKind,
    /// How a section is scanned.
    pub method: Method,
    /// Threads per CTA: a power of two from 32 to 1024.
    pub threads: u32,
}

impl<M> Segmented<M> {
    /// Refuses unsupported configurations.
    ///
    /// # Errors
    /// The number of threads is not a power of two from 32 to 1024, or a section does not fit
    /// shared memory.
    pub fn check<T: Storable>(&self) -> Result<()> {
        const WHAT: &str = "a scan in sections";
        expect_power_of_two_threads(WHAT, 32, self.threads)?;
        // Some algorithms need an element per warp or thread in addition to the section.
        let elements = self.section_length() + self.section_length() / 32 + self.threads + self.threads / 32;
        expect_declared_shared(WHAT, u64::from(elements) * u64::from(T::BYTES))
    }

    /// The longest chain of combinations for one of `length` results: the error of a sum of floats
    /// is at most this many roundings of the sum of the magnitudes of the prefix.
    pub fn rounding_steps(&self, length: u64) -> u64 {
        let section = u64::from(self.section_length());
        let log = u64::from(section.ilog2());
        // The scan within a warp and that of the warps' totals are five each, and the two are
        // combined.
        let by_warps = 5 + 5 + 1;
        let within = match self.method {
            Method::KoggeStone => log,
            Method::BrentKung { .. } => 2 * log,
            Method::Blelloch { .. } => 2 * log + 1,
            Method::Warp => by_warps,
            Method::Coarsened => section / u64::from(self.threads) + by_warps + 1,
        };
        // One more to add the prefix of the section, at each level.
        let levels = std::iter::successors(Some(length.div_ceil(section)), |left| {
            (*left > 1).then(|| left.div_ceil(section))
        });
        levels.count() as u64 * (within + 1)
    }

    /// Elements of a section.
    pub fn section_length(&self) -> u32 {
        self.threads
            * match self.method {
                Method::KoggeStone | Method::Warp => 1,
                Method::BrentKung { .. } | Method::Blelloch { .. } => 2,
                Method::Coarsened => 7,
            }
    }

    fn is_padded(&self) -> bool {
        matches!(self.method, Method::BrentKung { padded: true } | Method::Blelloch { padded: true })
    }

    /// Scans each section of `input` into `output`, and stores its last result to `totals`.
    #[kernel]
    pub fn sections<T: Storable>(
        &self,
        input: &Global<T>,
        output: &mut Global<T>,
        totals: &mut Global<T>,
        length: u64,
    ) where
        M: InPlace<T>,
    {
        launch::threads(self.threads);
        let (monoid, section_length) = (&self.monoid, self.section_length());
        let section = Section::new(section_length, self.threads, self.is_padded());
        let first = block_idx().x.convert::<u64>() * u64::from(section_length);
        let left = length - first;
        let thread = thread_idx().x;
        for step in (0..section_length).step_by(self.threads as usize) {
            let index = thread + step;
            let mut element = monoid.identity();
            if index.convert::<u64>() < left {
                element = monoid.lift(input.at(first).at(index).load(), first + index.convert::<u64>());
            }
            section.at(index).store(element);
        }
        match self.method {
            Method::KoggeStone => kogge_stone::scan(monoid, &section),
            Method::BrentKung { .. } => brent_kung::scan(monoid, &section),
            Method::Blelloch { .. } => blelloch::scan(monoid, &section),
            Method::Warp => warp::scan(monoid, &section),
            Method::Coarsened => coarsened::scan(monoid, &section),
        }
        for step in (0..section_length).step_by(self.threads as usize) {
            let index = thread + step;
            if index.convert::<u64>() < left {
                output.at(first).at(index).store(self.result::<T>(&section, index));
            }
        }
        if thread == 0 {
            totals.at(block_idx().x).store(section.at(constant(section_length - 1)).load());
        }
    }

    /// The result at `index` of an inclusive scan of a section; for an exclusive scan, the previous
    /// one.
    #[device]
    fn result<T: Storable>(&self, section: &Section<T>, index: Reg<u32>) -> Reg<T>
    where
        M: InPlace<T>,
    {
        if self.kind == ScanKind::Inclusive {
            return section.at(index).load();
        }
        let mut before = self.monoid.identity();
        if index > 0 {
            before = section.at(index - 1).load();
        }
        before
    }

    /// Combines the prefix of each section, the scanned total of the one before, with its results.
    #[kernel]
    pub fn add<T: Storable>(&self, totals: &Global<T>, output: &mut Global<T>, length: u64)
    where
        M: InPlace<T>,
    {
        launch::threads(self.threads);
        let section_length = self.section_length();
        // The first section has no prefix.
        let section = block_idx().x + 1;
        let first = section.convert::<u64>() * u64::from(section_length);
        let before = totals.at(block_idx().x).load();
        for step in (0..section_length).step_by(self.threads as usize) {
            let index = thread_idx().x + step;
            if index.convert::<u64>() < length - first {
                let place = output.at(first).at(index);
                place.store(self.monoid.combine(before, place.load()));
            }
        }
    }

    /// `output[i]` = `input[0]` to `input[i]` combined, or to `input[i - 1]`, in sections. The
    /// error of a scan of float sums is at most [`rounding_steps`](Self::rounding_steps) roundings
    /// of the sum of the magnitudes of the prefix. The same call gives the same bits.
    ///
    /// # Errors
    /// The lengths differ, as [`check`](Self::check), there is not enough memory, or a launch
    /// failed.
    pub fn scan<T: Storable>(
        &self,
        operations: &Operations,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<T>,
    ) -> Result<LaunchCounts>
    where
        M: InPlace<T>,
    {
        expect_length("the output of a scan", input.len(), output.len())?;
        self.check::<T>()?;
        if input.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let length = input.len() as u64;
        operations.with_scratch(stream, |Totals(levels): &mut Totals<T>| {
            self.level(operations, stream, (input, length), output, levels)
        })
    }

    /// The scan of a buffer's first `length` elements; their totals are the next level.
    fn level<T: Storable>(
        &self,
        operations: &Operations,
        stream: &Stream,
        (input, length): (&Buffer<T>, u64),
        output: &mut Buffer<T>,
        levels: &mut [[Scratch<T>; 2]],
    ) -> Result<LaunchCounts>
    where
        M: InPlace<T>,
    {
        let count = operations.grid("a scan in sections", length.div_ceil(self.section_length().into()))?;
        let ([totals, scanned], levels) = levels.split_first_mut().expect("a level for every length");
        let totals = totals.at_least(operations.device(), count as usize)?;
        let sections = operations.kernel(*self, Self::sections::<T>)?;
        let counts = sections.launch(stream, count, (input, &mut *output, &mut *totals, length))?;
        if count == 1 {
            return Ok(counts);
        }
        let scanned = scanned.at_least(operations.device(), count as usize)?;
        // The prefix of a section includes all of the previous section.
        let inclusive = Self { kind: ScanKind::Inclusive, ..*self };
        let of_totals = inclusive.level(operations, stream, (totals, count.into()), scanned, levels)?;
        let counts = both(counts, of_totals);
        let add = operations.kernel(*self, Self::add::<T>)?;
        Ok(both(counts, add.launch(stream, count - 1, (scanned, output, length))?))
    }
}

/// For each level of a stream's scans: the totals of the sections, and their scan. A grid has fewer
/// than 2^31 sections, of at least 32 elements.
struct Totals<T>([[Scratch<T>; 2]; 8]);

impl<T> Default for Totals<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}
