//! Launch files as values, and what is complained about.

use serde_json::{Value, json};

use super::*;
use crate::exec::json::Complaint;

/// A launch file with one argument.
fn with_argument(argument: Value) -> Result<Description, Complaint> {
    Description::parse(&json!({"ptx": "a.ptx", "entry": "k", "grid": [1], "block": [1], "args": [argument]}))
}

#[test]
fn a_whole_file_is_read() {
    let description = Description::parse(&json!({
        "ptx": "add.ptx", "entry": "add", "grid": [4, 1, 1], "block": [256, 2], "cluster": [2], "cooperative": true,
        "dynamic_shared_bytes": 64,
        "args": [
            {"buffer": {"dtype": "f32", "shape": [32, 32], "init": {"npy": "x.npy"}}},
            {"buffer": {"dtype": "bf16", "shape": [], "init": {"normal": {"seed": 7}}, "save": "out.npy"}},
            {"buffer": {"dtype": "u8", "shape": [3]}},
            {"scalar": {"dtype": "u32", "value": 1024}},
            {"bytes": "00fF"},
        ],
    }));
    let dtype = |name| Dtype::named(name).expect("in the table");
    let buffer = |name, shape: &[usize], init, save: Option<&str>| Buffer {
        dtype: dtype(name),
        shape: shape.to_vec(),
        init,
        save: save.map(str::to_owned),
    };
    let placed = |index: usize, buffer| Placed { path: format!("args[{index}].buffer"), buffer };
    let launch = Launch {
        path: String::new(),
        ptx: "add.ptx".to_owned(),
        entry: "add".to_owned(),
        grid: [4, 1, 1],
        block: [256, 2, 1],
        cluster: [2, 1, 1],
        cooperative: true,
        programmatic: false,
        dynamic_shared_bytes: 64,
        arguments: vec![
            Argument::Buffer(0),
            Argument::Buffer(1),
            Argument::Buffer(2),
            Argument::Scalar { dtype: dtype("u32"), bytes: vec![0, 4, 0, 0] },
            Argument::Bytes(vec![0, 255]),
        ],
        stream: "default".to_owned(),
        wait: Vec::new(),
        record: None,
    };
    let expected = Description {
        buffers: vec![
            placed(0, buffer("f32", &[32, 32], Init::Npy("x.npy".to_owned()), None)),
            placed(1, buffer("bf16", &[], Init::Normal { seed: 7 }, Some("out.npy"))),
            placed(2, buffer("u8", &[3], Init::Poison, None)),
        ],
        symbols: Vec::new(),
        launches: vec![launch],
        is_single: true,
    };
    assert_eq!(description, Ok(expected));
}

#[test]
fn a_structure_is_read_field_by_field() {
    let description = Description::parse(&json!({
        "ptx": "a.ptx", "entry": "k", "grid": [1], "block": [1], "args": [
            {"buffer": {"dtype": "f32", "shape": [64]}},
            {"struct": {"bytes": 192, "fields": [
                {"offset": 0, "pointer": 0},
                {"offset": 8, "scalar": {"dtype": "u32", "value": 7}},
                {"offset": 12, "bytes": "0102"},
                {"offset": 64, "tensor_map": {"buffer": 0, "dtype": "f32", "dims": [64], "box": [32]}},
            ]}},
        ],
    }));
    let arguments = description.expect("it is right").launches.remove(0).arguments;
    assert_eq!(arguments[1].referred(), [0, 0]);
    let Argument::Structure(Structure { bytes: 192, fields }) = &arguments[1] else {
        panic!("{:?}", arguments[1]);
    };
    let offsets: Vec<usize> = fields.iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, [0, 8, 12, 64]);
    assert_eq!(fields[0].1, Field::Pointer(0));
    assert_eq!(fields[1].1, Field::Bytes(vec![7, 0, 0, 0]));
    assert_eq!(fields[2].1, Field::Bytes(vec![1, 2]));
    assert!(matches!(&fields[3].1, Field::TensorMap(map) if map.description.extents == [64]));
}

#[test]
fn every_complaint_names_its_place() {
    let cases = [
        (json!([]), "expected an object, not an array of 0"),
        (json!({}), "the field `ptx` is missing"),
        (json!({"ptx": 1, "entry": "k", "grid": [1], "block": [1]}), "ptx: expected a string, not 1"),
        (
            json!({"ptx": "a", "entry": "k", "grid": [], "block": [1]}),
            "grid: expected one to three extents, not 0",
        ),
        (
            json!({"ptx": "a", "entry": "k", "grid": [1, -1], "block": [1]}),
            "grid[1]: expected a non-negative integer",
        ),
        (
            json!({"ptx": "a", "entry": "k", "grid": [4294967296u64], "block": [1]}),
            "grid[0]: expected an integer below 2^32",
        ),
        (
            json!({"ptx": "a", "entry": "k", "grid": [1], "block": [1], "arg": []}),
            "unknown field `arg`; did you mean `args`? The fields are ptx, entry",
        ),
        (
            json!({"ptx": "a", "entry": "k", "grid": [1], "block": [1], "colour": []}),
            "unknown field `colour`; expected one of ptx, entry",
        ),
        (json!({"ptx": "a", "entry": "k", "grid": [1], "block": [1], "args": {}}), "args: expected an array"),
    ];
    for (value, words) in cases {
        let complaint = Description::parse(&value).expect_err("malformed").to_string();
        assert!(complaint.contains(words), "{complaint}");
    }
    let arguments = [
        (json!({}), "args[0]: expected exactly one of buffer, scalar, bytes, tensor_map, struct"),
        (json!({"bytes": "00", "scalar": {}}), "args[0]: expected exactly one of"),
        (json!({"buffer": {"dtype": "f31", "shape": [1]}}), "args[0].buffer.dtype: unknown dtype `f31`"),
        (json!({"buffer": {"dtype": "f32"}}), "args[0].buffer: the field `shape` is missing"),
        (
            json!({"buffer": {"dtype": "f32", "shape": [1u64 << 40, 1u64 << 40]}}),
            "args[0].buffer.shape[1]: the buffer",
        ),
        (
            json!({"buffer": {"dtype": "f32", "shape": [1], "init": "ones"}}),
            "args[0].buffer.init: unknown init",
        ),
        (json!({"buffer": {"dtype": "f32", "shape": [1], "init": 0}}), "args[0].buffer.init: an init is"),
        (
            json!({"buffer": {"dtype": "u32", "shape": [1], "init": {"normal": {"seed": 1}}}}),
            "u32 is not a float",
        ),
        (
            json!({"buffer": {"dtype": "f32", "shape": [1], "init": {"normal": {}}}}),
            "init.normal: the field `seed`",
        ),
        (json!({"bytes": "0"}), "args[0].bytes: expected pairs of hexadecimal digits"),
        (json!({"bytes": "+1"}), "args[0].bytes: expected pairs of hexadecimal digits"),
        (json!({"bytes": "é0"}), "args[0].bytes: expected pairs of hexadecimal digits"),
        (json!({"tensor_map": {"buffer": 0}}), "args[0].tensor_map: the field `dims` is missing"),
        (
            json!({"tensor_map": {"buffer": 0, "dtype": "f32", "dims": [64], "box": [32]}}),
            "args[0].tensor_map.buffer: args[0] is not a buffer",
        ),
        (
            json!({"tensor_map": {"buffer": 0, "dtype": "f32", "dims": [64], "box": [257]}}),
            "args[0].tensor_map: the box has an extent of 257 along axis 0",
        ),
        (
            json!({"tensor_map": {"buffer": 0, "dtype": "f32", "dims": [64], "box": [4], "swizzle": "16B"}}),
            "args[0].tensor_map.swizzle: unknown value `16B`; expected one of none, 32B, 64B, 128B",
        ),
        (json!({"struct": {"bytes": 8}}), "args[0].struct: the field `fields` is missing"),
        (
            json!({"struct": {"bytes": 65536, "fields": []}}),
            "args[0].struct.bytes: a kernel takes 32764 bytes of parameters at most",
        ),
        (
            json!({"struct": {"bytes": 8, "fields": [{"bytes": "00"}]}}),
            "args[0].struct.fields[0]: the field `offset` is missing",
        ),
        (
            json!({"struct": {"bytes": 8, "fields": [{"offset": 0}]}}),
            "args[0].struct.fields[0]: expected exactly one of scalar, bytes, tensor_map, pointer beside `offset`",
        ),
        (
            json!({"struct": {"bytes": 8, "fields": [{"offset": 0, "pointer": 0}]}}),
            "args[0].struct.fields[0].pointer: args[0] is not a buffer",
        ),
    ];
    for (argument, words) in arguments {
        let complaint = with_argument(argument).expect_err("malformed").to_string();
        assert!(complaint.contains(words), "{complaint}");
    }
}

/// Two launches that share buffers.
fn pipeline() -> Value {
    json!({
        "ptx": "a.ptx",
        "buffers": {
            "x": {"dtype": "f32", "shape": [8], "init": "iota"},
            "y": {"dtype": "f32", "shape": [8], "save": "y.npy"},
        },
        "symbols": {
            "taps": {"dtype": "f32", "shape": [5], "init": {"npy": "taps.npy"}},
            "counter": {"dtype": "u32", "shape": [], "save": "counter.npy"},
        },
        "launches": [
            {"entry": "k", "grid": [1], "block": [8], "args": [{"buffer": "x"}, {"buffer": "y"}], "record": "done"},
            {"ptx": "b.ptx", "entry": "l", "grid": [1], "block": [8], "stream": "copy", "wait": ["done"],
             "programmatic": true, "args": [
                {"buffer": {"dtype": "u8", "shape": [4]}}, {"buffer": "y"},
                {"struct": {"bytes": 16, "fields": [{"offset": 0, "pointer": "x"}, {"offset": 8, "pointer": 0}]}},
            ]},
        ],
    })
}

#[test]
fn several_launches_share_buffers_variables_and_events() {
    let description = Description::parse(&pipeline()).expect("it is right");
    let paths: Vec<&str> = description.buffers.iter().map(|placed| placed.path.as_str()).collect();
    assert_eq!(paths, ["buffers.x", "buffers.y", "launches[1].args[0].buffer"]);
    let [first, second] = &description.launches[..] else { panic!("{:?}", description.launches) };
    assert_eq!(first.arguments, [Argument::Buffer(0), Argument::Buffer(1)]);
    assert_eq!((first.stream.as_str(), first.record.as_deref()), ("default", Some("done")));
    assert_eq!(second.arguments[..2], [Argument::Buffer(2), Argument::Buffer(1)]);
    assert_eq!(second.arguments[2].referred(), [0, 2]);
    assert_eq!((second.stream.as_str(), &second.wait[..]), ("copy", &["done".to_owned()][..]));
    assert!(second.programmatic && !first.programmatic && !description.is_single);
    assert_eq!(description.modules(), ["a.ptx", "b.ptx"]);
    let [counter, taps] = &description.symbols[..] else { panic!("{:?}", description.symbols) };
    assert_eq!((counter.name.as_str(), &counter.init), ("counter", &None));
    assert_eq!((taps.ptx.as_str(), &taps.init), ("a.ptx", &Some(Init::Npy("taps.npy".to_owned()))));
    let names = |files: Vec<(String, &str)>| {
        files.iter().map(|(place, file)| format!("{place}={file}")).collect::<Vec<_>>()
    };
    assert_eq!(
        names(description.inputs()),
        ["launches[0].ptx=a.ptx", "launches[1].ptx=b.ptx", "symbols.taps.init=taps.npy"]
    );
    assert_eq!(names(description.outputs()), ["buffers.y.save=y.npy", "symbols.counter.save=counter.npy"]);
}

#[test]
fn mistakes_among_several_launches_are_named() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 15] = [
        (|file| file["grid"] = json!([1]), "`grid` stands beside `launches`; it belongs into each of them"),
        (|file| file["launches"] = json!([]), "launches: expected at least one launch"),
        (|file| file["launches"] = json!({}), "launches: expected an array"),
        (
            |file| file["launches"][0]["gird"] = json!([1]),
            "launches[0]: unknown field `gird`; did you mean `grid`?",
        ),
        (
            |file| file["launches"][0]["args"][0]["buffer"] = json!("xx"),
            "launches[0].args[0].buffer: `buffers` has no `xx`; did you mean `x`?",
        ),
        (
            |file| file["launches"][1]["args"][2]["struct"]["fields"][0]["pointer"] = json!("z"),
            "launches[1].args[2].struct.fields[0].pointer: `buffers` has no `z`",
        ),
        (
            |file| file["launches"][1]["args"][2]["struct"]["fields"][0]["pointer"] = json!(2),
            "fields[0].pointer: args[2] is not a buffer",
        ),
        (
            |file| file["launches"][1]["wait"] = json!(["dome"]),
            "launches[1].wait: no launch before this one records the event `dome`; did you mean `done`?",
        ),
        (
            |file| file["launches"][0]["wait"] = json!(["done"]),
            "launches[0].wait: no launch before this one records the event `done`",
        ),
        (
            |file| file["launches"][0]["wait"] = json!("done"),
            "launches[0].wait: expected an array, not \"done\"",
        ),
        (|file| file["launches"][0]["record"] = json!(1), "launches[0].record: expected a string, not 1"),
        (|file| file["launches"][0]["entry"] = json!(null), "launches[0].entry: expected a string, not null"),
        (
            |file| file["symbols"]["taps"]["ptx"] = json!("c.ptx"),
            "symbols.taps.ptx: no launch has a kernel of `c.ptx`",
        ),
        (|file| file["symbols"]["taps"]["value"] = json!(1), "symbols.taps: unknown field `value`"),
        (|file| file["buffers"] = json!([1]), "buffers: expected an object, not an array of 1"),
    ];
    for (change, words) in cases {
        let mut file = pipeline();
        change(&mut file);
        let complaint = Description::parse(&file).expect_err("malformed").to_string();
        assert!(complaint.contains(words), "{complaint}\nand not\n{words}");
    }
    let single = json!({"ptx": "a", "entry": "k", "grid": [1], "block": [1], "stream": "s"});
    let complaint = Description::parse(&single).expect_err("it has one launch").to_string();
    assert!(complaint.contains("unknown field `stream`"), "{complaint}");
}
