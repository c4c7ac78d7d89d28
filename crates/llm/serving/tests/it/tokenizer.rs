//! Encoding, decoding, and decoding one token at a time.

use proptest::prelude::*;
use warpwright_llm_serving::tokenizer::{Detokenizer, GgufVocabulary, Tokenizer};

use crate::model::{model, vocabulary};

/// Every text is its tokens' text, also when they arrive one by one.
fn round_trip(tokenizer: &Tokenizer, text: &str) {
    let tokens = tokenizer.encode(text, false).unwrap();
    assert_eq!(tokenizer.decode(&tokens, false), text);
    let mut detokenizer = Detokenizer::default();
    let mut pieces: String = tokens.iter().map(|token| detokenizer.push(tokenizer.bytes(*token))).collect();
    pieces += &detokenizer.finish();
    assert_eq!(pieces, text);
}

#[test]
fn texts_round_trip() {
    let tokenizer = model().tokenizer;
    for text in [
        "",
        "the and in",
        "naïve café",
        "日本語 🦀🦀",
        "a\r\n\tb",
        "مرحبا",
        "<|im_start|>user\nHi<|im_end|>\n",
    ] {
        round_trip(&tokenizer, text);
    }
    assert_eq!(tokenizer.encode(" the", false).unwrap(), [258]);
    assert_eq!(tokenizer.encode("<|im_end|>", false).unwrap(), [302]);
    assert_eq!(tokenizer.decode(&[302, 258], true), " the");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_decode_as_they_would_at_once(bytes in prop::collection::vec(any::<u8>(), 0..40), cuts in prop::collection::vec(1..5usize, 40)) {
        let mut detokenizer = Detokenizer::default();
        let (mut text, mut rest) = (String::new(), &bytes[..]);
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            text += &detokenizer.push(piece);
            rest = after;
        }
        text += &detokenizer.push(rest);
        text += &detokenizer.finish();
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn vocabularies_that_are_not_supported_are_named() {
    let sentencepiece = GgufVocabulary { model: "llama".to_owned(), ..vocabulary() };
    let unknown = GgufVocabulary { pre: "tekken".to_owned(), ..vocabulary() };
    let message = |vocabulary| Tokenizer::from_gguf(&vocabulary).err().unwrap().to_string();
    insta::assert_snapshot!(message(sentencepiece), @"the tokenizer is not byte-level BPE (tokenizer.ggml.model is `llama`): no other kind is supported");
    insta::assert_snapshot!(message(unknown), @"the GGUF file names the pre-tokenizer `tekken`, which is not supported: put the model's tokenizer.json beside it");
    assert!(Tokenizer::from_json(b"{}").is_err());
}

/// `WARPWRIGHT_TOKENIZER` names a tokenizer.json; `scripts/qwen_fixture.py` writes that of Qwen 3.5
/// and, beside it, texts with the tokens that tiktoken gives them.
#[test]
#[ignore = "needs a tokenizer.json: see scripts/qwen_fixture.py"]
fn the_real_vocabulary_agrees_with_tiktoken() {
    let path = std::path::PathBuf::from(std::env::var("WARPWRIGHT_TOKENIZER").expect("WARPWRIGHT_TOKENIZER"));
    let tokenizer = Tokenizer::from_file(&path).unwrap();
    let lines = std::fs::read_to_string(path.with_file_name("texts.jsonl")).unwrap();
    let mut checked = 0;
    for line in lines.lines() {
        let (text, tokens): (String, Vec<u32>) = serde_json::from_str(line).unwrap();
        assert_eq!(tokenizer.encode(&text, false).unwrap(), tokens, "{text:?}");
        round_trip(&tokenizer, &text);
        checked += 1;
    }
    assert!(checked >= 10_000, "only {checked} texts");
}
