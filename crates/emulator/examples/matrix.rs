//! Prints what a matrix multiply costs:
//! `cargo run --release -p warpwright-emulator --example matrix`.

use std::hint::black_box;
use std::time::Instant;

use warpwright_arch::Arch;
use warpwright_arch::DataType;
use warpwright_arch::mma::Types;
use warpwright_emulator::tensor::accumulate::IntegerSum;
use warpwright_emulator::tensor::half_multiply::{self, Half};
use warpwright_emulator::tensor::multiply::Multiply;
use warpwright_emulator::tensor::{Order, Shape};
use warpwright_emulator::{Emulator, Launch};

/// The shortest of many runs of a hundred, for one.
fn nanoseconds(mut work: impl FnMut()) -> f64 {
    let best = (0..20).map(|_| {
        let start = Instant::now();
        (0..100).for_each(|_| work());
        start.elapsed().as_secs_f64()
    });
    best.fold(f64::INFINITY, f64::min) * 1e7
}

/// Multiplies in a launch of [`warpgroup`].
const REPEATS: u32 = 64;

/// Prints what one `wgmma` of four warps costs, with everything: from shared memory to registers.
/// `k` and `types` are as the instruction spells them, `operands` those after scale-d.
fn warpgroup(n: usize, k: usize, types: &str, operands: &str) {
    let registers = if types.starts_with("f16") { n / 4 } else { n / 2 };
    let list: Vec<String> = (0..registers).map(|register| format!("%r{register}")).collect();
    let text = format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry kernel() {{
         .shared .align 1024 .b8 tile[40960]; .reg .pred %p; .reg .b32 %r<{registers}>; .reg .b32 %left, %at, %value; .reg .b64 %a;
         mov.u32 %left, %tid.x; mov.u32 %at, tile; mad.lo.u32 %at, %left, 4, %at;
         mad.lo.u32 %value, %left, 0x070503, 0; mov.u32 %left, 80;
         and.b32 %value, %value, 0x019f019f; or.b32 %value, %value, 0x3e003e00;
         fill: st.shared.u32 [%at], %value; add.u32 %at, %at, 512; add.u32 %value, %value, 0x0b0107;
         and.b32 %value, %value, 0x019f019f; or.b32 %value, %value, 0x3e003e00;
         sub.u32 %left, %left, 1; setp.ne.u32 %p, %left, 0; @%p bra fill; bar.sync 0;
         mov.u32 %left, {REPEATS}; mov.u64 %a, {}; setp.eq.u32 %p, 0, 0;
         next: wgmma.fence.sync.aligned;
         wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {{{}}}, %a, %a, %p{operands};
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
         sub.u32 %left, %left, 1; setp.ne.u32 %p, %left, 0; @%p bra next; ret; }}",
        1u64 << 62 | 64 << 32,
        list.join(", "),
    );
    let arch = Arch::named("h200").expect("there is an H200");
    let mut device = Emulator::with_threads(arch, 1).expect("the emulator starts");
    let program = device.load(&warpwright_ptx::parse(&text).expect("it is PTX")).expect("it loads");
    let launch = Launch { block: [128, 1, 1], ..Launch::default() };
    let best = (0..40)
        .map(|_| {
            let start = Instant::now();
            device.launch(&program, "kernel", &launch).expect("it runs");
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    let time = best / f64::from(REPEATS);
    let rate = (64 * n * k) as f64 / time / 1e9;
    println!("wgmma m64n{n}k{k}.{types}  {:7.2} us  {rate:6.1} G multiply-adds/s", time * 1e6);
}

fn main() {
    for (k, types, operands) in [
        (16, "f32.bf16.bf16", ", 1, 1, 0, 0"),
        (16, "f32.f16.f16", ", 1, 1, 0, 0"),
        (16, "f16.f16.f16", ", 1, 1, 0, 0"),
        (8, "f32.tf32.tf32", ", 1, 1"),
        (32, "f32.e4m3.e4m3", ", 1, 1"),
        (32, "s32.s8.s8", ""),
    ] {
        warpgroup(256, k, types, operands);
    }
    let register = |seed: u32| std::array::from_fn(|lane| 0x3f80_3f81 ^ (seed * 77 + lane as u32) << 4);
    let registers: Vec<[u32; 32]> = (0..16).map(register).collect();
    let r = |index: usize| &registers[index];
    for (name, half) in [("f16", Half::F16), ("bf16", Half::Bf16)] {
        let mut sums = [[0; 32]; 4];
        let multiply = half_multiply::function(half);
        let time = nanoseconds(|| {
            sums = multiply([[r(0), r(1)], [r(2), r(3)]], [r(4), r(5)], sums.each_ref()).0;
        });
        println!("m16n8k16.f32.{name}  {time:7.1} ns");
        black_box(sums);
    }
    for (word, element, accumulator) in [
        ("m16n8k16", DataType::F16, DataType::F16),
        ("m16n8k8", DataType::Tf32, DataType::F32),
        ("m16n8k32", DataType::E4m3, DataType::F32),
        ("m16n8k32", DataType::S8, DataType::S32),
    ] {
        let shape = Shape::from_word(word).expect("the word is a shape");
        let types = Types { d: accumulator, a: element, b: element, c: accumulator };
        let multiply = Multiply::dense(shape, types, (Order::Row, Order::Column), IntegerSum::Wrapping)
            .expect("the multiply exists");
        let mut d = vec![[0; 32]; multiply.fragments().d.registers()];
        let time =
            nanoseconds(|| multiply.words(&registers, &registers, &registers, None, black_box(&mut d)));
        println!("{word}.{}.{}  {time:7.1} ns", accumulator.ptx(), element.ptx());
    }
}
