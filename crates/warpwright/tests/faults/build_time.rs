//! Rows 1 to 7: what is refused before anything runs, with the legal choice.

use warpwright::arch::tensor_map::{Access as MapAccess, Description, ElementType, Swizzle as MapSwizzle};
use warpwright::layout::atom::Major;
use warpwright::prelude::*;
use warpwright::runtime::{Device, TensorMap as Map, ptx};

use crate::faults::fault::{Staged, Twin};
use crate::faults::reports;

/// Something that cannot be built.
pub(crate) struct Refusal {
    /// The name of the kernel's function, or of what the host does.
    pub(crate) name: &'static str,
    /// The row of the catalog.
    pub(crate) row: u32,
    /// Words of the message that name what would be legal.
    pub(crate) legal: &'static str,
    /// What is said of a twin, with the lines it is said of.
    pub(crate) said: fn(Twin) -> Vec<(Option<u32>, String)>,
}

macro_rules! refusals {
    ($($name:ident: $row:literal, $legal:literal $(, $by:path)?;)*) => {
        pub(crate) const REFUSALS: &[Refusal] = &[$(Refusal {
            name: stringify!($name),
            row: $row,
            legal: $legal,
            said: |twin| refusals!(@said twin.$name() $(, $by)?),
        }),*];

        $(
            #[test]
            fn $name() {
                let refusal = REFUSALS.iter().find(|refusal| refusal.name == stringify!($name));
                refusal.expect("it is listed").check();
            }
        )*
    };
    (@said $staged:expr) => { of_kernel($staged) };
    (@said $staged:expr, $by:path) => { $by($staged) };
}

refusals! {
    copy_that_covers_the_tile_twice: 1, "exactly once";
    tile_that_the_multiply_does_not_divide: 1, "multiple";
    vector_wider_than_the_contiguous_run: 2, "the widest legal access has 1";
    vector_of_three_elements: 2, "it can move 1, 2, 4";
    operand_that_wgmma_cannot_read: 3, "swizzle";
    tile_that_tma_cannot_write: 3, "a multiple of 8 elements";
    multiply_that_does_not_exist: 4, "SM90_64x";
    wmma_of_a_shape_that_it_has_not: 4, "m16n16k16";
    registers_that_are_no_multiple_of_8: 5, "multiple of 8";
    roles_that_exceed_the_register_file: 5, "64512";
    shared_memory_over_the_limit: 6, "232448";
    tensor_memory_of_96_columns: 6, "allocate 128", of_blackwell_kernel;
    tensor_core_multiply_of_96_rows: 4, "64 or 128", of_blackwell_kernel;
    box_that_is_too_long: 7, "256", of_map;
    box_wider_than_its_swizzle: 7, "128", of_map;
    stride_that_is_no_multiple_of_16: 7, "multiple of 16", of_map;
    tensor_of_six_dimensions: 7, "5", of_map;
    element_stride_out_of_range: 7, "8", of_map;
}

/// What is said of a kernel, while it is staged or when it is verified.
fn of_kernel<A>(staged: Staged<A>) -> Vec<(Option<u32>, String)> {
    of_kernel_for("emu:h200", staged)
}

fn of_blackwell_kernel<A>(staged: Staged<A>) -> Vec<(Option<u32>, String)> {
    of_kernel_for("emu:b200", staged)
}

fn of_kernel_for<A>(gpu: &str, staged: Staged<A>) -> Vec<(Option<u32>, String)> {
    match staged {
        Err(errors) => errors.0.into_iter().map(|error| (Some(error.location.line), error.message)).collect(),
        Ok(kernel) => match ptx(&kernel, Device::named(gpu).expect("it starts").properties().capability) {
            Err(warpwright::runtime::Error::Verify { mistakes, .. }) => {
                let told = mistakes.into_iter();
                told.map(|mistake| (Some(mistake.location.line), mistake.fault.to_string())).collect()
            }
            Err(other) => vec![(None, other.to_string())],
            Ok(_) => Vec::new(),
        },
    }
}

/// What is said of a tensor map.
fn of_map(made: warpwright::runtime::Result<Map>) -> Vec<(Option<u32>, String)> {
    made.err().map(|error| (None, error.to_string())).into_iter().collect()
}

impl Refusal {
    fn check(&self) {
        let mended = (self.said)(Twin { mended: true });
        assert!(mended.is_empty(), "the mended `{}` is refused: {mended:?}", self.name);
        let said = (self.said)(Twin { mended: false });
        assert!(!said.is_empty(), "`{}` is not refused", self.name);
        let marked = crate::faults::fault::marked_lines(file!(), self.name);
        for (line, _) in &said {
            assert!(line.is_none_or(|line| marked.contains(&line)), "{said:?} is not said of {marked:?}");
        }
        let messages: Vec<String> = said.into_iter().map(|(_, message)| message).collect();
        let text = messages.join("\n");
        assert!(text.contains(self.legal), "nothing legal is suggested (`{}`):\n{text}", self.legal);
        reports::expect(file!(), self.name, &text);
    }
}

/// Plain shared memory of 64 rows and 64 columns.
#[track_caller]
fn plain_tile() -> Tensor<f16, SharedSpace> {
    Tensor::with_layout(shared_array::<f16>(64 * 64), Layout::row_major((64, 64)))
}

fn boxes(extents: &[u32]) -> MapAccess {
    MapAccess::Tiled { box_extents: extents.to_vec() }
}

/// A matrix on an emulated device and a map of it, by a description.
fn map(
    rows: u64,
    columns: u64,
    description: impl FnOnce(&mut Description),
) -> warpwright::runtime::Result<Map> {
    let device = Device::named("emu:h200")?;
    let matrix = device.zeros::<f32>((rows * columns) as usize)?;
    let mut described = Description::row_major(ElementType::F32, 0, &[rows, columns], &[16, 16]);
    description(&mut described);
    Map::new(&matrix, described)
}

impl Twin {
    /// Values of neighboring threads overlap.
    #[kernel]
    fn copy_that_covers_the_tile_twice(&self) {
        let values = if self.mended { Layout::row_major((1, 8)) } else { Layout::new((1, 8), (1, 0)) };
        let copy = TiledCopy::new::<f16>("UniversalCopy<16>", Layout::row_major((8, 8)), values); // (1)
        let _ = copy.thread(thread_idx().x);
    }

    /// A fragment of 60 rows, of a multiply of 16.
    #[kernel]
    fn tile_that_the_multiply_does_not_divide(&self) {
        let mma = TiledMma::new("SM80_16x8x16_F32F16F16F32_TN", (2, 2));
        let _: Fragment<f32> = mma.thread(thread_idx().x).c_fragment((self.number(60, 64), 64)); // (1)
    }

    /// A copy of 16 bytes a thread along rows, of a matrix whose columns are contiguous.
    #[kernel]
    fn vector_wider_than_the_contiguous_run(&self, matrix: &Global<f16>) {
        let layout = if self.mended { Layout::row_major((64, 64)) } else { Layout::column_major((64, 64)) };
        let (matrix, tile) = (Tensor::with_layout(*matrix, layout), plain_tile());
        let rows = Layout::row_major((8, 8));
        let copy = TiledCopy::new::<f16>("SM80_CP_ASYNC_CACHEGLOBAL<128>", rows, Layout::row_major((1, 8)));
        let part = copy.thread(thread_idx().x);
        part.copy_async(&part.target(&tile), &part.source(&matrix), |_| None); // (1)
    }

    /// A load of three elements.
    #[kernel]
    fn vector_of_three_elements(&self, input: &Global<f32>) {
        if self.mended {
            let _ = input.load_vector::<4>();
        } else {
            let _ = input.load_vector::<3>(); // (1)
        }
    }

    /// A tile in plain rows, which no matrix descriptor describes.
    #[kernel]
    fn operand_that_wgmma_cannot_read(&self) {
        let mma = TiledMma::warpgroups("SM90_64x64x16_F32F16F16_SS", 1);
        let tile = if self.mended {
            let layout = TmaTile::new::<f16>((64, 64), Major::K).and_then(|tile| tile.layout(1));
            Tensor::new(shared_array::<f16>(64 * 64), layout.expect("it is legal"))
        } else {
            plain_tile()
        };
        let _ = mma.b_operand(&tile); // (1)
    }

    /// A tile of rows that no swizzle divides.
    #[kernel]
    fn tile_that_tma_cannot_write(&self) {
        let columns = self.number(20, 64);
        let _ = StoreBuffers::<f16>::new(TmaTile::new::<f16>((64, columns), Major::K), 2); // (1)
    }

    /// A multiply that no tensor core has.
    #[kernel]
    fn multiply_that_does_not_exist(&self) {
        let atom = if self.mended { "SM90_64x64x16_F32F16F16_SS" } else { "SM90_64x60x16_F32F16F16_SS" };
        let _ = TiledMma::warpgroups(atom, 1); // (1)
    }

    /// Columns of tensor memory that are no power of two.
    #[kernel]
    fn tensor_memory_of_96_columns(&self) {
        launch::threads(32);
        let slot = shared_array::<u32>(1);
        allocate_tensor_memory(CtaGroup::One, self.number(96, 128), slot); // (1)
    }

    /// A multiply of as many rows as Blackwell's tensor cores do not have.
    #[kernel]
    fn tensor_core_multiply_of_96_rows(&self) {
        use warpwright::arch::DataType;
        let types = TensorCoreTypes { a: DataType::F16, b: DataType::F16, d: DataType::F32 };
        let _ = TensorCoreMma::new(CtaGroup::One, types, self.number(96, 128), 64); // (1)
    }

    /// A product of fragments in a shape that they have not.
    #[kernel]
    fn wmma_of_a_shape_that_it_has_not(&self) {
        use warpwright::lang::wmma::{Wmma, WmmaLayout};
        let m = self.number(24, 16);
        let _ = Wmma::<f16>::new([m, 16, 16], WmmaLayout::RowMajor, WmmaLayout::RowMajor); // (1)
    }

    /// A budget that registers cannot be moved in.
    #[kernel]
    fn registers_that_are_no_multiple_of_8(&self) {
        launch::threads(384);
        decrease_registers(40);
        increase_registers(self.number(230, 232)); // (1)
    }

    /// Two warpgroups that want more registers than there are beside a third one.
    #[kernel]
    fn roles_that_exceed_the_register_file(&self) {
        let [producer, consumer] =
            roles([warpgroups(1).registers(40), warpgroups(2).registers(self.number(240, 232))]); // (1)
        if producer.is_mine() {
            producer.begin();
        } else {
            consumer.begin();
        }
    }

    /// Tiles that do not fit an SM.
    #[kernel]
    fn shared_memory_over_the_limit(&self) {
        let stages = self.number(15, 14); // the tile is 16 KiB
        let buffers = StoreBuffers::<f16>::new(TmaTile::new::<f16>((128, 64), Major::K), stages); // (1)
        buffers.tensor().set((0, 0, 0), f16::ONE);
    }

    fn box_that_is_too_long(self) -> warpwright::runtime::Result<Map> {
        map(512, 64, |map| map.access = boxes(&[16, self.number(257, 256)])) // (1)
    }

    fn box_wider_than_its_swizzle(self) -> warpwright::runtime::Result<Map> {
        map(64, 64, |map| {
            map.swizzle = MapSwizzle::Bytes128;
            map.access = boxes(&[self.number(64, 32), 16]); // (1)
        })
    }

    fn stride_that_is_no_multiple_of_16(self) -> warpwright::runtime::Result<Map> {
        map(64, self.number(63, 64).into(), |_| {}) // (1)
    }

    fn tensor_of_six_dimensions(self) -> warpwright::runtime::Result<Map> {
        map(64, 64, |map| {
            let dimensions = if self.mended { 5 } else { 6 };
            map.extents = vec![4; dimensions];
            map.strides = (1..dimensions as u64).map(|axis| 16 * axis).collect();
            map.element_strides = vec![1; dimensions];
            map.access = boxes(&vec![4; dimensions]); // (1)
        })
    }

    fn element_stride_out_of_range(self) -> warpwright::runtime::Result<Map> {
        map(64, 64, |map| map.element_strides[1] = self.number(9, 8)) // (1)
    }
}
