//! Positions in the source, and the calls that a compiler inlined.

use std::fmt;

/// A position in the source that a `.loc` named.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Source {
    /// The path of the `.file`.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        Ok(())
    }
}

/// The calls that were inlined around a position in the author's source, and inside it.
///
/// The position itself is the author's: of the frames in the file that the kernel was written in,
/// the innermost. Code of headers that it calls is `inside`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Inlining {
    /// The calls around the position, nearest first.
    pub callers: Vec<Source>,
    /// The positions in what it calls, in the order of the calls; the last is the instruction's.
    pub inside: Vec<Source>,
}

/// Folders of compilers and their libraries.
const SYSTEM_FOLDERS: [&str; 9] =
    ["usr", "opt", "cuda", "nvidia", "cccl", "libcudacxx", "thrust", "cub", "cutlass"];

/// Whether a file is a header of CUDA or of the system, by its path.
fn is_system_header(file: &str) -> bool {
    let is_system = |folder: &str| {
        let folder = folder.to_ascii_lowercase();
        SYSTEM_FOLDERS.contains(&folder.as_str())
            || folder.starts_with("cuda-")
            || folder.starts_with("nvidia ")
    };
    let mut parts: Vec<&str> = file.split(['/', '\\']).collect();
    let name = parts.pop().unwrap_or_default();
    !name.ends_with(".cu") && parts.into_iter().any(is_system)
}

impl Inlining {
    /// The author's position among the frames of an instruction, outermost first, and the calls
    /// around and inside it. `None` if there are no frames.
    ///
    /// ```
    /// use warpwright_events::{Inlining, Source};
    /// let frame = |file: &str, line| Source { file: file.to_owned(), line, column: 1 };
    /// let header = frame("/usr/local/cuda/include/cuda/barrier", 90);
    /// let frames = vec![frame("kernel.cu", 40), frame("kernel.cu", 12), header.clone()];
    /// let (source, inlining) = Inlining::of(frames).unwrap();
    /// assert_eq!((source.line, inlining.callers[0].line), (12, 40));
    /// assert_eq!(inlining.inside, [header]);
    /// ```
    pub fn of(mut frames: Vec<Source>) -> Option<(Source, Inlining)> {
        let author = frames.iter().position(|frame| !is_system_header(&frame.file)).unwrap_or(0);
        let file = frames.get(author)?.file.clone();
        let own = frames.iter().rposition(|frame| frame.file == file)?;
        let inside = frames.split_off(own + 1);
        let source = frames.pop()?;
        frames.reverse();
        Some((source, Inlining { callers: frames, inside }))
    }
}

impl fmt::Display for Inlining {
    /// `, called from a.cu:40:3, inlined from cuda/barrier:90:1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, frames) in [("called from", &self.callers), ("inlined from", &self.inside)] {
            for (index, frame) in frames.iter().enumerate() {
                let what = if index == 0 { format!(" {what}") } else { String::new() };
                write!(f, ",{what} {frame}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(frames: &[&str]) -> String {
        let frames = frames.iter().map(|file| Source { file: (*file).to_owned(), line: 1, column: 0 });
        let (source, inlining) = Inlining::of(frames.collect()).expect("there are frames");
        format!("{source}{inlining}")
    }

    #[test]
    fn the_position_is_in_the_authors_file() {
        let header = "/usr/local/cuda-12.4/include/cuda/atomic";
        let cases: [(&[&str], &str); 6] = [
            (&["a.cu"], "a.cu:1"),
            (&["a.cu", header], "a.cu:1, inlined from /usr/local/cuda-12.4/include/cuda/atomic:1"),
            (&["a.cu", "a.cu", "b.h"], "a.cu:1, called from a.cu:1, inlined from b.h:1"),
            (&["/src/cuda/a.cu", "b.h"], "/src/cuda/a.cu:1, inlined from b.h:1"),
            // A function of the author's that a kernel of a header calls.
            (&["/opt/cub/for.cuh", "a.cuh"], "a.cuh:1, called from /opt/cub/for.cuh:1"),
            (&["/opt/cub/for.cuh"], "/opt/cub/for.cuh:1"),
        ];
        for (frames, expected) in cases {
            assert_eq!(split(frames), expected);
        }
    }
}
