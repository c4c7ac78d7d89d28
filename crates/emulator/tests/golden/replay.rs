//! Runs every case on the emulator and compares what it leaves with what the GPU left.

use warpwright_arch::Arch;
use warpwright_emulator::{Emulator, Launch, Schedule};

use crate::golden::agreement::{self, Agreement};
use crate::golden::case::{Buffer, Case};
use crate::golden::record::Records;

/// Cases that cannot be run yet, and why. Each counts as a failure: the list is to become empty.
const NOT_YET: [(&str, &str); 1] = [("video/vmad.negated", "the parser reads no `-` before a register")];

/// The saved buffers of a case run on the emulator, end to end.
fn run(device: &mut Emulator, case: &Case, schedule: Schedule) -> Result<Vec<u8>, String> {
    let module = warpwright_ptx::parse(&case.ptx()).map_err(|error| error.to_string())?;
    let program = device.load(&module).map_err(|error| error.to_string())?;
    let (mut parameters, mut buffers) = (Vec::new(), Vec::new());
    for operand in &case.operands {
        let bytes = match &operand.buffer {
            Buffer::Input(input) | Buffer::RawInput(input) | Buffer::RawInOut(input) => {
                input.npy()[128..].to_vec()
            }
            Buffer::Output => vec![0; operand.registers * case.threads * operand.width.bytes()],
            Buffer::RawOutput(elements) => vec![0; elements * operand.width.bytes()],
        };
        let address = device.allocate(bytes.len() as u64).map_err(|error| error.to_string())?;
        device.write(address, &bytes).map_err(|error| error.to_string())?;
        parameters.extend(address.to_le_bytes());
        let saved = !matches!(operand.buffer, Buffer::Input(_) | Buffer::RawInput(_));
        buffers.push((address, bytes.len(), saved));
    }
    let launch = Launch {
        grid: [(case.threads / case.block) as u32, 1, 1],
        block: [case.block as u32, 1, 1],
        parameters: &parameters,
        schedule,
        ..Launch::default()
    };
    device.launch(&program, &case.entry(), &launch).map_err(|fault| fault.to_string())?;
    let mut outputs = Vec::new();
    for (address, length, saved) in buffers {
        if saved {
            let start = outputs.len();
            outputs.resize(start + length, 0);
            device.read(address, &mut outputs[start..]).map_err(|error| error.to_string())?;
        }
        device.free(address).map_err(|error| error.to_string())?;
    }
    Ok(outputs)
}

/// The schedules that a case is run at: all, where it synchronizes what is asynchronous.
fn schedules(case: &Case) -> &'static [Schedule] {
    match case.family {
        "cluster" | "mbarrier" => &[Schedule::Eager, Schedule::Latest, Schedule::Random(1)],
        _ => &[Schedule::Eager],
    }
}

/// What is wrong with a case, if anything is.
fn disagreement(device: &mut Emulator, records: &Records, case: &Case) -> Option<String> {
    let recorded = match records.outputs(case) {
        Ok(recorded) => recorded,
        Err(reason) => return Some(reason),
    };
    schedules(case).iter().find_map(|&schedule| match run(device, case, schedule) {
        Ok(outputs) => agreement::of(case).check(case, &recorded, &outputs).err(),
        Err(reason) => Some(reason),
    })
}

/// `GOLDEN=mma` replays the cases of which the path contains `mma`.
#[test]
fn the_emulator_gives_what_the_gpu_gave() {
    let records = Records::read();
    let mut device = Emulator::with_threads(Arch::named("h200").expect("there is an H200"), 2)
        .expect("the emulator starts");
    let filter = std::env::var("GOLDEN").unwrap_or_default();
    let (mut ran, mut wrong) = (0, Vec::new());
    for case in crate::golden::cases() {
        if case.path().contains(&filter) {
            ran += 1;
            let what = disagreement(&mut device, &records, &case);
            match (what, NOT_YET.iter().find(|(name, _)| *name == case.path())) {
                (Some(_), Some((name, reason))) => println!("{name} is not run yet: {reason}"),
                (None, Some((name, _))) => wrong.push(format!("{name} agrees: take it off the list")),
                (Some(what), None) => wrong.push(format!("{}: {what}", case.path())),
                (None, None) => {}
            }
        }
    }
    assert!(ran > 0, "no case has `{filter}` in its path");
    assert!(wrong.is_empty(), "{} of {ran} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_record_is_of_a_case() {
    let cases: Vec<String> = crate::golden::cases().iter().map(Case::path).collect();
    for name in Records::read().names() {
        assert!(cases.contains(name), "{name} is recorded, and is no case");
    }
}

/// A comparison that cannot fail is none.
#[test]
fn a_flipped_bit_is_seen() {
    let records = Records::read();
    for case in crate::golden::cases().iter().filter(|case| agreement::of(case) == Agreement::Exact) {
        let recorded = records.outputs(case).expect("it was recorded");
        let mut changed = recorded.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        assert!(agreement::of(case).check(case, &recorded, &changed).is_err(), "{}", case.path());
    }
}
