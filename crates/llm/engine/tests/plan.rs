//! What a decode launches and reads: the fusion of a step does not get lost.

use std::path::Path;

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, DecodePlan, Engine, Limits, OperationCost};
use warpwright_llm_step::{Chunk, Tokens};

use crate::fixtures::{LIMITS, chunk, folder, generate, greedy, random, step};

/// Qwen 3.5-9B's shape.
fn plan(data_type: DataType, batch: u32) -> DecodePlan {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shapes/qwen3_5_9b");
    let checkpoint = Checkpoint::random(folder, 0).expect("a configuration");
    DecodePlan::new(&checkpoint, data_type, batch, 1024).expect("a plan")
}

/// Launches of a layer: norm and projection, mixing, output and residual; norm, gate, up and SwiGLU; down and
/// residual. Attention has RoPE besides.
#[test]
fn a_decode_of_9b_has_few_launches_and_reads_weights_once() {
    let of_one = plan(DataType::Bf16, 1);
    // The last token, its embedding, the head, sampling, and keeping the token.
    assert_eq!(of_one.count(), 24 * 5 + 8 * 6 + 5, "{of_one:?}");
    // 2 bytes for each of 7.94 G parameters but the embedding and what is small.
    assert_eq!(of_one.weights, 15_872_819_200);
    // The embedding, the head and sampling; a layer's projection, output, gate and up, down, and what mixes.
    let counts: Vec<usize> = of_one.operations.iter().map(|operation| operation.count).collect();
    assert_eq!(counts.iter().sum::<usize>(), 24 * 5 + 8 * 6 + 3, "{:?}", of_one.operations);
    let sum = |of: fn(&OperationCost) -> u64| of_one.operations.iter().map(of).sum::<u64>();
    let (bytes, flops) = (sum(|operation| operation.bytes), sum(|operation| operation.flops));
    assert!(bytes > of_one.bytes() && bytes < of_one.bytes() / 1000 * 1001, "{bytes}");
    // Two for each weight of two bytes, and those of the delta rule and of attention.
    assert!(flops > of_one.weights && flops < of_one.weights / 100 * 102, "{flops}");
    assert_eq!((of_one.states, of_one.keys), (103_022_592, 33_554_432));
    let of_many = plan(DataType::Bf16, 64);
    // Norms are kernels of their own, as is the last one.
    assert_eq!(of_many.count(), 24 * 7 + 8 * 8 + 6, "{of_many:?}");
    // Norms and SwiGLU quantize what they store; so are the inputs of outputs. The gates of the delta rule are exact.
    assert_eq!(plan(DataType::Fp8, 64).count(), 24 * 10 + 8 * 10 + 6);
    assert_eq!(of_many.weights, of_one.weights);
    assert_eq!((of_many.states, of_many.keys), (64 * of_one.states, 64 * of_one.keys));
    let quarter = |data_type, bits: f64| {
        let bytes = plan(data_type, 1).weights as f64 * 8.0;
        let parameters = of_one.weights as f64 / 2.0;
        assert!((bytes / parameters - bits).abs() < 0.05, "{data_type:?}: {} bits", bytes / parameters);
    };
    quarter(DataType::Fp8, 8.125);
    quarter(DataType::Int4, 4.75);
}

/// Each of two devices reads half of the weights, states and keys, and takes part in an all-reduce after each mixer
/// and each MLP and in a gather of the logits.
#[test]
fn a_device_of_two_reads_half_of_the_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shapes/qwen3_5_9b");
    let checkpoint = Checkpoint::random(folder, 0).expect("a configuration");
    // Enough sequences that half of the heads have the delta rule's kernels of all.
    let whole = plan(DataType::Bf16, 16);
    let half = DecodePlan::of_rank(&checkpoint, DataType::Bf16, (16, 1024), 2).expect("a plan");
    assert_eq!(half.count(), whole.count() + 2 * 32 + 1);
    assert_eq!(
        [half.weights, half.states, half.keys].map(|bytes| 2 * bytes),
        [whole.weights, whole.states, whole.keys]
    );
    let refused = DecodePlan::of_rank(&checkpoint, DataType::Bf16, (8, 1024), 3).expect_err("16 heads");
    assert_eq!(refused.to_string(), "the model's configuration: 16 heads cannot be divided among 3 ranks");
}

/// 24,576 rows of three experts each are more than the CTAs of a grid along y.
#[test]
fn experts_of_more_rows_than_a_grid_has_are_launched() {
    for data_type in [DataType::F32, DataType::Bf16, DataType::Int4] {
        let plan = DecodePlan::new(&random(&folder("qwen3_5_moe")), data_type, 22_000, 16).expect("a plan");
        let of_experts = |operation: &&OperationCost| operation.name.starts_with("experts.");
        assert_eq!(plan.operations.iter().filter(of_experts).count(), 2, "{:?}", plan.operations);
    }
}

/// Launches that overlap the one before them touch what it uses only after they have waited: a prompt, its
/// answer, and decodes of four sequences, of one token or with drafts.
#[test]
fn steps_check_clean() {
    let device = Device::with_schedule("emu:h200", Schedule::Random(3)).and_then(Device::checked);
    let device = device.expect("an emulator with checkers");
    for (model, data_type, drafts) in [
        ("qwen3_5", DataType::F32, 0),
        ("qwen3_5", DataType::Bf16, 0),
        ("qwen3_5", DataType::Bf16, 2),
        ("qwen3_5", DataType::Int4, 0),
        ("qwen3_5_moe", DataType::Bf16, 0),
        ("qwen3", DataType::Bf16, 0),
        ("llama", DataType::Fp8, 0),
    ] {
        let limits = Limits { drafts, ..LIMITS };
        let mut engine = Engine::load(&random(&folder(model)), &device, data_type, limits).expect("a model");
        let prompt = [1, 2, 3, 4, 5, 6, 7, 8];
        let (sampled, _) = generate(&mut engine, &prompt, 64, 3);
        assert_eq!(sampled.len(), 3);
        for sequence in 0..4 {
            let known = Tokens::Known(prompt.to_vec());
            let first = Chunk { sampling: Some(greedy()), ..chunk(sequence, 0, known) };
            step(&mut engine, vec![first]);
        }
        for token in 0..2 {
            let position = prompt.len() as u32 + token * (1 + drafts);
            let next = |sequence| chunk(sequence, position, Tokens::Last);
            let chunks =
                (0..4).map(|at| Chunk { sampling: Some(greedy()), draft: drafts, ..next(at) }).collect();
            assert_eq!(step(&mut engine, chunks).len(), 4);
        }
    }
}
