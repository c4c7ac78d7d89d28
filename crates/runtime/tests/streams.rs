//! Work of two streams on a checked device: what nothing orders is reported, and what is ordered is
//! not.

use warpwright_lang::pointer::{Global, In, Out};
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::{kernel, launch};
use warpwright_runtime::{Buffer, Compiled, Device, Error, Finding, Stream};

const LENGTH: usize = 64;

fn device() -> Device {
    Device::named("emu:h200").expect("the emulator always starts").checked().expect("an emulator checks")
}

#[kernel]
fn double(x: &Global<f32>, y: &mut Global<f32>) {
    launch::threads(32);
    let i = block_idx().x * 32 + thread_idx().x;
    y[i] = x[i] * 2.0;
}

#[kernel]
fn count(counters: &mut Global<u32>) {
    launch::threads(32);
    counters.at(thread_idx().x).atomic_add(1);
}

#[kernel]
fn set(counters: &mut Global<u32>) {
    launch::threads(32);
    counters[thread_idx().x] = thread_idx().x;
}

type Double = Compiled<(In<f32>, Out<f32>)>;

/// A kernel, two streams, and three buffers of which the first is written.
struct Setup {
    device: Device,
    double: Double,
    a: Stream,
    b: Stream,
    buffers: [Buffer<f32>; 3],
}

fn setup() -> Result<Setup, Error> {
    let device = device();
    let double = device.compile(&double().expect("it is staged"))?;
    let buffer = || device.buffer_from(&[1.0f32; LENGTH]);
    let buffers = [buffer()?, buffer()?, buffer()?];
    Ok(Setup { a: device.stream()?, b: device.stream()?, double, buffers, device })
}

impl Setup {
    /// The second buffer from the first, on stream `a`.
    fn first(&mut self) -> Result<(), Error> {
        let [x, y, _] = &mut self.buffers;
        self.double.launch(&self.a, 2, (x, y)).map(drop)
    }

    /// The third buffer from the second, on stream `b`.
    fn second(&mut self) -> Result<(), Error> {
        let [_, y, z] = &mut self.buffers;
        self.double.launch(&self.b, 2, (y, z)).map(drop)
    }
}

/// The one finding of an error.
#[track_caller]
fn finding<T>(outcome: Result<T, Error>) -> Finding {
    let Err(Error::Findings { findings }) = outcome else { panic!("{:?}", outcome.map(drop)) };
    let [finding] = &*findings else { panic!("{} findings", findings.len()) };
    finding.clone()
}

fn here(finding: &Finding) -> Vec<&str> {
    finding.labels.iter().map(|label| label.text.as_str()).collect()
}

#[test]
fn launches_of_two_streams_without_an_event_are_reported() -> Result<(), Error> {
    let mut setup = setup()?;
    setup.first()?;
    let found = finding(setup.second());
    assert_eq!(found.kind.code(), "stream-order");
    assert!(
        found.message.starts_with(
            "nothing orders a write by `double` and a read by `double`, in two streams, of 256 bytes"
        ),
        "{found}"
    );
    assert_eq!(
        here(&found),
        [
            "the launch of `double` in stream 2",
            "the launch of `double` in stream 1, which may still run",
            "read by `double`",
            "write by `double`"
        ]
    );
    assert!(
        found
            .labels
            .iter()
            .all(|label| label.source.as_ref().is_some_and(|at| at.file.ends_with("streams.rs")))
    );
    assert_eq!(found.notes, ["these are elements 0 to 63 of `x`"]);
    let streams: Vec<&str> = found.memory.iter().map(|label| label.text.as_str()).collect();
    assert_eq!(streams, ["stream 1", "stream 2"]);
    assert!(found.help.as_ref().is_some_and(|help| help.contains("let stream 2 wait")), "{found}");
    let shown = Error::Findings { findings: [found].into() }.to_string();
    assert!(shown.contains("self.double.launch(&self.b, 2, (y, z))"), "{shown}");
    // It is reported once.
    setup.second()
}

#[test]
fn what_is_ordered_is_not_reported() -> Result<(), Error> {
    type Order = fn(&Setup) -> Result<(), Error>;
    let orders: [(&str, Order); 9] = [
        ("an event", |s| s.b.wait(&s.a.record()?)),
        ("an event that is recorded again", |s| {
            let event = s.b.record()?;
            s.a.record_into(&event)?;
            s.b.wait(&event)
        }),
        ("a third stream", |s| {
            let third = s.device.stream()?;
            third.wait(&s.a.record()?)?;
            s.b.wait(&third.record()?)
        }),
        ("the device", |s| s.device.synchronize()),
        ("the stream", |s| s.a.synchronize()),
        ("an idle stream", |s| s.a.is_idle().map(drop)),
        ("the host waits for an event", |s| s.a.record()?.synchronize()),
        ("the time of two events", |s| {
            let start = s.a.record()?;
            s.a.record()?.since(&start).map(drop)
        }),
        ("a read by the host of another buffer", |s| s.buffers[0].to_vec().map(drop)),
    ];
    for (name, order) in orders {
        let mut setup = setup()?;
        setup.first()?;
        order(&setup)?;
        setup.second().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(setup.buffers[2].to_vec()?, [4.0; LENGTH]);
    }
    Ok(())
}

#[test]
fn what_orders_nothing_is_named() -> Result<(), Error> {
    let mut early = setup()?;
    let event = early.a.record()?;
    early.first()?;
    early.b.wait(&event)?;
    let found = finding(early.second());
    let note = "stream 2 waits for an event that stream 1 recorded before the launch of `double`";
    assert!(found.notes.iter().any(|found| found == note), "{found}");

    let mut unrecorded = setup()?;
    unrecorded.first()?;
    unrecorded.b.wait(&unrecorded.device.event()?)?;
    let found = finding(unrecorded.second());
    let note = "stream 2 waits for an event that is not recorded, which orders nothing";
    assert!(found.notes.iter().any(|found| found == note), "{found}");

    // An event of the stream that waits, and the wait by the wrong stream.
    let mut wrong = setup()?;
    wrong.first()?;
    wrong.b.wait(&wrong.b.record()?)?;
    wrong.a.wait(&wrong.b.record()?)?;
    assert_eq!(finding(wrong.second()).kind.code(), "stream-order");
    Ok(())
}

#[test]
fn each_pair_of_uses_of_which_one_writes_conflicts() -> Result<(), Error> {
    // Two reads of one buffer.
    let mut setup = setup()?;
    let [x, y, z] = &mut setup.buffers;
    setup.double.launch(&setup.a, 2, (&*x, &mut *y))?;
    setup.double.launch(&setup.b, 2, (&*x, &mut *z))?;
    // A write of what is read, and two writes.
    let written = finding(setup.double.launch(&setup.b, 2, (&*z, &mut *x)));
    assert!(written.message.contains("a read by `double` and a write by `double`"), "{written}");
    let twice = finding(setup.double.launch(&setup.b, 1, (&*z, &mut *y)).and(setup.double.launch(
        &setup.a,
        1,
        (&*y, &mut *z),
    )));
    assert!(
        twice.message.contains("a write by `double` and a read by `double`, in two streams, of 128 bytes"),
        "{twice}"
    );
    assert_eq!(twice.notes, ["these are elements 0 to 31 of `x`"]);
    Ok(())
}

#[test]
fn parts_of_one_buffer_do_not_conflict() -> Result<(), Error> {
    let device = device();
    let module = device.load_ptx(include_str!("ptx/vector.ptx"))?;
    let add_table = module.function("add_table")?;
    let sums = device.zeros::<u32>(8)?;
    let (a, b) = (device.stream()?, device.stream()?);
    let grid = warpwright_runtime::Launch::new(1, 4);
    add_table.launch(&a, grid, (sums.address(),))?;
    add_table.launch(&b, grid, (sums.address() + 16,))?;
    assert_eq!(sums.to_vec()?, [10, 20, 30, 40, 10, 20, 30, 40]);
    add_table.launch(&a, grid, (sums.address(),))?;
    let found = finding(add_table.launch(&b, grid, (sums.address() + 8,)));
    assert!(found.message.contains("of 8 bytes"), "{found}");
    Ok(())
}

#[test]
fn copies_and_fills_are_operations_of_their_stream() -> Result<(), Error> {
    let mut setup = setup()?;
    setup.first()?;
    let [x, y, z] = &mut setup.buffers;
    let copied = finding(setup.b.copy(z, y));
    assert!(copied.message.contains("a write by `double` and a read by a copy"), "{copied}");
    assert_eq!(
        copied.notes,
        ["these are elements 0 to 63 of the source of the copy, which has 64 elements of f32"]
    );
    let filled = finding(setup.a.fill_zero(z));
    assert!(filled.message.contains("a write by a copy and a write by a fill"), "{filled}");
    assert_eq!(filled.kernel, "");
    assert!(!filled.to_string().contains("in kernel"), "{filled}");
    let mut host = setup.device.host_buffer::<f32>(LENGTH)?;
    let read = finding(setup.b.copy_to_host(&mut host, z));
    assert!(read.message.contains("a write by a fill and a read by a copy to the host"), "{read}");
    let written = finding(setup.device.stream()?.copy_to_device(x, &mut host));
    assert!(written.message.contains("a read by `double` and a write by a copy to the device"), "{written}");
    // Elements of the host buffer wait for its copies, which orders them.
    assert_eq!(host.as_slice()?, [0.0; LENGTH]);
    Ok(())
}

#[test]
fn launches_of_a_graph_are_operations_of_its_stream() -> Result<(), Error> {
    let mut setup = setup()?;
    let [x, y, z] = &mut setup.buffers;
    let graph = setup.a.capture(|stream| {
        setup.double.launch(stream, 2, (&*x, &mut *y))?;
        setup.double.launch(stream, 2, (&*y, &mut *z)).map(drop)
    })?;
    graph.launch(&setup.a)?;
    // Launches of one graph are ordered, on any stream.
    graph.launch(&setup.b)?;
    let other = setup.a.capture(|stream| setup.double.launch(stream, 2, (&*y, &mut *z)).map(drop))?;
    let found = finding(other.launch(&setup.a));
    assert!(found.message.contains("a write by `double` and a write by `double`"), "{found}");
    Ok(())
}

#[test]
fn atomic_operations_of_two_streams_do_not_conflict() -> Result<(), Error> {
    let device = device();
    let (count, set) =
        (device.compile(&count().expect("it is staged"))?, device.compile(&set().expect("it is staged"))?);
    let mut counters = device.zeros::<u32>(32)?;
    let (a, b) = (device.stream()?, device.stream()?);
    count.launch(&a, 1, (&mut counters,))?;
    count.launch(&b, 1, (&mut counters,))?;
    let found = finding(set.launch(&b, 1, (&mut counters,)));
    assert!(
        found.message.contains("an atomic operation or strong write by `count` and a write by `set`"),
        "{found}"
    );
    Ok(())
}

#[test]
fn a_device_that_is_not_checked_reports_nothing() -> Result<(), Error> {
    let device = Device::named("emu:h200")?;
    let double = device.compile(&double().expect("it is staged"))?;
    let (a, b) = (device.stream()?, device.stream()?);
    let (x, mut y) = (device.buffer_from(&[1.0f32; LENGTH])?, device.uninitialized::<f32>(LENGTH)?);
    double.launch(&a, 1, (&x, &mut y))?;
    double.launch(&b, 1, (&x, &mut y))?;
    assert!(y.to_vec()?[LENGTH - 1].is_nan());
    Ok(())
}
