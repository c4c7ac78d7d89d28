//! The figures of a page from what `warpwright bench list FILE --json` printed: in a table with a
//! column `bench`, whose cells are lines of such a file, the row of a line gets its figures.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use warpwright_harness::{DynWorkload, Measure};

use super::page::{cells, filled_row};
use super::record::{flags, timed_step, workload_of_line};

/// The page with the figures of these lines, in all tables that have rows for some of them.
pub(super) fn filled(page: &str, lines: &[Value]) -> Result<String> {
    let (mut filled, mut found) = (Vec::new(), false);
    let mut names: Vec<&str> = Vec::new();
    for line in page.lines() {
        let row = cells(line);
        if row.contains(&"bench") {
            names = row;
        } else if row.is_empty() {
            names.clear();
        } else if let Some(place) = names.iter().position(|name| *name == "bench")
            && let Some(bench) = row.get(place).and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`'))
        {
            let choice = workload_of_line(bench).with_context(|| format!("the row of `{bench}`"))?;
            if let Some(step) = lines.iter().find(|line| is_of(line, &*choice)).and_then(timed_step) {
                found = true;
                filled.push(filled_row(&names, &row, &step, measure_of(&names)));
                continue;
            }
        }
        filled.push(line.to_owned());
    }
    if !found {
        bail!("no table has a column `bench` with a row for any of its lines");
    }
    Ok(filled.join("\n") + "\n")
}

/// What a table with these columns has speeds of: bytes, where none of them says otherwise.
fn measure_of(names: &[&str]) -> Measure {
    let others = [Measure::Operations, Measure::MatrixOperations, Measure::Keys];
    others.into_iter().find(|measure| names.contains(&measure.unit().0)).unwrap_or(Measure::Bytes)
}

/// Whether a line's kernel and options are those, as far as the kernel had these options then.
fn is_of(line: &Value, choice: &dyn DynWorkload) -> bool {
    let (now, then) = (choice.flags(), line["options"].as_str().unwrap_or_default());
    line["kernel"] == choice.name()
        && flags(&now).all(|(name, value)| flags(then).all(|(of_then, was)| of_then != name || was == value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(options: &str, bytes_per_second: f64) -> Value {
        json!({"kernel": "softmax", "options": options, "timings": [
            {"median_seconds": 0.00025, "bytes_per_second": bytes_per_second, "operations_per_second": 1.0},
            {"median_seconds": 0.0002},
        ]})
    }

    #[test]
    fn rows_of_lines_are_filled() {
        let lines = [
            line("--rows 64 --columns 128 --scheduler pipelined", 1e12),
            line("--rows 64 --columns 128 --scheduler auto", 4.114e12),
        ];
        let page = "# Rows\n\n| bench | TB/s | of copy | why |\n|---|---|---|---|\n| `softmax --rows 64 --columns 128` | | | fast |\n\
                    | `softmax --rows 65` | 9 | | another |\n\n| `softmax --rows 64 --columns 128` | no table |\n";
        let expected = "# Rows\n\n| bench | TB/s | of copy | why |\n|---|---|---|---|\n\
                        | `softmax --rows 64 --columns 128` | 4.11 | 80.0 % | fast |\n\
                        | `softmax --rows 65` | 9 | | another |\n\n| `softmax --rows 64 --columns 128` | no table |\n";
        assert_eq!(filled(page, &lines).expect("it has a row"), expected);
        assert_eq!(filled(expected, &lines).expect("it still has"), expected, "once more changes nothing");
    }

    #[test]
    fn the_columns_say_what_there_are_speeds_of() {
        assert_eq!(measure_of(&["bench", "TFLOP/s", "us"]), Measure::MatrixOperations);
        assert_eq!(measure_of(&["bench", "Gkey/s"]), Measure::Keys);
        assert_eq!(measure_of(&["bench", "us"]), Measure::Bytes);
    }

    #[test]
    fn pages_without_a_row_and_rows_that_are_no_benches_are_refused() {
        let lines = [line("--rows 64", 1e12)];
        let refused = |page: &str| format!("{:#}", filled(page, &lines).expect_err("nothing to fill"));
        assert_eq!(
            refused("| step |\n|---|\n"),
            "no table has a column `bench` with a row for any of its lines"
        );
        assert!(refused("| bench |\n|---|\n| `softmix` |\n").starts_with("the row of `softmix`: "));
    }
}
