//! How closely the emulator must follow the GPU, family by family.

use crate::case::{Buffer, Case};

/// What counts as the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Agreement {
    /// The same bits.
    Exact,
}

/// What a case asks for.
pub(crate) fn of(_case: &Case) -> Agreement {
    Agreement::Exact
}

impl Agreement {
    /// Compares two runs' outputs.
    pub(crate) fn check(self, case: &Case, recorded: &[u8], outputs: &[u8]) -> Result<(), String> {
        let mut start = 0;
        for operand in &case.operands {
            let width = operand.width.bytes();
            let elements = match &operand.buffer {
                Buffer::Output => operand.registers * case.threads,
                Buffer::RawOutput(elements) => *elements,
                Buffer::RawInOut(input) => input.elements,
                Buffer::Input(_) | Buffer::RawInput(_) => continue,
            };
            let end = start + elements * width;
            let (mut differing, mut first) = (0, String::new());
            let pairs = recorded[start..end].chunks_exact(width).zip(outputs[start..end].chunks_exact(width));
            for (index, (gpu, ours)) in pairs.enumerate() {
                if gpu != ours {
                    differing += 1;
                    if differing <= 4 {
                        first += &format!(
                            "\n    [{index}] {}: the GPU has {}, we {}",
                            inputs(case, index),
                            hex(gpu),
                            hex(ours)
                        );
                    }
                }
            }
            if differing > 0 {
                return Err(format!(
                    "{differing} of {elements} elements of `{}` differ:{first}",
                    operand.name
                ));
            }
            start = end;
        }
        assert_eq!(start, recorded.len(), "{}", case.path());
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// The inputs of the thread that computed an element.
fn inputs(case: &Case, index: usize) -> String {
    let thread = index % case.threads;
    let mut names = Vec::new();
    for operand in &case.operands {
        if let Buffer::Input(input) = &operand.buffer {
            let width = operand.width.bytes();
            let bytes = &input.npy()[128 + thread * width..][..width];
            names.push(format!("{} = {}", operand.name, hex(bytes)));
        }
    }
    names.join(", ")
}
