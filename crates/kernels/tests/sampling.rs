//! Sampling: the tokens of the reference, exactly, by every filter and path of the kernel.

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sampling::{NO_TOKEN, SamplingBuffers, SamplingParameters, reference};

use crate::SUITE;
use crate::emulated::hopper;
use crate::walk::{on_emulators, run};

/// Filters, alone and together: few candidates that are sorted, and many that are searched.
const FILTERS: &[&str] = &[
    "--temperature 0",
    "--top-k 0 --top-p 1",
    "--top-k 7 --top-p 1",
    "--top-k 0 --top-p 0.3",
    "--top-k 0 --top-p 0 --min-p 0.1",
    "--top-k 0 --top-p 1 --min-p 0.2 --temperature 2.5",
    "--top-k 0 --top-p 0.9 --temperature 0.2",
    "--top-k 0 --top-p 1 --min-p 0.05 --temperature 0.2",
    "--top-k 20 --top-p 0.5 --min-p 0.01 --temperature 0.7 --history 9 --log-probabilities true",
];

#[test]
fn every_filter_is_exact_at_every_length() {
    let mut commands = Vec::new();
    for vocabulary in [1, 31, 32, 33, 1000] {
        for filters in FILTERS {
            commands.push(format!("sampling --vocabulary {vocabulary} {filters}"));
        }
    }
    // Several tiles of a row that is streamed; without a history.
    for filters in &FILTERS[..FILTERS.len() - 1] {
        for options in ["--vocabulary 9000", "--vocabulary 2051 --type bf16"] {
            commands.push(format!("sampling --streamed true --threads 64 {options} {filters}"));
        }
    }
    let device = hopper(Schedule::Random(7)).expect("an emulated device");
    commands.iter().for_each(|command| run(&SUITE, &device, command));
}

/// Clusters, a row that shared memory does not hold on an A100, and types.
#[test]
fn every_path_is_exact_and_checks_clean() {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(5)] {
        let device = hopper(schedule).and_then(Device::checked).expect("an emulated device");
        for command in [
            "sampling --rows 2 --vocabulary 1500 --ctas 3 --threads 64 --history 20 --log-probabilities true",
            "sampling --rows 1 --vocabulary 1501 --ctas 4 --threads 64 --top-k 0 --type bf16",
            "sampling --rows 1 --vocabulary 1500 --ctas 2 --threads 64 --top-k 300 --top-p 0.8 --type f16",
            "sampling --rows 2 --vocabulary 600 --ctas 2 --threads 64 --temperature 0 --type bf16",
            "sampling --rows 2 --vocabulary 5000 --streamed true --threads 64 --log-probabilities true",
            "sampling --rows 1 --vocabulary 5008 --streamed true --threads 64 --top-k 0 --type f16",
            "sampling --rows 2 --vocabulary 5001 --streamed true --threads 96 --top-k 0 --temperature 0.2",
            "sampling --rows 1 --vocabulary 5004 --streamed true --threads 64 --top-k 0 --top-p 1 --type bf16",
            "sampling --rows 1 --vocabulary 4100 --ctas 4 --threads 64 --top-k 0 --top-p 1",
            "sampling --rows 1 --vocabulary 4099 --ctas 2 --threads 96 --top-k 0 --temperature 0.05 --type bf16",
        ] {
            run(&SUITE, &device, command);
        }
    }
    on_emulators(
        &SUITE,
        &[
            "sampling --rows 1 --vocabulary 40000 --history 5 --log-probabilities true",
            "sampling --rows 3 --vocabulary 40001 --top-k 0 --top-p 0.9",
        ],
    );
}

#[test]
fn a_whole_vocabulary_is_exact() {
    let device = hopper(Schedule::Latest).expect("an emulated device");
    run(&SUITE, &device, "sampling --rows 1 --vocabulary 151936 --type bf16");
}

/// The tokens of rows of logits, all with the same length.
fn tokens(rows: &[(Vec<f32>, SamplingParameters)]) -> (Vec<u32>, Vec<f32>) {
    let device = hopper(Schedule::Latest).expect("an emulated device");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    let vocabulary = rows[0].0.len() as u32;
    let logits: Vec<f32> = rows.iter().flat_map(|(logits, _)| logits.clone()).collect();
    let words: Vec<u32> = rows.iter().flat_map(|(_, parameters)| parameters.words()).collect();
    let mut tokens = device.uninitialized(rows.len()).expect("it fits");
    let mut log_probabilities = device.uninitialized(rows.len()).expect("it fits");
    let buffers = SamplingBuffers {
        logits: &device.buffer_from(&logits).expect("it fits"),
        parameters: &device.buffer_from(&words).expect("it fits"),
        history: None,
        tokens: &mut tokens,
        log_probabilities: Some(&mut log_probabilities),
    };
    let shape = (rows.len() as u32, vocabulary);
    operations.sample(&stream, shape, buffers).unwrap_or_else(|error| panic!("{error}"));
    (tokens.to_vec().expect("readable"), log_probabilities.to_vec().expect("readable"))
}

#[test]
fn special_logits_are_defined() {
    const INFINITY: f32 = f32::INFINITY;
    let sampled = SamplingParameters::default();
    let greedy = SamplingParameters { temperature: 0.0, ..sampled };
    let cold = SamplingParameters { temperature: f32::MIN_POSITIVE / 4.0, ..sampled };
    let top_2 = SamplingParameters { top_k: 2, ..sampled };
    let nucleus = SamplingParameters { top_p: 0.9, ..sampled };
    let likely = SamplingParameters { min_p: 0.5, ..sampled };
    let cases: &[([f32; 5], SamplingParameters, u32)] = &[
        ([1.0, f32::NAN, 2.0, 0.0, 0.0], sampled, NO_TOKEN),
        ([1.0, -f32::NAN, INFINITY, 0.0, 0.0], greedy, NO_TOKEN),
        ([-INFINITY; 5], sampled, NO_TOKEN),
        ([-INFINITY; 5], greedy, NO_TOKEN),
        ([-INFINITY, -INFINITY, -3e38, -INFINITY, -INFINITY], top_2, 2),
        ([0.0, INFINITY, 3e38, -INFINITY, -3e38], sampled, 1),
        ([3.0, 5.0, 5.0, 5.0, 1.0], greedy, 1),
        ([-0.0, 0.0, -0.0, -1.0, -2.0], greedy, 0),
        ([0.0, 1e-30, 0.0, -1.0, -2.0], cold, 1),
        ([1.0, f32::NAN, 2.0, 0.0, 0.0], nucleus, NO_TOKEN),
        ([-INFINITY; 5], nucleus, NO_TOKEN),
        ([0.0, INFINITY, 3e38, -INFINITY, -3e38], nucleus, 1),
        ([-INFINITY, -INFINITY, -3e38, -INFINITY, -INFINITY], nucleus, 2),
        ([-INFINITY, -INFINITY, -3e38, -INFINITY, -INFINITY], sampled, 2),
        ([0.0, 1.0, 3e38, -INFINITY, -3e38], likely, 2),
    ];
    // A few rows are stored; many long ones are streamed.
    for (count, vocabulary) in [(cases.len(), 5), (64, 1 << 15)] {
        let row = |logits: &[f32; 5], parameters| {
            let mut logits = logits.to_vec();
            logits.resize(vocabulary, -INFINITY);
            (logits, parameters)
        };
        let mut rows: Vec<_> = cases.iter().map(|(logits, parameters, _)| row(logits, *parameters)).collect();
        rows.resize(count, row(&[-INFINITY; 5], greedy));
        let (found, log_probabilities) = tokens(&rows);
        for (number, (logits, parameters, expected)) in cases.iter().enumerate() {
            let (token, logarithm) = reference::sample(&rows[number].0, parameters, &[]);
            assert_eq!((found[number], token), (*expected, *expected), "{logits:?}");
            let given = log_probabilities[number];
            let is_near = (f64::from(given) - logarithm).abs() < 1e-5;
            assert!(is_near || logarithm.is_nan() && given.is_nan(), "{logits:?}");
        }
    }
}

/// Without filters, a segment and a token of it are drawn by two numbers.
#[test]
fn draws_of_segments_have_the_probabilities() {
    const DRAWS: u64 = 20_000;
    // The first and last tokens of four segments, the last of which is short.
    let mut logits = vec![f32::NEG_INFINITY; 1000];
    let tokens = [0, 255, 256, 511, 512, 767, 768, 999];
    for (number, token) in tokens.into_iter().enumerate() {
        logits[token] = number as f32 * 0.5;
    }
    let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
    let mut statistic = 0.0;
    let drawn: Vec<u32> = (0..DRAWS)
        .map(|position| {
            let parameters = SamplingParameters { seed: 7, position, ..Default::default() };
            reference::sample(&logits, &parameters, &[]).0
        })
        .collect();
    for token in tokens {
        let expected = f64::from(logits[token]).exp() / sum * DRAWS as f64;
        let count = drawn.iter().filter(|drawn| **drawn as usize == token).count();
        statistic += (count as f64 - expected).powi(2) / expected;
    }
    assert!(statistic < 24.32, "{statistic} of 7 degrees of freedom");
}

/// More equal logits than there is room for candidates, in rows that are streamed.
#[test]
fn the_lowest_of_equal_logits_is_greedy() {
    let greedy = SamplingParameters { temperature: 0.0, ..Default::default() };
    let mut rows = vec![(vec![0f32; 1 << 15], greedy); 64];
    rows[1].0[..5].fill(-1.0);
    let (found, _) = tokens(&rows);
    assert_eq!(found[..3], [0, 5, 0]);
}

/// Rows of equal logits, which are streamed: filters keep them together.
#[test]
fn equal_logits_are_all_drawn() {
    let of = |position| {
        let filters = [(0, 1.0, 0.0), (0, 0.5, 0.0), (7, 0.5, 0.0), (0, 1.0, 0.5)];
        let (top_k, top_p, min_p) = filters[position as usize % filters.len()];
        SamplingParameters { top_k, top_p, min_p, position, ..Default::default() }
    };
    let rows: Vec<_> = (0..32).map(|position| (vec![1f32; 1 << 15], of(position))).collect();
    let expected: Vec<u32> =
        rows.iter().map(|(x, parameters)| reference::sample(x, parameters, &[]).0).collect();
    assert_eq!(tokens(&rows).0, expected);
}

/// Logits that are equal are kept together: of 3, 2, 2, 2, 1 top-k of 2 keeps four.
#[test]
fn ties_are_kept_together() {
    let logits = vec![2.0, 1.0, 2.0, 3.0, 2.0];
    let of = |position| SamplingParameters { top_k: 2, temperature: 4.0, position, ..Default::default() };
    let rows: Vec<_> = (0..64).map(|position| (logits.clone(), of(position))).collect();
    let (found, _) = tokens(&rows);
    let expected: Vec<u32> =
        rows.iter().map(|(x, parameters)| reference::sample(x, parameters, &[]).0).collect();
    assert_eq!(found, expected);
    for token in [0, 2, 3, 4] {
        assert!(found.contains(&token), "{token} is never drawn");
    }
    assert!(!found.contains(&1));
}

/// The chi-square statistic of 20,000 draws against the probabilities: below the 0.999 quantile.
#[test]
fn draws_have_the_probabilities() {
    const DRAWS: u64 = 20_000;
    let logits: Vec<f32> = (0..12).map(|token| (token * 5 % 12) as f32 * 0.3).collect();
    let sum: f64 = logits.iter().map(|logit| f64::from(logit / 1.5).exp()).sum();
    let mut counts = [0u32; 12];
    for position in 0..DRAWS {
        let parameters = SamplingParameters { temperature: 1.5, seed: 42, position, ..Default::default() };
        counts[reference::sample(&logits, &parameters, &[]).0 as usize] += 1;
    }
    let statistic: f64 = logits
        .iter()
        .zip(counts)
        .map(|(logit, count)| {
            let expected = f64::from(logit / 1.5).exp() / sum * DRAWS as f64;
            (f64::from(count) - expected).powi(2) / expected
        })
        .sum();
    assert!(statistic < 31.26, "{statistic} of 11 degrees of freedom: {counts:?}");
}

/// Philox4x32-10 of a zero key and counter, as its authors publish it.
#[test]
fn random_bits_are_those_of_philox() {
    let expected = [0xe169_c58d_6627_e8d5, 0x9b00_dbd8_bc57_ac4c];
    assert_eq!(reference::random_bits(0, 0), expected);
}
