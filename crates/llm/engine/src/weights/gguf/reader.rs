//! The header of a GGUF file: metadata and the list of tensors.
//!
//! What a header asks for is bounded before memory is taken: a file can name any count.

use serde_json::{Map, Value};

/// The part of a file before the data.
pub(super) struct Header {
    pub(super) metadata: Map<String, Value>,
    pub(super) tensors: Vec<Entry>,
    /// Where the data begins.
    pub(super) data: usize,
}

/// A tensor of the list.
pub(super) struct Entry {
    pub(super) name: String,
    /// The contiguous one first.
    pub(super) extents: Vec<usize>,
    /// GGML's number of the type.
    pub(super) kind: u32,
    /// From the start of the data on.
    pub(super) offset: usize,
}

/// Keys of metadata, and tensors. Large models have about 60 keys and 2,000 tensors.
const MOST_ENTRIES: usize = 1 << 16;
/// Elements of all arrays together: a vocabulary of 262,144 tokens with scores, types and merges has 1.3 million.
const MOST_ELEMENTS: usize = 1 << 22;
/// Bytes of a string, such as a whole `tokenizer.json`.
const MOST_BYTES: usize = 1 << 26;
/// Axes of a tensor, as GGML has them.
const MOST_AXES: u32 = 4;
/// The largest alignment of the data.
const MOST_ALIGNMENT: u64 = 1 << 20;

/// Why a header is refused.
type Refusal = String;

/// Reads from the bytes of a file.
pub(super) struct Reader<'l> {
    bytes: &'l [u8],
    at: usize,
    /// Elements of arrays so far.
    elements: usize,
}

fn cut_off() -> Refusal {
    "it is cut off: its header ends after the file does".to_owned()
}

impl<'l> Reader<'l> {
    pub(super) fn new(bytes: &'l [u8]) -> Self {
        Self { bytes, at: 0, elements: 0 }
    }

    fn bytes(&mut self, count: usize) -> Result<&'l [u8], Refusal> {
        let end = self.at.checked_add(count).ok_or_else(cut_off)?;
        let bytes = self.bytes.get(self.at..end).ok_or_else(cut_off)?;
        self.at = end;
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        self.bytes(N)?.try_into().map_err(|_| cut_off())
    }

    fn word(&mut self) -> Result<u32, Refusal> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Result<usize, Refusal> {
        usize::try_from(u64::from_le_bytes(self.take()?)).map_err(|_| cut_off())
    }

    /// A count of things; a file has at most `most`.
    fn count(&mut self, what: &str, most: usize) -> Result<usize, Refusal> {
        let count = self.long()?;
        if count > most {
            return Err(format!("its header has {count} {what}; the engine reads up to {most}"));
        }
        Ok(count)
    }

    fn string(&mut self) -> Result<String, Refusal> {
        let length = self.count("bytes in a string", MOST_BYTES)?;
        let bytes = self.bytes(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| "a string of its header is not UTF-8".to_owned())
    }

    /// A value of metadata that is no array, by the number of its type.
    fn scalar(&mut self, kind: u32) -> Result<Value, Refusal> {
        Ok(match kind {
            0 => self.take::<1>()?[0].into(),
            1 => self.take::<1>()?[0].cast_signed().into(),
            2 => u16::from_le_bytes(self.take()?).into(),
            3 => i16::from_le_bytes(self.take()?).into(),
            4 => self.word()?.into(),
            5 => self.word()?.cast_signed().into(),
            6 => finite(f32::from_le_bytes(self.take()?).into())?,
            7 => (self.take::<1>()?[0] != 0).into(),
            8 => self.string()?.into(),
            9 => {
                return Err(
                    "its metadata has arrays of arrays, which no key of a language model has".to_owned()
                );
            }
            10 => u64::from_le_bytes(self.take()?).into(),
            11 => i64::from_le_bytes(self.take()?).into(),
            12 => finite(f64::from_le_bytes(self.take()?).into())?,
            other => return Err(format!("its metadata has values of the unknown type {other}")),
        })
    }

    fn value(&mut self, kind: u32) -> Result<Value, Refusal> {
        if kind != 9 {
            return self.scalar(kind);
        }
        let (kind, length) = (self.word()?, self.count("elements in an array", MOST_ELEMENTS)?);
        self.elements += length;
        if self.elements > MOST_ELEMENTS {
            return Err(format!("its arrays have more than {MOST_ELEMENTS} elements together"));
        }
        // Each element has a byte or more.
        if length > self.bytes.len() - self.at {
            return Err(cut_off());
        }
        let mut values = Vec::with_capacity(length);
        for _ in 0..length {
            values.push(self.scalar(kind)?);
        }
        Ok(values.into())
    }

    pub(super) fn header(&mut self) -> Result<Header, Refusal> {
        if self.take()? != *b"GGUF" {
            return Err("it is no GGUF file".to_owned());
        }
        let version = self.word()?;
        if !matches!(version, 2 | 3) {
            return Err(format!(
                "it is GGUF of version {version}; the engine reads versions 2 and 3, little-endian"
            ));
        }
        let tensors = self.count("tensors", MOST_ENTRIES)?;
        let entries = self.count("keys", MOST_ENTRIES)?;
        let mut metadata = Map::new();
        for _ in 0..entries {
            let (key, kind) = (self.string()?, self.word()?);
            let value = self.value(kind)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(format!("it has the key {key} twice"));
            }
        }
        let mut all = vec![];
        for _ in 0..tensors {
            all.push(self.entry()?);
        }
        let alignment = metadata.get("general.alignment").map_or(Some(32), Value::as_u64);
        let alignment = alignment.filter(|bytes| bytes.is_power_of_two() && *bytes <= MOST_ALIGNMENT);
        let alignment = alignment.ok_or("general.alignment is no power of two up to 1048576")? as usize;
        Ok(Header { metadata, tensors: all, data: self.at.next_multiple_of(alignment) })
    }

    fn entry(&mut self) -> Result<Entry, Refusal> {
        let (name, axes) = (self.string()?, self.word()?);
        if axes > MOST_AXES {
            return Err(format!("{name} has {axes} axes; GGML has up to {MOST_AXES}"));
        }
        let mut extents = vec![];
        for _ in 0..axes {
            extents.push(self.long()?);
        }
        Ok(Entry { name, extents, kind: self.word()?, offset: self.long()? })
    }
}

/// A number of metadata. JSON has no other ones, and makes null of them, which is no key.
fn finite(number: Value) -> Result<Value, Refusal> {
    match number {
        Value::Null => Err("its metadata has a number that is NaN or infinite".to_owned()),
        number => Ok(number),
    }
}
