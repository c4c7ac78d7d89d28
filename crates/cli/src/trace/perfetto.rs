//! A trace in the JSON format of Chrome and Perfetto.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use warpwright_runtime::{Prediction, Stall, Track};

use super::place;

/// The trace of launches, one after another.
pub(super) fn trace(predictions: &[Prediction]) -> Value {
    json!({"displayTimeUnit": "ns", "traceEvents": events(predictions)})
}

/// The process and the thread that a track is in a trace, with their names.
fn lane(track: Track) -> (u64, u64, String, String) {
    let (process, thread) = match track {
        Track::Warp { cta, warp } => (u64::from(cta), warp.into()),
        Track::Copies { sm } => (1 << 20 | u64::from(sm), 100),
        Track::TensorCore { sm, partition } => (1 << 20 | u64::from(sm), partition.into()),
    };
    let (process_name, thread_name) = super::names(track);
    (process, thread, process_name, thread_name)
}

/// The events of all launches, one after another, in microseconds.
fn events(predictions: &[Prediction]) -> Vec<Value> {
    let mut events = Vec::new();
    let mut lanes = BTreeSet::new();
    let mut start = 0.0;
    for prediction in predictions {
        let at = |cycles: u64| start + cycles as f64 / prediction.clock_mhz;
        for (index, slice) in prediction.timeline.iter().enumerate() {
            let (process, thread, process_name, thread_name) = lane(slice.track);
            let instruction = &prediction.instructions[slice.instruction as usize];
            let place = place(instruction);
            lanes.insert((process, thread, process_name, thread_name));
            let arguments = json!({
                "instruction": instruction.text,
                "place": place,
                "lanes": format!("{:#010x}", slice.lanes),
                "stall": slice.stall.name(),
            });
            let (first, end) = (at(slice.cycles.0), at(slice.cycles.1));
            if let Track::Copies { .. } = slice.track {
                // Copies overlap: each is an asynchronous slice.
                for (phase, time) in [("b", first), ("e", end)] {
                    events.push(json!({
                        "name": place, "cat": "copy", "ph": phase, "id": index, "ts": time,
                        "pid": process, "tid": thread, "args": arguments,
                    }));
                }
                continue;
            }
            let name = if slice.stall == Stall::Selected { place } else { slice.stall.name().to_owned() };
            events.push(json!({
                "name": name, "cat": "issue", "ph": "X", "ts": first, "dur": end - first,
                "pid": process, "tid": thread, "args": arguments,
            }));
        }
        start += prediction.microseconds;
    }
    for (process, thread, process_name, thread_name) in lanes {
        for (what, name) in [("process_name", process_name), ("thread_name", thread_name)] {
            events.push(
                json!({"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}),
            );
        }
    }
    events
}
