//! A tiled multiplication through tensors, staged by hand and emulated: every layout between global
//! memory and the tensor cores, against a product computed here.

use half::bf16;
use warpwright_arch::{Arch, Capability};
use warpwright_emulator::{Emulator, Launch, Schedule};
use warpwright_ir::{self as ir, Location, MemoryVariable, Operand, Parameter, ParameterType, RegisterClass};
use warpwright_lang::element::Element;
use warpwright_lang::pointer::{Global, Pointer, Shared};
use warpwright_lang::recorder::{self, stage};
use warpwright_lang::special::thread_idx;
use warpwright_lang::tensor::{Fragment, Tensor, TiledCopy, TiledMma, gemm};
use warpwright_lang::value::Reg;
use warpwright_layout::{All, Layout, Swizzle};

const M: u32 = 128;
const N: u32 = 128;
const K: u32 = 32;

fn emit(opcode: &'static str, destinations: usize, operands: Vec<Operand>) {
    let location = Location::from(std::panic::Location::caller());
    recorder::with(|recorder| recorder.emit(opcode, destinations, operands, location));
}

fn global<T: Element>(name: &str) -> Global<T> {
    let base: Reg<u64> = recorder::with(|recorder| {
        let ty = ParameterType::Pointer { element: T::NAME, element_bytes: T::BYTES, writable: true };
        recorder.kernel().parameters.push(Parameter { name: name.into(), ty });
        Reg::from_register(recorder.fresh(RegisterClass::B64))
    });
    let address =
        Operand::Address { base: Box::new(Operand::Symbol(name.into())), offset: 0, rest: Vec::new() };
    emit("ld.param.u64", 1, vec![base.operand(), address]);
    Pointer::from_address_mut(base)
}

fn shared(name: &str, elements: u32) -> Shared<bf16> {
    let base: Reg<u32> = recorder::with(|recorder| {
        let location = Location::from(std::panic::Location::caller());
        let bytes = 2 * u64::from(elements);
        recorder.kernel().shared.push(MemoryVariable { name: name.into(), bytes, align: 128, location });
        Reg::from_register(recorder.fresh(RegisterClass::B32))
    });
    emit("mov.u32", 1, vec![base.operand(), Operand::Symbol(name.into())]);
    Pointer::from_address_mut(base)
}

fn one_tile(k_major: bool, matrix: &str) -> ir::Kernel {
    let author = || {
        let thread = thread_idx().x;
        let mma = TiledMma::new("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2));
        assert_eq!(mma.threads(), 128);
        let (swizzle, stride, copy) = if k_major {
            let copy = TiledCopy::new::<bf16>(
                "SM80_CP_ASYNC_CACHEGLOBAL<128>",
                Layout::row_major((32, 4)),
                Layout::row_major((1, 8)),
            );
            (Swizzle::new(2, 3, 3), (K, 1), copy)
        } else {
            let copy = TiledCopy::new::<bf16>(
                "SM80_CP_ASYNC_CACHEGLOBAL<128>",
                Layout::column_major((16, 8)),
                Layout::column_major((8, 1)),
            );
            (Swizzle::new(3, 3, 4), (1, M), copy)
        };
        let tile = Layout::new((M, K), stride).unwrap();
        let swizzled = tile.swizzled(swizzle.unwrap());
        let global_a = Tensor::new(global::<bf16>("a"), tile.clone());
        let global_b = Tensor::new(global::<bf16>("b"), tile);
        let global_c = Tensor::new(global::<f32>("c"), Layout::row_major((M, N)).unwrap());
        let shared_a = Tensor::new(shared("shared_a", M * K), swizzled.clone());
        let shared_b = Tensor::new(shared("shared_b", N * K), swizzled);

        let mine = copy.thread(thread);
        mine.copy_async(&mine.target(&shared_a), &mine.source(&global_a), |_| None);
        mine.copy_async(&mine.target(&shared_b), &mine.source(&global_b), |_| None);
        emit("cp.async.wait_all", 0, vec![]);
        emit("bar.sync", 0, vec![Operand::Integer(0)]);

        let part = mma.thread(thread);
        let a: Fragment<bf16> = part.a_fragment((M, K));
        let b: Fragment<bf16> = part.b_fragment((N, K));
        let mut c: Fragment<f32> = part.c_fragment((M, N));
        c.clear();
        let load_a = TiledCopy::into_a::<bf16>(matrix, &mma).thread(thread);
        let load_b = TiledCopy::into_b::<bf16>(matrix, &mma).thread(thread);
        load_a.load_matrix(&load_a.retile(&a), &load_a.source(&shared_a));
        load_b.load_matrix(&load_b.retile(&b), &load_b.source(&shared_b));
        for k in 0..K / 16 {
            gemm(&mma, &mut c, &a.slice((All, All, k)), &b.slice((All, All, k)));
        }
        let out = part.c(&global_c);
        for element in 0..c.len() {
            out.set(element, c.get(element));
        }
    };
    let mut kernel = stage("one_tile", author).unwrap_or_else(|errors| panic!("{errors:#?}"));
    ir::optimize(&mut kernel);
    kernel
}

/// Small integers, so that every sum is exact.
fn pattern(index: usize) -> f32 {
    ((index * 7919 + index / 13) % 9) as f32 - 4.0
}

fn check(k_major: bool, matrix: &str) {
    let kernel = one_tile(k_major, matrix);
    let capability = Capability::for_target("sm_80").unwrap();
    ir::verify(&kernel, capability).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let text = warpwright_ptx::write(&ir::Module::new(capability, vec![kernel]));
    if std::env::var_os("PRINT_PTX").is_some() {
        println!("{text}");
    }
    let module = warpwright_ptx::parse(&text).unwrap();
    let mut emulator = Emulator::new(Arch::named("a100").unwrap()).unwrap();
    let program = emulator.load(&module).unwrap();
    let (m, n, k) = (M as usize, N as usize, K as usize);
    let inputs = |seed: usize| -> Vec<f32> { (0..m * k).map(|index| pattern(index + seed)).collect() };
    let (a, b) = (inputs(1), inputs(500));
    let mut buffers = Vec::new();
    for values in [&a, &b] {
        let bytes: Vec<u8> = values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect();
        let address = emulator.allocate(bytes.len() as u64).unwrap();
        emulator.write(address, &bytes).unwrap();
        buffers.push(address);
    }
    buffers.push(emulator.allocate((m * n * 4) as u64).unwrap());
    let parameters: Vec<u8> = buffers.iter().flat_map(|address| address.to_le_bytes()).collect();
    let launch = Launch {
        block: [128, 1, 1],
        parameters: &parameters,
        schedule: Schedule::Latest,
        ..Launch::default()
    };
    emulator.launch(&program, "one_tile", &launch).unwrap_or_else(|fault| panic!("{fault}"));
    let mut bytes = vec![0; m * n * 4];
    emulator.read(buffers[2], &mut bytes).unwrap();
    let at = |values: &[f32], row: usize, column: usize| {
        if k_major { values[row * k + column] } else { values[column * m + row] }
    };
    for row in 0..m {
        for column in 0..n {
            let expected: f32 = (0..k).map(|inner| at(&a, row, inner) * at(&b, column, inner)).sum();
            let place = 4 * (row * n + column);
            let found = f32::from_le_bytes(bytes[place..place + 4].try_into().unwrap());
            assert_eq!(found, expected, "at ({row}, {column}), {matrix}");
        }
    }
}

#[test]
fn a_tile_with_contiguous_k_is_multiplied() {
    for matrix in ["SM75_U32x1_LDSM_N", "SM75_U32x2_LDSM_N", "SM75_U32x4_LDSM_N"] {
        check(true, matrix);
    }
}

#[test]
fn a_tile_with_contiguous_rows_is_multiplied() {
    for matrix in ["SM75_U16x2_LDSM_T", "SM75_U16x4_LDSM_T", "SM75_U16x8_LDSM_T"] {
        check(false, matrix);
    }
}

/// Accumulators rounded to bf16, stored to shared memory by `stmatrix`, and read from there.
#[test]
fn accumulators_are_stored_by_matrices() {
    let pattern = |row: u32, column: u32| ((row * 31 + column) % 251) as f32;
    for matrix in ["SM90_U32x1_STSM_N", "SM90_U32x2_STSM_N", "SM90_U32x4_STSM_N"] {
        let author = || {
            let thread = thread_idx().x;
            let mma = TiledMma::new("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2));
            let shared_c = Tensor::new(shared("shared_c", M * N), Layout::row_major((M, N)).unwrap());
            let global_c = Tensor::new(global::<bf16>("c"), Layout::row_major((M, N)).unwrap());
            let part = mma.thread(thread);
            let at = part.c_coordinates((M, N));
            let mut c: Fragment<f32> = part.c_fragment((M, N));
            for element in 0..c.len() {
                let number = (at.row(element) * 31u32 + at.column(element)) % 251u32;
                c.set(element, number.convert::<f32>());
            }
            let rounded = c.packed::<bf16>(|low, high| low.pack_bf16x2(high).bit_cast());
            let store = TiledCopy::from_c::<bf16>(matrix, &mma).thread(thread);
            store.store_matrix(&store.target(&shared_c), &store.retile(&rounded));
            emit("bar.sync", 0, vec![Operand::Integer(0)]);
            let (from, to) = (part.c(&shared_c), part.c(&global_c));
            for element in 0..c.len() {
                to.set(element, from.get(element));
            }
        };
        let kernel = stage("stored", author).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let capability = Capability::for_target("sm_90a").unwrap();
        let text = warpwright_ptx::write(&ir::Module::new(capability, vec![kernel]));
        let module = warpwright_ptx::parse(&text).unwrap();
        let mut emulator = Emulator::new(Arch::named("h200").unwrap()).unwrap();
        let program = emulator.load(&module).unwrap();
        let address = emulator.allocate(u64::from(2 * M * N)).unwrap();
        let parameters = address.to_le_bytes();
        let launch = Launch { block: [128, 1, 1], parameters: &parameters, ..Launch::default() };
        emulator.launch(&program, "stored", &launch).unwrap_or_else(|fault| panic!("{matrix}: {fault}"));
        let mut bytes = vec![0; (2 * M * N) as usize];
        emulator.read(address, &mut bytes).unwrap();
        for (index, found) in bytes.chunks_exact(2).enumerate() {
            let (row, column) = (index as u32 / N, index as u32 % N);
            let found = bf16::from_le_bytes([found[0], found[1]]).to_f32();
            assert_eq!(found, pattern(row, column), "at ({row}, {column}), {matrix}");
        }
    }
}
