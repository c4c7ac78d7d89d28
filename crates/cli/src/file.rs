//! Files that a user names: read whole, if they are no larger than such a file may be.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The largest text: PTX, a launch file, a list of kernels.
const MOST_TEXT_BYTES: u64 = 256 << 20;

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<String> {
    let bytes = bytes(path, MOST_TEXT_BYTES)?;
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{} is not a text file: byte {place} is not UTF-8", path.display())
    })
}

/// The bytes of a file of at most `most` bytes.
pub(crate) fn bytes(path: &Path, most: u64) -> Result<Vec<u8>> {
    let unreadable = || format!("{} cannot be read", path.display());
    let file = File::open(path).with_context(unreadable)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).with_context(unreadable)?;
    if bytes.len() as u64 > most {
        bail!("{} has more than {most} bytes, the most that such a file may have", path.display());
    }
    Ok(bytes)
}

/// Writes a file whole.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
