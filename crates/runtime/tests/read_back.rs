//! Reading elements that nothing has written, from a checked device.

use warpwright_lang::pointer::Global;
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::{kernel, launch};
use warpwright_runtime::{Device, Error, Finding};

fn device() -> Device {
    Device::named("emu:h200").expect("the emulator always starts").checked().expect("an emulator checks")
}

#[track_caller]
fn finding<T>(outcome: Result<T, Error>) -> Finding {
    let Err(Error::Findings { findings }) = outcome else { panic!("{:?}", outcome.map(drop)) };
    let [finding] = &*findings else { panic!("{} findings", findings.len()) };
    assert_eq!(finding.kind.code(), "uninitialized");
    finding.clone()
}

#[kernel]
fn fill(y: &mut Global<f32>, length: u32) {
    launch::threads(64);
    let i = block_idx().x * 64 + thread_idx().x;
    if i < length {
        y[i] = 1.0;
    }
}

/// Tiles of 8 by 8.
#[kernel]
fn fill_matrix(y: &mut Global<f32>, rows: u32, columns: u32) {
    launch::required_block(8, 8, 1);
    let (row, column) = (block_idx().y * 8 + thread_idx().y, block_idx().x * 8 + thread_idx().x);
    if row < rows {
        if column < columns {
            y[row * columns + column] = 1.0;
        }
    }
}

#[kernel]
fn increment(counts: &mut Global<u32>) {
    launch::threads(64);
    counts.at(thread_idx().x).reduce_add(1);
}

#[test]
fn a_grid_that_is_too_small_is_reported_with_the_elements() -> Result<(), Error> {
    let device = device();
    let fill = device.compile(&fill().expect("it is staged"))?;
    let stream = device.stream()?;
    let mut y = device.uninitialized::<f32>(1000)?;
    fill.launch(&stream, 12, (&mut y, 1000))?;
    let found = finding(y.to_vec());
    assert_eq!(found.message, "the host reads 1000 elements of f32, and nothing has written 232 of them");
    let labels: Vec<&str> = found.labels.iter().map(|label| label.text.as_str()).collect();
    assert_eq!(
        labels,
        [
            "elements 768 to 999 are not written",
            "`fill` is launched here, and writes other elements",
            "`fill` writes the buffer here"
        ]
    );
    assert_eq!(
        found.notes,
        ["the launch of `fill` has a grid of [12, 1, 1] CTAs of [64, 1, 1] threads, 768 threads"]
    );
    assert!(
        found
            .help
            .as_ref()
            .is_some_and(|help| help.contains("64 for each CTA: launch 16 CTAs for 1000 elements")),
        "{found}"
    );
    let shown = Error::Findings { findings: [found].into() }.to_string();
    assert!(shown.contains("y.to_vec()") && shown.contains("fill.launch(&stream, 12"), "{shown}");

    // What is written may be read, and so may all once it is.
    assert_eq!(y.read(0..768)?, [1.0; 768]);
    assert_eq!(
        finding(y.read(700..800)).message,
        "the host reads 100 elements of f32, and nothing has written 32 of them"
    );
    y.write_at(768, &[2.0; 200])?;
    assert_eq!(finding(y.to_vec()).labels[0].text, "elements 968 to 999 are not written");
    fill.launch(&stream, 16, (&mut y, 1000))?;
    assert_eq!(y.to_vec()?, [1.0; 1000]);
    Ok(())
}

#[test]
fn exchanged_axes_are_reported_with_the_elements_of_each_row() -> Result<(), Error> {
    let device = device();
    let fill = device.compile(&fill_matrix().expect("it is staged"))?;
    let (stream, mut y) = (device.stream()?, device.uninitialized::<f32>(16 * 40)?);
    fill.launch(&stream, (2, 5), (&mut y, 16, 40))?;
    let found = finding(y.to_vec());
    assert_eq!(
        found.labels[0].text,
        "24 elements of every 40, from elements 16 to 39 to elements 616 to 639 (16 runs), are not written"
    );
    assert!(
        found.help.as_ref().is_some_and(|help| help.contains("the grid has a thread for each element")
            && help.contains("x and y are not exchanged")),
        "{found}"
    );
    fill.launch(&stream, (5, 2), (&mut y, 16, 40))?;
    assert_eq!(y.to_vec()?, [1.0; 640]);
    Ok(())
}

#[test]
fn a_buffer_that_no_launch_writes_is_reported() -> Result<(), Error> {
    let device = device();
    let fill = device.compile(&fill().expect("it is staged"))?;
    let stream = device.stream()?;
    let mut y = device.uninitialized::<f32>(4)?;
    let found = finding(y.to_vec());
    assert_eq!(found.message, "the host reads 4 elements of f32, and nothing has written them");
    assert!(
        found.help.as_ref().is_some_and(|help| help.contains("launch a kernel that writes them")),
        "{found}"
    );
    fill.launch(&stream, 1, (&mut y, 0))?;
    let found = finding(y.to_vec());
    assert_eq!(found.labels[1].text, "`fill` is launched here, and writes no element of the buffer");
    assert_eq!(found.kernel, "fill");
    Ok(())
}

#[test]
fn a_copy_of_unwritten_elements_writes_none() -> Result<(), Error> {
    let device = device();
    let fill = device.compile(&fill().expect("it is staged"))?;
    let stream = device.stream()?;
    let (mut x, mut y) = (device.uninitialized::<f32>(128)?, device.buffer_from(&[5.0f32; 128])?);
    fill.launch(&stream, 1, (&mut x, 128))?;
    stream.copy(&mut y, &x)?;
    assert_eq!(finding(y.to_vec()).labels[0].text, "elements 64 to 127 are not written");
    let mut host = device.host_buffer::<f32>(128)?;
    assert_eq!(
        finding(stream.copy_to_host(&mut host, &x)).labels[0].text,
        "elements 64 to 127 are not written"
    );
    stream.fill(&mut x, 0)?;
    stream.copy_to_host(&mut host, &x)?;
    assert_eq!(host.as_slice()?, [0.0; 128]);
    Ok(())
}

#[test]
fn a_part_of_a_filled_buffer_is_a_remark() -> Result<(), Error> {
    let device = device();
    let fill = device.compile(&fill().expect("it is staged"))?;
    let stream = device.stream()?;
    for mut y in [device.zeros::<f32>(100)?, device.buffer_from(&[0.0f32; 100])?] {
        fill.launch(&stream, 1, (&mut y, 100))?;
        assert_eq!(y.read(0..64)?, [1.0; 64]);
        assert_eq!(device.take_remarks(), [], "what is read is written");
        assert_eq!(y.to_vec()?.iter().sum::<f32>(), 64.0);
        assert_eq!(y.read(50..100)?.iter().sum::<f32>(), 14.0);
        let [remark] = &*device.take_remarks() else { panic!("one remark for a buffer") };
        assert_eq!(remark.kind.code(), "unwritten");
        assert_eq!(
            remark.message,
            "the host reads 100 elements of f32 of a buffer that it filled, and no launch has written 36 of them since"
        );
        assert_eq!(remark.labels[0].text, "elements 64 to 99 are not written");
        assert!(
            remark.help.as_ref().is_some_and(|help| help.contains("launch 2 CTAs for 100 elements")),
            "{remark}"
        );
    }
    // Elements that differ are data, and launches that read or count update what there is.
    let mut data = device.buffer_from(&(0..100).map(|i| i as f32).collect::<Vec<_>>())?;
    fill.launch(&stream, 1, (&mut data, 64))?;
    assert_eq!(data.to_vec()?[99], 99.0);
    let increment = device.compile(&increment().expect("it is staged"))?;
    let mut counts = device.zeros::<u32>(100)?;
    increment.launch(&stream, 1, (&mut counts,))?;
    assert_eq!(counts.to_vec()?.iter().sum::<u32>(), 64);
    assert_eq!(device.take_remarks(), []);
    assert!(device.uninitialized::<f32>(0)?.to_vec()?.is_empty());
    Ok(())
}
