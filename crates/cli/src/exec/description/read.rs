//! Reads a launch file's value: every complaint names its place.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    Argument, Buffer, DEFAULT_STREAM, Description, Field, Init, Launch, Placed, Structure, Symbol, TensorMap,
};
use crate::dtype::Dtype;
use crate::exec::json::{Complaint, Node};
use crate::exec::{scalar, tensor_map};
use crate::suggestion::did_you_mean;

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

/// Reads a launch of a file with this PTX.
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
