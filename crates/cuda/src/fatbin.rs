//! Fat binaries: the container in which nvcc puts PTX and machine code, and the choice of an entry for the device.
//!
//! A wrapper (magic 0x466243b1, version, pointer to the container) is what `__cudaRegisterFatBinary` receives. The
//! container is a header (magic 0xba55ed50, version, header size, size of the entries) and entries one after another:
//!
//! | offset | an entry |
//! |---|---|
//! | 0 | u16: kind: 1 is PTX, 2 machine code |
//! | 4 | u32: size of this header |
//! | 8 | u64: size of the data after it |
//! | 16 | u32: size of the compressed data |
//! | 28 | u32: compute capability: 90 |
//! | 40 | u64: flags: 0x2000 is LZ4, 0x8000 is zstd |
//! | 56 | u64: size of the data when it is not compressed |
//!
//! The fields are those that gpgpu-sim, ZLUDA and cuda-fatbin tools read, compared with what nvcc 13 writes.

use std::io::Read;

use warpwright_arch::Capability;

use crate::edge::In;
use crate::report;
use crate::status::{Result, Status};

const WRAPPER: u32 = 0x4662_43b1;
const CONTAINER: u32 = 0xba55_ed50;
const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
const PTX: u16 = 1;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// No PTX text is larger than this.
const MOST_BYTES: usize = 1 << 30;

/// The PTX of an image: PTX text, a fat binary, or its wrapper.
pub(crate) fn ptx(image: usize, capability: &Capability) -> Result<String> {
    let word = In::<u32>::at_address(image).get()?;
    match word {
        WRAPPER => ptx(In::<u64>::at_address(image + 8).get()? as usize, capability),
        CONTAINER => {
            let header = u64::from(In::<u16>::at_address(image + 6).get()?);
            let size = In::<u64>::at_address(image + 8).get()?;
            let bytes = usize::try_from(header.saturating_add(size)).map_err(|_| Status::INVALID_IMAGE)?;
            of_container(&In::<u8>::at_address(image).bytes(bytes)?, capability)
        }
        ELF => {
            report::once(
                "the program loads a cubin, which is machine code of a GPU; warpwright executes PTX: pass PTX instead",
            );
            Err(Status::NO_BINARY_FOR_GPU)
        }
        _ => text(In::<std::ffi::c_char>::at_address(image)),
    }
}

fn text(image: In<std::ffi::c_char>) -> Result<String> {
    image.text().map_err(|_| Status::INVALID_IMAGE)
}

/// The best PTX of a container.
fn of_container(bytes: &[u8], capability: &Capability) -> Result<String> {
    let mut best: Option<((u32, bool), String)> = None;
    let mut other = Vec::new();
    for entry in entries(bytes)? {
        if entry.kind != PTX {
            other.push(format!("sm_{} (machine code)", entry.arch));
            continue;
        }
        let text = entry.text()?;
        let target = target(&text).unwrap_or_else(|| format!("sm_{}", entry.arch));
        if !runs(&target, capability) {
            other.push(target);
            continue;
        }
        let rank = (entry.arch, target.ends_with(|last: char| last.is_ascii_alphabetic()));
        if best.as_ref().is_none_or(|(of_best, _)| *of_best < rank) {
            best = Some((rank, text));
        }
    }
    best.map(|(_, text)| text).ok_or_else(|| {
        let (major, minor) = capability.compute_capability;
        let suffix = if capability.target.ends_with('a') { "a" } else { "" };
        report::once(&format!(
            "the program has no PTX that compute capability {major}.{minor} runs, only {}; rebuild with `-gencode \
             arch=compute_{major}{minor}{suffix},code=compute_{major}{minor}{suffix}`",
            if other.is_empty() { "an empty fat binary".to_owned() } else { other.join(", ") },
        ));
        Status::NO_BINARY_FOR_GPU
    })
}

/// Whether the device runs PTX of a target: an older one, or its own with the features of its architecture.
fn runs(target: &str, capability: &Capability) -> bool {
    let (major, minor) = capability.compute_capability;
    let number = target.trim_start_matches("sm_");
    let digits = number.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let Ok(arch) = digits.parse::<u32>() else { return false };
    match &number[digits.len()..] {
        "" => arch <= major * 10 + minor,
        "f" => arch / 10 == major && arch % 10 <= minor,
        _ => arch == major * 10 + minor,
    }
}

/// The first word of `.target`.
fn target(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.trim_start().starts_with(".target"))?;
    let words = line.trim_start().trim_start_matches(".target");
    words.split([',', ' ', '\t']).map(str::trim).find(|word| !word.is_empty()).map(str::to_owned)
}

struct Entry<'a> {
    kind: u16,
    arch: u32,
    flags: u64,
    data: &'a [u8],
    plain_bytes: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<u64> {
    let field = bytes.get(at..at + N).ok_or(Status::INVALID_IMAGE)?;
    Ok(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>> {
    let mut left = bytes.get(number::<2>(bytes, 6)? as usize..).ok_or(Status::INVALID_IMAGE)?;
    let mut entries = Vec::new();
    while left.len() >= 64 {
        let (header, size) = (number::<4>(left, 4)? as usize, number::<8>(left, 8)? as usize);
        let end = header.checked_add(size).filter(|end| *end > 0).ok_or(Status::INVALID_IMAGE)?;
        let (flags, packed) = (number::<8>(left, 40)?, number::<4>(left, 16)? as usize);
        let data = left.get(header..end).ok_or(Status::INVALID_IMAGE)?;
        let is_packed = flags & (LZ4 | ZSTD) != 0;
        entries.push(Entry {
            kind: number::<2>(left, 0)? as u16,
            arch: number::<4>(left, 28)? as u32,
            flags,
            data: if is_packed { data.get(..packed).ok_or(Status::INVALID_IMAGE)? } else { data },
            plain_bytes: (number::<8>(left, 56)? as usize).min(MOST_BYTES),
        });
        left = &left[end..];
    }
    Ok(entries)
}

impl Entry<'_> {
    fn text(&self) -> Result<String> {
        let bytes = if self.flags & LZ4 != 0 {
            lz4_flex::block::decompress(self.data, self.plain_bytes).map_err(|_| Status::INVALID_IMAGE)?
        } else if self.flags & ZSTD != 0 {
            let mut bytes = Vec::new();
            let decoder =
                ruzstd::decoding::StreamingDecoder::new(self.data).map_err(|_| Status::INVALID_IMAGE)?;
            let read = decoder.take(MOST_BYTES as u64).read_to_end(&mut bytes);
            read.map_err(|_| Status::INVALID_IMAGE)?;
            bytes
        } else {
            self.data.to_vec()
        };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8(bytes[..end].to_vec()).map_err(|_| Status::INVALID_IMAGE)
    }
}
