//! The comments `//@`, which describe the objects in shared memory.

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
    fn other_comments_say_nothing() {
        for text in ["", " begin inline asm", " a: b", " tile+x: 16-bit bf16", " tile: 16-bit bf16 at 1 2"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
