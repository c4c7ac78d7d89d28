//! Mistakes that are found while a kernel is built: what is said of each, and where.

use warpwright_lang::pointer::Global;
use warpwright_lang::shared::shared_array;
use warpwright_lang::space::SharedSpace;
use warpwright_lang::tensor::Tensor;
use warpwright_lang::value::constant;
use warpwright_lang::{DeviceValue, Reg, StagingErrors, device, kernel, launch};
use warpwright_layout::Layout;

/// Values that no derive makes device values.
#[derive(Clone, Copy)]
struct Plain {
    sum: Reg<u32>,
}

#[derive(Clone, Copy, DeviceValue)]
struct Counted {
    sum: Reg<u32>,
    count: u32,
}

fn replace(place: &mut Reg<u32>, value: Reg<u32>) {
    *place = value;
}

fn shared_tile() -> Tensor<f32, SharedSpace> {
    Tensor::with_layout(shared_array(64 * 4), Layout::row_major((4, 64)))
}

fn fallible(fails: bool) -> Result<u32, String> {
    if fails { Err("no such tile".to_owned()) } else { Ok(3) }
}

#[device]
fn attempt(x: Reg<u32>) -> Result<Reg<u32>, String> {
    let mut y = x;
    if x < 3 {
        y = x + fallible(true)?;
    }
    Ok(y)
}

#[device]
fn limit(x: Reg<u32>) -> u32 {
    if x < 3 {
        return 3;
    }
    5
}

#[device]
fn count_unless_small(x: Reg<u32>, count: &mut u32) {
    if x < 3 {
        return;
    }
    *count += 1;
}

#[device]
fn of_two_lengths(x: Reg<u32>) -> Vec<Reg<u32>> {
    if x < 3 {
        return vec![x];
    }
    vec![x, x]
}

macro_rules! mistakes {
    ($($name:ident($($parameter:ident: $ty:ty),*) $body:block)*) => {
        $(#[kernel] #[allow(unused)] fn $name($($parameter: $ty),*) $body)*

        #[test]
        fn mistakes_are_explained() {
            let mut all = String::new();
            $(
                let errors = $name().err().unwrap_or_else(|| panic!("{} has no mistake", stringify!($name)));
                all.push_str(&format!("== {}\n{}\n\n", stringify!($name).replace('_', " "), shown(&errors)));
            )*
            insta::assert_snapshot!("mistakes", all);
        }
    };
}

/// The message without line numbers, which change with this file.
fn shown(errors: &StagingErrors) -> String {
    let mut shown = String::new();
    for line in errors.to_string().lines() {
        let margin =
            |text: &str| text.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).to_owned();
        let line = match line.split_once("-->").or(line.split_once(":::")) {
            Some((_, position)) => {
                let column = position.rsplit(':').next().unwrap_or_default();
                assert!(position.contains("mistakes.rs:"), "{line}");
                format!("  --> column {column}")
            }
            None if line.contains(" |") => format!("  {}", margin(line)),
            None => line.to_owned(),
        };
        shown.push_str(line.trim_end());
        shown.push('\n');
    }
    shown
}

mistakes! {
    build_time_variable_under_a_condition(n: u32) {
        let mut count = 0;
        if n < 3 {
            count = 1;
        }
        if n > 5 {
            count += 1;
        }
    }

    build_time_variable_in_a_device_loop(n: u32) {
        let mut count = 0;
        for i in 0..n {
            count += 1;
        }
        while n < 3 {
            count = 2;
        }
        loop {
            count += 1;
            if n == 3 {
                break;
            }
        }
    }

    collection_under_a_condition(n: u32) {
        let mut values = Vec::new();
        values.push(n);
        if n < 3 {
            values.push(n);
        }
        for i in 0..n {
            values.insert(0, i);
        }
    }

    presence_under_a_condition(n: u32) {
        let mut best = None;
        if n < 3 {
            best = Some(n);
        }
    }

    break_out_of_a_build_time_loop(n: u32) {
        for i in 0..4 {
            if n == i {
                break;
            }
        }
        let mut i = 0;
        while i < 4 {
            i += 1;
            if n == i {
                continue;
            }
        }
    }

    break_out_of_an_outer_build_time_loop(n: u32) {
        'tiles: for i in 0..4 {
            for j in 0..n {
                if j == i {
                    break 'tiles;
                }
            }
        }
    }

    build_time_value_returned_on_a_condition(n: u32) {
        let size = limit(n);
    }

    build_time_change_after_a_conditional_return(n: u32) {
        let mut count = 0;
        count_unless_small(n, &mut count);
    }

    returned_values_of_two_shapes(n: u32) {
        let values = of_two_lengths(n);
    }

    value_used_after_its_branch(n: u32) {
        let mut x = n;
        if n < 3 {
            replace(&mut x, n + 1);
        }
        let y = x + 1;
    }

    loop_that_assigns_through_a_closure(n: u32) {
        let mut sum = n;
        let mut add = |x: Reg<u32>| sum += x;
        for i in 0..n {
            add(i);
        }
    }

    struct_of_no_device_values_in_a_loop(n: u32) {
        let mut state = Plain { sum: n };
        for i in 0..n {
            state.sum += i;
        }
    }

    build_time_field_under_a_condition(n: u32) {
        let mut state = Counted { sum: n, count: 0 };
        if n < 3 {
            state.sum += 1;
            state.count += 1;
        }
        if n > 7 {
            state = Counted { sum: n, count: 9 };
        }
    }

    endless_build_time_loop() {
        let mut count = 0;
        loop {
            count += 1;
        }
    }

    condition_that_becomes_a_device_value(n: u32) {
        let mut count = 0;
        loop {
            count += 1;
            if count == 3 && n == 5 {
                break;
            }
        }
    }

    step_by_zero(n: u32) {
        for i in (0..n).step_by(0) {}
    }

    two_steps(n: u32) {
        for i in (0..n).step_by(2).step_by(3) {}
    }

    branches_of_two_shapes(n: u32) {
        let values = if n < 3 { vec![n] } else { vec![n, n] };
        let state = if n < 3 { Counted { sum: n, count: 1 } } else { Counted { sum: n, count: 2 } };
    }

    question_mark_under_a_condition(n: u32) {
        let result = attempt(n);
    }

    loop_that_ends_with_a_build_time_value(n: u32) {
        let mut i = n;
        let found = loop {
            i += 1;
            if i > 7 {
                break "found";
            }
        };
    }

    build_time_panic(n: u32) {
        let sizes = [1, 2, 3];
        let size = sizes.iter().find(|size| **size == 4).expect("a tile of 4 rows is needed");
    }

    device_index_into_an_array(n: u32) {
        let mut values = [n, n + 1];
        let x = values[n];
        values[n] = x;
        let rows = vec![values; 2];
        let row = rows[n];
    }

    device_index_into_tensors(n: u32) {
        let tiles = [shared_tile(), shared_tile()];
        let y = tiles[n % 2].get((0, n));
        let sizes = [16u32, 32];
        let size = sizes[n];
    }

    launch_bounds() {
        launch::required_block(64, 32, 1);
        launch::blocks_per_sm(0);
        launch::maximum_registers(256);
        launch::cluster(4, 4, 4);
    }

    panics_under_a_condition(n: u32) {
        let mut x = n;
        if n > 3 {
            x += 1;
            panic!("too large");
        }
        x -= 1;
    }

    panics_in_a_loop(n: u32) {
        for i in 0..n {
            unreachable!();
        }
    }

    write_to_an_input(input: &Global<f32>) {
        input[0] = 1.0;
    }

    several_mistakes(n: u32) {
        let mut count = 0;
        let mut names = Vec::new();
        if n < 3 {
            count = 1;
            names.push("small");
        } else {
            count = 2;
        }
    }
}

#[test]
fn messages_name_nothing_of_the_expansion() {
    let snapshot = include_str!("snapshots/it__mistakes__mistakes.snap");
    for name in
        ["staging", "Frame", "Branch", "recorder", "RegionId", "region", "__rounds", "Assigned", "Variable("]
    {
        assert!(!snapshot.contains(name), "a message mentions {name}");
    }
}

#[test]
fn device_values_need_a_kernel() {
    let message = std::panic::catch_unwind(|| constant(1u32).register()).unwrap_err();
    let message = message.downcast_ref::<&str>().copied().unwrap_or_default();
    insta::assert_snapshot!(message, @"device values exist only while a kernel is being built; call this from a #[kernel] or a function it calls");
}
