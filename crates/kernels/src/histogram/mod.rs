//! Histogram: the number of elements in each bin.
//!
//! ```text
//! even     bin = trunc((x - lower) * bins / (upper - lower))      lower <= x < upper, computed in f64
//! ranges   the bin whose edges enclose x                          edge[bin] <= x < edge[bin + 1], by bisection
//! ```
//!
//! Elements outside all bins, and NaN, are not counted. If all CTAs added to the same counters,
//! their atomics would conflict at every element, so each CTA counts in shared memory
//! (*privatisation*) and adds its counts once, at the end. Where the bins do not fit shared memory,
//! elements are counted in global memory; with that many bins, conflicts are rare.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::lang::element::Convertible;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use crate::operations::{OperationError, Operations, Result};
use crate::vector;

/// How bins are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Binning {
    /// Bins of equal width.
    #[default]
    Even,
    /// Bins given by their edges.
    Ranges,
}

/// The histogram in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Histogram {
    binning: Binning,
    threads: u32,
    /// Counters in shared memory, at least the number of bins; 0 where they do not fit.
    private: u32,
}

/// Most bins in shared memory: 64 KB, so that three CTAs fit an SM.
const MAX_PRIVATE: u32 = 16 * 1024;

impl Histogram {
    fn new(binning: Binning, bins: u32) -> Self {
        // Powers of two, so that few kernels serve every number of bins.
        let private = if bins <= MAX_PRIVATE { bins.next_power_of_two() } else { 0 };
        Self { binning, threads: 512, private }
    }

    /// Adds to `counts` the number of elements of `input` in each of `bins` bins. `lower` and
    /// `upper` are for even bins, `edges` (one more than bins) for ranges.
    #[kernel]
    fn run<T: Storable + Convertible + Ordered>(
        &self,
        input: &Global<T>,
        edges: &Global<T>,
        counts: &mut Global<u64>,
        bins: u32,
        lower: f64,
        upper: f64,
        length: u64,
    ) {
        launch::threads(self.threads);
        let private = dynamic_shared::<u32>(self.private.max(1));
        if self.private > 0 {
            for bin in (thread_idx().x..bins).step_by(self.threads) {
                private.at(bin).store(0u32);
            }
            sync_threads();
        }

        let scale = bins.convert::<f64>() / (upper - lower);
        let width = u64::from(vector::width::<T>());
        let vectors = length / width;
        let threads = grid_dim().x.convert::<u64>() * u64::from(self.threads);
        let thread =
            block_idx().x.convert::<u64>() * u64::from(self.threads) + thread_idx().x.convert::<u64>();
        for index in (thread..vectors).step_by(threads) {
            let elements = vector::load(input.at(index * width), Access::new().non_coherent());
            for element in elements {
                self.count(element, edges, (bins, lower, upper, scale), &private, counts);
            }
        }
        for index in (vectors * width + thread..length).step_by(threads) {
            self.count(input[index], edges, (bins, lower, upper, scale), &private, counts);
        }

        if self.private > 0 {
            sync_threads();
            for bin in (thread_idx().x..bins).step_by(self.threads) {
                let found = private.at(bin).load();
                if found != 0 {
                    counts.at(bin).reduce_add(found.convert::<u64>());
                }
            }
        }
    }

    /// Counts one element, if it is in a bin.
    #[device]
    fn count<T: Storable + Convertible + Ordered>(
        &self,
        element: Reg<T>,
        edges: &Global<T>,
        (bins, lower, upper, scale): (Reg<u32>, Reg<f64>, Reg<f64>, Reg<f64>),
        private: &Shared<u32>,
        counts: &Global<u64>,
    ) {
        let (is_inside, bin) = match self.binning {
            Binning::Even => {
                let value = element.convert::<f64>();
                let bin = ((value - lower) * scale).convert::<u32>().min(bins - 1);
                (value.ge(lower) & value.lt(upper), bin)
            }
            Binning::Ranges => {
                let is_inside = element.ge(edges.load()) & element.lt(edges.at(bins).load());
                (is_inside, self.bin_between(element, edges, bins))
            }
        };
        if is_inside {
            if self.private > 0 {
                private.at(bin).reduce_add_with(1u32, Atomicity::new(AtomicOrdering::Relaxed, Scope::Block));
            } else {
                counts.at(bin).reduce_add(1u64);
            }
        }
    }

    /// The last bin whose lower edge is not above `element`.
    #[device]
    fn bin_between<T: Storable + Ordered>(
        &self,
        element: Reg<T>,
        edges: &Global<T>,
        bins: Reg<u32>,
    ) -> Reg<u32> {
        let mut low = constant(0u32);
        let mut high = bins;
        while high - low > 1 {
            let middle = (low + high) / 2;
            if edges[middle] <= element {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl Operations {
    /// `counts[b]` = the number of elements of `input` in bin b of `counts.len()` bins of equal
    /// width from `lower` (included) to `upper` (excluded). The bin of x is `trunc((x - lower) *
    /// (bins / (upper - lower)))`, in `f64`.
    ///
    /// # Errors
    /// There are no bins, or more than 2^32 - 1; `lower` is not below `upper`, or one is not
    /// finite; `upper - lower` or `bins / (upper - lower)` is beyond `f64`; or the launch failed.
    pub fn histogram_even<T: Storable + Convertible + Ordered>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        (lower, upper): (f64, f64),
        counts: &mut Buffer<u64>,
    ) -> Result<LaunchCounts> {
        if !(lower < upper && lower.is_finite() && upper.is_finite()) {
            let reason =
                format!("the bins lie between {lower} and {upper}; give a lower and a higher finite bound");
            return Err(OperationError::Shape { what: "a histogram", reason });
        }
        let (width, bins) = (upper - lower, counts.len());
        let refuse = |extreme, cure| {
            let reason = format!(
                "{bins} bins from {lower:?} to {upper:?} are {extreme} than f64 can compute with; give {cure}"
            );
            Err(OperationError::Shape { what: "a histogram", reason })
        };
        if width.is_infinite() {
            return refuse("wider", "bounds that are nearer to each other");
        }
        if (bins as f64 / width).is_infinite() {
            return refuse("narrower", "fewer bins, or bounds that are farther apart");
        }
        // Bins of equal width have no edges.
        self.histogram(stream, (input, input), Binning::Even, (lower, upper), counts)
    }

    /// `counts[b]` = the number of elements x of `input` with `edges[b] <= x < edges[b + 1]`. The
    /// edges ascend.
    ///
    /// # Errors
    /// There are no bins, or more than 2^32 - 1; `edges` is not one longer than `counts`; or the
    /// launch failed.
    pub fn histogram_ranges<T: Storable + Convertible + Ordered>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        edges: &Buffer<T>,
        counts: &mut Buffer<u64>,
    ) -> Result<LaunchCounts> {
        crate::operations::expect_length("the buffer of a histogram's edges", counts.len() + 1, edges.len())?;
        self.histogram(stream, (input, edges), Binning::Ranges, (0.0, 1.0), counts)
    }

    fn histogram<T: Storable + Convertible + Ordered>(
        &self,
        stream: &Stream,
        (input, edges): (&Buffer<T>, &Buffer<T>),
        binning: Binning,
        (lower, upper): (f64, f64),
        counts: &mut Buffer<u64>,
    ) -> Result<LaunchCounts> {
        let bins = u32::try_from(counts.len()).ok().filter(|bins| *bins > 0);
        let bins = bins.ok_or_else(|| OperationError::Shape {
            what: "a histogram",
            reason: format!("it has {} bins; give 1 to 2^32 - 1", counts.len()),
        })?;
        let configuration = Histogram::new(binning, bins);
        let kernel = self.kernel(configuration, Histogram::run::<T>)?;
        stream.fill_zero(counts)?;
        let length = input.len() as u64;
        let vectors = length.div_ceil(vector::width::<T>().into()).div_ceil(configuration.threads.into());
        let resident = self.resident(&kernel)?;
        // The counters of a CTA have 32 bits, which bounds its elements.
        let least = length.div_ceil(1 << 31);
        let grid = vectors.clamp(1, resident.into()).max(least) as u32;
        Ok(kernel.launch(stream, grid, (input, edges, counts, bins, lower, upper, length))?)
    }
}
