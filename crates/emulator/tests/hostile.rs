//! Text of absurd sizes, or without meaning, is refused with a sentence. It never ends the process or runs without end.

use crate::common::{device, device_of, launch_checked};
use crate::table::spelling::{instruction, oldest_version, program, targets};
use warpwright_arch::instructions::forms;
use warpwright_emulator::{Emulator, Launch, Limit};

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
        (".const .b8 s[999999999999];", "take 999999999999 bytes; a module may have 65536."),
        (".global .b32 s[2] = {1, 2, 3};", "`s` has more initial values than elements."),
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
fn long_and_deep_text_is_answered() {
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
        (format!(".entry k() {{ mov{}; }}", ".x".repeat(100_000)), false),
    ] {
        let said = answer(&mut device("h200"), &format!("{HEAD}{text}"));
        assert_eq!(said.is_ok(), is_valid, "{:.60}: {said:?}", text);
    }
}

/// Tokens that replace words and operands.
const TOKENS: [&str; 24] = [
    "0",
    "-1",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "0f7F800000",
    "0d7FF8000000000000",
    "_",
    "%p1",
    "%rs1",
    "%r1",
    "%rd1",
    "%tid.x",
    "shared_array",
    "global_array",
    "[shared_array+9223372036854775807]",
    "[%rd1+-9223372036854775808]",
    "{%r1, %r2}",
    "{}",
    "!%p1",
    "%p1|%p2",
    "(%r1)",
    "m99999n99999k99999",
];

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// An instruction of which one word or operand is removed, added, moved or replaced.
    fn changed(&mut self, line: &str) -> String {
        let line = line.trim_end_matches(';');
        let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
        let (mut words, mut operands): (Vec<_>, Vec<_>) =
            (name.split('.').collect(), operands.split(", ").collect());
        let list = if self.below(2) == 0 { &mut words } else { &mut operands };
        let (at, token) = (self.below(list.len()), TOKENS[self.below(TOKENS.len())]);
        match self.below(4) {
            0 => drop(list.remove(at)),
            1 => list.insert(at, token),
            2 => list.swap(at, 0),
            _ => list[at] = token,
        }
        format!("{} {};", words.join("."), operands.join(", "))
    }
}

/// Assignments of valid addresses to the registers of an instruction.
fn addresses(line: &str) -> Vec<String> {
    let names = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '%');
    let assign = |name: &str| match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "%rd" => Some(format!("mov.u64 {name}, global_array;")),
        "%r" => Some(format!("mov.u32 {name}, shared_array;")),
        _ => None,
    };
    names.filter_map(assign).collect()
}

/// Loads a program and executes it in a warp, under the checkers.
fn execute(device: &mut Emulator, text: &str) -> Result<(), String> {
    let module = warpwright_ptx::parse(text).map_err(|error| error.to_string())?;
    let program = device.load(&module).map_err(|error| error.to_string())?;
    // The programs have no loops: more instructions than lines of text are a program that went back.
    let limit = Some(Limit::WarpInstructions(1_000));
    let launch = Launch { block: [32, 1, 1], limit, ..Launch::default() };
    launch_checked(device, &program, "all", &launch).0.map_err(|fault| fault.to_string())?;
    Ok(())
}

/// Changes instructions of one in `share` forms, and executes under the checkers what loads. The
/// programs have no loops. Returns how many are executed to their end, and how many are not.
fn change(share: usize, seed: u64) -> [u32; 2] {
    let mut random = Random(seed);
    let mut counts = [0; 2];
    for form in forms().skip(seed as usize % share).step_by(share) {
        for (name, signature) in form.instances(4) {
            let availability = form.availability(&name);
            let target = targets(&availability).remove(0);
            let mut device = device(device_of(&format!(".target {target}")));
            for literals in [false, true] {
                let changed = random.changed(&instruction(&name, &signature, literals));
                let mut lines = addresses(&changed);
                lines.push(changed);
                let text = program(&target, oldest_version(&availability, &target), &lines);
                let answer = execute(&mut device, &text);
                if let Err(message) = &answer {
                    assert!(message.contains("line "), "{message}\n{text}");
                }
                counts[usize::from(answer.is_err())] += 1;
            }
        }
    }
    counts
}

#[test]
fn changed_instructions_are_refused_or_end() {
    let [executed, refused] = change(16, 1);
    assert!(executed > 50 && refused > 300, "{executed} are executed, {refused} are refused");
}

#[test]
#[ignore = "takes minutes"]
fn many_changed_instructions_are_refused_or_end() {
    for seed in 0..20 {
        change(1, seed);
    }
}
