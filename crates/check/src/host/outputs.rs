//! Elements that the host reads and nothing has written.

use std::collections::BTreeMap;
use std::ops::Range;

use warpwright_events::{GRANULE, InitializedBytes, Label, Source, unwritten_runs};

use crate::host::operation::{Elements, host_label, shown_indices};
use crate::report::finding::{Finding, FindingKind};
use crate::report::order::Rank;
use crate::state::footprint::{Use, UseKind};

/// The runs that a report lists.
const MOST_RUNS: usize = 4;

/// A launch that has a buffer among its arguments, or writes it.
#[derive(Clone, Debug)]
pub(crate) struct BufferLaunch {
    pub(crate) kernel: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) call: Source,
    /// A store to the buffer, if it has written the buffer.
    pub(crate) store: Option<Label>,
}

impl BufferLaunch {
    /// Where it is launched, and where it writes the buffer.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Label> {
        let does = match self.store {
            Some(_) => "writes other elements",
            None => "writes no element of the buffer",
        };
        let call = host_label(&self.call, format!("`{}` is launched here, and {does}", self.kernel));
        std::iter::once(call).chain(self.store.clone())
    }

    /// Its grid and block.
    pub(crate) fn note(&self) -> String {
        let Self { kernel, grid, block, .. } = self;
        format!(
            "the launch of `{kernel}` has a grid of {grid:?} CTAs of {block:?} threads, {} threads",
            count(grid) * count(block)
        )
    }
}

/// An allocation.
#[derive(Debug)]
struct Allocated {
    bytes: u64,
    /// The launch that it is the output of.
    launch: Option<BufferLaunch>,
    /// If the host has given it contents that are all alike: the use that launches make of it since.
    filled: Option<Filled>,
}

/// The use that launches make of a buffer that the host has filled with equal elements.
#[derive(Debug, Default)]
struct Filled {
    /// The bytes that are written, by granule; empty if none is.
    written: Vec<u16>,
    /// Whether a launch has read elements, or used them by atomic operations.
    is_used: bool,
    /// Whether its elements have been reported.
    is_reported: bool,
}

impl Filled {
    fn add(&mut self, bytes: u64, past: u64, uses: &[Use]) {
        let granules = bytes.div_ceil(GRANULE) as usize;
        for used in uses {
            self.is_used |= used.kind != UseKind::Write;
            if used.kind == UseKind::Write {
                self.written.resize(granules, 0);
                self.written[(past / GRANULE) as usize] |= used.bytes;
            }
        }
    }

    /// The runs of a range of bytes of the buffer that are not written.
    fn unwritten(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let granules = (range.start - range.start % GRANULE..range.end).step_by(GRANULE as usize);
        let bits = |granule: u64| self.written.get((granule / GRANULE) as usize).copied().unwrap_or(0);
        unwritten_runs(range, granules.map(|granule| (granule, bits(granule))))
    }
}

/// The allocations of a device.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    allocations: BTreeMap<u64, Allocated>,
}

impl Outputs {
    pub(crate) fn allocated(&mut self, address: u64, bytes: u64) {
        self.allocations.insert(address, Allocated { bytes, launch: None, filled: None });
    }

    pub(crate) fn freed(&mut self, address: u64) {
        self.allocations.remove(&address);
    }

    /// The host, or a copy, writes a range; with equal elements if it `is_uniform`.
    pub(crate) fn written(&mut self, address: u64, bytes: u64, is_uniform: bool) {
        if let Some(start) = self.around(address).map(|range| range.start)
            && let Some(allocated) = self.allocations.get_mut(&start)
        {
            let is_whole = start == address && allocated.bytes == bytes;
            allocated.filled = (is_uniform && is_whole).then(Filled::default);
        }
    }

    /// The range of the allocation that an address is in.
    pub(crate) fn around(&self, address: u64) -> Option<Range<u64>> {
        let (&start, allocated) = self.allocations.range(..=address).next_back()?;
        Some(start..start + allocated.bytes).filter(|range| range.contains(&address) || start == address)
    }

    /// Records a launch that has the buffer at an address. One that writes it counts more.
    pub(crate) fn note(&mut self, address: u64, launch: &BufferLaunch) {
        if let Some(Allocated { launch: known, .. }) = self.allocations.get_mut(&address)
            && (launch.store.is_some() || known.as_ref().is_none_or(|known| known.store.is_none()))
        {
            *known = Some(launch.clone());
        }
    }

    /// The last launch that has written the buffer that an address is in.
    pub(crate) fn writer(&self, address: u64) -> Option<&BufferLaunch> {
        let start = self.around(address)?.start;
        self.allocations.get(&start)?.launch.as_ref().filter(|launch| launch.store.is_some())
    }

    /// Records the uses of a granule of the buffer at an address by a launch.
    pub(crate) fn used(&mut self, address: u64, granule: u64, uses: &[Use]) {
        if let Some(Allocated { bytes, filled: Some(filled), .. }) = self.allocations.get_mut(&address) {
            filled.add(*bytes, granule - address, uses);
        }
    }

    /// The finding for a read by the host of elements that nothing has written.
    pub(crate) fn unwritten(
        &self,
        read: &Elements,
        call: &Source,
        initialized: &InitializedBytes,
    ) -> Option<Finding> {
        let runs = Runs::of(read, initialized.unwritten(read.address(), read.bytes))?;
        let launch = self.allocations.get(&read.buffer).and_then(|allocated| allocated.launch.as_ref());
        let which = if runs.count() == read.count() {
            "them".to_owned()
        } else {
            format!("{} of them", runs.count())
        };
        Some(Finding {
            message: format!(
                "the host reads {} of {}, and nothing has written {which}",
                elements(read.count()),
                read.element
            ),
            ..runs.finding(FindingKind::Uninitialized, read, call, launch)
        })
    }

    /// The remark for a read by the host of elements that still have the value that the host filled
    /// the buffer with, where the launches that have the buffer only write it.
    pub(crate) fn left(&mut self, read: &Elements, call: &Source) -> Option<Finding> {
        let Allocated { launch, filled, .. } = self.allocations.get_mut(&read.buffer)?;
        let (launch, filled) = (launch.as_ref()?, filled.as_mut()?);
        if filled.is_used || filled.is_reported {
            return None;
        }
        let unwritten = filled.unwritten(&(read.start..read.start + read.bytes));
        let from_start = |range: Range<u64>| range.start + read.buffer..range.end + read.buffer;
        let runs = Runs::of(read, unwritten.into_iter().map(from_start).collect())?;
        filled.is_reported = true;
        let which = if runs.count() == read.count() { "any".to_owned() } else { format!("{}", runs.count()) };
        let finding = runs.finding(FindingKind::Unwritten, read, call, Some(launch));
        Some(Finding {
            message: format!(
                "the host reads {} of {} of a buffer that it filled, and no launch has written {which} of them since",
                elements(read.count()),
                read.element
            ),
            ..finding
        })
    }
}

/// The number of CTAs or threads of these extents.
fn count(extents: &[u32; 3]) -> u64 {
    extents.iter().map(|&extent| u64::from(extent)).product()
}

fn elements(count: u64) -> String {
    if count == 1 { "an element".to_owned() } else { format!("{count} elements") }
}

/// Runs of elements, by their indices, in order. There is at least one.
struct Runs(Vec<Range<u64>>);

impl Runs {
    /// The elements that have one of these bytes.
    fn of(read: &Elements, bytes: Vec<Range<u64>>) -> Option<Self> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for range in bytes {
            let indices = read.indices(&range);
            match runs.last_mut() {
                Some(run) if indices.start <= run.end => run.end = run.end.max(indices.end),
                _ => runs.push(indices),
            }
        }
        (!runs.is_empty()).then_some(Self(runs))
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }

    /// The distance of the starts, if all runs have one length and one distance.
    fn period(&self) -> Option<u64> {
        let [first, second, ..] = self.0.as_slice() else { return None };
        let period = second.start - first.start;
        let is_next = |pair: &[Range<u64>]| {
            pair[1].start - pair[0].start == period && pair[1].end - pair[0].end == period
        };
        (self.0.len() > 2 && self.0.windows(2).all(is_next)).then_some(period)
    }

    /// `elements 768 to 999`
    fn shown(&self) -> String {
        let (first, last) = (&self.0[0], &self.0[self.0.len() - 1]);
        if let Some(period) = self.period() {
            let length = first.end - first.start;
            let of = if length == 1 { "one element".to_owned() } else { format!("{length} elements") };
            return format!(
                "{of} of every {period}, from {} to {} ({} runs),",
                shown_indices(first),
                shown_indices(last),
                self.0.len()
            );
        }
        if self.0.len() <= MOST_RUNS {
            return self.0.iter().map(shown_indices).collect::<Vec<_>>().join(" and ");
        }
        let listed: Vec<String> = self.0[..MOST_RUNS - 1].iter().map(shown_indices).collect();
        let more = self.0.len() - MOST_RUNS;
        format!("{}, {more} more runs, and {}", listed.join(", "), shown_indices(last))
    }

    /// A finding for a read of these elements, without its message.
    fn finding(
        &self,
        kind: FindingKind,
        read: &Elements,
        call: &Source,
        launch: Option<&BufferLaunch>,
    ) -> Finding {
        let verb = if self.count() == 1 { "is" } else { "are" };
        let mut labels = vec![host_label(call, format!("{} {verb} not written", self.shown()))];
        let mut notes = Vec::new();
        if let Some(launch) = launch {
            labels.extend(launch.labels());
            notes.push(launch.note());
        }
        Finding {
            kind,
            kernel: launch.map_or_else(String::new, |launch| launch.kernel.clone()),
            message: String::new(),
            labels,
            memory: Vec::new(),
            notes,
            help: Some(self.help(kind, read, launch)),
            count: 1,
            tile: None,
            cause: None,
            rank: Rank::of(kind),
            gap: None,
        }
    }

    /// What to do.
    fn help(&self, kind: FindingKind, read: &Elements, launch: Option<&BufferLaunch>) -> String {
        let otherwise = match kind {
            FindingKind::Unwritten => {
                "if they keep their values on purpose, nothing is wrong: fill the buffer in a launch, or read only the others (`read(range)`)"
            }
            _ => {
                "if the elements need no value, read only the others (`read(range)`), or make the buffer with `zeros`"
            }
        };
        let Some(launch) = launch else {
            return "launch a kernel that writes them before the host reads the buffer, or make the buffer with `buffer_from` or `zeros`".to_owned();
        };
        let kernel = &launch.kernel;
        if launch.store.is_none() {
            return format!(
                "check the index that `{kernel}` computes and the condition that it stores under; if another argument is the output, read that one"
            );
        }
        let tail = self.0[0].start;
        let ctas = count(&launch.grid);
        let length = (read.start + read.bytes) / read.element_bytes;
        if ctas * count(&launch.block) >= length {
            return format!(
                "the grid has a thread for each element: check the index that `{kernel}` stores to, the condition that it stores under, and that x and y are not exchanged; {otherwise}"
            );
        }
        let is_tail = self.0.len() == 1 && self.0[0].end == length && tail > 0;
        // A thread of each stores an element, or the same number of them.
        let is_copied = launch.store.as_ref().is_some_and(|store| store.ptx_text.contains(".async."));
        if is_tail && !is_copied && tail.is_multiple_of(ctas * count(&launch.block)) {
            let of_cta = tail / ctas;
            return format!(
                "the grid covers the first {tail} elements, {of_cta} for each CTA: launch {} CTAs for {}, or let the loop of the kernel reach the end; {otherwise}",
                length.div_ceil(of_cta),
                elements(length)
            );
        }
        if is_tail {
            return format!(
                "the kernel covers the first {tail} elements: check its grid, the coordinates that it stores to, and the last iteration of its loop, which must handle the rest; {otherwise}"
            );
        }
        format!(
            "check that the grid of `{kernel}` covers every axis, that x and y are not exchanged, and the index that each thread stores to; {otherwise}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<const N: usize>(runs: [(u64, u64); N]) -> String {
        Runs(runs.map(|(start, end)| start..end).to_vec()).shown()
    }

    #[test]
    fn runs_are_listed_while_they_are_few_and_described_if_they_are_regular() {
        assert_eq!(shown([(3, 4)]), "element 3");
        assert_eq!(shown([(768, 1000)]), "elements 768 to 999");
        assert_eq!(shown([(0, 1), (5, 9)]), "element 0 and elements 5 to 8");
        assert_eq!(
            shown([0, 1, 2, 3, 4].map(|row| (row * 128 + 96, row * 128 + 128))),
            "32 elements of every 128, from elements 96 to 127 to elements 608 to 639 (5 runs),"
        );
        assert_eq!(
            shown([(0, 1), (3, 4), (7, 8), (9, 10), (14, 15), (40, 50)]),
            "element 0, element 3, element 7, 2 more runs, and elements 40 to 49"
        );
    }

    #[test]
    fn an_element_with_an_unwritten_byte_is_unwritten() {
        let read = Elements { buffer: 64, start: 8, bytes: 24, element: "f32", element_bytes: 4 };
        let runs = Runs::of(&read, vec![73..74, 75..77, 92..96]).expect("there are some");
        assert_eq!(runs.0, [2..4, 7..8]);
        assert!(Runs::of(&read, Vec::new()).is_none());
    }
}
