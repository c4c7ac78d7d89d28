//! `cuLink*`: several PTX texts become one.
//!
//! PTX of a linker is the texts one after another, with one header: declarations of what another text defines are
//! left out. An input that is not PTX is refused.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use crate::handles::Handles;
use crate::report;
use crate::status::{Result, Status};

/// Linkers by their handles.
pub(crate) static LINKERS: Handles<Linker> = Handles::new();

/// `CU_JIT_INPUT_PTX`, `CU_JIT_INPUT_FATBINARY`
const PTX: c_int = 1;
const FAT_BINARY: c_int = 2;

/// A linker.
pub(crate) struct Linker {
    pub(crate) number: usize,
    texts: Mutex<Vec<String>>,
    /// What it has linked, with the zero at its end; it lives as long as the linker.
    linked: Mutex<Option<Arc<[u8]>>>,
}

impl Linker {
    pub(crate) fn create() -> Arc<Self> {
        LINKERS.add(|number| Self { number, texts: Mutex::default(), linked: Mutex::default() }).1
    }

    /// Adds an input.
    pub(crate) fn add(&self, kind: c_int, mut bytes: Vec<u8>, name: &str) -> Result<()> {
        bytes.resize(bytes.len() + 1, 0);
        let text = match kind {
            PTX => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                String::from_utf8(bytes[..end].to_vec()).map_err(|_| Status::INVALID_PTX)?
            }
            FAT_BINARY => {
                let image = bytes.as_ptr().expose_provenance();
                crate::fatbin::ptx(image, crate::function::capability()?)?
            }
            _ => {
                report::once(&format!(
                    "the program links `{name}`, which is no PTX; warpwright links PTX only"
                ));
                return Err(Status::NO_BINARY_FOR_GPU);
            }
        };
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(())
    }
}

/// Links the inputs, and returns the address and the size of the text.
pub(crate) fn complete(linker: &Linker) -> Result<(usize, usize)> {
    let texts = linker.texts.lock().unwrap_or_else(PoisonError::into_inner);
    let linked = match &texts[..] {
        [] => return Err(Status::INVALID_VALUE),
        [one] => one.clone(),
        several => join(several),
    };
    let bytes: Arc<[u8]> = linked.into_bytes().into_iter().chain([0]).collect();
    let place = (bytes.as_ptr().expose_provenance(), bytes.len());
    *linker.linked.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    Ok(place)
}

/// The newest header, and the bodies.
fn join(texts: &[String]) -> String {
    let is_header = |line: &&str| {
        let line = line.trim_start();
        [".version", ".target", ".address_size"].iter().any(|word| line.starts_with(word))
    };
    let header = |word: &str| {
        let lines =
            texts.iter().flat_map(|text| text.lines().find(|line| line.trim_start().starts_with(word)));
        lines.max_by_key(|line| number(line)).unwrap_or_default()
    };
    let mut joined: String = [".version", ".target", ".address_size"].map(header).join("\n");
    for text in texts {
        let mut statement_is_external = false;
        joined.push('\n');
        for line in text.lines().filter(|line| !is_header(line)) {
            // A declaration of what another text defines ends at its semicolon.
            if line.trim_start().starts_with(".extern") && is_defined(line, texts) {
                statement_is_external = true;
            }
            if statement_is_external {
                statement_is_external = !line.contains(';');
                continue;
            }
            joined.push_str(line);
            joined.push('\n');
        }
    }
    joined
}

/// The digits of a line, as one number.
fn number(line: &str) -> u64 {
    line.chars()
        .filter(char::is_ascii_digit)
        .take(6)
        .fold(0, |number, digit| number * 10 + u64::from(digit.to_digit(10).unwrap_or_default()))
}

/// Whether a text defines the symbol that a line declares.
fn is_defined(line: &str, texts: &[String]) -> bool {
    let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "_$.".contains(c)));
    let Some(name) = words.rfind(|word| !word.is_empty() && !word.starts_with('.')) else { return false };
    let defines = |line: &str| {
        (line.contains(".visible") || line.contains(".weak"))
            && line
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'))
                .any(|word| word == name)
    };
    texts.iter().flat_map(|text| text.lines()).any(defines)
}
