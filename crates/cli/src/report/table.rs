//! A kernel's report as text.

use warpwright_arch::Arch;
use warpwright_runtime::{Counters, Counts, LineCounts, SharedCounts, SourceFiles, Unit};

use super::{KernelReport, advice, occupancy_sentence, place, text_of};

/// The columns of the counters of a line: as a table's text, and as a page's cells.
pub(super) const COLUMNS: [&str; 5] = ["executions", "lanes", "shared ways", "sectors/request", "notes"];

/// A number in groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut groups: Vec<&str> = if first > 0 { vec![&digits[..first]] } else { Vec::new() };
    groups.extend((first..digits.len()).step_by(3).map(|start| &digits[start..start + 3]));
    groups.join(" ")
}

/// A number of things of this name.
pub(super) fn count(number: u64, name: &str) -> String {
    format!("{} {name}{}", grouped(number), if number == 1 { "" } else { "s" })
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Passes for each that is needed.
fn ways(shared: &SharedCounts) -> String {
    if shared.requests == 0 {
        return String::new();
    }
    format!("{:.1}", ratio(shared.wavefronts, shared.ideal))
}

/// Sectors per request, and the minimum, of loads and of stores: an average of both would be neither.
fn sectors(counts: &Counts) -> String {
    let directions = [("ld", &counts.global_loads), ("st", &counts.global_stores)];
    let cells =
        directions.into_iter().filter(|(_, global)| global.requests > 0).map(|(direction, global)| {
            let per_request = |sectors| ratio(sectors, global.requests);
            format!("{direction} {:.1} ({:.1})", per_request(global.sectors), per_request(global.ideal))
        });
    cells.collect::<Vec<_>>().join(", ")
}

/// What else there is to say of a line.
fn notes(line: &LineCounts) -> String {
    let counts = &line.counts;
    let mut notes = Vec::new();
    let mut note = |count: u64, words: &str| {
        if count > 0 {
            notes.push(format!("{} {words}", grouped(count)));
        }
    };
    note(counts.divergent_branches, "divergent branches");
    note(counts.narrow, "narrow");
    note(counts.idle_barriers, "unnecessary barriers");
    note(counts.atomic_conflicts, "atomics wait");
    note(counts.local.requests, "local");
    note(counts.copies.bytes, "bytes copied");
    let tensor: u64 =
        line.operations.iter().filter(|(unit, _)| unit.is_tensor()).map(|(_, count)| count).sum();
    note(tensor, "tensor operations");
    notes.join(", ")
}

/// The cells of [`COLUMNS`].
pub(super) fn cells(line: &LineCounts) -> [String; 5] {
    let counts = &line.counts;
    [
        grouped(counts.executions),
        format!("{:.1}", ratio(counts.lanes, counts.executions)),
        ways(&counts.shared),
        sectors(counts),
        notes(line),
    ]
}

/// A launch's extents, in words.
pub(super) fn extents(counters: &Counters) -> String {
    let [x, y, z] = counters.grid;
    let times =
        if counters.launches > 1 { format!("{} launches of ", counters.launches) } else { String::new() };
    let [cx, cy, cz] = counters.cluster;
    let clusters = if counters.cluster == [1; 3] {
        String::new()
    } else {
        format!(" in clusters of {cx} x {cy} x {cz}")
    };
    let threads = count(counters.threads_per_cta().into(), "thread");
    format!("{times}{x} x {y} x {z} CTAs{clusters} of {threads}")
}

/// What all of a launch did, a line for each kind of thing.
pub(super) fn totals(kernel: &KernelReport) -> Vec<String> {
    let KernelReport { counters, total, .. } = kernel;
    let counts = &total.counts;
    let mut lines = vec![format!(
        "{} warp instructions, {:.1} of 32 lanes active; busiest: {}",
        grouped(counts.executions),
        ratio(counts.lanes, counts.executions),
        kernel.cost.busiest().name()
    )];
    if counts.shared.requests > 0 {
        lines.push(format!(
            "shared memory: {} requests, {} passes, {} of them due to bank conflicts",
            grouped(counts.shared.requests),
            grouped(counts.shared.wavefronts),
            grouped(counts.shared.conflicts())
        ));
    }
    for (direction, global) in [("loads", &counts.global_loads), ("stores", &counts.global_stores)] {
        if global.requests > 0 {
            lines.push(format!(
                "global {direction}: {} requests, {} sectors, {} at minimum",
                grouped(global.requests),
                grouped(global.sectors),
                grouped(global.ideal)
            ));
        }
    }
    if counts.copies.copies > 0 {
        lines.push(format!(
            "bulk and tensor copies: {}, {} bytes, {} sectors",
            grouped(counts.copies.copies),
            grouped(counts.copies.bytes),
            grouped(counts.copies.sectors)
        ));
    }
    lines.push(format!(
        "DRAM traffic, assuming infinite caches: {} bytes read, {} written",
        grouped(32 * counters.sectors_read),
        grouped(32 * counters.sectors_written)
    ));
    if counts.barriers > 0 {
        let idle = match counts.idle_barriers {
            0 => String::new(),
            idle => format!(", {} of them unnecessary", grouped(idle)),
        };
        lines.push(format!("CTA barriers: {}{idle}", grouped(counts.barriers)));
    }
    let operations: Vec<String> = Unit::ALL
        .iter()
        .filter_map(|unit| Some(format!("{} {}", grouped(*total.operations.get(unit)?), unit.name())))
        .collect();
    if !operations.is_empty() {
        lines.push(format!("operations: {}", operations.join(", ")));
    }
    lines
}

/// The report of one kernel.
pub(super) fn text(kernel: &KernelReport, arch: &Arch, most: usize, files: &mut SourceFiles) -> String {
    let mut out = vec![format!("kernel {}: {}", kernel.counters.kernel, extents(&kernel.counters))];
    out.extend(totals(kernel));
    out.push(occupancy_sentence(kernel, arch.capability));
    out.push(String::new());
    let [executions, lanes, ways, sectors, notes] = COLUMNS;
    let row = |cost: &str, line: &str, cells: [&str; 4], rest: &str| {
        let [executions, lanes, ways, sectors] = cells;
        format!("{cost:>6}  {line:<24} {executions:>13} {lanes:>6} {ways:>12} {sectors:>28}  {rest}")
            .trim_end()
            .to_owned()
    };
    out.push(row("cost", "line", [executions, lanes, ways, sectors], &format!("source | {notes}")));
    for (line, cost) in kernel.lines.iter().take(most) {
        let [executions, lanes, ways, sectors, notes] = cells(line);
        let text = text_of(line, &kernel.ptx, files);
        let rest = if notes.is_empty() { text } else { format!("{text} | {notes}") };
        let cost = format!("{:.1} %", 100.0 * kernel.part(cost));
        out.push(row(&cost, &place(line), [&executions, &lanes, &ways, &sectors], &rest));
    }
    if kernel.lines.len() > most {
        out.push(format!("        {} more lines; `--lines N` shows N", kernel.lines.len() - most));
    }
    let advice = advice::of(kernel, arch);
    if !advice.is_empty() {
        out.push(String::new());
        out.extend(advice.into_iter().map(|sentence| format!("- {sentence}")));
    }
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 7, 999, 1000, 1_234_567].map(grouped), ["0", "7", "999", "1 000", "1 234 567"]);
    }
}
