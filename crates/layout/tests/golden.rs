//! Fixed checks: expressions with the values they must have, and whole lines of the plain language.

use warpwright_layout::expression::{OPERATIONS, evaluate_plain};

fn plain(line: &str) -> String {
    evaluate_plain(line).unwrap_or_else(|error| format!("error: {}", error.summary()))
}

#[test]
fn the_algebra_gives_what_it_gave() {
    let mut checked = 0;
    for line in include_str!("golden/algebra.txt").lines().filter(|line| !line.starts_with('#')) {
        let (expression, value) = line.rsplit_once(" = ").unwrap();
        assert_eq!(plain(expression), value, "{expression}");
        checked += 1;
    }
    assert!(checked >= 2_000, "{checked} checks");
}

/// Cases in which widely used implementations of the algebra break their own post-conditions.
#[test]
fn where_others_err() {
    // Composition past a mode that does not divide, and carries between modes: refused, not cut
    // short.
    for line in ["composition((4,6):(1,100), 6)", "composition((4,6):(1,100), (2,2):(1,3))"] {
        assert!(plain(line).starts_with("error: composition is not a layout"), "{line}");
    }
    // ...but what is a layout is found, though no mode divides another.
    assert_eq!(plain("composition((5,4):(1,100), 4:3)"), "(2,2):(3,101)");
    // A product by an integer repeats; it does not divide.
    assert_eq!(plain("logical_product(4:1, 3)"), "(4,3):(1,4)");
    assert_eq!(plain("logical_product(5:2, 3)"), "(5,3):(2,9)");
    // A complement reaches the size it was asked for, and never has an empty mode.
    assert_eq!(plain("complement((2,4):(1,3), 48)"), "5:12");
    assert_eq!(plain("complement((2,3):(3,2), 2)"), "1:8");
    // A left inverse leads back across gaps that no stride divides, and from broadcasts.
    assert_eq!(plain("left_inverse((2,2):(1,5))"), "(5,2):(1,2)");
    assert_eq!(plain("left_inverse((2,4):(0,1))"), "4:2");
    // Past a last mode of extent 1, that mode is what runs on.
    assert_eq!(plain("composition((4,1):(1,99), 8)"), "(4,2):(1,99)");
    // blocked_product keeps its modes apart.
    assert_eq!(plain("blocked_product((2,2):(1,2),(2,2):(1,2))"), "((2,2),(2,2)):((1,4),(2,8))");
}

/// Text of no sense at all is answered with one line, whatever it is.
#[test]
fn no_line_panics() {
    let pieces = [
        "(",
        ")",
        ",",
        ":",
        "4",
        "-1",
        "_",
        "o",
        "<",
        ">",
        "composition(",
        "Swizzle<3,",
        "m",
        "@",
        "1@0",
        "size",
        "*",
        "%0",
        "9999999999",
        "é",
    ];
    let mut state = 1u64;
    for _ in 0..20_000 {
        let mut line = String::new();
        for _ in 0..(state >> 60) + 2 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            line.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        assert!(!plain(&line).contains('\n'), "{line}");
    }
}

/// Every operation on numbers it was not made for: zero, negative, and near the end of 64 bits.
#[test]
fn no_number_panics() {
    let numbers = [
        "0",
        "1",
        "2",
        "3",
        "6",
        "-1",
        "-2",
        "-4",
        "_",
        "m",
        "4611686018427387904",
        "9223372036854775807",
        "-9223372036854775807",
        "2147483648",
        "3037000500",
    ];
    let mut state = 7u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for operation in OPERATIONS {
        for _ in 0..400 {
            let mut line = String::new();
            let mut digits = false;
            for character in operation.example.0.chars() {
                if !character.is_ascii_digit()
                    || line.ends_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                {
                    line.push(character);
                    digits = false;
                } else if !digits {
                    let keep = next(3) > 0;
                    line.push_str(if keep { "4" } else { numbers[next(numbers.len())] });
                    digits = true;
                }
            }
            assert!(!plain(&line).contains('\n'), "{line}");
        }
    }
}
