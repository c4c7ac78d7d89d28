//! What the GPU gave: `results.json` says where in `results.bin` each case's outputs stand.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::case::{Buffer, Case};
use crate::golden;

/// The outputs of every case that was recorded.
pub(crate) struct Records {
    entries: BTreeMap<String, Entry>,
    stored: Vec<u8>,
}

#[derive(Deserialize)]
struct Index {
    cases: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    offset: usize,
    stored: usize,
    bytes: usize,
    checksum: u32,
}

impl Records {
    pub(crate) fn read() -> Records {
        let index = std::fs::read_to_string(golden().join("results.json")).expect("there is an index");
        let index: Index = serde_json::from_str(&index).expect("every case of the index was recorded");
        let stored = std::fs::read(golden().join("results.bin")).expect("there are results");
        Records { entries: index.cases, stored }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// The saved buffers of a case, end to end; an error where the record is of another program or other inputs.
    pub(crate) fn outputs(&self, case: &Case) -> Result<Vec<u8>, String> {
        let name = case.path();
        let entry = self.entries.get(&name).ok_or("it was never recorded")?;
        if entry.checksum != checksum(case) {
            return Err("it has changed since it was recorded".to_owned());
        }
        let stored = &self.stored[entry.offset..][..entry.stored];
        let outputs =
            miniz_oxide::inflate::decompress_to_vec_zlib(stored).map_err(|error| error.to_string())?;
        assert_eq!(outputs.len(), entry.bytes, "{name}");
        Ok(outputs)
    }
}

/// The checksum of the program, the launch and the inputs, as `record.py` makes it.
fn checksum(case: &Case) -> u32 {
    let mut sum = crc32(case.launch().as_bytes(), crc32(case.ptx().as_bytes(), 0));
    for operand in &case.operands {
        if let Buffer::Input(input) | Buffer::RawInput(input) | Buffer::RawInOut(input) = &operand.buffer {
            sum = crc32(&input.npy()[128..], sum);
        }
    }
    sum
}

fn crc32(bytes: &[u8], start: u32) -> u32 {
    !bytes.iter().fold(!start, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| sum >> 1 ^ if sum & 1 != 0 { 0xedb8_8320 } else { 0 })
    })
}
