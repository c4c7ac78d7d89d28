//! Models of unusual extents: each is refused while it is loaded, or runs.

use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine};

use crate::fixtures::{LIMITS, changed, generate};

/// Numbers by a linear congruential generator.
struct Numbers(u64);

impl Numbers {
    fn one_of(&mut self, all: &[u32]) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all[(self.0 >> 33) as usize % all.len()]
    }
}

#[test]
fn models_of_any_extents_run_or_are_refused_while_loading() {
    let device = Device::named("emu:h200").expect("an emulator");
    let mut numbers = Numbers(1);
    let mut loaded = 0;
    const MODELS: [&str; 4] = ["llama", "qwen2", "qwen3_5", "qwen3_5_moe"];
    for round in 0..24 {
        let model = MODELS[round % MODELS.len()];
        let folder = changed(model, |config| {
            let text = if config.get("text_config").is_some() { &mut config["text_config"] } else { config };
            let mut set = |name: &str, all: &[u32]| text[name] = numbers.one_of(all).into();
            set("hidden_size", &[24, 33, 40, 96, 100]);
            set("intermediate_size", &[17, 24, 60, 64, 100]);
            set("moe_intermediate_size", &[16, 24, 33, 64]);
            set("shared_expert_intermediate_size", &[16, 20, 33]);
            set("head_dim", &[2, 6, 8, 18, 20, 32, 36, 40, 48, 80]);
            set("num_key_value_heads", &[1, 3]);
            set("vocab_size", &[77, 100, 101, 512]);
            set("linear_num_key_heads", &[1, 2]);
            set("linear_num_value_heads", &[2, 6]);
            set("linear_key_head_dim", &[8, 20, 33]);
            set("linear_value_head_dim", &[8, 20, 33]);
            set("num_experts", &[4, 7]);
            let heads = numbers.one_of(&[1, 2, 3]);
            text["num_attention_heads"] =
                (heads * text["num_key_value_heads"].as_u64().expect("set") as u32).into();
            if text["rope_parameters"].is_object() {
                text["rope_parameters"]["partial_rotary_factor"] =
                    f64::from(numbers.one_of(&[1, 2, 4])).recip().into();
                text["rope_parameters"]["mrope_section"] = serde_json::Value::Null;
            }
        });
        let checkpoint = Checkpoint::random(folder.path(), 1).expect("a configuration");
        let data_type = DataType::ALL[round / MODELS.len() % DataType::ALL.len()];
        match Engine::load(&checkpoint, &device, data_type, LIMITS) {
            Ok(mut engine) => {
                generate(&mut engine, &[5, 6, 7, 8, 9, 10, 11, 12, 13], 9, 3);
                loaded += 1;
            }
            Err(refused) => {
                let config = std::fs::read_to_string(folder.path().join("config.json")).expect("a file");
                println!("{model} in {data_type:?}: {refused}\n{config}");
            }
        }
    }
    assert!(loaded > 12, "{loaded} of 24 are loaded");
}
