//! What a launch file says.

use serde_json::Value;

use warpwright_arch::tensor_map::Description as Tensor;

use super::json::{Complaint, Node};
use super::tensor_map;
use crate::dtype::Dtype;

/// A launch: a kernel of a PTX file, its shape and its arguments. Paths are as written, relative to
/// the launch file.
#[derive(Debug, PartialEq)]
pub(crate) struct Description {
    pub(crate) ptx: String,
    pub(crate) entry: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) cooperative: bool,
    pub(crate) dynamic_shared_bytes: u32,
    pub(crate) arguments: Vec<Argument>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Argument {
    Buffer(Buffer),
    /// The bytes of a scalar, and whether it is a float with a name in NumPy.
    Scalar {
        dtype: &'static Dtype,
        bytes: Vec<u8>,
    },
    /// A structure, as the bytes it has in C.
    Bytes(Vec<u8>),
    TensorMap(TensorMap),
    Structure(Structure),
}

/// A structure passed by value, field by field.
#[derive(Debug, PartialEq)]
pub(crate) struct Structure {
    /// Its size.
    pub(crate) bytes: usize,
    pub(crate) fields: Vec<(usize, Field)>,
}

/// What a structure has at an offset.
#[derive(Debug, PartialEq)]
pub(crate) enum Field {
    /// The bytes of a scalar, or of several fields.
    Bytes(Vec<u8>),
    TensorMap(TensorMap),
    /// The address of a buffer among the arguments, by its place.
    Pointer(usize),
}

impl Argument {
    /// What launch files call it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Buffer(_) => "buffer",
            Self::Scalar { .. } => "scalar",
            Self::Bytes(_) => "bytes",
            Self::TensorMap(_) => "tensor_map",
            Self::Structure(_) => "struct",
        }
    }

    /// The tensor maps in it, in order.
    pub(crate) fn tensor_maps(&self) -> Vec<&TensorMap> {
        fn of_field((_, field): &(usize, Field)) -> Option<&TensorMap> {
            match field {
                Field::TensorMap(map) => Some(map),
                Field::Bytes(_) | Field::Pointer(_) => None,
            }
        }
        match self {
            Self::TensorMap(map) => vec![map],
            Self::Structure(structure) => structure.fields.iter().filter_map(of_field).collect(),
            Self::Buffer(_) | Self::Scalar { .. } | Self::Bytes(_) => Vec::new(),
        }
    }

    /// The places of the buffers that it reaches without being one.
    pub(crate) fn referred(&self) -> Vec<usize> {
        match self {
            Self::Buffer(_) | Self::Scalar { .. } | Self::Bytes(_) => Vec::new(),
            Self::TensorMap(map) => vec![map.buffer],
            Self::Structure(structure) => {
                let buffer = |(_, field): &(usize, Field)| match field {
                    Field::Bytes(_) => None,
                    Field::TensorMap(map) => Some(map.buffer),
                    Field::Pointer(buffer) => Some(*buffer),
                };
                structure.fields.iter().filter_map(buffer).collect()
            }
        }
    }
}

/// A tensor map over a buffer among the arguments.
#[derive(Debug, PartialEq)]
pub(crate) struct TensorMap {
    /// The buffer's place among the arguments.
    pub(crate) buffer: usize,
    /// Its address counts from the start of the buffer.
    pub(crate) description: Tensor,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Buffer {
    pub(crate) dtype: &'static Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) init: Init,
    /// Where to write it after the launch.
    pub(crate) save: Option<String>,
}

impl Buffer {
    /// How many elements it has.
    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> u64 {
        (self.count() * self.dtype.bytes()) as u64
    }
}

/// What a buffer holds before the launch.
#[derive(Debug, PartialEq)]
pub(crate) enum Init {
    /// The array of a NumPy file.
    Npy(String),
    /// Bytes of zero.
    Zero,
    /// Bytes of `0xff`.
    Poison,
    /// 0, 1, 2, ... in C order.
    Iota,
    /// Standard normal numbers.
    Normal {
        /// The same seed gives the same numbers.
        seed: u64,
    },
}

type Result<T> = std::result::Result<T, Complaint>;

/// Bytes of all parameters of a kernel. (CUDA Programming Guide, "Kernel parameters": 32,764 from
/// CUDA 12.1 on.)
const MOST_PARAMETER_BYTES: u32 = 32_764;

impl Description {
    /// Reads a launch file's value.
    pub(crate) fn parse(value: &Value) -> Result<Self> {
        let root = Node::root(value);
        let fields =
            ["ptx", "entry", "grid", "block", "cluster", "cooperative", "dynamic_shared_bytes", "args"];
        root.object(&fields)?;
        let arguments = match root.optional("args") {
            Some(nodes) => arguments(&nodes)?,
            None => Vec::new(),
        };
        let cluster = root.optional("cluster").map_or(Ok([1; 3]), |cluster| cluster.extents())?;
        let shared = root.optional("dynamic_shared_bytes").map_or(Ok(0), |bytes| bytes.unsigned_32())?;
        Ok(Self {
            ptx: root.field("ptx")?.string()?.to_owned(),
            entry: root.field("entry")?.string()?.to_owned(),
            grid: root.field("grid")?.extents()?,
            block: root.field("block")?.extents()?,
            cluster,
            cooperative: root.optional("cooperative").map_or(Ok(false), |flag| flag.boolean())?,
            dynamic_shared_bytes: shared,
            arguments,
        })
    }
}

impl Description {
    /// Bytes of all buffers.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let buffers = self.arguments.iter().filter_map(|argument| match argument {
            Argument::Buffer(buffer) => Some(buffer.bytes()),
            _ => None,
        });
        buffers.fold(0, u64::saturating_add)
    }

    /// Leaves out what would be saved after the launch.
    pub(crate) fn save_nothing(&mut self) {
        for argument in &mut self.arguments {
            if let Argument::Buffer(buffer) = argument {
                buffer.save = None;
            }
        }
    }
}

fn arguments(list: &Node<'_>) -> Result<Vec<Argument>> {
    let nodes = list.items()?;
    let arguments = nodes.iter().map(argument).collect::<Result<Vec<_>>>()?;
    for (node, argument) in nodes.iter().zip(&arguments) {
        let is_buffer = |place: &usize| matches!(arguments.get(*place), Some(Argument::Buffer(_)));
        if let Some(wrong) = argument.referred().into_iter().find(|place| !is_buffer(place)) {
            let place = node.optional("tensor_map").and_then(|map| map.optional("buffer"));
            let place = place.unwrap_or_else(|| node.clone());
            return Err(place
                .complain(format!("args[{wrong}] is not a buffer; give the index of a buffer in `args`")));
        }
    }
    Ok(arguments)
}

fn argument(node: &Node<'_>) -> Result<Argument> {
    match node.choice(&["buffer", "scalar", "bytes", "tensor_map", "struct"])? {
        ("buffer", node) => buffer(&node).map(Argument::Buffer),
        ("scalar", node) => scalar(&node).map(|(dtype, bytes)| Argument::Scalar { dtype, bytes }),
        ("bytes", node) => hexadecimal(&node).map(Argument::Bytes),
        ("tensor_map", node) => tensor_map::parse(&node).map(Argument::TensorMap),
        (_, node) => structure(&node).map(Argument::Structure),
    }
}

/// Reads a structure: its size, and its fields at their offsets.
fn structure(node: &Node<'_>) -> Result<Structure> {
    node.object(&["bytes", "fields"])?;
    let bytes = node.field("bytes")?;
    let size = bytes.unsigned_32()?;
    if size > MOST_PARAMETER_BYTES {
        return Err(bytes.complain(format!(
            "a kernel takes {MOST_PARAMETER_BYTES} bytes of parameters at most, not {size}"
        )));
    }
    let field = |node: &Node<'_>| {
        let kinds = ["scalar", "bytes", "tensor_map", "pointer"];
        let (kind, value) = node.choice_beside(Some("offset"), &kinds)?;
        let field = match kind {
            "scalar" => Field::Bytes(scalar(&value)?.1),
            "bytes" => Field::Bytes(hexadecimal(&value)?),
            "tensor_map" => Field::TensorMap(tensor_map::parse(&value)?),
            _ => Field::Pointer(value.unsigned()? as usize),
        };
        Ok((node.field("offset")?.unsigned_32()? as usize, field))
    };
    let fields = node.field("fields")?.items()?.iter().map(field).collect::<Result<_>>()?;
    Ok(Structure { bytes: size as usize, fields })
}

fn dtype(node: &Node<'_>) -> Result<&'static Dtype> {
    let name = node.string()?;
    Dtype::named(name)
        .ok_or_else(|| node.complain(format!("unknown dtype `{name}`; expected one of {}", Dtype::known())))
}

fn buffer(node: &Node<'_>) -> Result<Buffer> {
    node.object(&["dtype", "shape", "init", "save"])?;
    let dtype = dtype(&node.field("dtype")?)?;
    let shape_node = node.field("shape")?;
    let mut bytes = dtype.bytes() as u64;
    let mut shape = Vec::new();
    for extent in shape_node.items()? {
        let size = extent.unsigned()?;
        let too_large = || extent.complain("the buffer would have more than 2^64 bytes");
        bytes = bytes.checked_mul(size.max(1)).ok_or_else(too_large)?;
        shape.push(usize::try_from(size).map_err(|_| too_large())?);
    }
    let init = node.optional("init").map_or(Ok(Init::Poison), |init| self::init(&init, dtype))?;
    let save = node.optional("save").map(|save| save.string().map(str::to_owned)).transpose()?;
    Ok(Buffer { dtype, shape, init, save })
}

fn init(node: &Node<'_>, dtype: &Dtype) -> Result<Init> {
    let choices = "`zero`, `poison`, `iota`, {\"npy\": \"FILE\"} or {\"normal\": {\"seed\": N}}";
    match node.value() {
        Value::String(name) => match name.as_str() {
            "zero" => Ok(Init::Zero),
            "poison" => Ok(Init::Poison),
            "iota" => Ok(Init::Iota),
            other => Err(node.complain(format!("unknown init `{other}`; expected one of {choices}"))),
        },
        Value::Object(_) => {
            match node.choice(&["npy", "normal"])? {
                ("npy", path) => Ok(Init::Npy(path.string()?.to_owned())),
                (_, normal) if !dtype.is_float() => Err(normal
                    .complain(format!("`normal` initializes floats, and {} is not a float", dtype.name()))),
                (_, normal) => {
                    normal.object(&["seed"])?;
                    Ok(Init::Normal { seed: normal.field("seed")?.unsigned()? })
                }
            }
        }
        _ => Err(node.complain(format!("an init is {choices}, not {}", node.describe()))),
    }
}

fn scalar(node: &Node<'_>) -> Result<(&'static Dtype, Vec<u8>)> {
    node.object(&["dtype", "value"])?;
    let dtype = dtype(&node.field("dtype")?)?;
    let value = node.field("value")?;
    Ok((dtype, scalar_bytes(&value, dtype)?))
}

/// The bytes of a scalar. A string is a number too: in hexadecimal the bits themselves, and `nan`,
/// `inf` and `-inf`, which JSON lacks.
fn scalar_bytes(node: &Node<'_>, dtype: &Dtype) -> Result<Vec<u8>> {
    let name = dtype.name();
    let refuse =
        |wanted: &str| node.complain(format!("expected {wanted} for {name}, not {}", node.describe()));
    let width = dtype.bytes() as u32 * 8;
    let fits_unsigned = |bits: u64| width == 64 || bits >> width == 0;
    if let Value::String(text) = node.value() {
        if let Some(digits) = text.strip_prefix("0x") {
            let bits = u64::from_str_radix(digits, 16).ok().filter(|bits| fits_unsigned(*bits));
            return bits
                .map(|bits| dtype.element(bits))
                .ok_or_else(|| refuse("a hexadecimal number that fits"));
        }
        return match text.as_str() {
            "nan" | "inf" | "-inf" if dtype.is_float() && dtype.has_numpy_name() => {
                Ok(dtype.nearest(text.parse().expect("these are numbers to Rust")))
            }
            _ => Err(refuse("a number, or its bits as \"0x...\",")),
        };
    }
    if !dtype.has_numpy_name() {
        let bits = node.value().as_u64().filter(|bits| fits_unsigned(*bits));
        return bits.map(|bits| dtype.element(bits)).ok_or_else(|| refuse("the value's unsigned bits"));
    }
    if dtype.is_float() {
        return node.value().as_f64().map(|number| dtype.nearest(number)).ok_or_else(|| refuse("a number"));
    }
    let fits_signed =
        |number: i64| width == 64 || (-(1i64 << (width - 1))..1i64 << (width - 1)).contains(&number);
    let integer = match node.value() {
        Value::Bool(flag) if name == "bool" => Some(u64::from(*flag)),
        value if name == "bool" => value.as_u64().filter(|bit| *bit < 2),
        value if dtype.numpy == crate::dtype::NumpyKind::Signed => {
            value.as_i64().filter(|number| fits_signed(*number)).map(|number| number as u64)
        }
        value => value.as_u64().filter(|number| fits_unsigned(*number)),
    };
    integer.map(|bits| dtype.element(bits)).ok_or_else(|| refuse("an integer in range"))
}

fn hexadecimal(node: &Node<'_>) -> Result<Vec<u8>> {
    let text = node.string()?;
    let refuse = || node.complain("expected pairs of hexadecimal digits, such as \"00ff\"");
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(refuse());
    }
    let pair = |start: usize| {
        let digits = &text[start..start + 2];
        // `from_str_radix` would take a sign.
        let is_pair = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_pair.then(|| u8::from_str_radix(digits, 16).expect("two hexadecimal digits")).ok_or_else(refuse)
    };
    (0..text.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A launch file with one argument.
    fn with_argument(argument: Value) -> Result<Description> {
        Description::parse(
            &json!({"ptx": "a.ptx", "entry": "k", "grid": [1], "block": [1], "args": [argument]}),
        )
    }

    fn scalar_of(dtype: &str, value: Value) -> Result<Vec<u8>> {
        with_argument(json!({"scalar": {"dtype": dtype, "value": value}})).map(
            |description| match description.arguments.into_iter().next() {
                Some(Argument::Scalar { bytes, .. }) => bytes,
                other => panic!("{other:?}"),
            },
        )
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
        let buffer = |name, shape: &[usize], init, save: Option<&str>| {
            Argument::Buffer(Buffer {
                dtype: dtype(name),
                shape: shape.to_vec(),
                init,
                save: save.map(str::to_owned),
            })
        };
        let expected = Description {
            ptx: "add.ptx".to_owned(),
            entry: "add".to_owned(),
            grid: [4, 1, 1],
            block: [256, 2, 1],
            cluster: [2, 1, 1],
            cooperative: true,
            dynamic_shared_bytes: 64,
            arguments: vec![
                buffer("f32", &[32, 32], Init::Npy("x.npy".to_owned()), None),
                buffer("bf16", &[], Init::Normal { seed: 7 }, Some("out.npy")),
                buffer("u8", &[3], Init::Poison, None),
                Argument::Scalar { dtype: dtype("u32"), bytes: vec![0, 4, 0, 0] },
                Argument::Bytes(vec![0, 255]),
            ],
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
        let arguments = description.expect("it is right").arguments;
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
            (json!({"ptx": "a", "entry": "k", "grid": [1], "block": [1], "arg": []}), "unknown field `arg`"),
            (
                json!({"ptx": "a", "entry": "k", "grid": [1], "block": [1], "args": {}}),
                "args: expected an array",
            ),
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
                "args[0]: args[0] is not a buffer",
            ),
        ];
        for (argument, words) in arguments {
            let complaint = with_argument(argument).expect_err("malformed").to_string();
            assert!(complaint.contains(words), "{complaint}");
        }
    }

    #[test]
    fn scalars_become_their_bytes() {
        let cases = [
            ("u8", json!(255), vec![255]),
            ("i8", json!(-128), vec![128]),
            ("u64", json!(u64::MAX), vec![255; 8]),
            ("i64", json!(i64::MIN), i64::MIN.to_le_bytes().to_vec()),
            ("f32", json!(0.1), 0.1f32.to_le_bytes().to_vec()),
            ("f32", json!(3), 3f32.to_le_bytes().to_vec()),
            ("f64", json!(0.1), 0.1f64.to_le_bytes().to_vec()),
            ("f16", json!(1.0), vec![0, 0x3c]),
            ("f32", json!("-inf"), f32::NEG_INFINITY.to_le_bytes().to_vec()),
            ("f32", json!("0x7fc00001"), 0x7fc0_0001u32.to_le_bytes().to_vec()),
            ("bf16", json!(0x3f80), vec![0x80, 0x3f]),
            ("e4m3", json!(0x38), vec![0x38]),
            ("bool", json!(true), vec![1]),
        ];
        for (dtype, value, bytes) in cases {
            assert_eq!(scalar_of(dtype, value), Ok(bytes), "{dtype}");
        }
    }

    #[test]
    fn scalars_out_of_range_are_refused() {
        let cases = [
            ("u8", json!(256)),
            ("u8", json!(-1)),
            ("i8", json!(128)),
            ("i8", json!(-129)),
            ("u32", json!(1.5)),
            ("u32", json!("0x100000000")),
            ("u32", json!("12")),
            ("u64", json!(1e30)),
            ("bf16", json!(1.5)),
            ("bf16", json!(65536)),
            ("bool", json!(2)),
            ("u32", json!("nan")),
            ("f32", json!(null)),
        ];
        for (dtype, value) in cases {
            let complaint = scalar_of(dtype, value.clone()).expect_err("out of range").to_string();
            assert!(complaint.starts_with("args[0].scalar.value: "), "{dtype} {value}: {complaint}");
        }
    }
}
