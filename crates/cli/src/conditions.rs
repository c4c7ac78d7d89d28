//! What figures were measured with: the day, the command, the versions, and the clocks, power and
//! heat meanwhile.

use std::time::SystemTime;

use serde_json::{Value, json};
use warpwright_runtime::{Device, Reading, cublas};

/// The error of most predictions: the 90th percentile of docs/results/2026-11-28-time-h200.md.
pub(crate) const ERROR_ESTIMATE: f64 = 0.26;

/// What is timed: the GPU, or the emulator, whose times say nothing about the GPU's.
pub(crate) fn timed_product(device: &Device) -> String {
    let properties = device.properties();
    match properties.is_emulated {
        true => format!("emulator of {}, on this host", properties.product),
        false => properties.product.clone(),
    }
}

/// The GPU whose times are measured, or predicted.
pub(crate) fn predicted_product(device: &Device) -> String {
    let properties = device.properties();
    if properties.is_emulated {
        format!("{}, predicted", properties.product)
    } else {
        properties.product.clone()
    }
}

/// What the reader of predicted times must know.
pub(crate) fn predicted_times(device: &Device) -> Option<String> {
    let properties = device.properties();
    properties.is_emulated.then(|| {
        format!(
            "These times are predicted, with caches empty at the start; nine of ten are within {:.0} % of {}'s (docs/timing.md). \
             `--device cuda:0` times a GPU.",
            100.0 * ERROR_ESTIMATE,
            properties.product
        )
    })
}

/// What the reader of an emulator's times must know.
pub(crate) fn emulated_times(device: &Device) -> Option<String> {
    let properties = device.properties();
    properties.is_emulated.then(|| {
        format!(
            "These are times of the emulator on this host, not of {}. `--device cuda:0` times a GPU.",
            properties.product
        )
    })
}

/// What does not change while a command runs.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// When it began, in UTC.
    date: String,
    command: String,
    driver: Option<String>,
    /// The CUDA version that the driver speaks.
    cuda: Option<String>,
    rival: Option<String>,
    rival_version: Option<String>,
}

impl Setting {
    /// The setting of a command that is about to time something on a device, against a rival if
    /// there is one.
    pub(crate) fn of(device: &Device, rival: Option<&str>) -> Self {
        let properties = device.properties();
        // The rivals but cuBLAS are the driver's own work, or ours.
        let has_version = rival == Some("cublas") && !properties.is_emulated;
        Self {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            command: command_line(std::env::args().skip(1)),
            driver: device.driver_version(),
            cuda: properties.driver.map(|(major, minor)| format!("{major}.{minor}")),
            rival: rival.map(str::to_owned),
            rival_version: has_version.then(cublas::version).and_then(Result::ok),
        }
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({
            "date": self.date,
            "command": self.command,
            "warpwright": crate::VERSION,
            "driver": self.driver,
            "cuda": self.cuda,
            "rival": self.rival,
            "rival_version": self.rival_version,
        })
    }

    /// The day and the versions in words.
    pub(crate) fn as_text(&self) -> String {
        let mut parts = vec![self.date.clone()];
        parts.extend(self.driver.iter().map(|version| format!("driver {version}")));
        parts.extend(self.cuda.iter().map(|version| format!("CUDA {version}")));
        let rival = self.rival.iter().zip(&self.rival_version);
        parts.extend(rival.map(|(rival, version)| format!("{rival} {version}")));
        parts.join(", ")
    }
}

/// A command line that a shell reads as these arguments.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    let quoted = |text: String| match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    };
    let words: Vec<_> = std::iter::once("warpwright".to_owned()).chain(arguments.map(quoted)).collect();
    words.join(" ")
}

/// What a GPU ran at around the batches that were timed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// While it was kept busy before the first of them.
    pub(crate) before: Reading,
    /// While it was kept busy after the last.
    pub(crate) after: Reading,
}

impl Conditions {
    pub(crate) fn as_json(&self) -> Value {
        json!({"before": of_reading(&self.before), "after": of_reading(&self.after)})
    }

    /// The clocks, power and heat after the batches; nothing where nothing is known.
    pub(crate) fn as_text(&self) -> Option<String> {
        let Reading { sm_mhz, memory_mhz, watts, limit_watts, celsius, held_back_by } = &self.after;
        let mut parts = Vec::new();
        parts.extend(sm_mhz.map(|mhz| format!("SM {mhz} MHz")));
        parts.extend(memory_mhz.map(|mhz| format!("memory {mhz} MHz")));
        parts.extend(watts.map(|watts| match limit_watts {
            Some(limit) => format!("{watts:.0} W of {limit:.0}"),
            None => format!("{watts:.0} W"),
        }));
        parts.extend(celsius.map(|celsius| format!("{celsius} C")));
        let held_back_by = held_back_by.iter().filter(|reasons| !reasons.is_empty());
        parts.extend(held_back_by.map(|reasons| format!("held back by {}", reasons.join(" and "))));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn of_reading(reading: &Reading) -> Value {
    json!({
        "sm_mhz": reading.sm_mhz,
        "memory_mhz": reading.memory_mhz,
        "watts": reading.watts,
        "limit_watts": reading.limit_watts,
        "celsius": reading.celsius,
        "held_back_by": reading.held_back_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_command_as_it_was() {
        let line = |words: &[&str]| command_line(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(line(&["bench", "gemm", "--m", "64"]), "warpwright bench gemm --m 64");
        assert_eq!(
            line(&["layout", "(8,4):(1,8)", "", "it's"]),
            r"warpwright layout '(8,4):(1,8)' '' 'it'\''s'"
        );
    }

    #[test]
    fn what_is_not_known_is_null_and_not_told() {
        let nothing = Conditions::default();
        assert_eq!(nothing.as_text(), None);
        let before = &nothing.as_json()["before"];
        for name in ["sm_mhz", "memory_mhz", "watts", "limit_watts", "celsius", "held_back_by"] {
            assert!(before.get(name).is_some_and(Value::is_null), "{name}");
        }
        let after = Reading {
            sm_mhz: Some(1755),
            memory_mhz: Some(3201),
            watts: Some(691.7),
            limit_watts: Some(700.0),
            celsius: None,
            held_back_by: Some(vec!["power cap"]),
        };
        let known = Conditions { after, ..nothing };
        let text = "SM 1755 MHz, memory 3201 MHz, 692 W of 700, held back by power cap";
        assert_eq!(known.as_text().as_deref(), Some(text));
        assert_eq!(known.as_json()["after"]["held_back_by"], json!(["power cap"]));
    }
}
