//! Refusal of instructions that the target of a module does not have.

use warpwright_arch::instructions::{self, Form};
use warpwright_ptx::syntax::Instruction;

use crate::decode::{DecodeError, Decoder};

/// Refuses an instruction that exists, but not on the module's target. Accepts spellings that the
/// instruction table does not have: they may be of later versions of PTX.
pub(super) fn check(d: Decoder<'_, '_, '_>, i: &Instruction) -> Result<(), DecodeError> {
    let opcode = i.opcode.as_str();
    let mut forms: Vec<&Form> = instructions::forms_of(opcode).into_iter().map(|(form, _)| form).collect();
    if forms.is_empty() {
        forms = instructions::forms_in_any_order(opcode);
    }
    let target = d.target();
    match forms.first() {
        Some(form) if !forms.iter().any(|form| form.exists_on(target)) => Err(DecodeError::new(format!(
            "`{opcode}` exists on {}, and the module is for {target}.",
            form.availability()
        ))),
        _ => Ok(()),
    }
}

/// Refuses also a name that has only modifiers of such instructions, but is none.
pub(super) fn check_whole(d: Decoder<'_, '_, '_>, i: &Instruction) -> Result<(), DecodeError> {
    let (opcode, base) = (i.opcode.as_str(), i.opcode.base());
    let is_known = i.opcode.modifiers().all(|word| instructions::has_word(base, word));
    if is_known && instructions::forms_in_any_order(opcode).is_empty() {
        return Err(DecodeError::new(format!(
            "`{opcode}` does not exist: PTX does not combine these modifiers of `{base}`."
        )));
    }
    check(d, i)
}
