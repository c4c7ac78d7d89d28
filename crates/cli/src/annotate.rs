//! PTX beside the Rust that made it.
//!
//! `.file` and `.loc` directives name the line behind each instruction. PTX goes to the left; to
//! the right of the first instruction of a line stands that line.

use std::collections::HashMap;

use crate::sources;

/// Columns of the PTX: longer lines push the Rust to the right.
const WIDTH: usize = 68;

/// The first line of a text whose sources were not found.
const NOT_FOUND: &str =
    "// The Rust is named by file and line only: its sources are not here. Run this in a checkout of them.";

/// The PTX without its directives for debuggers, each instruction beside the Rust line behind it.
pub(crate) fn annotate(ptx: &str) -> String {
    let mut sources = sources::files();
    let mut are_missing = false;
    let mut files: HashMap<&str, String> = HashMap::new();
    let mut lines = Vec::new();
    let (mut place, mut shown) = (None, None);
    for line in ptx.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(".file") => {
                let number = words.next().unwrap_or_default();
                let name = line.split('"').nth(1).unwrap_or_default();
                files.insert(number, name.to_owned());
            }
            Some(".loc") => {
                let file = words.next().and_then(|number| files.get(number)).cloned();
                let number = words.next().and_then(|number| number.parse::<u32>().ok());
                place = file.zip(number);
            }
            _ => {
                let is_instruction = line.trim_end().ends_with(';') && !line.trim_start().starts_with('.');
                if is_instruction && place.is_some() && place != shown {
                    shown.clone_from(&place);
                    let (file, number) = place.clone().expect("just looked");
                    let short = sources::short(&file).to_owned();
                    are_missing |= sources.file(&file).is_none();
                    let rust = sources.line(&file, number).unwrap_or_default().trim();
                    lines.push(format!("{line:<WIDTH$} | {short}:{number}  {rust}").trim_end().to_owned());
                } else {
                    lines.push(line.to_owned());
                }
            }
        }
    }
    if are_missing {
        lines.insert(0, NOT_FOUND.to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_rust_stands_beside_its_first_instruction() {
        let ptx = ".version 8.0\n.file 1 \"src/annotate.rs\"\n.visible .entry k()\n{\n    .reg .b32 %r<3>;\n    .loc 1 1 5\n    \
                   mov.u32 %r0, %tid.x;\n    add.u32 %r1, %r0, 1;\n    .loc 1 9 5\n    ret;\n    .loc 1 1 5\n    ret;\n}";
        let annotated = annotate(ptx);
        let lines: Vec<_> = annotated.lines().collect();
        assert_eq!(lines.len(), 9, "directives for debuggers are gone:\n{annotated}");
        assert!(lines[4].starts_with("    mov.u32 %r0, %tid.x; "), "{annotated}");
        assert!(lines[4].ends_with("| annotate.rs:1  //! PTX beside the Rust that made it."), "{annotated}");
        assert_eq!(lines[5], "    add.u32 %r1, %r0, 1;", "the same line is named once");
        assert!(lines[6].contains("annotate.rs:9"), "{annotated}");
        assert!(lines[7].contains("annotate.rs:1 "), "{annotated}");
    }

    #[test]
    fn sources_that_are_not_here_are_named_all_the_same() {
        let annotated = annotate(".file 1 \"/nowhere/kernel.rs\"\n.loc 1 7 1\nret;\n.loc 1 8 1\nret;");
        let lines: Vec<_> = annotated.lines().collect();
        assert_eq!(lines[0], NOT_FOUND, "said as a comment, which PTX allows");
        assert_eq!(lines[1], format!("{:<WIDTH$} | kernel.rs:7", "ret;"));
        assert_eq!(annotated.matches(NOT_FOUND).count(), 1, "and once");
    }
}
