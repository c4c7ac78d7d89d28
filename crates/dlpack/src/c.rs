//! What C sees: `include/warpwright.h`, made from the table.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Write;

use crate::call::{Kind, Operation};
use crate::error::Error;
use crate::table::OPERATIONS;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// The status of a call, whose message is kept.
pub(crate) fn answered(outcome: Result<(), Error>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            keep(&error.to_string());
            1
        }
    }
}

/// Keeps the message of this thread's error.
fn keep(message: &str) {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    MESSAGE.with_borrow_mut(|message| *message = text);
}

/// Why the last call of this thread that did not return 0 failed. The text lives until the next one.
#[unsafe(no_mangle)]
extern "C" fn warpwright_error() -> *const c_char {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

/// The header of the library.
pub fn header() -> String {
    let mut text = String::from(HEAD);
    for operation in OPERATIONS {
        declare(&mut text, operation);
    }
    text + TAIL
}

const HEAD: &str = "\
/* The operations of warpwright's kernel library on DLPack tensors. Made from the table of crates/dlpack; do not edit.
 *
 * Each function enqueues its work in `stream`, a cudaStream_t (null is the default stream), and returns 0, or 1 with
 * warpwright_error(). Tensors of a GPU are used where they are. On tensors of the host, an emulated GPU computes, and the
 * work is done when the call returns. Memory stays allocated until the work is complete. Tensors begin at a multiple of
 * 16 bytes, and outputs share no memory with other tensors. A tensor that may be null is marked.
 */
#ifndef WARPWRIGHT_H
#define WARPWRIGHT_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#ifdef __cplusplus
extern \"C\" {
#endif

/* Why the last call of this thread that did not return 0 failed. The text lives until the next one. */
const char *warpwright_error(void);
";

const TAIL: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

fn declare(text: &mut String, operation: &Operation) {
    let documentation = operation.documentation.trim().replace('\n', "\n *");
    let parameters = operation.parameters.iter().map(|parameter| {
        let name = parameter.name;
        match parameter.kind {
            Kind::Input => format!("const DLTensor *{name}, "),
            Kind::OptionalInput => format!("const DLTensor *{name} /* or null */, "),
            Kind::Output => format!("const DLTensor *{name} /* written */, "),
            Kind::OptionalOutput => format!("const DLTensor *{name} /* written, or null */, "),
            Kind::Integer => format!("int64_t {name}, "),
            Kind::Float => format!("double {name}, "),
        }
    });
    let parameters: String = parameters.collect();
    let name = operation.name;
    write!(text, "\n/* {documentation} */\nint warpwright_{name}({parameters}void *stream);\n")
        .expect("to a string");
}
