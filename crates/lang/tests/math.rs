//! The mathematical functions on the emulator, compared with f64 on the host. `xtask math` compares
//! them for all 2^32 arguments on any device.

use warpwright_lang::math::table::FUNCTIONS;
use warpwright_testing::math::{arguments, reference, ulp_error_f32};

use crate::narrow::run;

#[test]
fn functions_of_f32_keep_their_bounds() {
    let mut arguments = arguments(4);
    arguments.resize(arguments.len().next_multiple_of(256), 0);
    let pairs: Vec<(f32, f32)> = arguments.iter().map(|bits| (f32::from_bits(*bits), 0.0)).collect();
    let mut wrong = Vec::new();
    for function in FUNCTIONS {
        let exact = reference(function.name);
        let found = run(&pairs, |x, _| (function.record)(x));
        let errors = pairs.iter().zip(found).map(|((x, _), bits)| {
            let found = f32::from_bits(bits as u32);
            (ulp_error_f32(found, exact(f64::from(*x))), *x, found)
        });
        let (error, x, found) = errors.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are arguments");
        if error > function.ulp {
            let expected = exact(f64::from(x));
            wrong.push(format!("{}({x:e}) is {found:e}, not {expected:e}: {error:.2} ulp", function.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_lists_the_functions() {
    let page = include_str!("../../../docs/math.md");
    for function in FUNCTIONS {
        let cuda = function.cuda.map_or("-".to_owned(), |bound| bound.to_string());
        let row = format!("| `{}` | {} | {cuda} |", function.name, function.ulp);
        assert!(page.contains(&row), "docs/math.md lacks {row}");
    }
}
