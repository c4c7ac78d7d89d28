//! Records of runs: what `warpwright ladder KERNEL --json` printed, or
//! `warpwright bench KERNEL --json` for one step of a ladder.

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use warpwright_harness::{DynWorkload, Entry, Ladder, Measure};
use warpwright_workloads::WORKLOADS;

/// A record of steps, whichever command printed it.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) workload: Box<dyn DynWorkload>,
    pub(super) ladder: Ladder,
    /// What was printed.
    pub(super) printed: Value,
    /// A value a step, as `ladder` prints it.
    pub(super) steps: Vec<Value>,
}

/// The workload of that name, with its defaults.
fn workload(name: &str) -> Option<Box<dyn DynWorkload>> {
    let all = WORKLOADS.iter().chain(warpwright_lessons::WORKLOADS);
    all.into_iter().find(|entry| entry.name() == name).map(Entry::workload)
}

/// The workload that a record names. The ladders of the library's kernels are lessons, under names
/// of their own.
fn named(name: &str) -> Option<Box<dyn DynWorkload>> {
    workload(&format!("{name}-ladder")).or_else(|| workload(name))
}

/// The workload and options of a line of a bench list: `softmax --rows 64`.
pub(super) fn workload_of_line(line: &str) -> Result<Box<dyn DynWorkload>> {
    let (name, options) = line.split_once(' ').unwrap_or((line, ""));
    let mut workload = workload(name).ok_or_else(|| anyhow!("no kernel is called {name}"))?;
    for (name, value) in flags(options) {
        workload.set(name, value)?;
    }
    Ok(workload)
}

impl Record {
    pub(super) fn of(printed: Value) -> Result<Self> {
        let name = printed["kernel"]
            .as_str()
            .ok_or_else(|| anyhow!("it names no kernel: it is no record of a ladder"))?;
        let workload = named(name).ok_or_else(|| anyhow!("there is no kernel {name}"))?;
        let ladder = workload.ladder().ok_or_else(|| anyhow!("{name} has no ladder"))?;
        let steps = match (&printed["steps"], &printed["timings"]) {
            (Value::Array(steps), _) => steps.clone(),
            (_, Value::Array(_)) => vec![step_of_bench(&printed, &ladder)?],
            _ => return Err(anyhow!("the record has no steps")),
        };
        Ok(Self { workload, ladder, printed, steps })
    }

    /// Whether it has the whole ladder, and so a chart.
    pub(super) fn is_ladder(&self) -> bool {
        self.printed["steps"].is_array()
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.printed[name].as_str().unwrap_or_default()
    }

    /// The options of the run, as far as the kernel still has them.
    pub(super) fn workload_of_run(&self) -> Result<Box<dyn DynWorkload>> {
        let mut workload = self.workload.clone();
        for (name, value) in flags(self.text("options")) {
            if workload.get(name).is_some() {
                workload.set(name, value).with_context(|| format!("options `{}`", self.text("options")))?;
            }
        }
        Ok(workload)
    }

    /// What was measured: the options of the run but for the step and the seed.
    pub(super) fn shape(&self) -> String {
        let told =
            flags(self.text("options")).filter(|(name, _)| *name != "seed" && *name != self.ladder.option);
        told.map(|(name, value)| format!("--{name} {value}")).collect::<Vec<_>>().join(" ")
    }

    /// The step of that name, if the record has it.
    pub(super) fn step(&self, name: &str) -> Option<&Value> {
        self.steps.iter().find(|step| step["step"] == name)
    }
}

/// Names and values of flags: `--m 64 --n 32`.
pub(super) fn flags(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut words = text.split_whitespace();
    std::iter::from_fn(move || Some((words.next()?.strip_prefix("--")?, words.next()?)))
}

/// The step that a bench timed.
fn step_of_bench(bench: &Value, ladder: &Ladder) -> Result<Value> {
    let options = bench["options"].as_str().unwrap_or_default();
    let step = flags(options).find(|(name, _)| *name == ladder.option).map(|(_, step)| step);
    let step = step.ok_or_else(|| anyhow!("its options name no step: `{options}`"))?;
    let mut timed = timed_step(bench).ok_or_else(|| anyhow!("it has no timings"))?;
    timed["step"] = step.into();
    Ok(timed)
}

/// What a bench timed, as a step has it; nothing if it timed nothing.
pub(super) fn timed_step(bench: &Value) -> Option<Value> {
    let (ours, theirs) = (bench["timings"].get(0)?, bench["timings"].get(1));
    let part =
        theirs.and_then(|theirs| Some(theirs["median_seconds"].as_f64()? / ours["median_seconds"].as_f64()?));
    Some(json!({
        "time": ours,
        "part_of_rival": part,
        "operations_per_second": ours["operations_per_second"],
        "bytes_per_second": ours["bytes_per_second"],
    }))
}

/// A step's speed in the measure's unit, if it was timed.
pub(super) fn speed(step: &Value, measure: Measure) -> Option<f64> {
    let speed = match measure {
        Measure::Bytes => &step["bytes_per_second"],
        Measure::Operations | Measure::MatrixOperations | Measure::Keys => &step["operations_per_second"],
    };
    speed.as_f64().map(|speed| speed * measure.unit().1)
}

/// A step's speed and its unit as text. One that computes nothing is measured by its bytes, on any
/// ladder.
pub(super) fn speed_text(step: &Value, measure: Measure) -> Option<(String, &'static str)> {
    let computes = step["operations_per_second"].as_f64().is_some_and(|speed| speed > 0.0);
    let measure = if computes { measure } else { Measure::Bytes };
    let speed = speed(step, measure)?;
    Some((measure.format(speed), measure.unit().0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_of_one_step_is_a_record_of_it() {
        let bench = json!({
            "kernel": "hopper-ladder",
            "options": "--step tile-copy --m 16384 --n 8192 --k 8192 --output bf16 --seed 1",
            "timings": [{"name": "hopper-ladder", "median_seconds": 1.0, "operations_per_second": 0.0, "bytes_per_second": 3.95e12}],
        });
        let record = Record::of(bench).expect("a record");
        let step = record.step("tile-copy").expect("the step");
        assert!(!record.is_ladder() && record.steps.len() == 1);
        assert_eq!(speed_text(step, record.ladder.measure), Some(("3.95".to_owned(), "TB/s")));
        assert_eq!(record.workload_of_run().expect("its own options").text("m").as_deref(), Some("16384"));
        assert_eq!(record.shape(), "--m 16384 --n 8192 --k 8192 --output bf16");
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let refused = |value| Record::of(value).err().expect("no record").to_string();
        assert_eq!(refused(json!({"lines": []})), "it names no kernel: it is no record of a ladder");
        assert_eq!(refused(json!({"kernel": "map"})), "map has no ladder");
        assert_eq!(refused(json!({"kernel": "sgemm"})), "the record has no steps");
    }
}
