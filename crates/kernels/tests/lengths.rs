//! Every kernel of the library at the lengths at which something begins or ends: 0, 1, a warp and
//! one element less or more, a CTA less one, and a million and seven.

use warpwright::runtime::Device;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::transpose::TileTranspose;
use warpwright_testing::one_in;

use crate::SUITE;
use crate::walk::{LENGTHS, choices, has, walk_elements, walk_lengths};

fn device(name: &str) -> Device {
    Device::named(name).expect("an emulated device")
}

#[test]
fn every_kernel_over_elements_at_every_length() {
    walk_lengths(&SUITE);
}

#[test]
fn every_choice_over_many_elements() {
    walk_elements(&SUITE);
}

/// Choices that only pairs of options reach.
#[test]
fn every_type_with_every_operation_and_kind() {
    let device = device("emu:h200");
    let (scan, mut cases) = (SUITE.named("scan"), Vec::new());
    for ty in choices(scan, "type") {
        for by in choices(scan, "by") {
            cases.extend(choices(scan, "kind").into_iter().map(|kind| (ty.clone(), by.clone(), kind)));
        }
    }
    for (ty, by, kind) in one_in(5, cases) {
        let settings = [("type", ty.as_str()), ("by", &by), ("kind", &kind), ("length", "5003")];
        SUITE.expect_right(scan, &device, &settings);
    }
    let (sort, mut cases) = (SUITE.named("sort"), Vec::new());
    for values in choices(sort, "values") {
        for order in choices(sort, "order") {
            for direction in choices(sort, "direction") {
                let each = ["u8", "f32", "i64"];
                cases.extend(each.map(|ty| (values.clone(), order.clone(), direction.clone(), ty)));
            }
        }
    }
    for (values, order, direction, ty) in one_in(5, cases) {
        let settings = [
            ("values", values.as_str()),
            ("order", &order),
            ("direction", &direction),
            ("type", ty),
            ("length", "9001"),
        ];
        SUITE.expect_right(sort, &device, &settings);
    }
}

#[test]
fn every_kernel_over_rows_at_every_length_of_a_row() {
    let mut cases = Vec::new();
    for kernel in SUITE.kernels.iter().filter(|kernel| has(kernel, "columns")) {
        for columns in LENGTHS.iter().filter(|length| **length > 0) {
            cases.extend(["normal", "special"].map(|values| (kernel, columns.to_string(), values)));
        }
    }
    for (kernel, columns, values) in one_in(11, cases) {
        let settings = [("rows", "3"), ("columns", columns.as_str()), ("values", values)];
        SUITE.expect_right(kernel, &device("emu:h200"), &settings);
    }
    for kernel in SUITE.kernels.iter().filter(|kernel| has(kernel, "columns")) {
        // Without clusters the longest rows are read twice.
        let settings = [("rows", "1"), ("columns", "1048583"), ("input", "f32")];
        SUITE.expect_right(kernel, &device("emu:a100"), &settings);
        SUITE.expect_right(kernel, &device("emu:h200"), &[("rows", "0"), ("columns", "33")]);
    }
}

/// Schedulers of rows, as options.
const SCHEDULERS: &[&[(&str, &str)]] = &[
    &[("scheduler", "non-persistent"), ("ctas-per-sm", "3")],
    &[("scheduler", "non-persistent"), ("threads", "256"), ("steps", "8")],
    &[("scheduler", "persistent")],
    &[("scheduler", "persistent"), ("threads", "256"), ("steps", "8"), ("ctas-per-sm", "3")],
    &[("scheduler", "pipelined")],
    &[("scheduler", "pipelined"), ("evict", "first"), ("stages", "1")],
    &[("scheduler", "staggered"), ("ctas-per-sm", "1"), ("stages", "3"), ("evict", "first")],
    &[("scheduler", "staggered"), ("threads", "1024"), ("clusters", "3")],
];

/// More rows than clusters that fit the device: persistent clusters process several each.
#[test]
fn persistent_clusters() {
    let kernels = SUITE.kernels.iter().filter(|kernel| has(kernel, "scheduler"));
    let cases = kernels.flat_map(|kernel| SCHEDULERS.iter().map(move |scheduler| (kernel, scheduler)));
    for (kernel, scheduler) in one_in(13, cases) {
        let mut settings = vec![("rows", "33"), ("columns", "131072"), ("input", "f32")];
        settings.extend_from_slice(scheduler);
        SUITE.expect_right(kernel, &device("emu:h200"), &settings);
    }
}

/// Rows that a cluster of two or more shares unevenly, with special values, and one to many per
/// cluster.
#[test]
fn pipelined_rows_are_right_at_every_length() {
    let shapes = [("1", "2048"), ("2", "4096"), ("3", "1032"), ("7", "2056"), ("33", "8000")];
    let mut cases = Vec::new();
    for kernel in SUITE.kernels.iter().filter(|kernel| has(kernel, "scheduler")) {
        for (rows, columns) in shapes {
            for scheduler in ["pipelined", "staggered"] {
                cases.extend(["normal", "special"].map(|values| (kernel, rows, columns, scheduler, values)));
            }
        }
    }
    for (kernel, rows, columns, scheduler, values) in one_in(3, cases) {
        let settings = [
            ("rows", rows),
            ("columns", columns),
            ("values", values),
            ("ctas", "3"),
            ("threads", "96"),
            ("steps", "4"),
            ("ctas-per-sm", "1"),
            ("clusters", "2"),
            ("scheduler", scheduler),
        ];
        SUITE.expect_right(kernel, &device("emu:h200"), &settings);
    }
}

#[test]
fn rows_shared_by_the_grid_are_right_at_every_length() {
    for kernel in SUITE.kernels.iter().filter(|kernel| has(kernel, "scheduler")) {
        // Fewer rows than a CTA's warps; parts that are cut, and that are not; every stage several
        // times.
        for (rows, columns, ctas) in
            [("1", "2048", "32"), ("2", "16384", "64"), ("7", "10248", "32"), ("71", "4000", "32")]
        {
            for values in ["normal", "special"] {
                let settings = [
                    ("rows", rows),
                    ("columns", columns),
                    ("values", values),
                    ("ctas", ctas),
                    ("threads", "96"),
                    ("scheduler", "grid"),
                ];
                SUITE.expect_right(kernel, &device("emu:h200"), &settings);
            }
        }
    }
}

#[test]
fn transposes_of_every_length() {
    let kernel = SUITE.named("transpose");
    let long = "1048583";
    let shapes =
        [("0", "33"), ("1", "31"), ("32", "33"), ("1023", "1025"), ("1", long), (long, "1"), (long, "3")];
    let cases = choices(kernel, "type").into_iter().flat_map(|ty| shapes.map(|shape| (shape, ty.clone())));
    for ((m, n), ty) in one_in(5, cases) {
        SUITE.expect_right(kernel, &device("emu:h200"), &[("m", m), ("n", n), ("type", &ty)]);
    }
}

/// The first tile of a row so long that rounding its length up to whole tiles exceeds 32 bits: no
/// test has the memory for all of it.
#[test]
fn tiles_of_the_longest_rows() {
    let device = device("emu:h200");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    let a = device.buffer_from(&(1..=32).collect::<Vec<u8>>()).expect("memory");
    let mut b = device.zeros::<u8>(32).expect("memory");
    let kernel = operations.kernel(TileTranspose, TileTranspose::run::<u8>).expect("it builds");
    kernel.launch(&stream, 1, (&a, &mut b, 1, u32::MAX - 4)).expect("it runs");
    assert_eq!(b.to_vec().expect("a copy to the host"), a.to_vec().expect("a copy to the host"));
}
