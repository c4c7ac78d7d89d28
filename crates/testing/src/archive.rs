//! Archives (`.tar.gz`) of files that only tests read.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

fn open(archive: &Path) -> io::Result<tar::Archive<impl Read>> {
    Ok(tar::Archive::new(GzDecoder::new(BufReader::new(File::open(archive)?))))
}

/// The path and size in bytes of each file.
///
/// # Errors
/// If the archive cannot be read.
pub fn list(archive: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut archive = open(archive)?;
    archive
        .entries()?
        .map(|entry| entry.and_then(|entry| Ok((entry.path()?.into_owned(), entry.size()))))
        .collect()
}

/// Writes each file into a folder.
///
/// # Errors
/// If the archive cannot be read, or the folder not be written.
pub fn extract(archive: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    open(archive)?.unpack(folder)
}

/// Packs the named folders of `root`. The same files give the same bytes.
///
/// # Errors
/// If a file cannot be read, or the archive not be written.
pub fn pack(root: &Path, folders: &[&str], archive: &Path) -> io::Result<()> {
    let encoder = GzEncoder::new(BufWriter::new(File::create(archive)?), Compression::best());
    let mut builder = Builder::new(encoder);
    for path in files(root, folders)? {
        let contents = fs::read(root.join(&path))?;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(1);
        builder.append_data(&mut header, &path, contents.as_slice())?;
    }
    builder.into_inner()?.finish()?.flush()
}

/// The files in the named folders of `root`, in order.
fn files(root: &Path, folders: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut pending: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let list = if entry.file_type()?.is_dir() { &mut pending } else { &mut files };
            list.push(folder.join(entry.file_name()));
        }
    }
    files.sort();
    Ok(files)
}
