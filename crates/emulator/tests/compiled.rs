//! Programs that other compilers compiled give the results that NumPy gave, and the checkers find nothing in them:
//! replays the launches of the PTX corpus.

use std::fs;
use std::path::Path;

use crate::common::{device, launch_checked};
use serde_json::Value;
use warpwright_emulator::{Launch, Schedule};
use warpwright_testing::corpus::{Case, array};

fn width(dtype: &str) -> usize {
    match dtype.trim_start_matches(|c: char| c.is_alphabetic()) {
        "64" => 8,
        "32" => 4,
        "16" => 2,
        "8" => 1,
        _ => 1,
    }
}

/// The elements of a buffer as numbers.
fn numbers(dtype: &str, bytes: &[u8]) -> Vec<f64> {
    let element = |b: &[u8]| match dtype {
        "f64" => f64::from_le_bytes(b.try_into().unwrap()),
        "f32" => f32::from_le_bytes(b.try_into().unwrap()).into(),
        "f16" => half::f16::from_le_bytes(b.try_into().unwrap()).to_f64(),
        "bf16" => half::bf16::from_le_bytes(b.try_into().unwrap()).to_f64(),
        "s8" => f64::from(b[0] as i8),
        "s16" => i16::from_le_bytes(b.try_into().unwrap()).into(),
        "s32" => i32::from_le_bytes(b.try_into().unwrap()).into(),
        "s64" => i64::from_le_bytes(b.try_into().unwrap()) as f64,
        "u16" => u16::from_le_bytes(b.try_into().unwrap()).into(),
        "u32" => u32::from_le_bytes(b.try_into().unwrap()).into(),
        "u64" => u64::from_le_bytes(b.try_into().unwrap()) as f64,
        _ => b[0].into(),
    };
    bytes.chunks_exact(width(dtype)).map(element).collect()
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
    let source = fs::read_to_string(folder.join(text)).map_err(|error| error.to_string())?;
    let mut device = device(if source.contains(".target sm_100") { "b200" } else { "h200" });
    let module = warpwright_ptx::parse(&source).map_err(|error| error.to_string())?;
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
    // `mul` and `add` without a rounding may be fused or not (PTX ISA, "mad"): compiled for a debugger, they are apart.
    let unfused = if text.contains("-debug") { 1e-5 } else { 0.0 };
    for (name, address, size) in saved {
        let wanted = &expected["buffers"][&name];
        let dtype = wanted["dtype"].as_str().unwrap();
        let (rtol, atol) = (wanted["rtol"].as_f64().unwrap(), wanted["atol"].as_f64().unwrap());
        let mut bytes = vec![0; size];
        device.read(address, &mut bytes).unwrap();
        let (found, wanted) = (
            numbers(dtype, &bytes),
            numbers(dtype, &array(&folder.join(wanted["equals"].as_str().unwrap()))),
        );
        for (index, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let near = (found - wanted).abs() <= atol + rtol.max(unfused) * wanted.abs();
            if !(near || found == wanted || found.is_nan() && wanted.is_nan()) {
                return Err(format!("{name}[{index}] is {found} and should be {wanted}"));
            }
        }
    }
    Ok(())
}

#[test]
fn compiled_programs_give_numpys_results() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for Case { folder, launch, expected, .. } in Case::all() {
        // Tensor maps are encoded by the runtime: the command's own tests run these.
        let has_maps = |argument: &Value| !argument["tensor_map"].is_null() || !argument["struct"].is_null();
        if launch["args"].as_array().unwrap().iter().any(has_maps) {
            continue;
        }
        let also = expected["also"].as_array().into_iter().flatten();
        for text in [&launch["ptx"]].into_iter().chain(also).filter_map(Value::as_str) {
            for schedule in [Schedule::Eager, Schedule::Latest] {
                count += 1;
                if let Err(problem) = replay(&folder, &launch, &expected, text, schedule) {
                    wrong.push(format!("{} with {text}, {schedule:?}: {problem}", folder.display()));
                }
            }
        }
    }
    assert!(count > 0);
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
