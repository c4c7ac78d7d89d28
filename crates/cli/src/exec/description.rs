//! What a launch file says: modules and their variables, buffers, and launches in order.

use std::collections::HashMap;

use serde_json::Value;

use warpwright_arch::tensor_map::Description as Tensor;

use super::json::{Complaint, Node};
use super::{scalar, tensor_map};
use crate::dtype::Dtype;
use crate::suggestion::did_you_mean;

/// A launch file. Paths are as written, relative to the file.
#[derive(Debug, PartialEq)]
pub(crate) struct Description {
    /// All buffers: those of `buffers`, then those that launches have as arguments.
    pub(crate) buffers: Vec<Placed>,
    /// Variables of the modules that the file sets or saves.
    pub(crate) symbols: Vec<Symbol>,
    /// The launches, in order.
    pub(crate) launches: Vec<Launch>,
    /// Whether the file is one launch, without `launches`.
    pub(crate) is_single: bool,
}

/// One launch: a kernel of a PTX file, its shape, its arguments, and what orders it.
#[derive(Debug, PartialEq)]
pub(crate) struct Launch {
    /// Its place in the file: `launches[1]`, or nothing.
    pub(crate) path: String,
    pub(crate) ptx: String,
    pub(crate) entry: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) cooperative: bool,
    /// Programmatic dependent launch.
    pub(crate) programmatic: bool,
    pub(crate) dynamic_shared_bytes: u32,
    pub(crate) arguments: Vec<Argument>,
    /// The name of its stream.
    pub(crate) stream: String,
    /// The events that its stream waits for before it.
    pub(crate) wait: Vec<String>,
    /// The event that its stream records after it.
    pub(crate) record: Option<String>,
}

/// The stream of launches that name none.
pub(crate) const DEFAULT_STREAM: &str = "default";

/// A buffer, and its place in the file: `buffers.x`, or `args[1].buffer`.
#[derive(Debug, PartialEq)]
pub(crate) struct Placed {
    pub(crate) path: String,
    pub(crate) buffer: Buffer,
}

/// A `.global` or `.const` variable of a module.
#[derive(Debug, PartialEq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    /// The module.
    pub(crate) ptx: String,
    pub(crate) dtype: &'static Dtype,
    pub(crate) shape: Vec<usize>,
    /// What the host sets it to before the first launch; otherwise it has its value in the PTX.
    pub(crate) init: Option<Init>,
    /// Where to write it after the last launch.
    pub(crate) save: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Argument {
    /// A buffer, by its index in the file.
    Buffer(usize),
    /// The bytes of a scalar, and its type.
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
    /// The address of a buffer, by its index in the file.
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

    /// The buffers that it reaches without being one.
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

/// A tensor map over a buffer.
#[derive(Debug, PartialEq)]
pub(crate) struct TensorMap {
    /// The buffer's index in the file.
    pub(crate) buffer: usize,
    /// Its address counts from the start of the buffer.
    pub(crate) description: Tensor,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Buffer {
    pub(crate) dtype: &'static Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) init: Init,
    /// Where to write it after the last launch.
    pub(crate) save: Option<String>,
}

impl Buffer {
    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> u64 {
        bytes(self.dtype, &self.shape)
    }
}

/// Bytes of an array. The parser has checked that they are counted in 64 bits.
pub(crate) fn bytes(dtype: &Dtype, shape: &[usize]) -> u64 {
    (shape.iter().product::<usize>() * dtype.bytes()) as u64
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
    /// The bytes of these numbers, in C order.
    Values(Vec<u8>),
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

/// The fields of every launch.
const LAUNCH: [&str; 8] =
    ["entry", "grid", "block", "cluster", "cooperative", "programmatic", "dynamic_shared_bytes", "args"];
/// Those of a launch among several.
const ORDER: [&str; 3] = ["stream", "wait", "record"];
/// Those of the whole file.
const FILE: [&str; 3] = ["buffers", "symbols", "launches"];

impl Description {
    /// Reads a launch file's value.
    pub(crate) fn parse(value: &Value) -> Result<Self> {
        let root = Node::root(value);
        root.object(&[&["ptx"], &LAUNCH[..], &FILE[..]].concat())?;
        let mut buffers = Buffers::default();
        for (name, node) in root.optional("buffers").map_or(Ok(Vec::new()), |buffers| buffers.named())? {
            buffers.names.insert(name.to_owned(), buffers.all.len());
            buffers.all.push(Placed { path: node.path().to_owned(), buffer: buffer(&node)? });
        }
        let ptx = root.optional("ptx").map(|ptx| ptx.string()).transpose()?;
        let several = root.optional("launches");
        let launches = match &several {
            None => vec![launch(&root, ptx, &mut buffers)?],
            Some(list) => {
                if let Some(field) = LAUNCH.iter().find(|field| root.optional(field).is_some()) {
                    return Err(root.complain(format!(
                        "`{field}` stands beside `launches`; it belongs into each of them"
                    )));
                }
                let known = [&["ptx"], &LAUNCH[..], &ORDER[..]].concat();
                let of_node = |node: &Node<'_>| {
                    node.object(&known)?;
                    launch(node, ptx, &mut buffers)
                };
                let launches = list.items()?.iter().map(of_node).collect::<Result<Vec<_>>>()?;
                if launches.is_empty() {
                    return Err(list.complain("expected at least one launch"));
                }
                check_events(&list.items()?, &launches)?;
                launches
            }
        };
        let symbols = root.optional("symbols").map_or(Ok(Vec::new()), |symbols| symbols.named())?;
        let symbols = symbols.iter().map(|(name, node)| symbol(name, node, ptx, &launches));
        Ok(Self {
            symbols: symbols.collect::<Result<_>>()?,
            buffers: buffers.all,
            launches,
            is_single: several.is_none(),
        })
    }

    /// Bytes of all buffers.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffers.iter().map(|placed| placed.buffer.bytes()).fold(0, u64::saturating_add)
    }

    /// Threads of all launches.
    pub(crate) fn threads(&self) -> u64 {
        let of_launch = |launch: &Launch| {
            let extents = launch.grid.iter().chain(&launch.block);
            extents.fold(1, |all: u64, extent| all.saturating_mul(u64::from(*extent)))
        };
        self.launches.iter().map(of_launch).fold(0, u64::saturating_add)
    }

    /// The PTX files, each once, in the order of the launches.
    pub(crate) fn modules(&self) -> Vec<&str> {
        let mut modules: Vec<&str> = Vec::new();
        for launch in &self.launches {
            if !modules.contains(&launch.ptx.as_str()) {
                modules.push(&launch.ptx);
            }
        }
        modules
    }

    /// The files that it names as inputs, and where.
    pub(crate) fn inputs(&self) -> Vec<(String, &str)> {
        let mut inputs: Vec<(String, &str)> =
            self.launches.iter().map(|launch| (at(&launch.path, "ptx"), launch.ptx.as_str())).collect();
        for placed in &self.buffers {
            if let Init::Npy(file) = &placed.buffer.init {
                inputs.push((format!("{}.init", placed.path), file));
            }
        }
        for symbol in &self.symbols {
            if let Some(Init::Npy(file)) = &symbol.init {
                inputs.push((format!("symbols.{}.init", symbol.name), file));
            }
        }
        inputs
    }

    /// The files that it names as outputs, and where.
    pub(crate) fn outputs(&self) -> Vec<(String, &str)> {
        let buffers = self
            .buffers
            .iter()
            .filter_map(|placed| Some((format!("{}.save", placed.path), placed.buffer.save.as_deref()?)));
        let symbols = self
            .symbols
            .iter()
            .filter_map(|symbol| Some((format!("symbols.{}.save", symbol.name), symbol.save.as_deref()?)));
        buffers.chain(symbols).collect()
    }
}

/// A field's place below another.
fn at(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The buffers that were read so far.
#[derive(Default)]
struct Buffers {
    all: Vec<Placed>,
    names: HashMap<String, usize>,
}

impl Buffers {
    /// The buffer of that name.
    fn named(&self, node: &Node<'_>, name: &str) -> Result<usize> {
        self.names.get(name).copied().ok_or_else(|| {
            let mut known: Vec<&str> = self.names.keys().map(String::as_str).collect();
            known.sort_unstable();
            let guess = did_you_mean(name, known.iter().copied());
            node.complain(format!("`buffers` has no `{name}`{guess}"))
        })
    }

    /// The buffer that a tensor map or a pointer names: one of `buffers`, or an argument of the same
    /// launch by its index. `of_arguments` are the buffers among them.
    fn referred(&self, node: &Node<'_>, of_arguments: &[Option<usize>]) -> Result<usize> {
        if let Value::String(name) = node.value() {
            return self.named(node, name);
        }
        let index = node.unsigned()?;
        let found = usize::try_from(index).ok().and_then(|index| of_arguments.get(index).copied().flatten());
        found.ok_or_else(|| {
            node.complain(format!(
                "args[{index}] is not a buffer; give the index of a buffer in `args`, or the name of one in \
                 `buffers`"
            ))
        })
    }
}

/// Reads a launch. `ptx` is that of the file.
fn launch(node: &Node<'_>, ptx: Option<&str>, buffers: &mut Buffers) -> Result<Launch> {
    let own = node.optional("ptx").map(|ptx| ptx.string()).transpose()?;
    let Some(ptx) = own.or(ptx) else { return Err(node.complain("the field `ptx` is missing")) };
    let arguments = node.optional("args").map_or(Ok(Vec::new()), |list| arguments(&list, buffers))?;
    let flag = |name| node.optional(name).map_or(Ok(false), |flag| flag.boolean());
    let stream = node.optional("stream").map_or(Ok(DEFAULT_STREAM), |stream| stream.string())?;
    let wait = node.optional("wait").map_or(Ok(Vec::new()), |events| events.items())?;
    Ok(Launch {
        path: node.path().to_owned(),
        ptx: ptx.to_owned(),
        entry: node.field("entry")?.string()?.to_owned(),
        grid: node.field("grid")?.extents()?,
        block: node.field("block")?.extents()?,
        cluster: node.optional("cluster").map_or(Ok([1; 3]), |cluster| cluster.extents())?,
        cooperative: flag("cooperative")?,
        programmatic: flag("programmatic")?,
        dynamic_shared_bytes: node
            .optional("dynamic_shared_bytes")
            .map_or(Ok(0), |bytes| bytes.unsigned_32())?,
        arguments,
        stream: stream.to_owned(),
        wait: wait.iter().map(|event| event.string().map(str::to_owned)).collect::<Result<_>>()?,
        record: node.optional("record").map(|event| event.string().map(str::to_owned)).transpose()?,
    })
}

/// Refuses a wait for an event that no launch before records: on a GPU, it would not wait.
fn check_events(nodes: &[Node<'_>], launches: &[Launch]) -> Result<()> {
    let mut recorded: Vec<&str> = Vec::new();
    for (node, launch) in nodes.iter().zip(launches) {
        if let Some(unknown) = launch.wait.iter().find(|event| !recorded.contains(&event.as_str())) {
            let guess = did_you_mean(unknown, recorded.iter().copied());
            let wait = node.field("wait")?;
            return Err(
                wait.complain(format!("no launch before this one records the event `{unknown}`{guess}"))
            );
        }
        recorded.extend(launch.record.as_deref().filter(|event| !recorded.contains(event)));
    }
    Ok(())
}

fn symbol(name: &str, node: &Node<'_>, ptx: Option<&str>, launches: &[Launch]) -> Result<Symbol> {
    node.object(&["ptx", "dtype", "shape", "init", "save"])?;
    let (dtype, shape) = array(node)?;
    let own = node.optional("ptx");
    let ptx = match &own {
        Some(own) => own.string()?,
        None => ptx.unwrap_or(&launches[0].ptx),
    };
    if !launches.iter().any(|launch| launch.ptx == ptx) {
        return Err(own
            .unwrap_or_else(|| node.clone())
            .complain(format!("no launch has a kernel of `{ptx}`")));
    }
    let init = node.optional("init").map(|init| self::init(&init, dtype, &shape)).transpose()?;
    let save = node.optional("save").map(|save| save.string().map(str::to_owned)).transpose()?;
    Ok(Symbol { name: name.to_owned(), ptx: ptx.to_owned(), dtype, shape, init, save })
}

fn arguments(list: &Node<'_>, buffers: &mut Buffers) -> Result<Vec<Argument>> {
    let nodes = list.items()?;
    let kinds = ["buffer", "scalar", "bytes", "tensor_map", "struct"];
    let chosen = nodes.iter().map(|node| node.choice(&kinds)).collect::<Result<Vec<_>>>()?;
    // Tensor maps and structures refer to buffers behind them, too.
    let mut of_arguments = Vec::new();
    for (kind, node) in &chosen {
        of_arguments.push(match (*kind, node.value()) {
            ("buffer", Value::String(name)) => Some(buffers.named(node, name)?),
            ("buffer", _) => {
                buffers.all.push(Placed { path: node.path().to_owned(), buffer: buffer(node)? });
                Some(buffers.all.len() - 1)
            }
            _ => None,
        });
    }
    let argument = |((kind, node), buffer): (&(&str, Node<'_>), &Option<usize>)| match (*kind, buffer) {
        (_, Some(buffer)) => Ok(Argument::Buffer(*buffer)),
        ("scalar", _) => scalar(node).map(|(dtype, bytes)| Argument::Scalar { dtype, bytes }),
        ("bytes", _) => hexadecimal(node).map(Argument::Bytes),
        ("tensor_map", _) => tensor_map(node, buffers, &of_arguments).map(Argument::TensorMap),
        _ => structure(node, buffers, &of_arguments).map(Argument::Structure),
    };
    chosen.iter().zip(&of_arguments).map(argument).collect()
}

fn tensor_map(node: &Node<'_>, buffers: &Buffers, of_arguments: &[Option<usize>]) -> Result<TensorMap> {
    let description = tensor_map::parse(node)?;
    let buffer = buffers.referred(&node.field("buffer")?, of_arguments)?;
    Ok(TensorMap { buffer, description })
}

/// Reads a structure: its size, and its fields at their offsets.
fn structure(node: &Node<'_>, buffers: &Buffers, of_arguments: &[Option<usize>]) -> Result<Structure> {
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
            "tensor_map" => Field::TensorMap(tensor_map(&value, buffers, of_arguments)?),
            _ => Field::Pointer(buffers.referred(&value, of_arguments)?),
        };
        Ok((node.field("offset")?.unsigned_32()? as usize, field))
    };
    let fields = node.field("fields")?.items()?.iter().map(field).collect::<Result<_>>()?;
    Ok(Structure { bytes: size as usize, fields })
}

fn dtype(node: &Node<'_>) -> Result<&'static Dtype> {
    let name = node.string()?;
    Dtype::named(name).ok_or_else(|| {
        let known = Dtype::known();
        let guess = did_you_mean(name, known.split(", "));
        node.complain(match guess.as_str() {
            "" => format!("unknown dtype `{name}`; expected one of {known}"),
            guess => format!("unknown dtype `{name}`{guess} The dtypes are {known}"),
        })
    })
}

/// The fields `dtype` and `shape`.
fn array(node: &Node<'_>) -> Result<(&'static Dtype, Vec<usize>)> {
    let dtype = dtype(&node.field("dtype")?)?;
    let mut bytes = dtype.bytes() as u64;
    let mut shape = Vec::new();
    for extent in node.field("shape")?.items()? {
        let size = extent.unsigned()?;
        let too_large = || extent.complain("the buffer would have more than 2^64 bytes");
        bytes = bytes.checked_mul(size.max(1)).ok_or_else(too_large)?;
        shape.push(usize::try_from(size).map_err(|_| too_large())?);
    }
    Ok((dtype, shape))
}

fn buffer(node: &Node<'_>) -> Result<Buffer> {
    node.object(&["dtype", "shape", "init", "save"])?;
    let (dtype, shape) = array(node)?;
    let init = node.optional("init").map_or(Ok(Init::Poison), |init| self::init(&init, dtype, &shape))?;
    let save = node.optional("save").map(|save| save.string().map(str::to_owned)).transpose()?;
    Ok(Buffer { dtype, shape, init, save })
}

fn init(node: &Node<'_>, dtype: &'static Dtype, shape: &[usize]) -> Result<Init> {
    let choices =
        "`zero`, `poison`, `iota`, {\"npy\": \"FILE\"}, {\"values\": [..]} or {\"normal\": {\"seed\": N}}";
    match node.value() {
        Value::String(name) => match name.as_str() {
            "zero" => Ok(Init::Zero),
            "poison" => Ok(Init::Poison),
            "iota" => Ok(Init::Iota),
            other => {
                let guess = did_you_mean(other, ["zero", "poison", "iota"]);
                Err(node.complain(match guess.as_str() {
                    "" => format!("unknown init `{other}`; expected one of {choices}"),
                    guess => format!("unknown init `{other}`{guess} An init is {choices}"),
                }))
            }
        },
        Value::Object(_) => {
            match node.choice(&["npy", "values", "normal"])? {
                ("npy", path) => Ok(Init::Npy(path.string()?.to_owned())),
                ("values", list) => values(&list, dtype, shape),
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

/// The elements of an array one by one, as scalars are written.
fn values(list: &Node<'_>, dtype: &'static Dtype, shape: &[usize]) -> Result<Init> {
    let items = list.items()?;
    let count: usize = shape.iter().product();
    if items.len() != count {
        return Err(
            list.complain(format!("expected {count} values for shape {shape:?}, not {}", items.len()))
        );
    }
    let bytes = items.iter().map(|item| scalar::bytes(item, dtype)).collect::<Result<Vec<_>>>()?;
    Ok(Init::Values(bytes.concat()))
}

fn scalar(node: &Node<'_>) -> Result<(&'static Dtype, Vec<u8>)> {
    node.object(&["dtype", "value"])?;
    let dtype = dtype(&node.field("dtype")?)?;
    Ok((dtype, scalar::bytes(&node.field("value")?, dtype)?))
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
        assert_eq!(
            names(description.outputs()),
            ["buffers.y.save=y.npy", "symbols.counter.save=counter.npy"]
        );
    }

    #[test]
    fn mistakes_among_several_launches_are_named() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 15] = [
            (
                |file| file["grid"] = json!([1]),
                "`grid` stands beside `launches`; it belongs into each of them",
            ),
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
            (
                |file| file["launches"][0]["entry"] = json!(null),
                "launches[0].entry: expected a string, not null",
            ),
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
}
