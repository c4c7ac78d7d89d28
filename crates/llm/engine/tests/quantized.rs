//! Quantized weights: log-probabilities are those of the oracle's quantized weights, by every kernel that multiplies
//! them.

use warpwright_llm_engine::DataType;
use warpwright_llm_step::{Chunk, Score, Tokens};

use crate::fixtures::{MODELS, chunk, difference, engine, expected, generate, step};

/// Mean differences of log-probabilities, beside that of torch's bf16. Weights are the same on both sides; activations
/// are rounded to bf16, and to e4m3 where many rows are multiplied with fp8. (The formats themselves move those of
/// these models by 0.09 to 0.52 in fp8, 0.21 to 1.10 in int4: random weights have no directions that matter little.)
const OF_BF16: f32 = 0.1;
const OF_E4M3: f32 = 0.65;

#[test]
fn quantized_weights_have_the_log_probabilities_of_the_oracle() {
    for model in MODELS {
        let expected = &expected(model)[0];
        let fp8 = (DataType::Fp8, &expected.of_prompt_fp8, OF_E4M3);
        for (data_type, wanted, of_many) in [fp8, (DataType::Int4, &expected.of_prompt_int4, OF_BF16)] {
            let mut engine = engine(model, data_type);
            let (_, few) = generate(&mut engine, &expected.prompt, 5, 2);
            // Int4 weights of more than 64 rows are dequantized.
            let both = [0, 1].map(|sequence| Chunk {
                score: Some(Score { targets: expected.prompt[1..].to_vec(), top: 0 }),
                ..chunk(sequence, 0, Tokens::Known(expected.prompt.clone()))
            });
            let output = step(&mut engine, both.to_vec()).remove(1);
            let many: Vec<f32> = output.scored.iter().map(|scored| scored.log_probability).collect();
            for (what, found, bound) in [("few", few, OF_BF16), ("many", many, of_many)] {
                let (mean, bound) = (difference(&found, wanted), bound + expected.bf16);
                assert!(mean < bound, "{model} in {data_type:?}, {what} rows: a mean difference of {mean}");
            }
        }
    }
}
