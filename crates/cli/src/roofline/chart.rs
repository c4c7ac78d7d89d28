//! A roofline as a picture: operations per second over operations per byte, both by powers of ten.

use std::fmt::Write;

use warpwright_arch::{Bound, Roof};

use crate::markup::escaped;

use super::{Place, Time, is_memory, is_of, shown, shown_time};

const LEFT: f64 = 70.0;
const TOP: f64 = 56.0;
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
/// Between the baselines of two names of roofs.
const LINE: f64 = 15.0;
/// The width of a letter, at most.
const LETTER: f64 = 7.0;
/// What colors and signs mean.
const LEGEND: &str = "Blue: roofs of what the kernel uses. Gray: roofs of other units. \
                      Ring: the most that the roofs allow. Dot: measured or predicted.";
/// Powers of ten along x: operations per byte.
const X: (f64, f64) = (-2.0, 4.0);
/// Powers of ten along y: operations per second.
const Y: (f64, f64) = (9.0, 16.0);

fn x_of(intensity: f64) -> f64 {
    let power = intensity.max(1e-30).log10().clamp(X.0, X.1);
    LEFT + WIDTH * (power - X.0) / (X.1 - X.0)
}

fn y_of(per_second: f64) -> f64 {
    let power = per_second.max(1e-30).log10().clamp(Y.0, Y.1);
    TOP + HEIGHT * (Y.1 - power) / (Y.1 - Y.0)
}

/// The picture as an SVG document that reads well on light and dark ground.
pub(super) fn svg(title: &str, place: &Place, time: Option<Time>, roofs: &[Roof]) -> String {
    let mut arithmetic: Vec<_> = roofs.iter().filter(|roof| !is_memory(roof.bound)).collect();
    arithmetic.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    // Room for the roofs' names at the right, and for the title above.
    let names = arithmetic.iter().map(|roof| label(roof).chars().count()).max().unwrap_or(0);
    let width = (LEFT + WIDTH + 12.0 + LETTER * names as f64).max(24.0 + 8.0 * title.chars().count() as f64);
    let height = TOP + HEIGHT + 76.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#777\" stroke-linecap=\"round\">\n\
         <text x=\"12\" y=\"22\" font-size=\"14\">{}</text>\n\
         <text x=\"12\" y=\"42\">operations per second</text>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operations per byte of device memory</text>\n\
         <text x=\"{LEFT}\" y=\"{:.1}\">{LEGEND}</text>\n",
        escaped(title),
        LEFT + WIDTH / 2.0,
        TOP + HEIGHT + 40.0,
        TOP + HEIGHT + 62.0,
    );
    grid(&mut svg);
    let memory = place.memory_per_second;
    let slope_start = 10f64.powf(X.0);
    // Where the next name may begin, so that none covers another.
    let mut free = 0.0f64;
    for roof in arithmetic {
        let of_kernel = is_of(roof, place);
        let ridge = roof.per_second / memory;
        let (color, width) = if of_kernel { ("#4a86c5", 2.0) } else { ("#9aa4ad", 0.8) };
        let y = y_of(roof.per_second);
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {y:.1} H{:.1}\" stroke=\"{color}\" stroke-width=\"{width}\" fill=\"none\"/>",
            x_of(ridge),
            LEFT + WIDTH
        );
        let name_y = free.max(y + 4.0);
        free = name_y + LINE;
        let weight = if of_kernel { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{name_y:.1}\"{weight}>{}</text>",
            LEFT + WIDTH + 6.0,
            label(roof)
        );
        if of_kernel {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">ridge {ridge:.1}</text>",
                x_of(ridge),
                y - 6.0
            );
        }
    }
    let highest = roofs.iter().filter(|roof| !is_memory(roof.bound)).map(|roof| roof.per_second);
    let highest = highest.fold(1.0, f64::max);
    let _ = writeln!(
        svg,
        "<path d=\"M{:.1} {:.1} L{:.1} {:.1}\" stroke=\"#4a86c5\" stroke-width=\"2\" fill=\"none\"/>\n\
         <text transform=\"translate({:.1} {:.1}) rotate({:.1})\">device memory: {}</text>",
        x_of(slope_start),
        y_of(slope_start * memory),
        x_of(highest / memory),
        y_of(highest),
        x_of(slope_start) + 20.0,
        y_of(slope_start * memory) - 20.0,
        -(HEIGHT / (Y.1 - Y.0)).atan2(WIDTH / (X.1 - X.0)).to_degrees(),
        shown(Bound::DeviceMemory, memory)
    );
    kernel(&mut svg, place, time);
    svg.push_str("</svg>\n");
    svg
}

/// What stands beside a roof.
fn label(roof: &Roof) -> String {
    let kind = if roof.is_measured { "" } else { " (data sheet)" };
    format!("{}: {}{kind}", roof.bound.name(), shown(roof.bound, roof.per_second))
}

/// A line at each power of ten.
fn grid(svg: &mut String) {
    for power in X.0 as i32..=X.1 as i32 {
        let x = x_of(10f64.powi(power));
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP} V{:.1}\" stroke=\"#8886\" stroke-width=\"0.5\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            TOP + HEIGHT,
            TOP + HEIGHT + 18.0,
            10f64.powi(power)
        );
    }
    for power in Y.0 as i32..=Y.1 as i32 {
        let y = y_of(10f64.powi(power));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1} H{:.1}\" stroke=\"#8886\" stroke-width=\"0.5\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            y + 4.0,
            if power >= 12 {
                format!("{} T", 10f64.powi(power - 12))
            } else {
                format!("{} G", 10f64.powi(power - 9))
            }
        );
    }
}

/// The kernel: the most the roofs allow it, and its time. One without operations of these
/// roofs has no place in the picture, which says so.
fn kernel(svg: &mut String, place: &Place, time: Option<Time>) {
    if place.all_operations() == 0 {
        let taken =
            time.map_or(String::new(), |time| format!("; {}: {}", time.word(), shown_time(time.seconds)));
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#c5543a\">no floating-point or tensor operations: at least {} \
             for {} bytes of device memory{taken}</text>",
            LEFT + 12.0,
            TOP + HEIGHT - 12.0,
            shown_time(place.seconds),
            place.bytes,
        );
        return;
    }
    let least = 10f64.powf(X.0);
    let operations = place.all_operations() as f64;
    let x = x_of(place.intensity().max(least));
    let most = y_of(operations / place.seconds.max(1e-30));
    let _ = writeln!(
        svg,
        "<path d=\"M{x:.1} {:.1} V{most:.1}\" stroke=\"#c5543a\" stroke-width=\"1\" stroke-dasharray=\"3 4\"/>\n\
         <circle cx=\"{x:.1}\" cy=\"{most:.1}\" r=\"5\" fill=\"none\" stroke=\"#c5543a\" stroke-width=\"2\">\
         <title>the most that the roofs allow</title></circle>",
        TOP + HEIGHT
    );
    if let Some(time) = time {
        let y = y_of(operations / time.seconds);
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"#c5543a\"><title>{}: {}</title></circle>",
            time.word(),
            shown_time(time.seconds)
        );
    }
}

#[cfg(test)]
mod tests {
    use warpwright_arch::Arch;

    use super::*;

    fn drawn(place: &Place, seconds: Option<f64>) -> String {
        let time = seconds.map(|seconds| Time { seconds, is_predicted: false });
        svg("a < b", place, time, &Arch::named("h200").expect("in the table").roofs())
    }

    #[test]
    fn the_kernel_stands_at_its_intensity_under_its_roof() {
        // 100 operations per byte, at the memory's speed.
        let (bytes, seconds) = (4_260_000, 1e-6);
        let place = Place {
            operations: vec![(Bound::TensorBf16, 100 * bytes)],
            bytes,
            read_bytes: bytes,
            memory_per_second: 4.26e12,
            l2_bytes: bytes,
            seconds,
            limit: Bound::DeviceMemory,
        };
        let svg = drawn(&place, Some(2.0 * seconds));
        assert!(svg.contains("a &lt; b") && svg.contains("measured: 2.000 us"), "{svg}");
        // Four of six powers of ten along x, and log10(4.26e14) along y.
        let (x, y) = (LEFT + WIDTH * 4.0 / 6.0, TOP + HEIGHT * (16.0 - 4.26e14f64.log10()) / 7.0);
        assert!(svg.contains(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\"")), "{svg}");
        assert!(svg.contains("bold\">tensor bf16: 837.10 TOP/s<"), "{svg}");
        assert!(svg.contains("\">f64: ") && svg.contains(">ridge 196.5<"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), svg.matches("</circle>").count());
    }

    #[test]
    fn a_kernel_that_computes_nothing_has_no_point() {
        let place = Place {
            operations: Vec::new(),
            bytes: 4_260_000,
            read_bytes: 2_130_000,
            memory_per_second: 4.26e12,
            l2_bytes: 0,
            seconds: 1e-6,
            limit: Bound::DeviceMemory,
        };
        let svg = drawn(&place, None);
        assert!(svg.contains("no floating-point or tensor operations: at least 1.000 us"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 0);
    }
}
