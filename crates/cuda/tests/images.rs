//! Fat binaries, and what of them is loaded.

use std::ffi::CString;

use warpwright_cuda::driver_functions;

type LoadData = extern "C" fn(*mut usize, *const u8) -> u32;
type GetFunction = extern "C" fn(*mut usize, usize, *const i8) -> u32;

fn address(name: &str) -> usize {
    (driver_functions().find(|function| function.name == name).expect("it is in the table").address)()
}

/// PTX for a target, with a kernel of this name.
fn ptx(target: &str, kernel: &str) -> Vec<u8> {
    format!(".version 8.0\n.target {target}\n.address_size 64\n.visible .entry {kernel}() {{ ret; }}\n\0")
        .into_bytes()
}

/// An entry of a container: PTX is of kind 1.
fn entry(kind: u16, arch: u32, flags: u64, data: &[u8], plain: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(kind.to_le_bytes());
    bytes.extend(0x101u16.to_le_bytes());
    bytes.extend(64u32.to_le_bytes());
    bytes.extend((data.len().next_multiple_of(8) as u64).to_le_bytes());
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.resize(28, 0);
    bytes.extend(arch.to_le_bytes());
    bytes.resize(40, 0);
    bytes.extend(flags.to_le_bytes());
    bytes.resize(56, 0);
    bytes.extend((plain as u64).to_le_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn container(entries: &[Vec<u8>]) -> Vec<u8> {
    let body = entries.concat();
    let mut bytes = 0xba55_ed50u32.to_le_bytes().to_vec();
    bytes.extend([1, 0, 16, 0]);
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The status of loading, and whether the module then has a kernel.
fn load(image: &[u8], kernel: &str) -> (u32, bool) {
    let (init, create) = (address("cuInit"), address("cuCtxCreate_v2"));
    // SAFETY: the functions have these signatures, and the pointers are to values that live during the calls.
    unsafe {
        let init: extern "C" fn(u32) -> u32 = std::mem::transmute(init);
        let create: extern "C" fn(*mut usize, u32, i32) -> u32 = std::mem::transmute(create);
        let load: LoadData = std::mem::transmute(address("cuModuleLoadData"));
        let function: GetFunction = std::mem::transmute(address("cuModuleGetFunction"));
        let (mut context, mut module, mut found) = (0, 0, 0);
        assert_eq!((init(0), create(&mut context, 0, 0)), (0, 0));
        let status = load(&mut module, image.as_ptr());
        let name = CString::new(kernel).unwrap();
        (status, status == 0 && function(&mut found, module, name.as_ptr().cast()) == 0)
    }
}

#[test]
fn the_newest_ptx_that_the_device_runs_is_loaded() {
    let plain = |target: &str, arch, kernel: &str| {
        let text = ptx(target, kernel);
        entry(1, arch, 0, &text, text.len())
    };
    let old = plain("sm_80", 80, "old");
    let own = plain("sm_90", 90, "own");
    let exact = plain("sm_90a", 90, "exact");
    let newer = plain("sm_100", 100, "newer");
    let machine_code = entry(2, 90, 0, &[0; 64], 64);
    assert_eq!(load(&container(&[old.clone(), newer.clone()]), "old"), (0, true));
    assert_eq!(load(&container(&[old.clone(), own.clone(), machine_code.clone()]), "own"), (0, true));
    assert_eq!(load(&container(&[own, exact, old]), "exact"), (0, true));
    assert_eq!(load(&container(&[newer, machine_code]), "newer"), (209, false));
    assert_eq!(load(b"\x7fELF\x02\x01\x01\0", "none"), (209, false));
    assert_eq!(load(&ptx("sm_90", "text"), "text"), (0, true));
}

#[test]
fn compressed_ptx_is_loaded() {
    let text = ptx("sm_90", "packed");
    let lz4 = lz4_flex::block::compress(&text);
    assert_eq!(load(&container(&[entry(1, 90, 0x2000, &lz4, text.len())]), "packed"), (0, true));
    let zstd = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
    assert_eq!(load(&container(&[entry(1, 90, 0x8000, &zstd, text.len())]), "packed"), (0, true));
    // Damaged data is an invalid image.
    assert_eq!(load(&container(&[entry(1, 90, 0x8000, &lz4, text.len())]), "packed"), (200, false));
    let cut = container(&[entry(1, 90, 0x2000, &lz4[..lz4.len() / 2], text.len())]);
    assert_eq!(load(&cut, "packed"), (200, false));
}
