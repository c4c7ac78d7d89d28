//! Occupancy as three curves: against threads, registers and shared memory.

use std::fmt::Write;

use warpwright_arch::{Capability, KernelResources};

/// The plot of one curve, and the space left of and below it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 64.0;
const PITCH: f64 = 232.0;
const TOP: f64 = 34.0;

/// One resource that varies; the others stay as the kernel has them.
struct Axis {
    name: &'static str,
    most: u32,
    step: u32,
    own: u32,
    with: fn(&KernelResources, u32) -> KernelResources,
}

fn axes(capability: &Capability, kernel: &KernelResources) -> [Axis; 3] {
    [
        Axis {
            name: "threads per CTA",
            most: capability.threads_per_cta,
            step: capability.warp_size,
            own: kernel.threads_per_cta,
            with: |kernel, threads_per_cta| KernelResources { threads_per_cta, ..*kernel },
        },
        Axis {
            name: "registers per thread",
            most: capability.registers_per_thread,
            step: 1,
            own: kernel.registers_per_thread,
            with: |kernel, registers_per_thread| KernelResources { registers_per_thread, ..*kernel },
        },
        Axis {
            name: "KiB of shared memory per CTA",
            most: capability.shared_bytes_per_cta_opt_in,
            step: 1024,
            own: kernel.shared_bytes,
            with: |kernel, shared_bytes| KernelResources { shared_bytes, ..*kernel },
        },
    ]
}

/// The warps of an SM; 0 where no CTA fits.
fn warps(capability: &Capability, kernel: &KernelResources) -> u32 {
    capability.occupancy(kernel).map_or(0, |found| found.warps_per_sm)
}

/// The three curves as an SVG document; a dot marks the kernel.
pub(super) fn svg(capability: &Capability, kernel: &KernelResources) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"720\" viewBox=\"0 0 720 720\" \
         font-family=\"sans-serif\" font-size=\"15\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
    );
    for (axis, top) in axes(capability, kernel).iter().zip([TOP, TOP + PITCH, TOP + 2.0 * PITCH]) {
        curve(&mut svg, capability, kernel, axis, top);
    }
    svg.push_str("</svg>\n");
    svg
}

fn curve(svg: &mut String, capability: &Capability, kernel: &KernelResources, axis: &Axis, top: f64) {
    let most_warps = capability.warps_per_sm;
    let x_of = |value: u32| LEFT + WIDTH * f64::from(value) / f64::from(axis.most);
    let y_of = |warps: u32| top + HEIGHT * (1.0 - f64::from(warps) / f64::from(most_warps));
    let bottom = y_of(0);
    for quarter in 0..=4 {
        let warps = most_warps * quarter / 4;
        let y = y_of(warps);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1} H{:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{warps}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            y + 5.0
        );
    }
    let unit = if axis.step == 1024 { 1024 } else { 1 };
    for part in 0..=4 {
        let value = axis.most * part / 4 / axis.step * axis.step;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x_of(value),
            bottom + 20.0,
            value / unit
        );
    }
    let mut path = String::new();
    let mut before = None;
    for value in (axis.step..=axis.most).step_by(axis.step as usize) {
        let here = warps(capability, &(axis.with)(kernel, value));
        let (x, y) = (x_of(value), y_of(here));
        path += &match before {
            None => format!("M{x:.1} {y:.1}"),
            // Registers and shared memory change in steps; threads are points of a curve.
            Some(_) if axis.step == capability.warp_size => format!(" L{x:.1} {y:.1}"),
            Some(before) if before != here => format!(" H{x:.1} V{y:.1}"),
            Some(_) => String::new(),
        };
        before = Some(here);
    }
    let own = warps(capability, kernel);
    let _ = writeln!(
        svg,
        "<path d=\"{path} L{:.1} {:.1}\" fill=\"none\" stroke=\"#3a6ea5\" stroke-width=\"2.5\"/>\n\
         <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"6\" fill=\"#c0392b\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}; the dot is the kernel, {own} warps</text>\n\
         <text x=\"{LEFT}\" y=\"{:.1}\">warps on an SM</text>",
        x_of(axis.most),
        y_of(before.unwrap_or(0)),
        x_of(axis.own),
        y_of(own),
        LEFT + WIDTH / 2.0,
        bottom + 42.0,
        axis.name,
        top - 12.0
    );
}
