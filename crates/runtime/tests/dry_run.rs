//! The dry run, and the log of launches on every device.

use warpwright_arch::Capability;
use warpwright_lang::pointer::Global;
use warpwright_lang::shared::shared_array;
use warpwright_lang::special::thread_idx;
use warpwright_lang::{kernel, launch};
use warpwright_runtime::{Device, Error, LaunchRecord};

/// 256 threads with 12 bytes and 1 KB of shared memory, and at most 40 registers.
#[kernel]
fn through_shared(out: &mut Global<f32>) {
    launch::threads(256);
    launch::maximum_registers(40);
    let few = shared_array::<u32>(3);
    let all = shared_array::<f32>(256);
    few.at(0u32).store(0u32);
    all.at(thread_idx().x).store(1.0);
    out.at(thread_idx().x).store(all.at(thread_idx().x).load());
}

fn launched(device: &Device, block: u32) -> Result<LaunchRecord, Error> {
    let kernel = device.compile(&through_shared().expect("no mistakes"))?;
    let mut out = device.uninitialized::<f32>(256)?;
    let stream = device.stream()?;
    let (launched, mut log) =
        device.log_launches(|| kernel.launch(&stream, kernel.shape(2).block(block), (&mut out,)));
    launched?;
    Ok(log.remove(0))
}

#[test]
fn a_dry_run_logs_what_the_emulator_logs() {
    let emulated = launched(&Device::named("emu:h200").expect("it starts"), 256).expect("it runs");
    let dry = Device::dry_run(Capability::for_target("sm_90a").expect("known")).expect("it starts");
    let dry = launched(&dry, 256).expect("it validates");
    assert_eq!((&dry.kernel, &dry.ptx), (&emulated.kernel, &emulated.ptx));
    assert_eq!((dry.launch, dry.shared_bytes()), (emulated.launch, emulated.shared_bytes()));
    for attributes in [dry.attributes, emulated.attributes] {
        assert_eq!((attributes.registers_per_thread, attributes.shared_bytes), (40, 16 + 1024));
    }
    assert_eq!(dry.occupancy().expect("it fits").ctas_per_sm, 6);
}

#[test]
fn a_dry_run_has_every_target_and_refuses_what_a_gpu_refuses() {
    for target in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"] {
        let device = Device::dry_run(Capability::for_target(target).expect("known")).expect("it starts");
        let record = launched(&device, 256).expect("it validates");
        assert!(record.ptx.contains(&format!(".target {target}")), "{}", record.ptx);
        assert!(matches!(launched(&device, 512), Err(Error::BadLaunch { .. })), "its bounds are 256 threads");
    }
}

#[test]
fn launches_are_logged_only_where_that_is_asked_for() {
    let device = Device::named("emu:h200").expect("it starts");
    let kernel = device.compile(&through_shared().expect("no mistakes")).expect("it compiles");
    let mut out = device.uninitialized::<f32>(256).expect("there is memory");
    let stream = device.stream().expect("a stream");
    let mut launch = || kernel.launch(&stream, 2, (&mut out,)).expect("it runs");
    launch();
    let (_, log) = device.log_launches(&mut launch);
    assert_eq!(log.len(), 1);
    launch();
    let ((), log) = device.log_launches(|| ());
    assert!(log.is_empty());
}

#[test]
fn a_rehearsal_loads_kernels_for_its_device_and_runs_none() {
    let device = Device::named("emu:h200").expect("it starts");
    let rehearsal = device.rehearsal();
    assert_eq!(rehearsal.properties().sm_count, device.properties().sm_count);
    let kernel = rehearsal.compile(&through_shared().expect("no mistakes")).expect("it compiles");

    let mut imagined = rehearsal.zeros::<f32>(256).expect("it takes no memory");
    let on_rehearsal = rehearsal.stream().expect("a stream");
    kernel.launch(&on_rehearsal, 2, (&mut imagined,)).expect("it validates");
    let graph = on_rehearsal.capture(|stream| kernel.launch(stream, 2, (&mut imagined,)).map(drop));
    graph.expect("it records").launch(&on_rehearsal).expect("it validates");
    assert_eq!(imagined.to_vec().expect("zeros"), [0.0; 256]);

    let (stream, mut out) = (device.stream().expect("a stream"), device.zeros::<f32>(256).expect("memory"));
    assert!(matches!(kernel.launch(&stream, 2, (&mut imagined,)), Err(Error::WrongDevice { .. })));
    assert!(matches!(kernel.launch(&on_rehearsal, 2, (&mut out,)), Err(Error::WrongDevice { .. })));
    kernel.launch(&stream, 2, (&mut out,)).expect("it runs");
    assert_eq!(out.to_vec().expect("they are written"), [1.0; 256]);
}
