//! Launch files: values of JSON put, removed and exchanged in one of each kind of argument. Small
//! ones are launched.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use warpwright_arch::Arch;
use warpwright_cli::inputs::LaunchFile;
use warpwright_harness::Random;
use warpwright_runtime::{Device, Schedule};

use super::Target;
use super::mutate::{edge, mutate, number, once_in, one};

/// Buffers and grids of a launch that is executed.
const MOST_BUFFER_BYTES: u64 = 1 << 20;
const MOST_THREADS: u64 = 1 << 12;

/// A kernel of two buffers and a scalar.
const KERNEL: &str = include_str!("../../../cli/tests/twice.ptx");

pub(super) struct LaunchFiles {
    folder: PathBuf,
    device: Device,
    words: Vec<String>,
}

impl LaunchFiles {
    pub(super) fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("warpwright-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary files can be made");
        // With a parameter of each kind.
        let kernel = KERNEL.replace(".param .f32 n", ".param .f32 n, .param .align 8 .b8 rest[24]");
        std::fs::write(folder.join("twice.ptx"), kernel).expect("it can be written");
        std::fs::write(folder.join("four.npy"), numpy()).expect("it can be written");
        let h200 = Arch::named("h200").expect("it is in the table");
        let device = Device::emulated_on_one_thread(h200, Schedule::Eager).expect("a thread can be started");
        let words =
            ["buffer", "scalar", "bytes", "tensor_map", "struct", "pointer", "init", "dtype", "offset"];
        Self { folder, device, words: words.map(str::to_owned).to_vec() }
    }
}

/// The file of four floats.
fn numpy() -> Vec<u8> {
    let header = format!("{:<117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }");
    [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &[0; 16]].concat()
}

fn launch() -> Value {
    json!({
        "ptx": "twice.ptx", "entry": "twice", "grid": [1, 1], "block": [4], "cluster": [1],
        "cooperative": false, "dynamic_shared_bytes": 64,
        "args": [
            {"buffer": {"dtype": "f32", "shape": [4], "init": {"npy": "four.npy"}}},
            {"buffer": {"dtype": "f32", "shape": [2, 2], "init": "poison", "save": "out.npy"}},
            {"scalar": {"dtype": "f32", "value": 0.5}},
            {"struct": {"bytes": 24, "fields": [
                {"offset": 0, "pointer": 0},
                {"offset": 8, "scalar": {"dtype": "u32", "value": 7}},
                {"offset": 12, "bytes": "0102"},
            ]}},
        ],
    })
}

/// An argument with a tensor map.
fn map() -> Value {
    json!({"tensor_map": {
        "buffer": 0, "dtype": "f32", "dims": [4], "strides_bytes": [], "box": [4], "element_strides": [1],
        "swizzle": "none", "interleave": "none", "l2_promotion": "128B", "oob_fill": "zero",
    }})
}

/// Two launches on two streams, ordered by an event, in place of one.
fn several(launch: Value) -> Value {
    let (mut first, mut second) = (launch.clone(), launch);
    first["record"] = json!("done");
    second["stream"] = json!("side");
    second["wait"] = json!(["done"]);
    second["programmatic"] = json!(true);
    json!({
        "buffers": {"x": {"dtype": "f32", "shape": [4], "init": {"values": [1, -2.5, "nan", "0x7f800000"]}}},
        "launches": [first, second],
    })
}

impl Target for LaunchFiles {
    fn make(&self, random: &mut Random) -> String {
        let mut root = launch();
        if once_in(random, 4)
            && let Value::Array(arguments) = &mut root["args"]
        {
            arguments.push(map());
        }
        if once_in(random, 3) {
            root = several(root);
        }
        for _ in 0..random.below(4) {
            change(random, &mut root);
        }
        let text = root.to_string();
        if once_in(random, 8) { mutate(random, &text, &self.words) } else { text }
    }

    fn read(&mut self, case: &str) -> Result<(), String> {
        let file = LaunchFile::read(case)?;
        let (bytes, threads) = file.size();
        if bytes <= MOST_BUFFER_BYTES && threads <= MOST_THREADS {
            file.launch(&self.folder, &self.device)?;
        }
        Ok(())
    }
}

/// Changes one value somewhere below.
fn change(random: &mut Random, value: &mut Value) {
    let goes_down = !once_in(random, 4);
    match value {
        Value::Array(items) if goes_down && !items.is_empty() => {
            let at = random.below(items.len() as u64) as usize;
            match random.below(10) {
                0 => {
                    items.remove(at);
                }
                1 => items.insert(at, items[at].clone()),
                _ => change(random, &mut items[at]),
            }
        }
        Value::Object(fields) if goes_down && !fields.is_empty() => {
            let at = random.below(fields.len() as u64) as usize;
            let name = fields.keys().nth(at).cloned().unwrap_or_default();
            if once_in(random, 10) {
                fields.remove(&name);
            } else if let Some(value) = fields.get_mut(&name) {
                change(random, value);
            }
        }
        other => *other = any(random, 2),
    }
}

/// Any value; strings are words of launch files, mostly.
fn any(random: &mut Random, depth: u64) -> Value {
    const WORDS: [&str; 24] = [
        "",
        "f32",
        "u8",
        "bf16",
        "i64",
        "bool",
        "e4m3",
        "tf32",
        "zero",
        "poison",
        "iota",
        "kernel",
        "kernel.ptx",
        "four.npy",
        ".",
        "/",
        "none.ptx",
        "0xff",
        "nan",
        "-inf",
        "128B",
        "16B",
        "00ff",
        "é\u{0}",
    ];
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => Value::Bool(once_in(random, 2)),
        2 => Value::from(number(random).parse::<u64>().unwrap_or(u64::MAX)),
        3 => serde_json::from_str(edge(random)).unwrap_or(json!(-0.0)),
        4 | 5 => Value::from(*one(random, &WORDS)),
        6 => (0..random.below(4)).map(|_| any(random, depth - 1)).collect(),
        7 => json!({"normal": {"seed": any(random, 0)}}),
        8 => map(),
        _ => {
            let mut fields = Map::new();
            for _ in 0..random.below(3) {
                fields.insert(
                    (*one(random, &["dtype", "shape", "init", "value", "offset"])).to_owned(),
                    any(random, 0),
                );
            }
            Value::Object(fields)
        }
    }
}
