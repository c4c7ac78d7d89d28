//! Programs that other compilers compiled give the results that NumPy gave, and the checkers find
//! nothing in them: replays the launches of the PTX corpus.

use std::fs;
use std::path::Path;

use crate::common::{device, launch_checked};
use serde_json::Value;
use warpwright_emulator::{Launch, Schedule};
use warpwright_testing::corpus::{self, Case, array};

fn width(dtype: &str) -> usize {
    match dtype.trim_start_matches(|c: char| c.is_alphabetic()) {
        "64" => 8,
        "32" => 4,
        "16" => 2,
        "8" => 1,
        _ => 1,
    }
}

fn extents(value: &Value) -> [u32; 3] {
    std::array::from_fn(|axis| value[axis].as_u64().unwrap_or(1) as u32)
}

fn scalar(value: &Value) -> Vec<u8> {
    let (number, dtype) = (&value["value"], value["dtype"].as_str().unwrap());
    let float = number.as_f64().unwrap_or(0.0);
    match dtype {
        "f64" => float.to_le_bytes().to_vec(),
        "f32" => (float as f32).to_le_bytes().to_vec(),
        _ => number.as_i64().unwrap_or_else(|| number.as_u64().unwrap() as i64).to_le_bytes()[..width(dtype)]
            .to_vec(),
    }
}

/// Runs one text of a case at a schedule; the differences from what is expected.
fn replay(
    folder: &Path,
    launch: &Value,
    expected: &Value,
    text: &str,
    schedule: Schedule,
) -> Result<(), String> {
    let mut device = device(if text.contains(".target sm_100") { "b200" } else { "h200" });
    let module = warpwright_ptx::parse(text).map_err(|error| error.to_string())?;
    let program = device.load(&module).map_err(|error| error.to_string())?;
    let entry = launch["entry"].as_str().unwrap();
    let formals = program.kernel(entry).ok_or("the kernel is missing")?.parameters().to_vec();
    let (mut parameters, mut saved) = (Vec::new(), Vec::new());
    for (argument, formal) in launch["args"].as_array().unwrap().iter().zip(&formals) {
        parameters.resize(formal.offset as usize, 0);
        let buffer = &argument["buffer"];
        if buffer.is_null() {
            let bytes = if argument["scalar"].is_null() {
                let text = argument["bytes"].as_str().unwrap();
                (0..text.len() / 2)
                    .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
                    .collect()
            } else {
                scalar(&argument["scalar"])
            };
            parameters.extend(bytes);
            continue;
        }
        let count: u64 =
            buffer["shape"].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap()).product();
        let size = count as usize * width(buffer["dtype"].as_str().unwrap());
        let address = device.allocate(size as u64).map_err(|error| error.to_string())?;
        match buffer["init"].as_str() {
            Some("zero") => device.fill(address, 0, size).unwrap(),
            Some(_) => {}
            None => {
                device.write(address, &array(&folder.join(buffer["init"]["npy"].as_str().unwrap()))).unwrap()
            }
        }
        if let Some(name) = buffer["save"].as_str() {
            saved.push((name.to_owned(), address, size));
        }
        parameters.extend(address.to_le_bytes());
    }
    let launch = Launch {
        grid: extents(&launch["grid"]),
        block: extents(&launch["block"]),
        cluster: extents(&launch["cluster"]),
        dynamic_shared_bytes: launch["dynamic_shared_bytes"].as_u64().unwrap_or(0) as u32,
        parameters: &parameters,
        schedule,
        ..Launch::default()
    };
    let (report, findings) = launch_checked(&device, &program, entry, &launch);
    report.map_err(|fault| fault.to_string())?;
    if let Some(finding) = findings.first() {
        return Err(format!("the checkers cry wolf: {finding}"));
    }
    for (name, address, size) in saved {
        let expectation = &expected["buffers"][&name];
        let wanted = array(&folder.join(expectation["equals"].as_str().unwrap()));
        let mut bytes = vec![0; size];
        device.read(address, &mut bytes).unwrap();
        if let Some(difference) = corpus::difference(&bytes, &wanted, expectation) {
            return Err(format!("{name}: {difference}"));
        }
    }
    Ok(())
}

#[test]
fn compiled_programs_give_numpys_results() {
    let mut wrong = Vec::new();
    let mut count = 0;
    // Tensor maps are encoded by the runtime: the command's own tests run these.
    for case in Case::all().iter().filter(|case| !case.needs_runtime()) {
        for path in case.texts() {
            let text = fs::read_to_string(&path).unwrap();
            let schedules = [Schedule::Eager, Schedule::Latest, Schedule::Random(1)];
            for &schedule in &schedules[..if Case::is_asynchronous(&text) { 3 } else { 2 }] {
                count += 1;
                if let Err(problem) = replay(&case.folder, &case.launch, &case.expected, &text, schedule) {
                    wrong.push(format!("{} with {}, {schedule:?}: {problem}", case.name, path.display()));
                }
            }
        }
    }
    assert!(count > 0);
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
