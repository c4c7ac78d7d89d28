//! Graphs: on every device, what a capture records runs when the graph is launched.

use warpwright_runtime::{Buffer, Device, Error, Function, Graph, Launch, Stream};

const FAULT: &str = include_str!("ptx/fault.ptx");
const VECTOR: &str = include_str!("ptx/vector.ptx");

fn emulator() -> Device {
    Device::named("emu:h200").expect("the emulator always starts")
}

/// The emulator, and the GPU if there is one.
fn devices() -> impl Iterator<Item = Device> {
    [Some(emulator()), warpwright_testing::gpu(Device::named("cuda:0"))].into_iter().flatten()
}

fn kernel(device: &Device, name: &str) -> Function {
    device.load_ptx(VECTOR).expect("the module loads").function(name).expect("the kernel is there")
}

/// `sum` += `x`.
fn add(add: &Function, stream: &Stream, sum: &Buffer<f32>, x: &Buffer<f32>) -> Result<(), Error> {
    add.launch(stream, Launch::new(1, 32), (sum, x, sum, sum.len() as u32)).map(drop)
}

#[test]
fn nothing_runs_before_a_launch_and_all_runs_at_each() -> Result<(), Error> {
    for device in devices() {
        let (stream, kernel) = (device.stream()?, kernel(&device, "add"));
        let x = device.buffer_from(&[1.0f32, 2.0, 3.0])?;
        let (mut sum, mut copy) = (device.buffer_from(&[10.0f32; 3])?, device.buffer_from(&[7.0f32; 3])?);
        let graph: Graph = stream.capture(|stream| {
            add(&kernel, stream, &sum, &x)?;
            stream.copy(&mut copy, &sum)?;
            stream.fill_zero(&mut sum)?;
            add(&kernel, stream, &sum, &x)?;
            add(&kernel, stream, &sum, &x)
        })?;
        assert_eq!((graph.len(), sum.to_vec()?, copy.to_vec()?), (5, vec![10.0; 3], vec![7.0; 3]));
        graph.launch(&stream)?;
        assert_eq!((copy.to_vec()?, sum.to_vec()?), (vec![11.0, 12.0, 13.0], vec![2.0, 4.0, 6.0]));
        let other = device.stream()?;
        graph.launch(&other)?;
        graph.launch(&other)?;
        assert_eq!((copy.to_vec()?, sum.to_vec()?), (vec![3.0, 6.0, 9.0], vec![2.0, 4.0, 6.0]));
        let nothing = stream.capture(|_| Ok::<_, Error>(()))?;
        nothing.launch(&stream)?;
        assert!(nothing.is_empty());
    }
    Ok(())
}

#[test]
fn a_graph_is_recorded_into_another() -> Result<(), Error> {
    for device in devices() {
        let (stream, kernel) = (device.stream()?, kernel(&device, "add"));
        let (x, sum) = (device.buffer_from(&[1.0f32])?, device.zeros::<f32>(1)?);
        let one = stream.capture(|stream| add(&kernel, stream, &sum, &x))?;
        let three = stream.capture(|stream| (0..3).try_for_each(|_| one.launch(stream).map(drop)))?;
        assert_eq!((three.len(), sum.to_vec()?), (3, vec![0.0]));
        drop(one);
        three.launch(&stream)?;
        assert_eq!(sum.to_vec()?, [3.0]);
    }
    Ok(())
}

#[test]
fn a_graph_keeps_its_kernels_and_buffers() -> Result<(), Error> {
    for device in devices() {
        let stream = device.stream()?;
        let mut result = device.zeros::<f32>(64)?;
        let graph = {
            let (x, mut sum) = (device.buffer_from(&[2.0f32; 64])?, device.zeros::<f32>(64)?);
            let add = kernel(&device, "add");
            stream.capture(|stream| {
                let grid = Launch::new(2, 32);
                add.launch(stream, grid, (&x, &x, &mut sum, 64u32))?;
                stream.copy(&mut result, &sum)
            })?
        };
        // Memory of the same sizes, which the buffers' would be if it were freed.
        let _others = [device.buffer_from(&[5.0f32; 64])?, device.buffer_from(&[6.0f32; 64])?];
        graph.launch(&stream)?;
        assert_eq!(result.to_vec()?, [4.0; 64]);
    }
    Ok(())
}

#[test]
fn calls_that_no_graph_records_are_refused() -> Result<(), Error> {
    for device in devices() {
        let stream = device.stream()?;
        let mut buffer = device.zeros::<u32>(2)?;
        let mut host = device.host_buffer::<u32>(2)?;
        let event = device.event()?;
        let mut refused = vec![];
        let mut expect = |outcome: Result<(), Error>| match outcome {
            Err(Error::InCapture { call }) => refused.push(call),
            other => panic!("{other:?} after {refused:?}"),
        };
        stream.capture(|stream| {
            expect(stream.synchronize());
            expect(stream.is_idle().map(drop));
            expect(stream.record().map(drop));
            expect(stream.wait(&event));
            expect(stream.copy_to_device(&mut buffer, &mut host));
            expect(stream.copy_to_host(&mut host, &buffer));
            expect(stream.capture(|_| Ok::<_, Error>(())).map(drop));
            expect(buffer.to_vec().map(drop));
            expect(buffer.read(0..1).map(drop));
            expect(buffer.copy_from(&[1, 2]));
            expect(buffer.write_at(0, &[1]));
            expect(buffer.fill_zero());
            expect(device.synchronize());
            // New memory is nobody's yet.
            device.buffer_from(&[1u32])?;
            device.zeros::<u32>(1)
        })?;
        let calls = [
            "Stream::synchronize",
            "Stream::is_idle",
            "Stream::record",
            "Stream::wait",
            "Stream::copy_to_device",
            "Stream::copy_to_host",
            "Stream::capture",
            "Buffer::to_vec",
            "Buffer::read",
            "Buffer::copy_from",
            "Buffer::write_at",
            "Buffer::fill_zero",
            "Device::synchronize",
        ];
        assert_eq!(refused, calls);
        stream.synchronize()?;
        assert_eq!(buffer.to_vec()?, [0, 0]);
    }
    let message = Error::InCapture { call: "Stream::synchronize" }.to_string();
    insta::assert_snapshot!(message, @"`Stream::synchronize` is called inside `Stream::capture`, which records the work of the stream and runs none of it; call it before or after the capture");
    Ok(())
}

#[test]
fn a_capture_that_fails_leaves_the_stream_as_it_was() -> Result<(), Error> {
    for device in devices() {
        let (stream, kernel) = (device.stream()?, kernel(&device, "add"));
        let (x, sum) = (device.buffer_from(&[1.0f32])?, device.zeros::<f32>(1)?);
        let failed = stream.capture(|stream| {
            add(&kernel, stream, &sum, &x)?;
            stream.synchronize()
        });
        assert!(matches!(failed, Err(Error::InCapture { .. })), "{failed:?}");
        add(&kernel, &stream, &sum, &x)?;
        let graph = stream.capture(|stream| add(&kernel, stream, &sum, &x))?;
        assert_eq!((graph.len(), sum.to_vec()?), (1, vec![1.0]));
        let other = Device::named("emu:a100")?.stream()?;
        assert!(matches!(graph.launch(&other), Err(Error::WrongDevice { .. })));
    }
    Ok(())
}

#[test]
fn threads_wait_for_the_device_while_others_capture() -> Result<(), Error> {
    for device in devices() {
        let kernel = kernel(&device, "add");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let stream = device.stream().expect("a stream");
                    let x = device.buffer_from(&[1.0f32]).expect("it fits");
                    let sum = device.zeros::<f32>(1).expect("it fits");
                    for round in 1..=5 {
                        let graph = stream.capture(|stream| add(&kernel, stream, &sum, &x)).expect("a graph");
                        graph.launch(&stream).expect("it runs");
                        assert_eq!(sum.to_vec().expect("readable"), [round as f32]);
                    }
                });
            }
        });
    }
    Ok(())
}

#[test]
fn after_a_fault_in_a_graph_its_buffers_are_half_written() -> Result<(), Error> {
    let device = emulator();
    let (stream, x) = (device.stream()?, device.zeros::<u32>(4)?);
    let stray = device.load_ptx(FAULT)?.function("stray")?;
    let graph = stream.capture(|stream| stray.launch(stream, Launch::new(1, 1), (&x,)))?;
    assert!(matches!(graph.launch(&stream), Err(Error::Fault { .. })));
    assert!(matches!(x.to_vec(), Err(Error::HalfWritten { .. })));
    assert!(matches!(graph.launch(&stream), Err(Error::HalfWritten { .. })));
    Ok(())
}
