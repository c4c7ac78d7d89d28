//! Refusal of instructions that the target of a module does not have.

use warpwright_arch::instructions;
use warpwright_ptx::syntax::Instruction;

use crate::decode::{DecodeError, Decoder};

/// Refuses an instruction that exists, but not on the module's target. Accepts spellings that the
/// instruction table does not have: they may be of later versions of PTX.
pub(super) fn check(d: Decoder<'_, '_, '_>, i: &Instruction) -> Result<(), DecodeError> {
    let forms = instructions::forms_of(i.opcode.as_str());
    let target = d.target();
    match forms.first() {
        Some((form, _)) if !forms.iter().any(|(form, _)| form.exists_on(target)) => Err(DecodeError::new(
            format!("`{}` exists on {}, and the module is for {target}.", i.opcode, form.availability()),
        )),
        _ => Ok(()),
    }
}
