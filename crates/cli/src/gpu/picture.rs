//! Pictures of an SM and of a die, from the tables.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use warpwright_arch::{Arch, Die};

/// The width of a picture, and the margin around it.
const WIDTH: u32 = 720;
const MARGIN: u32 = 16;
/// Colors of lanes, tensor cores, registers, shared memory and disabled SMs.
const LANE: &str = "#8fbf8f";
const TENSOR: &str = "#e2a35c";
const REGISTERS: &str = "#9bb8d9";
const MEMORY: &str = "#c9b3dd";
const DISABLED: &str = "#e4e4e4";

/// A document that grows from the top to the bottom.
struct Drawing {
    body: String,
    bottom: u32,
}

impl Drawing {
    fn new(title: &str) -> Self {
        let mut drawing = Self { body: String::new(), bottom: MARGIN + 32 };
        drawing.text(MARGIN, MARGIN + 18, 20, title);
        drawing
    }

    fn rect(&mut self, [x, y, width, height]: [u32; 4], fill: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\" stroke=\"#444\"/>"
        );
        self.bottom = self.bottom.max(y + height);
    }

    fn text(&mut self, x: u32, y: u32, size: u32, text: &str) {
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\">{text}</text>");
        self.bottom = self.bottom.max(y + 6);
    }

    /// A box with its text inside.
    fn labeled(&mut self, rect: [u32; 4], fill: &str, text: &str) {
        self.rect(rect, fill);
        let [x, y, _, height] = rect;
        self.text(x + 8, y + height / 2 + 5, 15, text);
    }

    fn finish(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{0}\" \
             viewBox=\"0 0 {WIDTH} {0}\" font-family=\"sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{1}</svg>\n",
            self.bottom + MARGIN,
            self.body
        )
    }
}

/// One SM: its partitions, and the memory that they share.
pub(super) fn sm(arch: &Arch) -> String {
    let capability = arch.capability;
    let partitions = capability.partitions_per_sm;
    let mut drawing = Drawing::new(&format!("One SM of the {} ({} of them)", arch.product, arch.sm_count));
    let width = (WIDTH - 3 * MARGIN) / 2;
    let top = drawing.bottom;
    let mut height = 0;
    for index in 0..partitions {
        let at = [MARGIN + index % 2 * (width + MARGIN), top + index / 2 * (height + MARGIN)];
        height = partition(&mut drawing, arch, at, width);
    }
    let mut y = drawing.bottom + MARGIN;
    let whole = WIDTH - 2 * MARGIN;
    let shared = format!(
        "shared memory and L1 cache: at most {} KiB shared, 32 banks of 4 bytes",
        capability.shared_bytes_per_sm >> 10
    );
    drawing.labeled([MARGIN, y, whole, 44], MEMORY, &shared);
    if capability.tensor_memory_columns > 0 {
        y += 44 + MARGIN;
        let text =
            format!("tensor memory: 128 lanes x {} columns of 4 bytes", capability.tensor_memory_columns);
        drawing.labeled([MARGIN, y, whole, 44], MEMORY, &text);
    }
    y = drawing.bottom + 24;
    let resident = format!(
        "holds up to {} warps ({} threads) in up to {} CTAs",
        capability.warps_per_sm, capability.threads_per_sm, capability.ctas_per_sm
    );
    drawing.text(MARGIN, y, 15, &resident);
    drawing.finish()
}

/// One partition; returns its height.
fn partition(drawing: &mut Drawing, arch: &Arch, [x, y]: [u32; 2], width: u32) -> u32 {
    /// Lanes in a row, the side of a lane, and the height of a line.
    const ROW: u32 = 16;
    const SIDE: u32 = 19;
    const LINE: u32 = 34;
    let capability = arch.capability;
    let partitions = capability.partitions_per_sm;
    let lanes = arch.f32_per_sm_clock / partitions;
    let rows = lanes.div_ceil(ROW);
    let tensor_cores = capability.tensor_cores_per_partition();
    let height = 8 + 2 * (LINE + 6) + 22 + rows * SIDE + 10 + 44 + 8;
    drawing.rect([x, y, width, height], "#f7f7f2");
    let (inner, left) = (width - 16, x + 8);
    let mut top = y + 8;
    drawing.labeled([left, top, inner, LINE], "#ffffff", "scheduler: 1 instruction of 1 warp a clock");
    top += LINE + 6;
    let registers = format!("{} registers of 32 bits", capability.registers_per_sm / partitions);
    drawing.labeled([left, top, inner, LINE], REGISTERS, &registers);
    top += LINE + 6;
    drawing.text(left, top + 14, 15, &format!("{lanes} f32 lanes"));
    top += 22;
    for lane in 0..lanes {
        drawing.rect([left + lane % ROW * SIDE, top + lane / ROW * SIDE, SIDE - 3, SIDE - 3], LANE);
    }
    top += rows * SIDE + 10;
    let each = inner / tensor_cores;
    let rate = arch.tensor.f16 / partitions / tensor_cores;
    for core in 0..tensor_cores {
        let text = match tensor_cores {
            1 => format!("tensor core: {rate} f16 multiply-adds a clock"),
            _ => format!("tensor core: {rate} f16"),
        };
        drawing.labeled([left + core * each, top, each - 2, 44], TENSOR, &text);
    }
    height
}

/// The whole die: SMs in TPCs in GPCs, the L2 cache, device memory.
pub(super) fn die(arch: &Arch) -> Result<String> {
    let die = arch.die().ok_or_else(|| {
        anyhow!("the die of {} is not described; `--svg` without `--die` draws one of its SMs", arch.name)
    })?;
    let mut drawing = Drawing::new(&format!(
        "{}: {} GPCs, {} SMs; {} has {}",
        die.name,
        die.gpcs,
        die.sm_count(),
        arch.product,
        arch.sm_count
    ));
    let columns = die.gpcs.div_ceil(2).min(6);
    let width = (WIDTH - MARGIN) / columns - MARGIN;
    let side = ((width - 12) / 4).min(30);
    let per_row = (width - 12) / side / Die::SMS_PER_TPC * Die::SMS_PER_TPC;
    let sms = die.tpcs_per_gpc * Die::SMS_PER_TPC;
    let height = 30 + sms.div_ceil(per_row) * side + 6;
    let whole = WIDTH - 2 * MARGIN;
    let mut y = drawing.bottom;
    for half in 0..2 {
        for column in 0..columns {
            let gpc = half * columns + column;
            if gpc < die.gpcs {
                let x = MARGIN + column * (width + MARGIN);
                drawing.rect([x, y, width, height], "#f7f7f2");
                drawing.text(x + 6, y + 20, 14, &format!("GPC {gpc}"));
                for sm in 0..sms {
                    // Which SMs are disabled differs from one chip to the next: here they are the last of each GPC.
                    let of_gpc = arch.sm_count / die.gpcs + u32::from(gpc < arch.sm_count % die.gpcs);
                    let fill = if sm < of_gpc { LANE } else { DISABLED };
                    let at = [x + 6 + sm % per_row * side, y + 28 + sm / per_row * side, side - 3, side - 3];
                    drawing.rect(at, fill);
                }
            }
        }
        y += height + MARGIN;
        if half == 0 {
            let l2 = format!("L2 cache: {:.1} MiB", arch.l2_bytes as f64 / f64::from(1 << 20));
            drawing.labeled([MARGIN, y, whole, 40], MEMORY, &l2);
            y += 40 + MARGIN;
        }
    }
    let memory =
        format!("device memory: {} GiB, {:.2} TB/s", arch.global_bytes >> 30, arch.bytes_per_second / 1e12);
    drawing.labeled([MARGIN, y, whole, 40], REGISTERS, &memory);
    y += 40 + 24;
    let text = "a square is an SM; gray ones are disabled, and which these are differs from chip to chip";
    drawing.text(MARGIN, y, 15, text);
    Ok(drawing.finish())
}
