//! The folder in which a program finds the libraries of CUDA.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::stub::stub;

/// The library: both APIs.
const LIBRARY: &str = "libwarpwright_cuda.so";
/// Its names as the driver's library.
const DRIVER: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// The names of the runtime library, whose functions have the name as their version.
const RUNTIME: [&str; 3] = ["libcudart.so.12", "libcudart.so.13", "libcudart.so"];

/// A folder that is removed in the end.
pub(super) struct Stage {
    folder: PathBuf,
}

impl Stage {
    pub(super) fn new() -> Result<Self> {
        let library = library()?;
        let folder = env::temp_dir().join(format!("warpwright-cuda-{}", std::process::id()));
        let make = || -> std::io::Result<()> {
            fs::create_dir_all(&folder)?;
            DRIVER.iter().try_for_each(|name| symlink(&library, folder.join(name)))?;
            RUNTIME.iter().try_for_each(|name| fs::write(folder.join(name), stub(name, DRIVER[0])))
        };
        make().with_context(|| format!("cannot make the folder of the libraries, {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// A file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where a program looks for libraries: here first.
    pub(super) fn search_path(&self) -> OsString {
        let others = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
        let mut path = self.folder.clone().into_os_string();
        if let Some(others) = others {
            path.push(":");
            path.push(others);
        }
        path
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What stays is in the folder of temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The library beside this command, or where `WARPWRIGHT_CUDA_LIBRARY` says.
fn library() -> Result<PathBuf> {
    if let Some(path) = env::var_os("WARPWRIGHT_CUDA_LIBRARY") {
        let path = fs::canonicalize(&path);
        return path.context("WARPWRIGHT_CUDA_LIBRARY names no file");
    }
    let command = env::current_exe().context("the command does not know its place")?;
    let command = fs::canonicalize(&command).unwrap_or(command);
    let beside = command.parent().unwrap_or(Path::new("")).join(LIBRARY);
    if beside.exists() {
        return Ok(beside);
    }
    Err(anyhow!(
        "{LIBRARY} is not beside the command, in {}; build it with `cargo build --release` in crates/cuda, or name it in \
         WARPWRIGHT_CUDA_LIBRARY",
        beside.parent().unwrap_or(Path::new("")).display()
    ))
}
