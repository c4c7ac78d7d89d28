//! The PTX of Hopper's instructions as kernels write them, accepted by the real assembler where
//! `WARPWRIGHT_PTXAS` names one.

use warpwright_arch::Capability;
use warpwright_ir as ir;
use warpwright_lang::element::f16;
use warpwright_lang::fence::fence_mbarrier_init;
use warpwright_lang::mbarrier::{Mbarrier, Mbarriers};
use warpwright_lang::pointer::Global;
use warpwright_lang::shared::dynamic_shared_aligned;
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::tensor::{
    Accumulate, Fragment, Tensor, TiledMma, TmaTile, multiply, wait_multiplications,
};
use warpwright_lang::tensor_map::TensorMap;
use warpwright_lang::value::constant;
use warpwright_lang::{Kernel, block, kernel, launch, tma, warp};
use warpwright_layout::atom::Major;
use warpwright_layout::{All, Layout};
use warpwright_testing::ptxas::Assembler;

/// The PTX of a kernel for sm_90a, without the lines that say where it was written; assembled.
fn ptx<Args>(kernel: &Kernel<Args>) -> String {
    let capability = Capability::for_target("sm_90a").expect("in the table");
    ir::verify(kernel.ir(), capability).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let mut optimized = kernel.ir().clone();
    ir::optimize(&mut optimized);
    let text = warpwright_ptx::write(&ir::Module::new(capability, vec![optimized]));
    if let Some(assembler) = Assembler::from_environment() {
        assembler.assemble("sm_90a", &text).unwrap_or_else(|said| panic!("{}: {said}", kernel.name()));
    }
    let is_position = |line: &&str| line.trim_start().starts_with(".loc") || line.starts_with(".file");
    text.lines().filter(|line| !is_position(line)).map(|line| format!("{line}\n")).collect()
}

/// Each phase of a barrier in turn, by its parity.
#[kernel]
fn waits_for_each_phase(output: &mut Global<u32>, rounds: u32) {
    launch::threads(64);
    let full = Mbarriers::new(2);
    if thread_idx().x == 0 {
        for barrier in full.iter() {
            barrier.init(64);
        }
    }
    block::sync_threads();
    let mut parity = constant(0u32);
    for round in 0..rounds {
        full.at(round % 2).arrive();
        full.at(round % 2).wait_parity(parity);
        if round % 2 == 1 {
            parity = parity ^ 1;
        }
    }
    let once = Mbarrier::new();
    let state = once.arrive();
    once.wait(state);
    output[thread_idx().x] = parity;
}

#[test]
fn a_wait_is_a_branch_back_to_its_test() {
    insta::assert_snapshot!(ptx(&waits_for_each_phase().expect("it has no mistakes")));
}

/// Parameters by value: a tensor map, and arrays.
#[kernel]
fn takes_values(map: &TensorMap, factors: [f32; 3], flags: [bool; 2], output: &mut Global<f32>) {
    map.prefetch();
    let factor = if flags[1] { factors[2] } else { factors[0] };
    output[thread_idx().x] = factor * factors[1];
}

#[test]
fn values_lie_in_the_parameters() {
    insta::assert_snapshot!(ptx(&takes_values().expect("it has no mistakes")));
}

const STAGES: u32 = 4;

/// A warp loads boxes into a ring of slots, as they fall empty; another adds them up.
#[kernel]
fn loads_boxes(a: &TensorMap, output: &mut Global<f32>, boxes: u32) {
    launch::threads(64);
    a.boxes(TmaTile::dense::<f32>((4, 32), Major::K));
    let ring = dynamic_shared_aligned::<f32>(32 * 4 * STAGES, 128);
    let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
    let thread = thread_idx().x;
    if thread == 0 {
        for (full, empty) in full.iter().zip(empty.iter()) {
            full.init(1);
            empty.init(32);
        }
        fence_mbarrier_init();
    }
    block::sync_threads();
    let mut stage = constant(0u32);
    let mut parity = constant(0u32);
    if thread < 32 {
        if warp::elect(warp::ALL_LANES) {
            a.prefetch();
            for i in 0..boxes {
                empty.at(stage).wait_parity(parity ^ 1);
                full.at(stage).arrive_and_expect(32 * 4 * 4);
                tma::load(*a, (i * 32, block_idx().x * 4), ring + stage * 128, full.at(stage));
                stage += 1;
                if stage == STAGES {
                    stage = 0;
                    parity ^= 1;
                }
            }
        }
    } else {
        let mut sum = constant(0.0f32);
        for _ in 0..boxes {
            full.at(stage).wait_parity(parity);
            for row in 0..4u32 {
                sum += ring[stage * 128 + row * 32 + thread - 32];
            }
            empty.at(stage).arrive();
            stage += 1;
            if stage == STAGES {
                stage = 0;
                parity ^= 1;
            }
        }
        output[block_idx().x * 32 + thread - 32] = sum;
    }
}

#[test]
fn a_ring_of_tensor_copies() {
    insta::assert_snapshot!(ptx(&loads_boxes().expect("it has no mistakes")));
}

/// c = a b from shared memory, into an accumulator that nothing has written.
struct Product {
    accumulate: Accumulate,
}

impl Product {
    #[kernel]
    fn run(&self, c: &mut Global<f32>, rounds: u32) {
        launch::threads(128);
        let tile = |rows| {
            let layout = TmaTile::new::<f16>((rows, 32), Major::K).and_then(|tile| tile.layout(1));
            Tensor::new(dynamic_shared_aligned::<f16>(rows * 32, 1024), layout.expect("whole blocks"))
        };
        let mma = TiledMma::warpgroups("SM90_64x8x16_F32F16F16_SS", 1);
        let whole = || (All, All, 0);
        let (a, b) = (mma.a_operand(&tile(64), 0).slice(whole()), mma.b_operand(&tile(8)).slice(whole()));
        let thread = thread_idx().x;
        for _ in 0..rounds {
            let mut accumulator: Fragment<f32> = mma.thread(thread).c_fragment((64, 8));
            multiply(&mma, &mut accumulator, &a, &b, self.accumulate);
            wait_multiplications(0);
            c[thread] = accumulator.get(0);
        }
    }
}

#[test]
fn a_product_that_overwrites_its_accumulator_does_not_read_it() {
    ptx(&Product { accumulate: Accumulate::No }.run().expect("it has no mistakes"));
    let reads = Product { accumulate: Accumulate::Yes }.run().expect("it has no mistakes");
    let errors = ir::verify(reads.ir(), Capability::for_target("sm_90a").expect("in the table")).unwrap_err();
    let [error] = &errors[..] else { panic!("one mistake: {errors:?}") };
    let message = error.fault.to_string();
    assert!(message.starts_with("the accumulator that is made at"), "{message}");
    assert!(
        message.ends_with("nothing has written it: `clear()` it before, or pass `Accumulate::No`"),
        "{message}"
    );
}

struct Branches;

impl Branches {
    #[kernel]
    fn run(&self, x: &Global<f32>, y: &mut Global<f32>, n: u32) {
        launch::threads(64);
        let x = Tensor::new(*x, Layout::row_major((64, 64)).expect("known extents"));
        let row = thread_idx().x;
        if n < 4 {
            y[row] = x.get((row, 0));
        } else {
            y[row] = x.get((row, 1));
        }
    }
}

/// The row's address that one branch computes is not there in the other.
#[test]
fn each_branch_computes_its_addresses() {
    ptx(&Branches.run().expect("it has no mistakes"));
}
