//! What checkers find at several schedules: each finding once, as text and as JSON.

use serde_json::{Value, json};
use warpwright_runtime::{Finding, Label, Schedule, ordered, render_causes};

use crate::output::shortened;
use crate::sources;

/// What was found, and the schedules that were run.
#[derive(Debug, Default)]
pub struct Findings {
    schedules: Vec<Schedule>,
    found: Vec<Found>,
}

/// A finding, and the schedules that showed it.
#[derive(Debug)]
struct Found {
    finding: Finding,
    schedules: Vec<Schedule>,
}

impl Findings {
    /// Adds what was found at a schedule.
    pub fn add(&mut self, schedule: Schedule, findings: impl IntoIterator<Item = Finding>) {
        self.schedules.push(schedule);
        for finding in findings {
            match self.found.iter_mut().find(|found| is_same(&found.finding, &finding)) {
                Some(found) => found.schedules.push(schedule),
                None => self.found.push(Found { finding, schedules: vec![schedule] }),
            }
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The schedules that were run.
    pub fn schedules(&self) -> Vec<String> {
        self.schedules.iter().copied().map(shown).collect()
    }

    /// The findings as `docs/json.md` describes them, causes first.
    pub fn json(&self) -> Vec<Value> {
        let finding = |(finding, schedules): (Finding, &[Schedule])| {
            let mut value = json!(finding);
            value["follows_from"] = json!(finding.cause);
            value["schedules"] = schedules.iter().copied().map(shown).collect();
            value
        };
        self.causes_first().into_iter().map(finding).collect()
    }

    /// The findings rendered like compiler diagnostics, one text for each cause. `note` adds a sentence to a finding,
    /// from the schedules that showed it.
    pub fn texts(&self, styled: bool, note: impl Fn(&Finding, &[Schedule]) -> Option<String>) -> Vec<String> {
        let noted = |(mut finding, schedules): (Finding, &[Schedule])| {
            finding.notes.extend(note(&finding, schedules));
            finding
        };
        let findings: Vec<Finding> = self.causes_first().into_iter().map(noted).collect();
        let texts = render_causes(&findings, &mut sources::files(), styled);
        texts.into_iter().map(|(_, text)| shortened(&text)).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// The findings of all schedules in one order.
    fn causes_first(&self) -> Vec<(Finding, &[Schedule])> {
        let findings: Vec<Finding> = self.found.iter().map(|found| found.finding.clone()).collect();
        let placed = ordered(&findings, None).into_iter().map(|finding| {
            let shown = self.found.iter().find(|found| is_same(&found.finding, &finding));
            let schedules = shown.map_or(&[][..], |found| &found.schedules);
            (finding, schedules)
        });
        placed.collect()
    }
}

/// Whether two schedules show one finding.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let place = |label: &Label| (label.source.clone(), label.ptx_line);
    let places = |finding: &Finding| finding.labels.iter().map(place).collect::<Vec<_>>();
    let of = |finding: &Finding| (finding.kind, finding.tile, places(finding));
    of(one) == of(other)
}

/// A schedule as `--schedule` takes it.
pub(crate) fn shown(schedule: Schedule) -> String {
    match schedule {
        Schedule::Eager => "eager".to_owned(),
        Schedule::Latest => "latest".to_owned(),
        Schedule::Random(seed) => format!("random:{seed}"),
    }
}

/// Reads a schedule as `--schedule` takes it.
///
/// # Errors
/// It is none.
pub fn schedule(text: &str) -> Result<Schedule, String> {
    match text {
        "eager" => Ok(Schedule::Eager),
        "latest" => Ok(Schedule::Latest),
        _ => text
            .strip_prefix("random:")
            .and_then(|seed| seed.parse().ok())
            .map(Schedule::Random)
            .ok_or_else(|| "expected `eager`, `latest` or `random:SEED` with an integer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read() {
        assert_eq!(schedule("eager"), Ok(Schedule::Eager));
        assert_eq!(schedule("latest"), Ok(Schedule::Latest));
        assert_eq!(schedule("random:42"), Ok(Schedule::Random(42)));
        for wrong in ["", "random", "random:", "random:x", "random:-1", "Eager"] {
            assert!(schedule(wrong).is_err(), "{wrong}");
        }
    }
}
