//! `sources!()`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, Result};

/// The list of the crate's files, each with its text.
pub(crate) fn list() -> Result<TokenStream> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("src");
    let mut files = Vec::new();
    add_files(&folder, &mut files).map_err(|error| {
        Error::new(Span::call_site(), format!("{} cannot be read: {error}", folder.display()))
    })?;
    files.sort();
    let entries = files.iter().filter_map(|file| {
        let named: Vec<_> =
            file.strip_prefix(&folder).ok()?.iter().map(|name| name.to_str()).collect::<Option<_>>()?;
        let (named, file) = (named.join("/"), file.to_str()?);
        Some(quote!((#named, ::core::include_str!(#file))))
    });
    Ok(quote!((::core::file!(), &[#(#entries),*])))
}

/// Adds the Rust files below a folder.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            add_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
