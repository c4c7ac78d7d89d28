//! Every row of the instruction table, in its alternatives, is known to the emulator.

#[path = "../../ptx/tests/spelling.rs"]
pub(crate) mod spelling;

use std::collections::BTreeMap;

use spelling::{SPELLINGS, instruction, oldest_version, program, targets};
use warpwright_arch::Arch;
use warpwright_arch::instructions::forms;
use warpwright_emulator::Emulator;

use crate::common::device_of;

/// Why the emulator does not execute a program with one instruction, if it does not.
fn refusal(device: &mut Emulator, text: &str) -> Option<String> {
    let module = match warpwright_ptx::parse(text) {
        Ok(module) => module,
        Err(error) => return Some(error.to_string()),
    };
    match device.load(&module) {
        Ok(program) => {
            let mut kernels = program.kernels().filter_map(|name| program.kernel(name));
            kernels.find_map(|kernel| kernel.unsupported().first().map(ToString::to_string))
        }
        Err(error) => Some(error.to_string()),
    }
}

/// What it does not have, and why.
const ABSENT: [(&str, &str); 3] = [
    ("multimem", "shares no memory between GPUs"),
    (".im2col::w", "has no such tensor maps"),
    // ptxas takes it, and PTX does not say which class it tests.
    ("testp.f", "names no class of numbers"),
];

fn is_absent(line: &str, said: &str) -> bool {
    ABSENT.iter().any(|(word, reason)| line.contains(word) && said.contains(reason))
}

#[test]
fn the_emulator_knows_every_row() {
    let mut refused: BTreeMap<String, String> = BTreeMap::new();
    let mut devices: BTreeMap<&str, Emulator> = BTreeMap::new();
    let mut count = 0;
    for form in forms() {
        for (name, signature) in form.instances(SPELLINGS) {
            let availability = form.availability(&name);
            if availability.until.is_some() {
                continue;
            }
            let target = targets(&availability).remove(0);
            let device = devices
                .entry(device_of(&format!(".target {target}")))
                .or_insert_with_key(|name| Emulator::with_threads(Arch::named(name).unwrap(), 1).unwrap());
            let version = oldest_version(&availability, &target);
            for literals in [false, true] {
                let line = instruction(&name, &signature, literals);
                count += 1;
                let said = refusal(device, &program(&target, version, std::slice::from_ref(&line)));
                if let Some(said) = said.filter(|said| !is_absent(&line, said)) {
                    refused.insert(line, said);
                }
            }
        }
    }
    assert!(count > 10_000, "{count} instructions");
    assert!(refused.is_empty(), "{} of {count}: {refused:#?}", refused.len());
}
