//! Launches on the emulator of an A100.

use warpwright_arch::{Arch, Capability};
use warpwright_emulator::{Emulator, Launch};
use warpwright_ir as ir;

/// Launches a kernel whose parameters are the buffers; they hold what it leaves in them.
pub(crate) fn launch(kernel: ir::Kernel, grid: [u32; 3], block: [u32; 3], buffers: &mut [Vec<u8>]) {
    let name = kernel.name.clone();
    let capability = Capability::for_target("sm_80").expect("a target of the table");
    let text = warpwright_ptx::write(&ir::Module::new(capability, vec![kernel]));
    let module = warpwright_ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut emulator = Emulator::new(Arch::named("a100").expect("in the table")).expect("it starts");
    let program = emulator.load(&module).unwrap_or_else(|fault| panic!("{fault}"));
    let addresses: Vec<u64> = buffers
        .iter()
        .map(|bytes| {
            let address = emulator.allocate(bytes.len() as u64).expect("there is room");
            emulator.write(address, bytes).expect("allocated above");
            address
        })
        .collect();
    let parameters: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
    let launch = Launch { grid, block, parameters: &parameters, ..Launch::default() };
    emulator.launch(&program, &name, &launch).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    for (address, bytes) in addresses.into_iter().zip(buffers) {
        emulator.read(address, bytes).expect("allocated above");
    }
}
