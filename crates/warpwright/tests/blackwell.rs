//! The example for Blackwell: right and clean at every schedule, and accepted by the assembler
//! where `WARPWRIGHT_PTXAS` names one. The shapes of tensor memory against the layout algebra's atoms,
//! and A in tensor memory.

#[path = "../examples/blackwell_gemm.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod example;

use warpwright::arch::{Arch, DataType};
use warpwright::layout::atom::CopyAtom;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule, Unit, ptx};
use warpwright_testing::ptxas::Assembler;

fn device(schedule: Schedule) -> Device {
    let device = Device::emulated(Arch::named("b200").expect("it is known"), schedule);
    device.and_then(|device| device.checked()).expect("an emulator checks")
}

#[test]
fn the_example_is_right_and_clean() {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2)] {
        for shape in [(128, 128, 64), (128, 256, 576)] {
            let wrong = example::wrong_elements(&device(schedule), shape);
            assert_eq!(wrong.unwrap_or_else(|error| panic!("{schedule:?}:\n{error}")), 0, "{schedule:?}");
        }
    }
}

#[test]
fn the_operations_of_its_tensor_cores_are_counted() {
    let device = Device::emulated(Arch::named("b200").expect("it is known"), Schedule::Eager);
    let device = device.and_then(|device| device.counted()).expect("an emulator counts");
    let (m, n, k) = (128, 256, 192);
    assert_eq!(example::wrong_elements(&device, (m, n, k)).expect("it runs"), 0);
    let total = device.take_counters()[0].total();
    assert_eq!(total.operations.get(&Unit::TensorBf16), Some(&u64::from(2 * m * n * k)));
}

#[test]
fn the_assembler_accepts_the_example() {
    let Some(assembler) = Assembler::from_environment() else { return };
    let kernel = example::BlackwellGemm.run().expect("it is staged");
    let text = ptx(&kernel, device(Schedule::Eager).properties().capability).expect("it is verified");
    assembler.assemble("sm_100a", &text).expect("ptxas accepts the example");
}

/// Loads and stores of tensor memory in one shape, `N` registers a lane.
struct Reshape<const N: usize> {
    shape: TensorMemoryShape,
}

impl<const N: usize> Reshape<N> {
    /// A warp numbers the cells of 32 rows by 8 columns and loads them in the shape, then stores
    /// them back 8 columns further on, and loads those by rows.
    #[kernel]
    fn run(&self, loaded: &mut Global<u32>, rows: &mut Global<u32>) {
        launch::threads(32);
        let (holder, lane) = (shared_array::<u32>(1), thread_idx().x);
        allocate_tensor_memory(CtaGroup::One, 32, holder);
        let (cells, access) = (TensorMemory::at(holder), TensorMemoryAccess::new(self.shape));
        cells.store([0, 1, 2, 3, 4, 5, 6, 7].map(|column| lane * 8 + column));
        cells.column(8).store([constant(0u32); 8]);
        wait_tensor_stores();
        let values = cells.load_with::<N>(access);
        wait_tensor_loads();
        for (position, value) in (0..).zip(values) {
            loaded[lane * N as u32 + position] = value;
        }
        cells.column(8).store_with(access, values);
        wait_tensor_stores();
        let again = cells.column(8).load::<8>();
        wait_tensor_loads();
        for (position, value) in (0..).zip(again) {
            rows[lane * 8 + position] = value;
        }
        cells.free(CtaGroup::One, 32);
    }
}

/// Compares a shape with the atom of that name, whose rows have `columns` columns.
fn reshape<const N: usize>(shape: TensorMemoryShape, name: &str, columns: u32) {
    let device = device(Schedule::Latest);
    let kernel =
        device.compile(&Reshape::<N> { shape }.run().expect("it is staged")).expect("it is verified");
    let mut loaded = device.uninitialized::<u32>(32 * N).expect("memory");
    let mut rows = device.uninitialized::<u32>(32 * 8).expect("memory");
    let stream = device.stream().expect("a stream");
    kernel.launch(&stream, 1, (&mut loaded, &mut rows)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let atom = CopyAtom::named(&format!("SM100_TMEM_LOAD_{name}"), 32).expect("it is in the table");
    let store = CopyAtom::named(&format!("SM100_TMEM_STORE_{name}"), 32).expect("it is in the table");
    assert_eq!((atom.target(), atom.source()), (store.source(), store.target()));
    let (loaded, rows) = (loaded.to_vec().expect("a copy"), rows.to_vec().expect("a copy"));
    let mut expected = vec![0; 32 * 8];
    for (lane, register) in (0..32).flat_map(|lane| (0..N as u32).map(move |register| (lane, register))) {
        let index =
            atom.target().index(&(i64::from(lane), i64::from(register)).into()).expect("in the layout");
        let cell = index.known().expect("known") as u32;
        let number = cell / columns * 8 + cell % columns;
        assert_eq!(
            loaded[(lane * N as u32 + register) as usize],
            number,
            "{name} lane {lane} register {register}"
        );
        expected[number as usize] = number;
    }
    assert_eq!(rows, expected, "{name} stored");
}

#[test]
fn loads_and_stores_have_the_shapes_of_the_atoms() {
    reshape::<1>(TensorMemoryShape::Rows32x32b, "32dp32b1x", 1);
    reshape::<1>(TensorMemoryShape::Rows16x64b, "16dp64b1x", 2);
    reshape::<2>(TensorMemoryShape::Rows16x128b, "16dp128b1x", 4);
    reshape::<4>(TensorMemoryShape::Rows16x256b, "16dp256b1x", 8);
}

struct LeftInTensorMemory;

impl LeftInTensorMemory {
    /// C = A·Bᵀ of 128 x 32 x 64, A by rows from registers.
    #[kernel]
    fn run(&self, a: &Global<u32>, b: &Global<bf16>, c: &mut Global<f32>) {
        launch::threads(128);
        let (holder, done, thread) = (shared_array::<u32>(1), Mbarrier::new(), thread_idx().x);
        let layout = TmaTile::new::<bf16>((32, 64), Major::K).and_then(|tile| tile.layout(1));
        let b_tile =
            Tensor::new(dynamic_shared_aligned::<bf16>(32 * 64, 1024), layout.expect("whole blocks"));
        if thread == 0 {
            done.init(1);
        }
        if thread < 32 {
            allocate_tensor_memory(CtaGroup::One, 64, holder);
        }
        for index in (thread..constant(32 * 64)).step_by(128) {
            b_tile.set((index / 64, index % 64, 0), b[index]);
        }
        fence_proxy_async_shared();
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        let d = TensorMemory::at(holder);
        let own = d.row(thread / 32 * 32);
        let row: [Reg<u32>; 32] = std::array::from_fn(|column| a[thread * 32 + column as u32]);
        own.column(32).store(row);
        wait_tensor_stores();
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        if thread == 0 {
            let types = TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };
            let mma = TensorCoreMma::new(CtaGroup::One, types, 128, 32);
            mma.issue(d, &d.column(32), &mma.b_operand(&b_tile).slice((All, All, 0)), Accumulate::No);
            commit_tensor_core(CtaGroup::One, done);
        }
        done.wait_parity(0);
        tensor_fence_after_sync();
        let accumulators = own.load::<32>();
        wait_tensor_loads();
        for (column, accumulator) in (0..).zip(accumulators) {
            c[thread * 32 + column] = accumulator.bit_cast::<f32>();
        }
        tensor_fence_before_sync();
        sync_threads();
        if thread < 32 {
            d.free(CtaGroup::One, 64);
        }
    }
}

#[test]
fn a_may_be_in_tensor_memory() {
    let number = |index: usize| (index * 7919 % 17) as f32 - 8.0;
    let (a, b): (Vec<f32>, Vec<f32>) =
        ((0..128 * 64).map(number).collect(), (5..32 * 64 + 5).map(number).collect());
    let half = |value: &f32| bf16::from_f32(*value);
    let pair = |pair: &[f32]| u32::from(half(&pair[0]).to_bits()) | u32::from(half(&pair[1]).to_bits()) << 16;
    for schedule in [Schedule::Eager, Schedule::Latest] {
        let device = device(schedule);
        let words: Vec<u32> = a.chunks(2).map(pair).collect();
        let a_there = device.buffer_from(&words).expect("memory");
        let b_there = device.buffer_from(&b.iter().map(half).collect::<Vec<_>>()).expect("memory");
        let mut c = device.uninitialized::<f32>(128 * 32).expect("memory");
        let kernel =
            device.compile(&LeftInTensorMemory.run().expect("it is staged")).expect("it is verified");
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, 1, (&a_there, &b_there, &mut c)).unwrap_or_else(|error| panic!("{error}"));
        for (at, found) in c.to_vec().expect("a copy").into_iter().enumerate() {
            let (row, column) = (at / 32 * 64, at % 32 * 64);
            let expected: f32 = (0..64).map(|step| a[row + step] * b[column + step]).sum();
            assert_eq!(found, expected, "element {at}");
        }
    }
}
