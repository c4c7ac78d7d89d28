//! The catalog of faults as broken kernels, each found at the author's lines; and their mended
//! twins, which are clean.
//!
//! One module a family of faults, one kernel a fault. A kernel is staged twice: broken, and mended,
//! which is the same text with the one thing put right that [`Twin`](fault::Twin) is asked about.
//! Lines at which the report must point, and at no others, end in `// (1)` and `// (2)`: at (1) for
//! what is found out, at (2) for what it is at odds with (where the schedule makes it the other way
//! round, the other way round). Where another schedule lets another consequence come first, that
//! one's lines are marked (a) and (b). `reports` holds the reports as they are read.

mod addresses;
mod arrays;
mod barriers;
mod build_time;
mod clusters;
mod copies;
mod fault;
mod first;
mod global_memory;
mod launch_control;
mod launches;
mod mbarriers;
mod multiplication;
mod names;
mod operands;
mod proxies;
mod reports;
mod shared_memory;
mod tensor_memory;
mod tiles;
mod uninitialized;
mod warps;

use std::collections::BTreeSet;

use fault::Fault;

/// The row that is no error: what is slow, which `warpwright report` tells.
const SLOW: u32 = 28;

fn all() -> impl Iterator<Item = &'static Fault> {
    [
        addresses::FAULTS,
        arrays::FAULTS,
        barriers::FAULTS,
        clusters::FAULTS,
        copies::FAULTS,
        global_memory::FAULTS,
        launch_control::FAULTS,
        launches::FAULTS,
        mbarriers::FAULTS,
        multiplication::FAULTS,
        proxies::FAULTS,
        shared_memory::FAULTS,
        tensor_memory::FAULTS,
        tiles::FAULTS,
        uninitialized::FAULTS,
        warps::FAULTS,
    ]
    .into_iter()
    .flatten()
}

#[test]
fn every_row_of_the_catalog_has_faults() {
    let mut rows: BTreeSet<u32> = all().flat_map(|fault| fault.rows).copied().collect();
    rows.extend(build_time::REFUSALS.iter().map(|refusal| refusal.row));
    let missing: Vec<u32> = (1..SLOW).filter(|row| !rows.contains(row)).collect();
    assert!(missing.is_empty(), "rows {missing:?} have no broken kernel");
}

#[test]
fn rows_of_execution_have_several_faults() {
    let single = [14];
    for row in (8..SLOW).filter(|row| !single.contains(row)) {
        let count = all().filter(|fault| fault.rows.contains(&row)).count();
        assert!(count > 1, "row {row} has {count} broken kernels");
    }
    assert!(all().count() + build_time::REFUSALS.len() >= 60);
}

#[test]
fn every_report_is_of_a_fault() {
    for fault in all() {
        for name in reports::names(fault.file) {
            let (name, is_otherwise) =
                name.strip_suffix("_otherwise").map_or((&*name, false), |name| (name, true));
            let has_report = |of: &Fault| {
                of.file == fault.file && of.name == name && (!is_otherwise || of.otherwise.is_some())
            };
            assert!(all().any(has_report), "`{name}` is no fault");
        }
    }
}

#[test]
fn every_code_has_a_page() {
    for fault in all() {
        assert!(warpwright::runtime::explain(fault.code).is_some(), "`{}` has no page", fault.code);
    }
}
