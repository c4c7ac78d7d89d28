//! Files that are corrupt: each is refused or loaded, by a process of little memory that neither ends nor waits.
//!
//! Mutations change bytes of a header or values of a configuration, or cut a file off.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, DecodePlan};
use warpwright_llm_step::random::Random;

use crate::fixtures::{folder, random};
use crate::gguf::writer::{Meta, convert, gguf, stored};
use crate::gguf::{config, tensors};

/// Files of each kind.
const FILES: u64 = 70;
/// Address space of the process, its program, threads and libraries included.
const KIBIBYTES: u64 = 900_000;
/// Opening a file takes milliseconds; this is for busy machines.
const SECONDS: u64 = 120;

/// Changes some bytes of the first `header`, or cuts the file off.
fn mutated(mut bytes: Vec<u8>, header: usize, random: &mut Random) -> Vec<u8> {
    const WORDS: [u64; 9] = [0, 1, 9, 255, 4_000_000_000, 1 << 32, 1 << 40, u64::MAX / 8, u64::MAX];
    for _ in 0..1 + random.index(3) {
        let at = random.index(header.min(bytes.len()));
        match random.index(6) {
            0 => bytes[at] = random.index(256) as u8,
            1 => bytes[at] ^= 1 << random.index(8),
            2 | 3 => {
                let length = [1, 2, 4, 8][random.index(4)].min(bytes.len() - at);
                let word = WORDS[random.index(WORDS.len())].to_le_bytes();
                bytes[at..at + length].copy_from_slice(&word[..length]);
            }
            4 => drop(bytes.drain(at..(at + random.index(20)).min(bytes.len()))),
            _ => bytes.truncate(if random.index(2) == 0 { at } else { random.index(bytes.len()) }),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// Changes a value of a configuration.
fn misconfigured(mut config: Value, random: &mut Random) -> Value {
    let values = [
        json!(0),
        json!(-1),
        json!(4_000_000_000u32),
        json!(u64::MAX),
        json!(1e308),
        json!(0.1),
        json!("x"),
        json!(null),
        json!([]),
        json!({}),
        json!(true),
        json!(16_777_216),
        json!(4096),
        json!([1, [2, [3]]]),
    ];
    let mut object = &mut config;
    if object["text_config"].is_object() && random.index(5) > 0 {
        object = &mut object["text_config"];
    }
    if object["rope_parameters"].is_object() && random.index(4) == 0 {
        object = &mut object["rope_parameters"];
    }
    let names: Vec<String> = object.as_object().expect("an object").keys().cloned().collect();
    for _ in 0..1 + random.index(2) {
        object[&names[random.index(names.len())]] = values[random.index(values.len())].clone();
    }
    config
}

/// Opens the files of a folder and compares their tensors with the model.
fn open(path: &Path) {
    if let Ok(checkpoint) = Checkpoint::open(path) {
        drop(DecodePlan::new(&checkpoint, DataType::F32, 1, 64));
    }
}

/// The files of GGUF that nobody writes by chance.
fn hostile_gguf() -> Vec<Vec<u8>> {
    let (metadata, all) = convert(&config("qwen2"), tensors("qwen2"));
    let with = |key: &str, value| {
        let mut metadata = metadata.clone();
        metadata.retain(|(name, _)| name != key);
        metadata.push((key.to_owned(), value));
        gguf(&metadata, &all)
    };
    let mut hostile = vec![
        with("qwen2.block_count", Meta::Number(4_000_000_000)),
        with("qwen2.attention.key_length", Meta::Number(4_000_000_000)),
        with("qwen2.attention.head_count", Meta::Number(4_000_000_000)),
        with("qwen2.embedding_length", Meta::Number(16_777_216)),
        with("general.alignment", Meta::Number(u32::MAX)),
        with("general.alignment", Meta::Number(1 << 31)),
        with("qwen2.nextn_predict_layers", Meta::Number(u32::MAX)),
    ];
    let header = |counts: [u64; 2]| {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        counts.iter().for_each(|count| bytes.extend(count.to_le_bytes()));
        bytes
    };
    // Arrays in arrays.
    let mut nested = header([0, 1]);
    nested.extend(1u64.to_le_bytes());
    nested.push(b'a');
    nested.extend(9u32.to_le_bytes());
    for _ in 0..1_000_000 {
        nested.extend(9u32.to_le_bytes());
        nested.extend(1u64.to_le_bytes());
    }
    // An array of as many bytes as the file has, each a value in memory.
    let mut long = header([0, 1]);
    long.extend(1u64.to_le_bytes());
    long.push(b'a');
    long.extend([9u32, 0].into_iter().flat_map(u32::to_le_bytes));
    long.extend(40_000_000u64.to_le_bytes());
    long.resize(long.len() + 40_000_000, 0);
    // Rows that end inside of a block.
    let mut odd = all.clone();
    odd[0].1 = vec![odd[0].1.iter().product::<usize>() / 16, 16];
    odd[0].2 = 8;
    let mut none = all.clone();
    none.push(stored("blk.0.attn_q.weight", &[], &[1.0]));
    hostile.extend([
        nested,
        long,
        gguf(&metadata, &odd),
        gguf(&metadata, &none),
        header([u64::MAX; 2]),
        header([1 << 40, 0]),
    ]);
    hostile
}

/// Opens all files, and says at the end that it is there.
#[test]
#[ignore = "the process that the test below starts"]
fn open_corrupt_files() {
    let (mut numbers, folder_of) = (Random::new(1), tempfile::tempdir().expect("a folder"));
    let path = folder_of.path().join("model.gguf");
    for bytes in hostile_gguf() {
        std::fs::write(&path, bytes).expect("written");
        open(&path);
    }
    for model in ["llama", "qwen3_5"] {
        let (metadata, all) = convert(&config(model), tensors(model));
        let bytes = gguf(&metadata, &all);
        for _ in 0..FILES {
            std::fs::write(&path, mutated(bytes.clone(), 6000, &mut numbers)).expect("written");
            open(&path);
        }
        let saved = tempfile::tempdir().expect("a folder");
        random(&folder(model)).save(saved.path()).expect("written");
        let of = |name: &str| saved.path().join(name);
        let read = |path: PathBuf| std::fs::read(path).expect("a file");
        let (tensors, configuration) = (read(of("model.safetensors")), read(of("config.json")));
        for _ in 0..FILES {
            let changed = mutated(tensors.clone(), 4000, &mut numbers);
            std::fs::write(of("model.safetensors"), changed).expect("written");
            open(saved.path());
        }
        std::fs::write(of("model.safetensors"), &tensors).expect("written");
        let parsed: Value = serde_json::from_slice(&configuration).expect("JSON");
        for round in 0..FILES {
            let changed = match round % 3 {
                0 => mutated(configuration.clone(), usize::MAX, &mut numbers),
                _ => misconfigured(parsed.clone(), &mut numbers).to_string().into_bytes(),
            };
            std::fs::write(of("config.json"), changed).expect("written");
            open(saved.path());
        }
        std::fs::write(of("config.json"), "[".repeat(1_000_000)).expect("written");
        open(saved.path());
    }
    println!("all files are read");
}

#[test]
#[cfg(target_os = "linux")]
fn corrupt_files_take_no_memory_and_end_no_process() {
    let test = std::env::current_exe().expect("the path of this program");
    let limited = format!(
        "ulimit -v {KIBIBYTES}; exec \"$0\" corrupt::open_corrupt_files --exact --ignored --nocapture"
    );
    let output = Command::new("timeout")
        .args([&SECONDS.to_string(), "sh", "-c", &limited])
        .arg(test)
        .env("RAYON_NUM_THREADS", "2")
        .env("MALLOC_ARENA_MAX", "2")
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("all files are read"),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Nobody writes to these pipes, so that a program which opens one waits for ever.
#[test]
#[cfg(unix)]
fn pipes_are_refused_in_the_place_of_files() {
    for name in ["config.json", "model.safetensors", "tokenizer.json", "model.gguf"] {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("it starts").success());
        for path in [folder.path(), pipe.as_path()] {
            for refused in [Checkpoint::open(path), Checkpoint::random(path, 1)] {
                let Err(error) = refused else { panic!("{} is a pipe", path.display()) };
                let error = error.to_string();
                assert!(error.contains("it is a pipe, a socket or a device"), "{error}");
            }
        }
    }
}
