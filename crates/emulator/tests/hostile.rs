//! Text of absurd sizes, or without meaning, is refused with a sentence. It never ends the process,
//! takes gigabytes of memory, or takes long.

use std::time::{Duration, Instant};

use crate::common::device;
use warpwright_emulator::Emulator;

const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// The answer to a module: nothing, or why it does not load.
fn answer(device: &mut Emulator, text: &str) -> Result<(), String> {
    let module = warpwright_ptx::parse(text).map_err(|error| error.to_string())?;
    device.load(&module).map(|_| ()).map_err(|error| error.to_string())
}

/// Declarations in a kernel, and part of the reason that they are refused.
const IN_KERNELS: [(&str, &str); 12] = [
    (".local .b8 s[99999999999];", "take 99999999999 bytes of local memory; a thread has 524288."),
    (".local .b8 a[400000]; .local .b8 b[400000];", "take 800000 bytes of local memory"),
    (".param .b8 s[4294967295];", "take 4294967295 bytes of local memory"),
    (".local .b64 s<16000000>;", "bytes of local memory"),
    (".shared .b8 s[99999999999];", "take 99999999999 bytes of shared memory; a CTA may have 232448."),
    (".shared .b8 s[4294967296][4294967296];", "an array of at most 281474976710656 bytes"),
    (".shared .b64 s[9223372036854775807];", "an array of at most 281474976710656 bytes"),
    (".shared .align 3 .b8 s[4];", "a power of two"),
    (".local .align 0 .b8 s[4];", "a power of two"),
    (".reg .b32 %r<2000000000>;", "at most 16777216"),
    (".reg .b32 %r<4000000000>;", "at most 16777216"),
    (".reg .b32 %r<-1>;", "how many registers are numbered"),
];

#[test]
fn absurd_declarations_are_refused() {
    let mut device = device("h200");
    for (declaration, said) in IN_KERNELS {
        let error = answer(&mut device, &format!("{HEAD}.entry k() {{ {declaration} ret; }}")).unwrap_err();
        assert!(error.contains(said), "{declaration}: {error}");
    }
    for (item, said) in [
        (".global .b8 s[999999999999];", "999999999999 bytes were requested"),
        (".const .b8 s[999999999999];", "999999999999 bytes were requested"),
        (".global .b32 s[2] = {1, 2, 3};", "The initializer has 12 bytes, and the variable 8."),
        (".shared .b8 s[300000]; .entry k() { .reg .b32 %r; mov.u32 %r, s; }", "take 300000 bytes of shared"),
        (
            ".entry k(.param .b8 s[99999999999]) { ret; }",
            "takes 99999999999 bytes of parameters; it may take 32764",
        ),
        (".entry k(.param .b8 s[40000]) { ret; }", "takes 40000 bytes of parameters"),
    ] {
        let error = answer(&mut device, &format!("{HEAD}{item}")).unwrap_err();
        assert!(error.contains(said), "{item}: {error}");
    }
    for version in ["99.9", "10.0", "0.5", "9.10", "4294967296.0", "9", "-9.0"] {
        let error = answer(&mut device, &format!(".version {version}\n.target sm_90a\n")).unwrap_err();
        assert!(error.contains("expected a version"), "{version}: {error}");
    }
}

#[test]
fn long_and_deep_text_is_answered_soon() {
    let functions = (1..4000).fold(".func f0() { ret; }\n".to_owned(), |text, index| {
        format!("{text}.func f{index}() {{ call f{}; ret; }}\n", index - 1)
    });
    let externs: String = (0..30_000).map(|index| format!(".extern .global .b32 g{index};\n")).collect();
    let registers: String = (0..20_000).map(|index| format!("mov.u32 %r{index}, {index};\n")).collect();
    let numbers = vec!["0x12345678"; 500_000].join(", ");
    for (text, is_valid) in [
        (functions, true),
        (externs, true),
        (format!(".entry k() {{ .reg .b32 %r<20000>;\n{registers} ret; }}"), true),
        (format!(".global .b32 s[] = {{ {numbers} }};"), true),
        (format!(".entry k() {{ {} }}", "{".repeat(100_000)), false),
        (format!(".global .b32 s = {}1;", "-(".repeat(100_000)), false),
        (format!(".global .b32 s[] = {};", "{".repeat(100_000)), false),
        (format!(".global .b32 s{};", "[1]".repeat(100_000)), true),
        (format!("/*{}", "*".repeat(1_000_000)), false),
        (format!(".entry k() {{ mov{}; }}", ".x".repeat(100_000)), true),
    ] {
        let start = Instant::now();
        let said = answer(&mut device("h200"), &format!("{HEAD}{text}"));
        assert_eq!(said.is_ok(), is_valid, "{:.60}: {said:?}", text);
        assert!(start.elapsed() < Duration::from_secs(60), "{:.60}: {:?}", text, start.elapsed());
    }
}
