//! Steps and models that are refused.

use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine, Limits};
use warpwright_llm_step::{Chunk, Executor, Page, Score, Slot, Step, Tokens};

use crate::fixtures::{LIMITS, changed, chunk, engine, folder};

#[test]
fn steps_beyond_the_capacity_are_refused() {
    let mut engine = engine("llama", DataType::F32);
    let known = |tokens: &[u32]| chunk(0, 0, Tokens::Known(tokens.to_vec()));
    let score = Some(Score { targets: vec![1, 2], top: 0 });
    let cases: [(Vec<Chunk>, &str); 8] = [
        (vec![known(&[])], "the step: a chunk has the tokens 0 to 0; give 1 or more, up to 256"),
        (vec![known(&[1]), known(&[2])], "the step: two chunks have the same slot"),
        (vec![known(&[512])], "the step: token 512 is not in the vocabulary of 512"),
        (vec![known(&[1; 129])], "the step: 129 tokens in 1 chunks are more than 128 in 4"),
        (vec![Chunk { slot: Slot(5), ..known(&[1]) }], "the step: slot 5 of 5 does not exist"),
        (vec![Chunk { pages: vec![Page(32)], ..known(&[1]) }], "the step: page 32 of 32 does not exist"),
        (vec![Chunk { pages: vec![], ..known(&[1]) }], "the step: 0 pages do not hold 1 tokens"),
        (vec![Chunk { score, ..known(&[1]) }], "the step: 2 targets and 0 drafts of a chunk of 1 tokens"),
    ];
    for (chunks, message) in cases {
        let refused = engine.submit(Step { copies: vec![], chunks }).expect_err(message);
        assert_eq!(refused.to_string(), message);
    }
    assert!(engine.wait().is_err(), "no step was submitted");
}

/// The message of the model with a changed configuration.
fn refused(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let folder = changed("llama", change);
    let checkpoint = Checkpoint::random(folder.path(), 0).expect("a configuration");
    let device = Device::named("emu:h200").expect("an emulator");
    Engine::load(&checkpoint, &device, DataType::F32, LIMITS).err().expect("a refusal").to_string()
}

#[test]
fn configurations_that_are_not_computed_are_refused() {
    let cases = [
        (
            "model_type",
            "gpt2".into(),
            "model_type is \"gpt2\"; the engine runs llama, mistral, qwen2, qwen3, qwen3_5 and qwen3_5_moe",
        ),
        ("eos_token_id", (-1).into(), "eos_token_id is -1; expected a token or a list of tokens"),
        (
            "eos_token_id",
            serde_json::json!([1, "x"]),
            "eos_token_id is \"x\"; expected a token or a list of tokens",
        ),
        ("hidden_size", 0.into(), "hidden_size is 0; expected a number from 1 to 16777216"),
        (
            "hidden_size",
            4_000_000_000u32.into(),
            "hidden_size is 4000000000; expected a number from 1 to 16777216",
        ),
        ("head_dim", 4_000_000_000u32.into(), "head_dim is 4000000000; expected a number from 1 to 16777216"),
        ("head_dim", 4_000_000.into(), "6 heads of 4000000 elements are more than 16777216 elements"),
        (
            "head_dim",
            15.into(),
            "15 columns of 15 are rotated; the engine rotates an even number of a head's",
        ),
        ("num_hidden_layers", 4097.into(), "num_hidden_layers is 4097; the engine runs up to 4096"),
        ("rms_norm_eps", "1e-5".into(), "rms_norm_eps is \"1e-5\"; expected a number above 0"),
        ("tie_word_embeddings", 1.into(), "tie_word_embeddings is 1; expected true or false"),
        ("rope_scaling", 1.into(), "rope_scaling is 1; expected an object"),
        (
            "layer_types",
            vec!["full_attention", "sliding_attention", "full_attention"].into(),
            "an entry of layer_types is \"sliding_attention\"; expected full_attention",
        ),
        ("num_key_value_heads", 4.into(), "6 heads cannot share 4 key heads equally"),
        ("attention_bias", true.into(), "attention_bias is true; the engine runs models without it"),
        ("hidden_act", "gelu".into(), "hidden_act is \"gelu\"; the engine computes silu"),
        ("vocab_size", serde_json::Value::Null, "vocab_size is missing"),
    ];
    for (name, value, message) in cases {
        let found = refused(|config| config[name] = value);
        assert_eq!(found, format!("the model's configuration: {message}"));
    }
}

/// The kernels of all steps are staged while a model is loaded: what none takes is refused before the first step.
#[test]
fn a_model_that_no_kernel_takes_is_refused_while_loading() {
    let message = refused(|config| {
        config["vocab_size"] = 5_000_000.into();
        config["hidden_size"] = 8.into();
        config["num_attention_heads"] = 1.into();
        config["num_key_value_heads"] = 1.into();
    });
    assert_eq!(message, "sampling: a vocabulary of 5000000 tokens; give 1 to 4194304");
}

#[test]
fn states_of_another_type_are_refused() {
    let folder = changed("qwen3_5", |config| config["text_config"]["mamba_ssm_dtype"] = "float16".into());
    let checkpoint = Checkpoint::random(folder.path(), 0).expect("a configuration");
    let device = Device::named("emu:h200").expect("an emulator");
    let refused = Engine::load(&checkpoint, &device, DataType::F32, LIMITS).err().expect("a refusal");
    let message = "the model's configuration: mamba_ssm_dtype is \"float16\"; the engine keeps states in float32 \
                   or bfloat16";
    assert_eq!(refused.to_string(), message);
}

#[test]
fn a_model_without_an_mtp_layer_does_not_draft() {
    let checkpoint = Checkpoint::random(folder("qwen3"), 0).expect("a configuration");
    let device = Device::named("emu:h200").expect("an emulator");
    let refused = |drafts| {
        let limits = Limits { drafts, ..LIMITS };
        Engine::load(&checkpoint, &device, DataType::F32, limits).err().map(|error| error.to_string())
    };
    assert_eq!(refused(0), None);
    let message = "the model's configuration: the model has no MTP layer to draft tokens; give 0 drafts";
    assert_eq!(refused(1).as_deref(), Some(message));
}
