//! A report as one page: the sources beside their counters, the warmer the more they cost.

use std::collections::BTreeMap;
use std::fmt::Write;

use warpwright_arch::Arch;
use warpwright_runtime::{LineCounts, SourceFiles};

use crate::markup::escaped;

use super::cost::Cost;
use super::table::{COLUMNS, cells, extents, totals};
use super::{KernelReport, advice, occupancy_sentence};

/// Lines shown around one that was executed.
const CONTEXT: usize = 3;

/// Colors for light and dark; the heat of a line is mixed into its background.
const STYLE: &str = "\
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1e21; --faint: #6b7178; --rule: #d9dde2; --heat: #ff6a3d; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181b; --ink: #e3e5e8; --faint: #8d949c; --rule: #33383e; --heat: #d9481c; } }
body { margin: 2em; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3em; } h2 { font-size: 1.1em; margin-top: 2em; } h3 { font: 600 13px ui-monospace, monospace; }
table { border-collapse: collapse; font: 12.5px/1.55 ui-monospace, monospace; }
th { color: var(--faint); font-weight: normal; text-align: right; white-space: nowrap; padding: 0 .8em; border-bottom: 1px solid var(--rule); }
td { text-align: right; padding: 0 .8em; white-space: pre; font-variant-numeric: tabular-nums; }
td.source, th.source { text-align: left; } td.source { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 20em; }
td.notes, th.notes { text-align: left; color: var(--faint); } td.notes { white-space: normal; min-width: 9em; }
td.number { color: var(--faint); } tr.gap td { color: var(--faint); border-top: 1px dotted var(--rule); }
tr.hot { background: color-mix(in srgb, var(--heat) var(--part), transparent); }
.scroll { overflow-x: auto; } li { margin: .2em 0; }
";

/// The page of a report. It needs nothing else: no script, no font, no network.
pub(super) fn page(title: &str, kernels: &[KernelReport], arch: &Arch, files: &mut SourceFiles) -> String {
    let title = escaped(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n"
    );
    for kernel in kernels {
        of_kernel(&mut page, kernel, arch, files);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn list(page: &mut String, items: &[String]) {
    page.push_str("<ul>\n");
    for item in items {
        let _ = writeln!(page, "<li>{}</li>", escaped(item));
    }
    page.push_str("</ul>\n");
}

fn of_kernel(page: &mut String, kernel: &KernelReport, arch: &Arch, files: &mut SourceFiles) {
    let name = escaped(&kernel.counters.kernel);
    let _ = writeln!(page, "<h2>{name}</h2>\n<p>{}</p>", escaped(&extents(&kernel.counters)));
    let mut facts = totals(kernel);
    facts.push(occupancy_sentence(kernel, arch.capability));
    list(page, &facts);
    let advice = advice::of(kernel, arch);
    if !advice.is_empty() {
        page.push_str("<h3>advice</h3>\n");
        list(page, &advice);
    }
    let mut by_file: BTreeMap<Option<&str>, BTreeMap<usize, &(LineCounts, Cost)>> = BTreeMap::new();
    for line in &kernel.lines {
        by_file.entry(line.0.file.as_deref()).or_default().insert(line.0.line as usize, line);
    }
    for (file, counted) in by_file {
        let text = file.map_or(Some(&*kernel.ptx), |file| files.file(file)).unwrap_or_default();
        let _ = writeln!(page, "<h3>{}</h3>", escaped(file.unwrap_or("the PTX")));
        of_file(page, kernel, text, &counted);
    }
}

/// A file's executed lines with a few around them.
fn of_file(
    page: &mut String,
    kernel: &KernelReport,
    text: &str,
    counted: &BTreeMap<usize, &(LineCounts, Cost)>,
) {
    let [executions, lanes, ways, sectors, notes] = COLUMNS;
    let _ = writeln!(
        page,
        "<div class=\"scroll\"><table>\n<tr><th></th><th class=\"source\">source</th><th>cost</th><th>{executions}</th>\
         <th>{lanes}</th><th>{ways}</th><th>{sectors}</th><th class=\"notes\">{notes}</th></tr>"
    );
    let source: Vec<&str> = text.lines().collect();
    // A source that is not here still has its numbers.
    let last = counted.keys().next_back().copied().unwrap_or(0).max(source.len());
    let hottest = counted.values().map(|(_, cost)| kernel.part(cost)).fold(0.0, f64::max).max(1e-9);
    let mut shown = 0;
    for number in 1..=last {
        let near = counted.range(number.saturating_sub(CONTEXT)..=number + CONTEXT).next().is_some();
        if !near {
            continue;
        }
        if shown + 1 != number && shown > 0 {
            page.push_str(
                "<tr class=\"gap\"><td></td><td class=\"source\">...</td><td colspan=\"6\"></td></tr>\n",
            );
        }
        shown = number;
        let text = escaped(source.get(number - 1).copied().unwrap_or_default());
        let Some((line, cost)) = counted.get(&number) else {
            let _ = writeln!(
                page,
                "<tr><td class=\"number\">{number}</td><td class=\"source\">{text}</td><td colspan=\"6\"></td></tr>"
            );
            continue;
        };
        let part = kernel.part(cost);
        let [executions, lanes, ways, sectors, notes] = cells(line).map(|cell| escaped(&cell));
        let _ = writeln!(
            page,
            "<tr class=\"hot\" style=\"--part: {:.0}%\"><td class=\"number\">{number}</td><td class=\"source\">{text}</td>\
             <td title=\"busiest: {}\">{:.1} %</td><td>{executions}</td><td>{lanes}</td><td>{ways}</td><td>{sectors}</td>\
             <td class=\"notes\">{notes}</td></tr>",
            80.0 * part / hottest,
            cost.busiest().name(),
            100.0 * part
        );
    }
    page.push_str("</table></div>\n");
}
