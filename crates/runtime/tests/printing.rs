//! What kernels print.

use std::sync::{Arc, Mutex};

use warpwright_lang::pointer::Global;
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::{kernel, launch, printf};
use warpwright_runtime::{Device, Error};

/// Two threads a CTA print; the second CTA may then store to an element that does not exist.
#[kernel]
fn speak(out: &mut Global<u32>, fails: bool) {
    launch::threads(2);
    let (cta, thread) = (block_idx().x, thread_idx().x);
    printf!("CTA %u, thread %u\n", cta, thread);
    if fails {
        if cta == 1 {
            out.at(1u32 << 28).store(thread);
        }
    }
    if thread == 0 {
        printf!("CTA %u ends\n", cta);
    }
}

/// An emulated device with a host thread, and what its kernels print.
fn device() -> (Device, Arc<Mutex<String>>) {
    let printed = Arc::new(Mutex::new(String::new()));
    let text = printed.clone();
    let arch = warpwright_arch::Arch::named("h200").expect("in the table");
    let device =
        Device::emulated_on_one_thread(arch, warpwright_runtime::Schedule::Eager).expect("it starts");
    let device =
        device.printing_to(move |line| text.lock().expect("no panic").push_str(line)).expect("emulated");
    (device, printed)
}

#[test]
fn a_launch_prints_to_the_function_of_the_device() -> Result<(), Error> {
    let (device, printed) = device();
    let speak = device.compile(&speak().expect("it is staged"))?;
    speak.launch(&device.stream()?, 2, (&mut device.zeros(1)?, false))?;
    let expected =
        "CTA 0, thread 0\nCTA 0, thread 1\nCTA 0 ends\nCTA 1, thread 0\nCTA 1, thread 1\nCTA 1 ends\n";
    assert_eq!(*printed.lock().expect("no panic"), expected);
    Ok(())
}

#[test]
fn what_is_printed_before_a_fault_is_not_lost() -> Result<(), Error> {
    let (device, printed) = device();
    let speak = device.compile(&speak().expect("it is staged"))?;
    let outcome = speak.launch(&device.stream()?, 3, (&mut device.zeros(1)?, true));
    let Err(Error::Fault { fault, .. }) = outcome else { panic!("{outcome:?}") };
    let before = "CTA 0, thread 0\nCTA 0, thread 1\nCTA 0 ends\nCTA 1, thread 0\nCTA 1, thread 1\n";
    assert!(fault.output.starts_with(before), "{:?}", fault.output);
    assert_eq!(*printed.lock().expect("no panic"), fault.output);
    Ok(())
}
