//! Programs on two devices, and the first result in which these differ.

use serde::{Deserialize, Serialize};
use warpwright_harness::Random;
use warpwright_runtime::{Device, Launch, Stream};

use super::forms::Class;
use super::program::{Generator, Program, bits_of};
use super::values;
use super::write::{HEADER, INPUT_BYTES, OWN_GLOBAL_BYTES, SLOT_BYTES, Slot, THREADS, Written, entry, write};

/// A program by its number, with its inputs.
pub(super) struct Case {
    pub(super) number: u64,
    pub(super) program: Program,
    inputs: Vec<u64>,
}

impl Case {
    /// The case of a seed and a number.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ number);
        let program = Generator::program(&mut random);
        let mut inputs = Vec::with_capacity((INPUT_BYTES / 8) as usize);
        for class in Class::STORED {
            for _ in 0..class.registers().1 * THREADS {
                inputs.push(values::of(&mut random, class));
            }
        }
        Self { number, program, inputs }
    }

    /// The same inputs of another program.
    pub(super) fn with(&self, program: Program) -> Self {
        Self { program, inputs: self.inputs.clone(), ..*self }
    }

    /// Its module.
    pub(super) fn ptx(&self) -> String {
        format!("{HEADER}{}", write(&self.program, self.number).text)
    }
}

/// The first result in which two devices differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Difference {
    /// The number of the case.
    pub(super) number: u64,
    /// The instruction that makes it.
    pub(super) instruction: String,
    pub(super) register: String,
    /// Which time around each loop.
    pub(super) iterations: Vec<u64>,
    pub(super) thread: u64,
    pub(super) expected: String,
    pub(super) found: String,
    /// Threads in which this result differs.
    pub(super) threads: u64,
}

impl Difference {
    /// The opcode, which similar differences share.
    pub(super) fn opcode(&self) -> &str {
        let words = self.instruction.split(' ').find(|word| !word.starts_with('@'));
        words.unwrap_or(&self.instruction)
    }
}

/// A device that runs modules of programs.
pub(super) struct Machine {
    device: Device,
    stream: Stream,
}

/// What programs leave in memory.
struct Left {
    own: Vec<u64>,
    log: Vec<u64>,
}

impl Machine {
    pub(super) fn new(device: Device) -> Result<Self, String> {
        let stream = device.stream().map_err(|error| error.to_string())?;
        Ok(Self { device, stream })
    }

    fn run(&self, text: &str, cases: &[&Case], written: &[Written]) -> warpwright_runtime::Result<Left> {
        let device = &self.device;
        let module = device.load_ptx(text)?;
        let words: Vec<u64> = cases.iter().flat_map(|case| &case.inputs).copied().collect();
        let inputs = device.buffer_from(&words)?;
        let own = device.zeros::<u64>(cases.len() * (OWN_GLOBAL_BYTES / 8) as usize)?;
        let slots: u64 = written.iter().map(|written| written.slots.len() as u64).sum();
        let log = device.zeros::<u64>((slots * SLOT_BYTES / 8) as usize)?;
        let mut first = 0;
        for (at, (case, written)) in (0..).zip(cases.iter().zip(written)) {
            let function = module.function(&entry(case.number))?;
            let arguments = (
                inputs.address() + at * INPUT_BYTES,
                own.address() + at * OWN_GLOBAL_BYTES,
                log.address() + first * SLOT_BYTES,
            );
            function.launch(&self.stream, Launch::new(1, THREADS as u32), arguments)?;
            first += written.slots.len() as u64;
        }
        self.stream.synchronize()?;
        Ok(Left { own: own.to_vec()?, log: log.to_vec()? })
    }
}

/// The two devices.
pub(super) struct Pair {
    /// An emulator.
    pub(super) expected: Machine,
    pub(super) found: Machine,
}

impl Pair {
    /// Runs programs as one module on both devices.
    ///
    /// # Errors
    /// A device fails where no program has undefined behaviour.
    pub(super) fn compare(&self, cases: &[&Case]) -> Result<Vec<Difference>, String> {
        let written: Vec<_> = cases.iter().map(|case| write(&case.program, case.number)).collect();
        let text = written.iter().fold(HEADER.to_owned(), |text, written| text + &written.text);
        let run = |machine: &Machine| {
            let left = machine.run(&text, cases, &written);
            left.map_err(|error| format!("{}: {error}", machine.device.name()))
        };
        let (found, expected) = (run(&self.found)?, run(&self.expected)?);
        let mut differences = Vec::new();
        let mut first = 0;
        for (at, (case, written)) in cases.iter().zip(&written).enumerate() {
            let words = |all: &'_ [u64], start: usize, count: u64| all[start..][..count as usize].to_vec();
            let logs = written.slots.len() as u64 * SLOT_BYTES / 8;
            let own = OWN_GLOBAL_BYTES / 8;
            let log = [&expected, &found].map(|left| words(&left.log, first, logs));
            let own = [&expected, &found].map(|left| words(&left.own, at * own as usize, own));
            differences.extend(first_difference(case.number, &written.slots, &log, &own));
            first += logs as usize;
        }
        Ok(differences)
    }
}

fn first_difference(
    number: u64,
    slots: &[Slot],
    [expected, found]: &[Vec<u64>; 2],
    [expected_own, found_own]: &[Vec<u64>; 2],
) -> Option<Difference> {
    let differs = |(a, b): (&u64, &u64)| a != b;
    if let Some(word) = expected.iter().zip(found).position(differs) {
        let (slot, thread) = (word / THREADS as usize, word % THREADS as usize);
        let Slot { instruction, register, iterations } = slots[slot].clone();
        let of_slot = slot * THREADS as usize..(slot + 1) * THREADS as usize;
        let threads =
            expected[of_slot.clone()].iter().zip(&found[of_slot]).filter(|pair| differs(*pair)).count();
        let digits = bits_of(&register).div_ceil(4) as usize;
        let shown = |value: u64| format!("0x{value:0digits$x}");
        let (expected, found) = (shown(expected[word]), shown(found[word]));
        let (thread, threads) = (thread as u64, threads as u64);
        return Some(Difference {
            number,
            instruction,
            register,
            iterations,
            thread,
            expected,
            found,
            threads,
        });
    }
    let word = expected_own.iter().zip(found_own).position(differs)?;
    Some(Difference {
        number,
        instruction: "global memory at the end".to_owned(),
        register: format!("byte {}", 8 * word as u64 % super::write::OWN_BYTES),
        iterations: Vec::new(),
        thread: 8 * word as u64 / super::write::OWN_BYTES,
        expected: format!("0x{:016x}", expected_own[word]),
        found: format!("0x{:016x}", found_own[word]),
        threads: 1,
    })
}
