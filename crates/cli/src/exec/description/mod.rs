//! What a launch file says: modules and their variables, buffers, and launches in order.

mod read;

use warpwright_arch::tensor_map::Description as Tensor;

use crate::dtype::Dtype;

/// A launch file. Paths are as written, relative to the file.
#[derive(Debug, PartialEq)]
pub(crate) struct Description {
    /// All buffers: the file's `buffers`, then the arguments of launches that are buffers.
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

impl Description {
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

#[cfg(test)]
mod tests;
