//! What a page says its figures were measured by: a line that begins with "Measured by" and the
//! first words of a record's command is written anew, with the whole command, the day, the versions
//! and what the GPU ran at.

use serde_json::Value;

/// How the line begins.
const MEASURED_BY: &str = "Measured by `";

/// The page with the lines that are about what was printed written anew.
pub(super) fn filled(page: &str, printed: &Value) -> String {
    let command = printed["run"]["command"].as_str().unwrap_or_default();
    let begin = format!("{MEASURED_BY}{}", subject(command));
    let is_meant = |line: &str| {
        let rest = line.strip_prefix(&begin).filter(|_| !command.is_empty());
        rest.is_some_and(|rest| rest.starts_with([' ', '`']))
    };
    let lines = page.lines().map(|line| if is_meant(line) { setting(printed) } else { line.to_owned() });
    lines.map(|line| line + "\n").collect()
}

/// The words of a command that say what it measures: the verb and the kernel, or the list of
/// kernels.
fn subject(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    let count = if words.get(2) == Some(&"list") { 4 } else { 3 };
    words[..words.len().min(count)].join(" ")
}

/// The line.
fn setting(printed: &Value) -> String {
    let run = &printed["run"];
    let text = |name: &str| run[name].as_str().unwrap_or_default();
    let product = timed(printed).find_map(|timed| timed["product"].as_str()).unwrap_or_default();
    let day = text("date").split('T').next().unwrap_or_default();
    let version = |what: &str, name: &str| run[name].as_str().map(|version| format!("{what} {version}"));
    let versions =
        [version("driver", "driver"), version("CUDA", "cuda"), version(text("rival"), "rival_version")];
    let readings = [range(printed, "sm_mhz", "MHz"), range(printed, "watts", "W")];
    let parts: Vec<_> = versions.into_iter().chain(readings).flatten().collect();
    format!("{MEASURED_BY}{}` on {product}, {day}: {}.", text("command"), parts.join(", "))
}

/// What was timed: the steps of a ladder, the lines of a list, and the whole, which of a bench is
/// the one thing.
fn timed(printed: &Value) -> impl Iterator<Item = &Value> {
    let parts = ["steps", "lines"].into_iter().filter_map(|parts| printed[parts].as_array()).flatten();
    std::iter::once(printed).chain(parts)
}

/// The least and the largest of a reading of the GPU after what was timed.
fn range(printed: &Value, name: &str, unit: &str) -> Option<String> {
    let readings: Vec<f64> =
        timed(printed).filter_map(|timed| timed["conditions"]["after"][name].as_f64()).collect();
    let least = readings.iter().copied().reduce(f64::min)?.round();
    let most = readings.iter().copied().reduce(f64::max)?.round();
    Some(if least == most { format!("{least} {unit}") } else { format!("{least} to {most} {unit}") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(mhz: u32) -> Value {
        json!({"conditions": {"after": {"sm_mhz": mhz, "watts": 242.6}}})
    }

    #[test]
    fn lines_about_the_record_are_written_anew() {
        let mut printed = json!({
            "run": {"command": "warpwright ladder scan --length 64", "date": "2026-11-21T22:26:05Z", "driver": "580.1", "cuda": "13.0",
                "rival": "copy", "rival_version": null},
            "product": "NVIDIA H200",
            "steps": [step(1530), step(1980)],
        });
        let page = "Figures.\n\nMeasured by `warpwright ladder scan` long ago.\nMeasured by `warpwright ladder scans`.\n\
                    Measured by `warpwright bench scan`.\n";
        let expected = "Figures.\n\nMeasured by `warpwright ladder scan --length 64` on NVIDIA H200, 2026-11-21: driver 580.1, CUDA 13.0, \
                        1530 to 1980 MHz, 243 W.\nMeasured by `warpwright ladder scans`.\nMeasured by `warpwright bench scan`.\n";
        assert_eq!(filled(page, &printed), expected);
        assert_eq!(filled(expected, &printed), expected, "once more changes nothing");
        printed["run"] = Value::Null;
        assert_eq!(filled(page, &printed), page, "a record that does not know says nothing");
    }

    #[test]
    fn a_list_is_known_by_its_file() {
        let printed = json!({
            "run": {"command": "warpwright bench list rows.txt --json", "date": "2026-11-21", "driver": "1", "rival": "cublas", "rival_version": "13.1"},
            "lines": [{"product": "a GPU", "conditions": step(1500)["conditions"]}],
        });
        let page =
            "Measured by `warpwright bench list rows.txt`.\nMeasured by `warpwright bench list other.txt`.\n";
        let expected = "Measured by `warpwright bench list rows.txt --json` on a GPU, 2026-11-21: driver 1, cublas 13.1, 1500 MHz, 243 W.\n\
                        Measured by `warpwright bench list other.txt`.\n";
        assert_eq!(filled(page, &printed), expected);
    }
}
