//! The sources that reports show beside counters, findings and PTX.

use warpwright_runtime::SourceFiles;

/// The sources of the library, its workloads and the lessons as they were compiled, which an installed program
/// has too, and the files below the current folder and those above it.
pub(crate) fn files() -> SourceFiles {
    let embedded = [warpwright_kernels::SOURCES, warpwright_workloads::SOURCES, warpwright_lessons::SOURCES];
    embedded
        .iter()
        .flat_map(|sources| sources.iter())
        .fold(SourceFiles::here(), |files, (path, text)| files.with(path, text))
}

/// The name of a file, without its folders.
pub(crate) fn short(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}

/// A line as people name it: the file's name, and the line; `ptx` where the PTX does not tell.
pub(crate) fn place(file: Option<&str>, line: u32) -> String {
    format!("{}:{line}", file.map_or("ptx", short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_a_kernel_is_known_by_the_path_that_its_ptx_names() {
        let mut files = SourceFiles::under("/nowhere");
        let path = ["crates", "kernels", "src", "histogram", "mod.rs"].join(std::path::MAIN_SEPARATOR_STR);
        assert_eq!(files.file(&path), None, "it is not found on the disk");
        let mut files = super::files();
        assert!(files.file(&path).is_some_and(|text| text.contains("fn bin_between")));
    }
}
