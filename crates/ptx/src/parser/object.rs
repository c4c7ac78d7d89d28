//! The comments `//@`, which describe the objects in shared memory.

use std::ops::Range;

use crate::syntax::{MemoryObject, SourceLocation};

/// Reads `symbol+offset: 16-bit element in LAYOUT at file line column`. Anything else is an
/// ordinary comment.
pub(super) fn read(text: &str) -> Option<MemoryObject> {
    let (place, rest) = text.trim().split_once(": ")?;
    let (symbol, offset) = match place.split_once('+') {
        Some((symbol, offset)) => (symbol, offset.parse().ok()?),
        None => (place, 0),
    };
    let (rest, location) = match rest.rsplit_once(" at ") {
        Some((rest, location)) => (rest, Some(position(location)?)),
        None => (rest, None),
    };
    let (element, layout) = match rest.split_once(" in ") {
        Some((element, layout)) => (element, Some(layout)),
        None => (rest, None),
    };
    let (bits, element) = element.split_once("-bit ")?;
    let (layout, is_staged) = match layout.map(|layout| (layout, layout.strip_prefix("stages "))) {
        Some((_, Some(layout))) => (Some(layout), true),
        Some((layout, None)) => (Some(layout), false),
        None => (None, false),
    };
    Some(MemoryObject {
        symbol: symbol.to_owned(),
        offset,
        element: element.to_owned(),
        element_bits: bits.parse().ok()?,
        layout: layout.map(str::to_owned),
        is_staged,
        location,
    })
}

/// Reads `bytes 1024 to 5120`, the part of a variable that an instruction names.
pub(super) fn part(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.trim().strip_prefix("bytes ")?.split_once(" to ")?;
    Some(start.parse().ok()?..end.parse().ok()?)
}

/// `file line column`
fn position(text: &str) -> Option<SourceLocation> {
    let mut numbers = text.split(' ').map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(SourceLocation { file: next()?, line: next()?, column: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        let location = Some(SourceLocation { file: 2, line: 41, column: 20 });
        for layout in [None, Some("(64):(1)"), Some("Swizzle<3,3,3> o 0 o ((8,8),64,4):((64,512),1,4096)")] {
            for (offset, is_staged) in [(0, false), (1024, layout.is_some())] {
                for location in [None, location] {
                    let object = MemoryObject {
                        symbol: "dynamic_shared".to_owned(),
                        offset,
                        element: "bf16".to_owned(),
                        element_bits: 16,
                        layout: layout.map(str::to_owned),
                        is_staged,
                        location,
                    };
                    let text = object.to_string();
                    assert_eq!(read(text.strip_prefix("//@").unwrap()), Some(object), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_comment_after_an_instruction_states_a_part() {
        let text = "    mov.u32 %r1, tile; //@ bytes 16 to 48\n    mov.u32 %r2, tile;\n";
        let module = crate::parse(&format!(".version 9.0 .target sm_80 .entry k() {{\n{text}}}")).unwrap();
        let parts: Vec<_> = module.functions[0].body.iter().flatten().collect();
        let parts = parts.into_iter().map(|statement| match statement {
            crate::syntax::Statement::Instruction(instruction) => instruction.part.clone(),
            _ => None,
        });
        assert_eq!(parts.collect::<Vec<_>>(), [Some(16..48), None]);
        assert!(crate::print(&module).contains(text));
        for text in ["bytes 16", " bytes x to 48", " tile+16: 16-bit bf16"] {
            assert_eq!(part(text), None, "{text}");
        }
    }

    #[test]
    fn other_comments_say_nothing() {
        for text in ["", " begin inline asm", " a: b", " tile+x: 16-bit bf16", " tile: 16-bit bf16 at 1 2"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
