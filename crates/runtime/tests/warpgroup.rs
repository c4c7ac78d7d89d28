//! Every `wgmma` of the language, on the emulated H200 with checkers (and on a GPU that has it),
//! compared with the host: all types, A in shared memory and in registers, dense and sparse,
//! negated, saturating, and both layouts of 16-bit operands.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use half::{bf16, f16};
use warpwright_arch::DataType;
use warpwright_lang::block::sync_threads;
use warpwright_lang::element::{Element, b1x32, e4m3, e5m2, tf32};
use warpwright_lang::fence::fence_proxy_async_shared;
use warpwright_lang::pointer::Global;
use warpwright_lang::shared::dynamic_shared_aligned;
use warpwright_lang::space::SharedSpace;
use warpwright_lang::special::thread_idx;
use warpwright_lang::tensor::{
    Accumulate, Fragment, LeftOperand, MatrixOperand, Sparse, Tensor, TiledMma, TmaTile, multiply,
    wait_multiplications,
};
use warpwright_lang::value::constant;
use warpwright_lang::{kernel, launch};
use warpwright_layout::atom::{Family, Major, MmaAtom, Operand};
use warpwright_layout::{All, ComposedLayout, Layout};
use warpwright_runtime::{Device, Schedule, Storable};

const THREADS: u32 = 128;

/// MMA instructions along k. An odd number leaves half of the last metadata register unused.
const STEPS: i64 = 3;

fn devices() -> Vec<Device> {
    let emulator = Device::with_schedule("emu:h200", Schedule::Latest).and_then(Device::checked);
    let gpu = Device::named("cuda:0").ok();
    let has_wgmma = |device: &Device| device.properties().capability.target == "sm_90a";
    std::iter::once(emulator.expect("the emulator always starts")).chain(gpu.filter(has_wgmma)).collect()
}

/// One case: shapes, types and operand sources.
#[derive(Clone, Debug)]
struct Form {
    atom: MmaAtom,
    majors: (Major, Major),
    negates: (bool, bool),
    /// Initial accumulators, and whether they saturate at the limits of `i32`.
    start: Option<i32>,
    saturating: bool,
}

impl Form {
    fn of(atom: MmaAtom) -> Self {
        Self { atom, majors: (Major::K, Major::K), negates: (false, false), start: None, saturating: false }
    }

    /// The extents of an operand's tile in memory elements; a memory element of b1 is a 32-bit
    /// word.
    fn extents(&self, operand: Operand) -> (u32, u32) {
        let (rows, depth) = self.atom.tile(operand);
        (rows as u32, (STEPS * depth / packed(self.atom.element(operand))) as u32)
    }
}

/// Values per memory element: 32 for b1.
fn packed(element: DataType) -> i64 {
    if element == DataType::B1 { 32 } else { 1 }
}

/// A shared-memory tile for an operand of `extents`, with 32 bytes of k per instruction.
fn layout<T: Element>(extents: (u32, u32), major: Major) -> ComposedLayout {
    TmaTile::new::<T>(extents, major).and_then(|tile| tile.layout(1)).expect("a tile of whole blocks")
}

struct Product<A, B, C> {
    form: Form,
    types: PhantomData<(A, B, C)>,
}

impl<A: Element, B: Element, C: Storable> Product<A, B, C> {
    /// The product of images of A and B. An image is a tile as stored in memory, or the registers
    /// of a fragment, thread by thread.
    #[kernel]
    fn run(&self, a: &Global<u32>, b: &Global<u32>, metadata: &Global<u32>, c: &mut Global<C>) {
        launch::threads(THREADS);
        self.record(*a, *b, *metadata, *c);
    }

    fn record(&self, a: Global<u32>, b: Global<u32>, metadata: Global<u32>, c: Global<C>) {
        let mma = self.mma();
        let part = mma.thread(thread_idx().x);
        let (rows, columns) = (self.form.atom.shape.0 as u32, self.form.atom.shape.1 as u32);
        let a_tile = self.form.extents(Operand::A);
        let stored = (a_tile.0, (STEPS * self.form.atom.tile(Operand::A).1) as u32);
        let b = self.in_shared::<B>(b, self.form.extents(Operand::B), self.form.majors.1);
        let b = mma.b_operand(&b).slice((All, All, 0));
        let mut sums: Fragment<C> = part.c_fragment((rows, columns));
        sums.clear();
        if let Some(start) = self.form.start {
            for index in 0..sums.len() {
                sums.set_word(index, constant(start as u32));
            }
        }
        let mut words = Fragment::with_layout(Layout::unit());
        if self.form.atom.metadata().is_some() {
            words = part.metadata_fragment(stored);
            for index in 0..words.len() {
                words.set(index, metadata.at(thread_idx().x + index * THREADS).load());
            }
        }
        if self.form.atom.a_from_shared {
            let a = self.in_shared::<A>(a, a_tile, self.form.majors.0);
            fence_proxy_async_shared();
            sync_threads();
            let a: MatrixOperand = mma.a_operand(&a, 0).slice((All, All, 0));
            self.multiply(&mma, &mut sums, &a, &words, &b);
        } else {
            let mut fragment: Fragment<A> = part.a_fragment(stored);
            let each = 4 / A::BYTES;
            for word in 0..fragment.len() / each {
                fragment.set_word(word * each, a.at(thread_idx().x + word * THREADS).load());
            }
            fence_proxy_async_shared();
            sync_threads();
            self.multiply(&mma, &mut sums, &fragment, &words, &b);
        }
        let c = part.c(&Tensor::with_layout(c, Layout::row_major((rows, columns))));
        for index in 0..sums.len() {
            c.set(index, sums.get(index));
        }
    }

    fn mma(&self) -> TiledMma {
        let mut mma = TiledMma::warpgroups(&self.form.atom.name(), 1);
        if self.form.negates.0 {
            mma = mma.negating_a();
        }
        if self.form.negates.1 {
            mma = mma.negating_b();
        }
        if self.form.saturating {
            mma = mma.saturating();
        }
        mma
    }

    fn in_shared<T: Element>(
        &self,
        image: Global<u32>,
        extents: (u32, u32),
        major: Major,
    ) -> Tensor<T, SharedSpace> {
        let rounds = (extents.0 * extents.1 * T::BYTES / 4).div_ceil(THREADS);
        let place = dynamic_shared_aligned::<u32>(rounds * THREADS, 1024);
        for word in 0..rounds {
            let at = thread_idx().x + word * THREADS;
            place.at(at).store(image.at(at).load());
        }
        Tensor::new(place.cast::<T>(), layout::<T>(extents, major))
    }

    fn multiply(
        &self,
        mma: &TiledMma,
        sums: &mut Fragment<C>,
        a: &impl LeftOperand,
        metadata: &Fragment<u32>,
        b: &MatrixOperand,
    ) {
        let accumulate = if self.form.start.is_some() { Accumulate::Yes } else { Accumulate::No };
        match self.form.atom.metadata() {
            Some(_) => multiply(mma, sums, &Sparse { stored: a, metadata }, b, accumulate),
            None => multiply(mma, sums, a, b, accumulate),
        }
        wait_multiplications(0);
    }
}

/// Small integers, which every type and every accumulator represents exactly, or words of bits.
struct Matrix {
    rows: i64,
    values: Vec<i64>,
}

impl Matrix {
    fn new((rows, columns): (u32, u32), element: DataType, seed: u64) -> Matrix {
        let (rows, columns) = (i64::from(rows), i64::from(columns));
        let value = |index: i64| {
            let mixed = (index as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29;
            match element {
                DataType::B1 => (mixed & 0xffff_ffff) as i64,
                DataType::U8 => 250 + (mixed % 6) as i64,
                _ => (mixed % 5) as i64 - 2,
            }
        };
        Matrix { rows, values: (0..rows * columns).map(value).collect() }
    }

    fn get(&self, row: i64, column: i64) -> i64 {
        self.values[(row + self.rows * column) as usize]
    }

    /// The values as memory elements, each at the index that `place` returns, packed into words.
    fn image(&self, element: DataType, places: &[i64]) -> Vec<u32> {
        let bytes = (i64::from(element.bits()) * packed(element) / 8) as usize;
        // The number of words that all threads move together.
        let mut image = vec![0; (self.values.len() * bytes).next_multiple_of(4 * THREADS as usize)];
        for (&value, &place) in self.values.iter().zip(places) {
            let bits = bits_of(element, value).to_le_bytes();
            image[place as usize * bytes..][..bytes].copy_from_slice(&bits[..bytes]);
        }
        image.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    }
}

fn bits_of(element: DataType, value: i64) -> u32 {
    let float = value as f32;
    match element {
        DataType::F16 => f16::from_f32(float).to_bits().into(),
        DataType::Bf16 => bf16::from_f32(float).to_bits().into(),
        DataType::Tf32 => float.to_bits(),
        DataType::E4m3 => e4m3::from_f32(float).to_bits().into(),
        DataType::E5m2 => e5m2::from_f32(float).to_bits().into(),
        _ => value as u32,
    }
}

/// The registers of a fragment of A, thread by thread: the image that `thread_values` describes.
fn fragment_places(atom: &MmaAtom) -> Vec<i64> {
    let element = atom.a;
    let (rows, depth) = atom.tile(Operand::A);
    let layout = atom.thread_values(Operand::A).expect("an atom's");
    let each = packed(element);
    let offsets = layout.offsets().expect("known");
    let values = offsets.len() as i64 / i64::from(THREADS);
    // Memory elements per register, and registers per instruction.
    let in_word = 32 / (i64::from(element.bits()) * each);
    let words = values / each / in_word;
    let mut places = vec![0; (rows * depth / each * STEPS) as usize];
    for (index, &offset) in offsets.iter().enumerate() {
        let (thread, value) = (index as i64 % i64::from(THREADS), index as i64 / i64::from(THREADS));
        let (row, column) = (offset % rows, offset / rows);
        if column % each != 0 {
            continue;
        }
        let value = value / each;
        for step in 0..STEPS {
            let word = (step * words + value / in_word) * i64::from(THREADS) + thread;
            let at = row + rows * (column / each + step * depth / each);
            places[at as usize] = word * in_word + value % in_word;
        }
    }
    places
}

/// Indices of the two stored elements of each group of four, ascending; or of one of two for tf32.
fn entry(element: DataType, step: i64, row: i64, entry: i64) -> u32 {
    const PAIRS: [[u32; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
    let mixed = |at: i64| ((step * 64 + row) * 64 + at).wrapping_mul(2_654_435_761) as usize >> 7;
    match element {
        DataType::Tf32 => [0b0100, 0b1110][mixed(entry) % 2],
        _ => PAIRS[mixed(entry / 2) % 6][(entry % 2) as usize],
    }
}

/// The product on the host, in the order in which the instructions accumulate.
fn expected(form: &Form, a: &Matrix, b: &Matrix) -> Vec<i64> {
    let atom = &form.atom;
    let ((m, n, _), (_, stored), (_, depth)) = (atom.shape, atom.tile(Operand::A), atom.tile(Operand::B));
    let (stored, depth) = (stored / packed(atom.a), depth / packed(atom.b));
    let sign = if form.negates.0 == form.negates.1 { 1 } else { -1 };
    let product = |left: i64, right: i64| match atom.a {
        DataType::B1 => i64::from((left & right).count_ones()),
        _ => sign * left * right,
    };
    // The row of B that a stored element multiplies.
    let column = |step: i64, row: i64, at: i64| match atom.metadata() {
        Some(metadata) => metadata.column(at, i64::from(entry(atom.a, step, row, metadata.entry_of(at)))),
        None => at,
    };
    let mut sums = vec![i64::from(form.start.unwrap_or(0)); (m * n) as usize];
    for step in 0..STEPS {
        for (row, at) in (0..m).flat_map(|row| (0..stored).map(move |at| (row, at))) {
            let (left, met) = (a.get(row, step * stored + at), step * depth + column(step, row, at));
            for right in 0..n {
                sums[(row * n + right) as usize] += product(left, b.get(right, met));
            }
        }
        if form.saturating {
            sums.iter_mut().for_each(|sum| *sum = (*sum).clamp(i32::MIN.into(), i32::MAX.into()));
        }
    }
    sums
}

/// Runs a case on the devices and compares every element.
fn check(form: &Form) {
    match form.atom.a {
        DataType::F16 => by_right::<f16>(form),
        DataType::Bf16 => by_right::<bf16>(form),
        DataType::Tf32 => by_right::<tf32>(form),
        DataType::E4m3 => by_right::<e4m3>(form),
        DataType::E5m2 => by_right::<e5m2>(form),
        DataType::S8 => by_right::<i8>(form),
        DataType::U8 => by_right::<u8>(form),
        _ => by_right::<b1x32>(form),
    }
}

fn by_right<A: Element>(form: &Form) {
    match form.atom.b {
        DataType::E4m3 => by_sums::<A, e4m3>(form),
        DataType::E5m2 => by_sums::<A, e5m2>(form),
        DataType::S8 => by_sums::<A, i8>(form),
        DataType::U8 => by_sums::<A, u8>(form),
        _ => by_sums::<A, A>(form),
    }
}

fn by_sums<A: Element, B: Element>(form: &Form) {
    match form.atom.d {
        DataType::F16 => run::<A, B, f16>(form, |sum| sum.to_f32() as i64),
        DataType::F32 => run::<A, B, f32>(form, |sum| sum as i64),
        _ => run::<A, B, i32>(form, i64::from),
    }
}

fn run<A: Element, B: Element, C: Storable>(form: &Form, value: fn(C) -> i64) {
    let atom = &form.atom;
    let (a_extents, b_extents) = (form.extents(Operand::A), form.extents(Operand::B));
    let (a, b) = (Matrix::new(a_extents, atom.a, 1), Matrix::new(b_extents, atom.b, 1000));
    let places = |layout: ComposedLayout| layout.offsets().expect("known");
    let a_places = match atom.a_from_shared {
        true => places(layout::<A>(a_extents, form.majors.0)),
        false => fragment_places(atom),
    };
    let b_places = places(layout::<B>(b_extents, form.majors.1));
    let registers = |first: i64| {
        let metadata = atom.metadata().expect("a sparse atom's");
        let of = |selector: i64, row: i64, at: i64| entry(atom.a, first + selector, row, at);
        metadata.registers(of).expect("a sparse atom's")
    };
    let selectors = atom.metadata().map_or(STEPS, |metadata| metadata.selectors());
    let words: Vec<u32> = match atom.metadata() {
        Some(_) => (0..STEPS).step_by(selectors as usize).flat_map(registers).collect(),
        None => vec![0],
    };
    let expected = expected(form, &a, &b);
    let staged = Product::<A, B, C> { form: form.clone(), types: PhantomData }.run();
    let staged = staged.unwrap_or_else(|errors| panic!("{form:?}: {errors}"));
    for device in devices() {
        let kernel = device.compile(&staged).expect("it compiles");
        let a = device.buffer_from(&a.image(atom.a, &a_places)).expect("it fits");
        let b = device.buffer_from(&b.image(atom.b, &b_places)).expect("it fits");
        let words = device.buffer_from(&words).expect("it fits");
        let mut c = device.uninitialized::<C>(expected.len()).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, 1, (&a, &b, &words, &mut c)).expect("it fits");
        let found = c.to_vec().unwrap_or_else(|error| panic!("{form:?}: {error}"));
        let found: Vec<i64> = found.into_iter().map(value).collect();
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        if let Some(at) = wrong {
            let (row, column) = (at as i64 / atom.shape.1, at as i64 % atom.shape.1);
            panic!("{form:?}: ({row}, {column}) is {}, not {}", found[at], expected[at]);
        }
    }
}

/// Atoms of the family, by types and source of A, each in all its widths.
fn atoms(family: Family) -> Vec<Vec<MmaAtom>> {
    let mut by_types: BTreeMap<String, Vec<MmaAtom>> = BTreeMap::new();
    for atom in MmaAtom::all().into_iter().filter(|atom| atom.family == family) {
        let types = format!("{} {} {} {}", atom.d, atom.a, atom.b, atom.a_from_shared);
        by_types.entry(types).or_default().push(atom);
    }
    by_types.into_values().collect()
}

/// Each type and source in every shape; without optimization in its narrowest and two others, so
/// that the types together cover all shapes.
fn samples(family: Family) -> Vec<Form> {
    let atoms = atoms(family);
    if !cfg!(debug_assertions) {
        return atoms.into_iter().flatten().map(Form::of).collect();
    }
    let samples = atoms.iter().enumerate().flat_map(|(number, widths)| {
        let others = [5 * number + 1, 11 * number + 2].map(|at| at % widths.len());
        [0, others[0], others[1]].map(|at| Form::of(widths[at].clone()))
    });
    samples.collect()
}

#[test]
fn products_of_every_type() {
    let samples = samples(Family::Warpgroup);
    assert!(
        samples.len() >= 3 * 2 * 17,
        "12 types of floats, 4 of integers, bits; by registers and shared memory"
    );
    samples.iter().for_each(check);
}

#[test]
fn sparse_products_of_every_type() {
    let samples = samples(Family::SparseWarpgroup);
    assert!(samples.len() >= 3 * 2 * 16, "12 types of floats, 4 of integers; by registers and shared memory");
    samples.iter().for_each(check);
}

#[test]
fn operands_are_negated() {
    for family in [Family::Warpgroup, Family::SparseWarpgroup] {
        for widths in atoms(family).iter().filter(|widths| widths[0].d != DataType::S32) {
            for negates in [(true, false), (false, true), (true, true)] {
                check(&Form { negates, ..Form::of(widths[2].clone()) });
            }
        }
    }
}

#[test]
fn halves_are_read_in_either_order() {
    for family in [Family::Warpgroup, Family::SparseWarpgroup] {
        for widths in atoms(family).iter().filter(|widths| widths[0].a.bits() == 16) {
            let orders = [(Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)];
            // A in registers has no layout.
            let some = if widths[0].a_from_shared { &orders[..] } else { &orders[..1] };
            for &majors in some {
                check(&Form { majors, ..Form::of(widths[7].clone()) });
            }
        }
    }
}

#[test]
fn integers_saturate_or_wrap_and_begin_from_sums() {
    for family in [Family::Warpgroup, Family::SparseWarpgroup] {
        for widths in atoms(family).iter().filter(|widths| matches!(widths[0].a, DataType::S8 | DataType::U8))
        {
            for start in [i32::MAX - 40, i32::MIN + 40] {
                check(&Form { start: Some(start), saturating: true, ..Form::of(widths[1].clone()) });
            }
            check(&Form { start: Some(-12_345), ..Form::of(widths[1].clone()) });
        }
    }
}

/// Twice A, of 64 rows, by B; and the rounded result by the transpose of B: the register operand is
/// computed before it is multiplied.
#[kernel]
fn doubles_and_chains(a: &Global<f16>, b: &Global<f16>, c: &mut Global<f32>) {
    launch::threads(128);
    let place = dynamic_shared_aligned::<f16>(32 * 32, 1024);
    let b_tile = Tensor::new(place, layout::<f16>((32, 32), Major::K));
    let turned =
        Tensor::new(place, b_tile.layout().map_inner(|modes| modes.select(&[1, 0, 2])).expect("three modes"));
    for row in 0..8u32 {
        let (row, column) = (thread_idx().x / 32 + row * 4, thread_idx().x % 32);
        b_tile.set((row, column, 0), b[row * 32 + column]);
    }
    fence_proxy_async_shared();
    sync_threads();
    let mma = TiledMma::warpgroups("SM90_64x32x16_F32F16F16_RS", 1);
    let part = mma.thread(thread_idx().x);
    let mine = part.a(&Tensor::with_layout(*a, Layout::row_major((64, 32))));
    let mut left: Fragment<f16> = part.a_fragment((64, 32));
    for pair in (0..left.len()).step_by(2) {
        left.set_pair(pair, mine.get(pair) * f16::from_f32(2.0), mine.get(pair + 1) * f16::from_f32(2.0));
    }
    let mut sums: Fragment<f32> = part.c_fragment((64, 32));
    sums.clear();
    multiply(&mma, &mut sums, &left, &mma.b_operand(&b_tile).slice((All, All, 0)), Accumulate::No);
    wait_multiplications(0);
    // The accumulators of 16 columns are distributed like an instruction's A fragment.
    let rounded: Fragment<f16> = sums.packed(|low, high| low.pack_f16x2(high).bit_cast());
    let rounded = rounded.window(0, Layout::column_major((8, 1, 2)));
    multiply(&mma, &mut sums, &rounded, &mma.b_operand(&turned).slice((All, All, 0)), Accumulate::Yes);
    wait_multiplications(0);
    let c = part.c(&Tensor::with_layout(*c, Layout::row_major((64, 32))));
    for index in 0..sums.len() {
        c.set(index, sums.get(index));
    }
}

#[test]
fn what_registers_hold_is_made_before_it_is_multiplied() {
    let a = Matrix::new((64, 32), DataType::F16, 3);
    let b = Matrix::new((32, 32), DataType::F16, 4);
    let rows = |matrix: &Matrix, count: i64| -> Vec<f16> {
        (0..32 * count).map(|at| f16::from_f32(matrix.get(at / 32, at % 32) as f32)).collect()
    };
    let first = |row: i64, n: i64| (0..32).map(|k| 2 * a.get(row, k) * b.get(n, k)).sum::<i64>();
    let both = |row: i64, n: i64| first(row, n) + (0..32).map(|k| first(row, k) * b.get(k, n)).sum::<i64>();
    let expected: Vec<f32> = (0..64 * 32).map(|at| both(at / 32, at % 32) as f32).collect();
    let staged = doubles_and_chains().unwrap_or_else(|errors| panic!("{errors}"));
    for device in devices() {
        let kernel = device.compile(&staged).expect("it compiles");
        let (a, b) = (device.buffer_from(&rows(&a, 64)), device.buffer_from(&rows(&b, 32)));
        let mut c = device.uninitialized::<f32>(64 * 32).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, 1, (&a.expect("it fits"), &b.expect("it fits"), &mut c)).expect("it fits");
        assert_eq!(c.to_vec().unwrap_or_else(|error| panic!("{error}")), expected);
    }
}

/// Overwrites the register operand A before waiting for the MMA that reads it.
#[kernel]
fn overwrites_a(b: &Global<f16>, c: &mut Global<f32>) {
    launch::threads(128);
    let place = dynamic_shared_aligned::<f16>(8 * 16, 1024);
    let tile = Tensor::new(place, layout::<f16>((8, 16), Major::K));
    tile.set((thread_idx().x / 16, thread_idx().x % 16, 0), b[thread_idx().x]);
    fence_proxy_async_shared();
    sync_threads();
    let mma = TiledMma::warpgroups("SM90_64x8x16_F32F16F16_RS", 1);
    let part = mma.thread(thread_idx().x);
    let mut left: Fragment<f16> = part.a_fragment((64, 16));
    left.clear();
    let mut sums: Fragment<f32> = part.c_fragment((64, 8));
    sums.clear();
    multiply(&mma, &mut sums, &left, &mma.b_operand(&tile).slice((All, All, 0)), Accumulate::No);
    left.set_word(0, 0x3c00_3c00);
    wait_multiplications(0);
    multiply(&mma, &mut sums, &left, &mma.b_operand(&tile).slice((All, All, 0)), Accumulate::Yes);
    wait_multiplications(0);
    for index in 0..sums.len() {
        c[thread_idx().x * 4 + index] = sums.get(index);
    }
}

#[test]
fn a_written_in_flight_is_reported_at_its_line() {
    let line =
        include_str!("warpgroup.rs").lines().position(|line| line.contains("0x3c00_3c00")).expect("above")
            + 1;
    let device = Device::with_schedule("emu:h200", Schedule::Latest).and_then(Device::checked);
    let device = device.expect("the emulator always starts");
    let kernel = device.compile(&overwrites_a().expect("it has no mistakes")).expect("it compiles");
    let b = device.buffer_from(&[f16::ONE; 128]).expect("it fits");
    let mut c = device.uninitialized::<f32>(512).expect("it fits");
    let stream = device.stream().expect("a stream");
    let told = kernel.launch(&stream, 1, (&b, &mut c)).expect_err("it is found").to_string();
    assert!(told.contains("in-flight") && told.contains(&format!("warpgroup.rs:{line}")), "{told}");
}
