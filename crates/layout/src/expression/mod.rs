//! The layout language: expressions with CuTe's names, parsed and evaluated.
//!
//! ```text
//! composition((4,8):(1,4), (2,4):(4,1))
//! logical_divide((4,2,3):(2,1,8), 4:2)
//! Swizzle<3,2,3> o (8,8):(1,8)
//! zipped_divide((m,k):(k,1), (128,32))
//! tv(mma SM80_16x8x16_F32F16F16F32_TN C)
//! ```
//!
//! An integer is `128`, or `_128` as CuTe prints it. A name without a call is a device value. `(4)`
//! is a tuple of one mode; other parentheses group. `<8:1,_>` or `(8:1,_)` is a tiler. `A o B`
//! composes. A layout followed by a coordinate in parentheses is applied to it, or sliced if the
//! coordinate has a `_`. [`OPERATIONS`] lists the operations.

mod evaluate;
mod operations;
mod syntax;
mod value;

pub use operations::{OPERATIONS, Operation};
pub use value::{Ownership, Value};

use crate::error::Illustration;
use crate::{ComposedLayout, Error, IntTuple, Layout};
use std::str::FromStr;

/// Evaluates one expression.
///
/// ```
/// use warpwright_layout::expression::evaluate;
/// let value = evaluate("composition((6,2):(8,2), (4,3):(3,1))")?;
/// assert_eq!(value.to_string(), "((2,2),3):((24,2),8)");
/// assert_eq!(format!("{value:#}"), "((_2,_2),_3):((_24,_2),_8)");
/// assert_eq!(evaluate("((4,8):(1,4))(3,2)")?.to_string(), "11");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
///
/// # Errors
/// If the text is not an expression (the error marks the position), or an operation refuses.
pub fn evaluate(text: &str) -> Result<Value, Error> {
    let expression = syntax::parse(text)?;
    evaluate::evaluate(&expression)
}

/// Evaluates one expression to one line of plain text: `(128,32):(32,1)`. The error's
/// [`summary`](Error::summary) is one line too.
///
/// ```
/// use warpwright_layout::expression::evaluate_plain;
/// assert_eq!(evaluate_plain("complement(4:2, 24)")?, "(2,3):(1,8)");
/// assert!(evaluate_plain("complement((2,2):(1,1), 8)").is_err());
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
pub fn evaluate_plain(line: &str) -> Result<String, Error> {
    Ok(evaluate(line)?.to_string())
}

impl FromStr for Layout {
    type Err = Error;

    /// Reads a layout, or any expression whose value is one.
    fn from_str(text: &str) -> Result<Layout, Error> {
        evaluate(text)?.layout()
    }
}

impl FromStr for ComposedLayout {
    type Err = Error;

    /// Reads a layout, swizzled or not.
    fn from_str(text: &str) -> Result<ComposedLayout, Error> {
        evaluate(text)?.composed()
    }
}

impl FromStr for IntTuple {
    type Err = Error;

    /// Reads an integer or a nested tuple.
    fn from_str(text: &str) -> Result<IntTuple, Error> {
        evaluate(text)?.tuple()
    }
}

/// A syntax error at a byte position of the text.
fn syntax_error(text: &str, at: usize, message: impl Into<String>) -> Error {
    const SHOWN: usize = 60;
    let at = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let column = text[..at].chars().count();
    let start = column.saturating_sub(SHOWN);
    let line: String =
        text.chars().skip(start).take(2 * SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let message = format!("{} at column {}", message.into(), column + 1);
    Error::Syntax(Box::new(Illustration::new(message).mark(
        "in",
        &line,
        Some(column - start..column - start + 1),
        "here",
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        evaluate_plain(text).unwrap_or_else(|error| format!("error: {}", error.summary()))
    }

    #[test]
    fn both_printing_styles_are_read() {
        assert_eq!(plain("(_128,_32):(_32,_1)"), "(128,32):(32,1)");
        assert_eq!(plain("  ( 4 , (2,2) ) : ( 1 , (4,8) ) "), "(4,(2,2)):(1,(4,8))");
        assert_eq!(plain("(4,):(1,)"), "(4):(1)");
        assert_eq!(plain("(m,k):(k,1)"), "(m,k):(k,1)");
    }

    #[test]
    fn values_print_and_read_back() {
        for text in [
            "5",
            "(1,(2,3))",
            "(4,(2,3)):(1@0,(1@1.0,1@1.1))",
            "Swizzle<3,2,-3>",
            "Swizzle<3,2,3> o 0 o (8,8):(1,8)",
            "Swizzle<3,2,3> o 32 o (8):(1)",
            "<8:1,_>",
            "(_,3)",
            "4 o (2,2):(1,2)",
        ] {
            assert_eq!(plain(text), text);
            let cute = format!("{:#}", evaluate(text).unwrap());
            assert_eq!(plain(&cute), text, "{cute}");
        }
    }

    #[test]
    fn composition_of_functions_is_written_with_o() {
        assert_eq!(plain("Swizzle<3,2,3> o (8,8):(1,8)"), "Swizzle<3,2,3> o 0 o (8,8):(1,8)");
        assert_eq!(plain("(6,2):(8,2) o (4,3):(3,1)"), "((2,2),3):((24,2),8)");
        assert_eq!(plain("(Swizzle<3,2,3> o (8,8):(1,8))(0,4)"), "36");
    }

    #[test]
    fn applying_and_slicing() {
        assert_eq!(plain("(4,8):(1,4)(3,2)"), "11");
        assert_eq!(plain("(4,8):(1,4)(11)"), "11");
        assert_eq!(plain("(4,8):(1,4)(_,2)"), "(4):(1)");
        assert_eq!(plain("(4 o (4,8):(1,4))(_,2)"), "12 o (4):(1)");
        assert_eq!(plain("slice((_,2),(4,8):(1,4))"), "(4):(1)");
    }

    #[test]
    fn what_is_wrong_is_said_on_one_line() {
        for text in [
            "",
            "(",
            "(4",
            "4:",
            "(4,8):(1)",
            "coalesce(",
            "nonsense(3)",
            "coalesce()",
            "coalesce(1,2,3,4,5)",
            "4:4:4",
            "9223372036854775808",
            "9223372036854775807*2",
            "4 % 0",
            "(0):(1)",
            "Swizzle<3,2,1>",
            "Swizzle<99,99,99>",
            "composition((4,6):(1,100), 5)",
            "complement((2,2):(1,1), 8)",
            "é",
            "4:1 o",
            "tv()",
            "tv(mma nothing C)",
            "9223372036854775807:9223372036854775807",
            "size(3:4",
            "@",
            "1@",
            "E<0",
            "make_layout((2,3),(E<6872455331090809441>,E<1,1>))(1,1)",
            "-",
            "\u{0}",
        ] {
            let message = plain(text);
            assert!(message.starts_with("error: "), "{text} gives {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_not_overflowed() {
        for open in ["(", "coalesce(", "-", "1 o ", "<"] {
            assert!(plain(&open.repeat(100_000)).starts_with("error: "), "{open}");
        }
    }

    #[test]
    fn every_operation_explains_itself_by_an_example_that_holds() {
        for operation in OPERATIONS {
            assert_eq!(plain(operation.example.0), operation.example.1, "{}", operation.example.0);
            assert!(operation.meaning.ends_with('.'), "{}", operation.name);
            assert!(operation.example.0.contains(operation.name), "{}", operation.name);
        }
    }
}
