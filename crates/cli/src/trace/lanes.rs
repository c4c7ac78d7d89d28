//! Which lanes of a warp execute each line: how a warp diverges and reconverges.

use std::fmt::Write;
use std::ops::Range;

use serde_json::{Value, json};
use warpwright_runtime::{Prediction, SourceFiles, Track};

use super::place;

/// Instructions of one line that follow one another in the same lanes.
struct Step<'a> {
    cta: u32,
    warp: u32,
    /// From the cycle in which the first of them can issue on.
    cycles: (u64, u64),
    lanes: u32,
    place: String,
    file: Option<&'a str>,
    line: u32,
    /// The first of the instructions.
    instruction: &'a str,
    instructions: u32,
}

/// The steps of the warps that are shown, warp by warp.
fn steps<'a>(prediction: &'a Prediction, cycles: &Range<u64>, warps: Option<&Range<u64>>) -> Vec<Step<'a>> {
    let mut slices: Vec<_> = prediction.timeline.iter().collect();
    slices.sort_by_key(|slice| (slice.track, slice.cycles));
    let mut steps: Vec<Step<'a>> = Vec::new();
    for slice in slices {
        let Track::Warp { cta, warp } = slice.track else { continue };
        let is_shown = warps.is_none_or(|warps| warps.contains(&warp.into()));
        if !is_shown || slice.cycles.1 <= cycles.start || slice.cycles.0 >= cycles.end {
            continue;
        }
        let instruction = &prediction.instructions[slice.instruction as usize];
        let (file, line) = match &instruction.source {
            Some(source) => (Some(&*source.file), source.line),
            None => (None, instruction.ptx_line),
        };
        match steps.last_mut() {
            Some(last)
                if (last.cta, last.warp, last.lanes, last.file, last.line)
                    == (cta, warp, slice.lanes, file, line) =>
            {
                last.cycles.1 = slice.cycles.1;
                last.instructions += 1;
            }
            _ => steps.push(Step {
                cta,
                warp,
                cycles: slice.cycles,
                lanes: slice.lanes,
                place: place(instruction),
                file,
                line,
                instruction: &instruction.text,
                instructions: 1,
            }),
        }
    }
    steps
}

/// A sign for each lane, lane 0 first.
fn signs(lanes: u32) -> String {
    (0..32).map(|lane| if lanes >> lane & 1 != 0 { '#' } else { '.' }).collect()
}

pub(super) fn text(
    prediction: &Prediction,
    cycles: &Range<u64>,
    warps: Option<&Range<u64>>,
    files: &mut SourceFiles,
) -> String {
    let mut text = String::new();
    let mut before = None;
    for step in steps(prediction, cycles, warps) {
        if before != Some((step.cta, step.warp)) {
            before = Some((step.cta, step.warp));
            let _ = writeln!(
                text,
                "\n{}, CTA {}, warp {}\n{:>7}  {:<32}  {:<10}  line",
                prediction.kernel, step.cta, step.warp, "cycle", "lanes 0 to 31", "mask"
            );
        }
        let source = step.file.and_then(|file| files.line(file, step.line)).unwrap_or(step.instruction);
        let _ = writeln!(
            text,
            "{:>7}  {}  {:#010x}  {:<20} {}",
            step.cycles.0,
            signs(step.lanes),
            step.lanes,
            step.place,
            source.trim()
        );
    }
    text
}

pub(super) fn as_json(
    prediction: &Prediction,
    cycles: &Range<u64>,
    warps: Option<&Range<u64>>,
) -> Vec<Value> {
    let step = |step: Step<'_>| {
        json!({
            "cta": step.cta,
            "warp": step.warp,
            "cycles": [step.cycles.0, step.cycles.1],
            "mask": step.lanes,
            "place": step.place,
            "instruction": step.instruction,
            "instructions": step.instructions,
        })
    };
    steps(prediction, cycles, warps).into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn lane_0_is_at_the_left() {
        assert_eq!(super::signs(0x8000_0005), "#.#............................#");
    }
}
