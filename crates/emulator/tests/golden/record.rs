//! What the GPU gave: `results.json` says where in `results.bin` each case's outputs stand, and
//! `results.NAME.json` where in `results.NAME.bin` those of the parts recorded by themselves.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use serde::Deserialize;

use crate::golden::case::{Buffer, Case};
use crate::golden::golden;

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
        let mut records = Records { entries: BTreeMap::new(), stored: Vec::new() };
        for file in std::fs::read_dir(golden()).expect("there are records").flatten() {
            let path = file.path();
            if path.extension() == Some(OsStr::new("json")) {
                let index = std::fs::read_to_string(&path).expect("an index can be read");
                let index: Index =
                    serde_json::from_str(&index).expect("every case of the index was recorded");
                let start = records.stored.len();
                records.stored.extend(std::fs::read(path.with_extension("bin")).expect("there are results"));
                for (name, entry) in index.cases {
                    let entry = Entry { offset: start + entry.offset, ..entry };
                    assert!(
                        records.entries.insert(name.clone(), entry).is_none(),
                        "{name} is recorded twice"
                    );
                }
            }
        }
        records
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// The saved buffers of a case, end to end; an error where the record is of another program or
    /// other inputs.
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
