//! The sources of a crate, which programs embed.

use std::path::{MAIN_SEPARATOR_STR, Path};

/// The sources of a crate of kernels, from [`sources!`](crate::sources). A program that has them
/// shows the lines of a kernel wherever it runs.
///
/// ```ignore
/// // In `src/lib.rs`:
/// pub const SOURCES: Sources = Sources::new(warpwright::sources!());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    /// The path of `src/lib.rs` as the compiler names it.
    root: &'static str,
    /// Paths below `src`, and texts.
    files: &'static [(&'static str, &'static str)],
}

impl Sources {
    /// The sources that [`sources!`](crate::sources) lists.
    pub const fn new((root, files): (&'static str, &'static [(&'static str, &'static str)])) -> Self {
        Self { root, files }
    }

    /// The path of each file as the compiler, and so the PTX, names it, and its text.
    pub fn iter(&self) -> impl Iterator<Item = (String, &'static str)> {
        let folder = Path::new(self.root).parent().unwrap_or(Path::new(""));
        self.files.iter().map(move |(path, text)| {
            let path = folder.join(path.replace('/', MAIN_SEPARATOR_STR));
            (path.display().to_string(), *text)
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_crate_has_its_files_by_the_paths_that_the_compiler_names() {
        // A test's `file!()` is below `src`, as `src/lib.rs` is.
        let sources = super::Sources::new(crate::sources!());
        let own = sources.iter().find(|(path, _)| path == file!());
        assert!(own.is_some_and(|(_, text)| text.contains("a_crate_has_its_files")));
    }
}
