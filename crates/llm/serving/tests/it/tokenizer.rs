//! Encoding, decoding, and decoding one token at a time.

use proptest::prelude::*;
use serde_json::{Value, json};
use warpwright_llm_serving::tokenizer::{Detokenizer, GgufVocabulary, Tokenizer, TokenizerError};

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

/// As with llama.cpp, merges that make no token are no reason to refuse a file.
#[test]
fn merges_to_no_token_are_left_out() {
    let mut with_others = vocabulary();
    with_others.merges.extend(["x y", "x", "", "x y z", "ĠĠĠ q"].map(str::to_owned));
    let tokenizer = Tokenizer::from_gguf(&with_others).unwrap();
    let plain = Tokenizer::from_gguf(&vocabulary()).unwrap();
    for text in ["the xyz and in", "xy"] {
        assert_eq!(tokenizer.encode(text, true).unwrap(), plain.encode(text, true).unwrap());
        round_trip(&tokenizer, text);
    }
}

#[test]
fn vocabularies_that_are_not_supported_are_named() {
    let unigrams = GgufVocabulary { model: "t5".to_owned(), ..vocabulary() };
    let without_scores = GgufVocabulary { model: "llama".to_owned(), ..vocabulary() };
    let without_first = GgufVocabulary { add_bos: Some(true), ..vocabulary() };
    let unknown = GgufVocabulary { pre: "kimi-k2".to_owned(), ..vocabulary() };
    let few_types = GgufVocabulary { token_types: vec![1, 3], ..vocabulary() };
    let message = |vocabulary| Tokenizer::from_gguf(&vocabulary).err().unwrap().to_string();
    insta::assert_snapshot!(message(unigrams), @"the tokenizer is neither byte-level BPE nor SentencePiece's (tokenizer.ggml.model is `t5`): no other kind is supported");
    insta::assert_snapshot!(message(without_scores), @"the tokenizer is neither byte-level BPE nor SentencePiece's (it has 307 tokens and 0 scores): no other kind is supported");
    insta::assert_snapshot!(message(without_first), @"the tokenizer is neither byte-level BPE nor SentencePiece's (it adds the first token and has none): no other kind is supported");
    insta::assert_snapshot!(message(few_types), @"the tokenizer is neither byte-level BPE nor SentencePiece's (it has 307 tokens and 2 types): no other kind is supported");
    insta::assert_snapshot!(message(unknown), @"the GGUF file names the pre-tokenizer `kimi-k2`, which is not supported: put the model's tokenizer.json beside it");
    assert!(Tokenizer::from_json(b"{}").is_err());
}

/// A file that cannot be read names its part. What would take long is refused before.
#[test]
fn parts_that_cannot_be_read_are_named() {
    let double = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
    let added = |content: String, normalized: bool| {
        json!([{ "id": 1, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": normalized }])
    };
    let unknown = "cannot be read: it has no known form";
    let fails = "cannot be read: the library of tokenizers fails at it";
    for (part, value, expected) in [
        ("normalizer", json!({}), format!("its `normalizer` {unknown}")),
        ("normalizer", json!("NFC"), format!("its `normalizer` {unknown}")),
        ("normalizer", json!({ "type": "Precompiled" }), format!("its `normalizer` {fails}")),
        (
            "normalizer",
            json!({ "type": "Precompiled", "precompiled_charsmap": "" }),
            format!("its `normalizer` {fails}"),
        ),
        ("pre_tokenizer", json!({}), format!("its `pre_tokenizer` {unknown}")),
        ("post_processor", json!({ "type": "None" }), "its `post_processor` cannot be read: ".to_owned()),
        ("model", json!({ "type": "BPE" }), "its `model` cannot be read: ".to_owned()),
        ("added_tokens", json!([{ "id": 1 }]), "its `added_tokens` cannot be read: ".to_owned()),
        (
            "normalizer",
            json!({ "type": "Sequence", "normalizers": vec![double.clone(); 40] }),
            "its `normalizer` makes text more than 64 times as long".to_owned(),
        ),
        (
            "normalizer",
            json!({ "type": "Sequence", "normalizers": vec![json!({ "type": "Prepend", "prepend": "a".repeat(10_000) }); 10] }),
            "its `normalizer` makes text more than 64 times as long".to_owned(),
        ),
        (
            "added_tokens",
            added("a".repeat(100_000), false),
            "its `added_tokens[0]` has 100000 bytes, and may have 1024".to_owned(),
        ),
        (
            "added_tokens",
            added("a".repeat(513), true),
            "its `added_tokens[0]` has 1026 bytes, and may have 1024".to_owned(),
        ),
    ] {
        let mut json = json!({
            "version": "1.0", "added_tokens": [], "normalizer": double, "pre_tokenizer": null, "post_processor": null,
            "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
            "model": { "type": "BPE", "vocab": { "a": 0 }, "merges": [] },
        });
        assert!(Tokenizer::from_json(json.to_string().as_bytes()).is_ok());
        json[part] = value;
        let refused = Tokenizer::from_json(json.to_string().as_bytes()).err().expect(&expected).to_string();
        assert!(refused.contains(&expected), "{refused}");
    }
    let mut long = vocabulary();
    long.tokens[302] = "a".repeat(100_000);
    let refused = Tokenizer::from_gguf(&long).err().unwrap().to_string();
    assert!(refused.contains("has 100000 bytes, and may have 1024"), "{refused}");
}

/// What a file says of the length of prompts cuts no prompt and makes none longer.
#[test]
fn lengths_of_training_are_left_out() {
    let with = |length: Value| {
        let strategy =
            if length == 2 { json!({ "Fixed": 10_000_000_000_u64 }) } else { json!("BatchLongest") };
        json!({
            "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null,
            "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
            "model": { "type": "BPE", "vocab": { "a": 0 }, "merges": [] },
            "truncation": { "direction": "Right", "max_length": length, "strategy": "LongestFirst", "stride": 0 },
            "padding": { "strategy": strategy, "direction": "Right", "pad_to_multiple_of": 8, "pad_id": 0,
                "pad_type_id": 0, "pad_token": "a" },
        })
    };
    for length in [0, 2] {
        let tokenizer = Tokenizer::from_json(with(length.into()).to_string().as_bytes()).unwrap();
        assert_eq!(tokenizer.encode("aaaaa", true).unwrap(), [0; 5]);
    }
}

/// A tokenizer of another model is found by its tokens, whatever else differs.
#[test]
fn a_tokenizer_of_another_model_is_found() {
    let fixture: Value = serde_json::from_str(include_str!("../fixtures/tokenizers.json")).unwrap();
    let own = model().tokenizer;
    let unknown = GgufVocabulary { pre: "kimi-k2".to_owned(), merges: vec![], ..vocabulary() };
    assert_eq!(own.differs_from(&unknown), None);
    let mut other = vocabulary();
    other.tokens.swap(260, 261);
    // Control tokens have texts of their own.
    other.tokens[302] = "<|end|>".to_owned();
    assert_eq!(own.differs_from(&other), Some(260));
    for file in fixture["files"].as_object().unwrap().values() {
        let tokenizer = Tokenizer::from_json(file["json"].to_string().as_bytes()).unwrap();
        assert!(tokenizer.differs_from(&vocabulary()).is_some());
    }
}

/// A text that is too long is refused by its bytes, or after a part of it.
#[test]
fn long_texts_are_refused_before_all_of_them_is_encoded() {
    let tokenizer = model().tokenizer;
    let text = "the man ".repeat(100_000);
    let all = tokenizer.encode(&text, false).unwrap().len();
    assert_eq!(tokenizer.encode_within(&text, false, all, || true).unwrap().len(), all);
    let refused = |most| tokenizer.encode_within(&text, false, most, || true).unwrap_err().to_string();
    for most in [1, 1_000, 20_000] {
        assert!(
            refused(most).ends_with(&format!("tokens, and may have {most}: shorten the prompt")),
            "{most}"
        );
    }
    let stopped = tokenizer.encode_within(&text, false, 50_000, || false).unwrap_err();
    assert!(matches!(stopped, TokenizerError::Stopped), "{stopped}");
}

/// What llama.cpp and the Python package tokenizers make of texts: `scripts/tokenizers_fixture.py` writes it.
fn agree_with_others(fixture: &str) {
    let fixture: Value = serde_json::from_str(fixture).unwrap();
    let texts: Vec<String> = serde_json::from_value(fixture["texts"].clone()).unwrap();
    let of = |value: &Value| -> Vec<Vec<u32>> { serde_json::from_value(value.clone()).unwrap() };
    for case in fixture["cases"].as_array().unwrap() {
        let model = case["model"].as_str().unwrap();
        let vocabulary = &fixture["vocabularies"][model];
        let mut metadata = serde_json::Map::new();
        let mut set = |key: &str, value: Value| metadata.insert(format!("tokenizer.ggml.{key}"), value);
        set("model", model.into());
        set("pre", case["pre"].clone());
        for key in ["tokens", "scores", "merges"] {
            set(key, vocabulary[key].clone());
        }
        set("token_type", vocabulary["types"].clone());
        if model == "gpt2" {
            let token =
                |text| vocabulary["tokens"].as_array().unwrap().iter().position(|token| token == text);
            set("bos_token_id", token("<|begin|>").into());
            set("eos_token_id", token("<|end|>").into());
        }
        case["keys"].as_object().unwrap().iter().for_each(|(key, value)| drop(set(key, value.clone())));
        let vocabulary = GgufVocabulary::from_metadata(&metadata);
        let tokenizer = Tokenizer::from_gguf(&vocabulary).unwrap();
        for (text, tokens) in texts.iter().zip(of(&case["tokens"])) {
            let what = format!("{model}, {}, {}, {text:?}", case["pre"], case["keys"]);
            assert_eq!(tokenizer.encode(text, true).unwrap(), tokens, "{what}");
            let plain = tokenizer.encode(text, false).unwrap();
            // ▁ is a space there, and a space is added after a special token.
            let of_sentence_piece = ["▁", "<s>", "</s>", "<|x|>"].iter().any(|part| text.contains(part));
            if !(text.contains("<unk>") || model == "llama" && of_sentence_piece) {
                assert_eq!(tokenizer.decode(&plain, false), *text, "{what}");
            }
        }
    }
    for (kind, file) in fixture["files"].as_object().unwrap() {
        let tokenizer = Tokenizer::from_json(file["json"].to_string().as_bytes()).unwrap();
        let decoded: Vec<String> = serde_json::from_value(file["texts"].clone()).unwrap();
        for (text, (tokens, decoded)) in texts.iter().zip(of(&file["tokens"]).into_iter().zip(decoded)) {
            assert_eq!(tokenizer.encode(text, false).unwrap(), tokens, "{kind}, {text:?}");
            assert_eq!(tokenizer.decode(&tokens, false), decoded, "{kind}, {text:?}");
        }
    }
}

#[test]
fn tokenizers_of_every_kind_agree_with_llama_cpp() {
    agree_with_others(include_str!("../fixtures/tokenizers.json"));
}

/// `WARPWRIGHT_TOKENIZERS` names what `scripts/tokenizers_fixture.py TEXTS` writes.
#[test]
#[ignore = "needs a file of scripts/tokenizers_fixture.py"]
fn they_agree_on_random_texts() {
    let path = std::env::var("WARPWRIGHT_TOKENIZERS").expect("WARPWRIGHT_TOKENIZERS");
    agree_with_others(&std::fs::read_to_string(path).unwrap());
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
