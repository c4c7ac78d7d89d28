//! Every lesson at boundary lengths, with every choice of its options.

use warpwright::runtime::Device;
use warpwright_kernels::operations::Operations;
use warpwright_lessons::transpose::tile::{Step, TileLesson};
use warpwright_testing::one_in;

use crate::SUITE;
use crate::walk::{choices, walk_elements, walk_lengths, with};

fn device(name: &str) -> Device {
    Device::named(name).expect("emulators are always there")
}

#[test]
fn every_lesson_over_elements_at_every_length() {
    walk_lengths(&SUITE);
}

#[test]
fn every_type_and_step_over_many_elements() {
    walk_elements(&SUITE);
}

/// Pairs of options that once failed together.
#[test]
fn every_method_with_every_type_and_kind() {
    let device = device("emu:h200");
    let (scan, mut cases) = (SUITE.named("scan-ladder"), Vec::new());
    for step in choices(scan, "step") {
        for ty in choices(scan, "type") {
            for by in choices(scan, "by") {
                let each = choices(scan, "kind").into_iter();
                cases.extend(each.map(|kind| [&*step, &ty, &by, &kind].map(str::to_owned)));
            }
        }
    }
    for [step, ty, by, kind] in one_in(11, cases) {
        let settings = [("step", &*step), ("type", &*ty), ("by", &*by), ("kind", &*kind), ("length", "5003")];
        if by != "sum" || !matches!(ty.as_str(), "f16" | "bf16") || step == "single-pass" {
            SUITE.expect_right(scan, &device, &settings);
        } else {
            let workload = with(scan, &settings);
            assert_eq!(SUITE.attempt(&*workload, &device), Ok(false), "{workload}");
        }
    }
    let (sort, mut cases) = (SUITE.named("sort-ladder"), Vec::new());
    for step in choices(sort, "step") {
        for values in choices(sort, "values") {
            for order in choices(sort, "order") {
                for direction in choices(sort, "direction") {
                    let each = ["u8", "f32", "i64"];
                    cases.extend(each.map(|ty| [&*step, &values, &order, &direction, ty].map(str::to_owned)));
                }
            }
        }
    }
    for [step, values, order, direction, ty] in one_in(11, cases) {
        let settings = [
            ("step", &*step),
            ("values", &*values),
            ("order", &*order),
            ("direction", &*direction),
            ("type", &*ty),
            ("length", "9001"),
        ];
        SUITE.expect_right(sort, &device, &settings);
    }
}

/// The first tile of a row so long that rounding its length up to whole tiles leaves 32 bits: no
/// test has the memory for all of it.
#[test]
fn tiles_of_the_longest_rows() {
    let device = device("emu:h200");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    let a = device.buffer_from(&(1..=32).collect::<Vec<u8>>()).expect("memory");
    for way in [Step::Naive, Step::Shared, Step::Padded] {
        let mut b = device.zeros::<u8>(32).expect("memory");
        let kernel = operations.kernel(TileLesson { step: way }, TileLesson::run::<u8>).expect("it builds");
        kernel.launch(&stream, 1, (&a, &mut b, 1, u32::MAX - 4)).expect("it runs");
        assert_eq!(
            b.to_vec().expect("a copy to the host"),
            a.to_vec().expect("a copy to the host"),
            "{way:?}"
        );
    }
}
