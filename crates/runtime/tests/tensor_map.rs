//! Tensor maps encoded by the host.

use warpwright_arch::tensor_map::{Access, Description, ElementType, L2Promotion, Swizzle};
use warpwright_layout::{ComposedLayout, Layout, Swizzle as LayoutSwizzle};
use warpwright_runtime::{Argument, Device, Error, Launch, TensorMap};

fn device() -> Device {
    Device::named("emu:h200").expect("in the table")
}

#[test]
fn the_tensor_must_be_inside_its_buffer() {
    let buffer = device().buffer_from(&vec![0u16; 128 * 64]).expect("it fits");
    let map = |offset: u64, rows: u64| {
        let mut map = Description::row_major(ElementType::U16, offset, &[rows, 64], &[8, 64]);
        map.strides = vec![256];
        TensorMap::new(&buffer, map)
    };
    assert!(map(0, 64).is_ok());
    // The last row of a strided tensor ends before its stride does.
    assert!(map(128, 64).is_ok());
    for (offset, rows) in [(144, 64), (0, 65)] {
        let refused = map(offset, rows).expect_err("it ends outside");
        assert!(matches!(refused, Error::TensorOutside { buffer_bytes: 16384, .. }), "{refused}");
    }
    assert!(matches!(map(8, 8), Err(Error::TensorMap(_))));
}

#[test]
fn layouts_make_maps() {
    let buffer = device().buffer_from(&vec![half::bf16::ZERO; 3 * 256 * 512]).expect("it fits");
    let rows_of_128 = |tile: (i64, i64), order: (i64, i64)| -> ComposedLayout {
        let atom = if order == (1, 0) { Layout::row_major((8, 64)) } else { Layout::column_major((64, 8)) };
        let tile = atom.and_then(|atom| atom.tile_to_shape(tile, None)).expect("it divides");
        tile.swizzled(LayoutSwizzle::new(3, 3, 3).expect("a swizzle of the hardware"))
    };
    // Rows of a row-major matrix.
    let tensor = Layout::row_major((256, 512)).expect("compact");
    let map = TensorMap::of_layout(&buffer, &tensor, &rows_of_128((128, 64), (1, 0))).expect("legal");
    let description = map.description();
    assert_eq!(description.extents, [512, 256]);
    assert_eq!(description.strides, [1024]);
    assert_eq!(description.access, Access::Tiled { box_extents: vec![64, 128] });
    assert_eq!(description.element, ElementType::Bf16);
    assert_eq!((description.swizzle, description.l2_promotion), (Swizzle::Bytes128, L2Promotion::Bytes128));
    // Columns of a column-major one: its first mode is the contiguous axis.
    let tensor = Layout::column_major((256, 512)).expect("compact");
    let map = TensorMap::of_layout(&buffer, &tensor, &rows_of_128((64, 128), (0, 1))).expect("legal");
    assert_eq!(map.description().extents, [256, 512]);
    assert_eq!(map.description().access, Access::Tiled { box_extents: vec![64, 128] });
    // The tile's rows run along a different mode than the tensor's.
    let refused =
        TensorMap::of_layout(&buffer, &tensor, &rows_of_128((128, 64), (1, 0))).expect_err("strided");
    assert!(refused.to_string().contains("contiguous"), "{refused}");
    // A third mode, along which a box has extent 1.
    let tensor = Layout::new((256, 512, 3), (512, 1, 256 * 512)).expect("a layout");
    let map = TensorMap::of_layout(&buffer, &tensor, &rows_of_128((128, 64), (1, 0))).expect("legal");
    assert_eq!(map.description().extents, [512, 256, 3]);
    assert_eq!(map.description().strides, [1024, 256 * 1024]);
    assert_eq!(map.description().access, Access::Tiled { box_extents: vec![64, 128, 1] });
}

#[test]
fn tensor_maps_fit_their_parameter_only() {
    let device = device();
    let buffer = device.buffer_from(&vec![0.0f32; 64 * 64]).expect("it fits");
    let map = TensorMap::row_major(&buffer, &[64, 64], &[8, 32], Swizzle::Bytes128).expect("legal");
    let ptx = |align: u32| {
        format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n\
             .visible .entry none(.param .align {align} .b8 map[128]) {{ ret; }}"
        )
    };
    let stream = device.stream().expect("a stream");
    let launch = |align, argument: Argument<'_>| {
        let module = device.load_ptx(&ptx(align)).expect("it parses");
        let kernel = module.function("none").expect("it has it");
        kernel.launch(&stream, Launch::new(1, 1), [argument].as_slice())
    };
    assert!(launch(64, Argument::tensor_map(&map)).is_ok());
    let refused = launch(8, Argument::tensor_map(&map)).expect_err("not aligned");
    assert!(
        refused.to_string().contains("the launch passes a tensor map (128 bytes, aligned to 64)"),
        "{refused}"
    );
    assert!(launch(64, Argument::scalar(1u32)).is_err());
}

#[test]
fn devices_without_the_accelerator_say_so() {
    let device = Device::named("emu:a100").expect("in the table");
    let buffer = device.buffer_from(&vec![0.0f32; 64 * 64]).expect("it fits");
    let refused = TensorMap::row_major(&buffer, &[64, 64], &[8, 32], Swizzle::None).expect_err("no TMA");
    assert!(refused.to_string().contains("compute capability 9.0"), "{refused}");
}
