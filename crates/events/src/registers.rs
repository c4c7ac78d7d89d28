//! The registers of a kernel: an estimate of how many a thread needs, without ptxas, and those that may be read
//! before they are written.

use std::collections::HashMap;

use crate::code::{Code, Register};

/// The registers whose values are needed later, before each operation of a kernel.
struct Liveness {
    /// One bit for each register.
    live_in: Vec<u64>,
    /// The words of an operation.
    words: usize,
}

impl Liveness {
    fn of(code: &Code) -> Self {
        let count = code.of_operation.len();
        let mut targets: HashMap<u32, Vec<u32>> = HashMap::new();
        for branch in &code.branches {
            targets.entry(branch.operation).or_default().push(branch.target);
        }
        let words = code.register_words.len().div_ceil(64);
        let mut live_in = vec![0u64; words * (count + 1)];
        let mut live = vec![0u64; words];
        let mut changed = true;
        while changed {
            changed = false;
            for pc in (0..count).rev() {
                let instruction = code.instruction(pc as u32);
                let name = instruction.name();
                let ends = instruction.guard.is_none()
                    && matches!(name.split('.').next(), Some("ret" | "exit" | "trap"));
                let jumps = instruction.guard.is_none()
                    && name.starts_with("bra")
                    && targets.contains_key(&(pc as u32));
                match ends || jumps {
                    true => live.fill(0),
                    false => live.copy_from_slice(&live_in[(pc + 1) * words..(pc + 2) * words]),
                }
                for &target in targets.get(&(pc as u32)).into_iter().flatten() {
                    let target = target as usize;
                    for (word, more) in live.iter_mut().zip(&live_in[target * words..(target + 1) * words]) {
                        *word |= more;
                    }
                }
                if instruction.guard.is_none() {
                    for register in &instruction.writes {
                        live[register.0 as usize / 64] &= !(1 << (register.0 % 64));
                    }
                }
                for register in instruction.reads.iter().chain(&instruction.guard) {
                    live[register.0 as usize / 64] |= 1 << (register.0 % 64);
                }
                if live[..] != live_in[pc * words..(pc + 1) * words] {
                    live_in[pc * words..(pc + 1) * words].copy_from_slice(&live);
                    changed = true;
                }
            }
        }
        Self { live_in, words }
    }

    /// The registers before an operation.
    fn before(&self, pc: usize) -> impl Iterator<Item = usize> {
        self.live_in[pc * self.words..(pc + 1) * self.words].iter().enumerate().flat_map(|(word, &bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word * 64 + bit)
        })
    }
}

/// The registers per thread that the values which are live at once need: an estimate of what ptxas
/// allocates, without spills.
pub fn estimated_registers(code: &Code) -> u32 {
    let liveness = Liveness::of(code);
    let pressure = |pc: usize| -> u32 {
        liveness.before(pc).map(|register| u32::from(code.register_words[register])).sum()
    };
    let most = (0..code.of_operation.len()).map(pressure).max().unwrap_or(0);
    most.next_multiple_of(8).clamp(16, 255)
}

/// The registers of a kernel that some path through it reads before it writes them.
pub fn unset_registers(code: &Code) -> Vec<Register> {
    Liveness::of(code).before(0).map(|register| Register(register as u32)).collect()
}
