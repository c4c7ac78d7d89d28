//! Files that a user names: read whole, if they are no larger than such a file may be.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

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

/// Refuses outputs that would overwrite an input or each other. Each file comes with what it is.
pub(crate) fn expect_kept(outputs: &[(String, PathBuf)], inputs: &[(String, PathBuf)]) -> Result<()> {
    let mut known: HashMap<PathBuf, &str> = HashMap::new();
    for (what, path) in inputs {
        known.entry(identity(path)).or_insert(what);
    }
    for (what, path) in outputs {
        if let Some(other) = known.insert(identity(path), what) {
            bail!("{what} would overwrite {} ({other}); name another file", path.display());
        }
    }
    Ok(())
}

/// A path that two names of one file have in common.
fn identity(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

/// Writes a file whole.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
