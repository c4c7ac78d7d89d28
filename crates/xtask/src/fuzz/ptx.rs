//! PTX: the texts of the corpus and of the emulator's benches, changed, read and loaded.

use warpwright_arch::Arch;
use warpwright_emulator::Emulator;
use warpwright_harness::Random;
use warpwright_ptx::parse;
use warpwright_testing::corpus;

use super::Target;
use super::mutate::{mutate, one, words};

/// Longer texts of the corpus are left out, so that a case is short.
const MOST_BYTES: usize = 6000;
/// Modules on a device before it is replaced: their variables stay allocated.
const MOST_MODULES: u32 = 1000;
/// Memory of the device, so that a large array is refused by it and not by the host.
const DEVICE_BYTES: u64 = 64 << 20;

pub(super) struct Modules {
    texts: Vec<String>,
    /// All words of the texts, each once.
    words: Vec<String>,
    arch: &'static Arch,
    emulator: Emulator,
    loaded: u32,
}

impl Modules {
    pub(super) fn new() -> Self {
        let texts = corpus::texts().into_iter().map(|(_, text)| text);
        let texts: Vec<_> = texts.filter(|text| text.len() < MOST_BYTES).collect();
        let mut all: Vec<_> = texts.iter().flat_map(|text| words(text)).map(str::to_owned).collect();
        all.sort();
        all.dedup();
        let h200 = Arch::named("h200").expect("it is in the table");
        let tensor = &h200.tensor;
        let tensor = warpwright_arch::TensorRates { ..*tensor };
        let arch: &'static Arch = Box::leak(Box::new(Arch { global_bytes: DEVICE_BYTES, tensor, ..*h200 }));
        Self { texts, words: all, arch, emulator: emulator(arch), loaded: 0 }
    }
}

fn emulator(arch: &'static Arch) -> Emulator {
    Emulator::with_threads(arch, 1).expect("a thread can be started")
}

impl Target for Modules {
    fn make(&self, random: &mut Random) -> String {
        let text = one(random, &self.texts);
        mutate(random, text, &self.words)
    }

    fn read(&mut self, case: &str) -> Result<(), String> {
        if self.loaded >= MOST_MODULES {
            (self.emulator, self.loaded) = (emulator(self.arch), 0);
        }
        let module = parse(case).map_err(|error| error.to_string())?;
        let _ = module.to_string();
        self.loaded += 1;
        self.emulator.load(&module).map(|_| ()).map_err(|error| error.to_string())
    }
}
