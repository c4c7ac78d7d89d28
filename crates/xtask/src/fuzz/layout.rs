//! Layout expressions: random ones of the grammar, and the examples of all operations, changed.

use warpwright_harness::Random;
use warpwright_layout::expression::{OPERATIONS, evaluate};
use warpwright_layout::picture::{Options, Together, svg, text};

use super::Target;
use super::mutate::{mutate, number, once_in, one};

pub(super) struct Layouts;

/// A value is drawn if the length of its text is a multiple of this number. A picture takes longer
/// than its value.
const DRAWN: u64 = 32;

impl Target for Layouts {
    fn make(&self, random: &mut Random) -> String {
        let text = if once_in(random, 4) { example(random) } else { expression(random, 3) };
        if !once_in(random, 3) {
            return text;
        }
        let names: Vec<String> = OPERATIONS.iter().map(|operation| operation.name.to_owned()).collect();
        mutate(random, &text, &names)
    }

    fn read(&mut self, case: &str) -> Result<(), String> {
        let value = evaluate(case).map_err(|error| {
            let _ = error.summary();
            error.to_string()
        })?;
        let shown = value.to_string();
        let _ = format!("{value:#}");
        if (shown.len() as u64).is_multiple_of(DRAWN) {
            let options = Options { element_bits: 16, together: Together::Rows, coordinates: true };
            text(&value, &options).and_then(|_| svg(&value, &options)).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn example(random: &mut Random) -> String {
    one(random, OPERATIONS).example.0.to_owned()
}

fn expression(random: &mut Random, depth: u64) -> String {
    if depth == 0 {
        return layout(random);
    }
    match random.below(12) {
        0..4 => layout(random),
        4 => format!("{} o {}", swizzle(random), expression(random, depth - 1)),
        5 => format!("{} o {}", expression(random, depth - 1), expression(random, depth - 1)),
        6 => format!("({})({})", expression(random, depth - 1), coordinate(random)),
        7 => format!("<{},{}>", expression(random, depth - 1), expression(random, depth - 1)),
        8 => example(random),
        _ => call(random, depth - 1),
    }
}

fn call(random: &mut Random, depth: u64) -> String {
    let name = one(random, OPERATIONS).name;
    let parameters = match random.below(4) {
        0 => format!("<{}>", number(random)),
        _ => String::new(),
    };
    let argument = |random: &mut Random| match random.below(4) {
        0 => tuple(random, 2),
        1 => number(random),
        _ => expression(random, depth),
    };
    let arguments: Vec<_> = (0..=random.below(3)).map(|_| argument(random)).collect();
    format!("{name}{parameters}({})", arguments.join(", "))
}

fn layout(random: &mut Random) -> String {
    let (shape, stride) = congruent(random, 2);
    match random.below(8) {
        0 => shape,
        1 => format!("{shape}:{}", tuple(random, 2)),
        _ => format!("{shape}:{stride}"),
    }
}

/// Two tuples of the same profile.
fn congruent(random: &mut Random, depth: u64) -> (String, String) {
    if depth == 0 || once_in(random, 2) {
        let stride = if once_in(random, 16) { "e0".to_owned() } else { number(random) };
        return (extent(random), stride);
    }
    let modes: Vec<_> = (0..=random.below(3)).map(|_| congruent(random, depth - 1)).collect();
    let (shapes, strides): (Vec<_>, Vec<_>) = modes.into_iter().unzip();
    (format!("({})", shapes.join(",")), format!("({})", strides.join(",")))
}

fn extent(random: &mut Random) -> String {
    match random.below(24) {
        0 => "m".to_owned(),
        1 => format!("_{}", number(random)),
        _ => number(random),
    }
}

fn tuple(random: &mut Random, depth: u64) -> String {
    congruent(random, depth).0
}

fn coordinate(random: &mut Random) -> String {
    let leaf = |random: &mut Random| if once_in(random, 3) { "_".to_owned() } else { number(random) };
    (0..=random.below(3)).map(|_| leaf(random)).collect::<Vec<_>>().join(",")
}

fn swizzle(random: &mut Random) -> String {
    format!("Swizzle<{},{},{}>", number(random), number(random), number(random))
}
