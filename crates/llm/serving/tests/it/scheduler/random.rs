//! Random work in little memory: every answer is the one given alone, and nothing leaks.

use proptest::prelude::*;
use warpwright_llm_serving::scheduler::{Draw, Options};
use warpwright_llm_step::{Capacity, Token};

use super::alone::{Wanted, alone};
use super::harness::Harness;

const VOCABULARY: u32 = 40;

/// Prompts share beginnings, as conversations do.
fn prompt() -> impl Strategy<Value = Vec<Token>> {
    let system: Vec<Token> = (0..30).map(|i| i * 7 % VOCABULARY).collect();
    (0usize..30, prop::collection::vec(0..3u32, 1..12))
        .prop_map(move |(shared, own)| system[..shared].iter().copied().chain(own).collect())
}

fn draw() -> impl Strategy<Value = Draw> {
    prop_oneof![
        3 => Just(Draw::greedy()),
        1 => (any::<u64>(), 0..4u32).prop_map(|(seed, top_k)| Draw { temperature: 1.5, seed, top_k, ..Draw::greedy() }),
        1 => (0..4u32).prop_map(|i| Draw {
            presence_penalty: 0.5 * i as f32,
            frequency_penalty: 0.3,
            repetition_penalty: 1.2,
            logit_bias: vec![(i, 2.0), (i + 9, f32::NEG_INFINITY)],
            ..Draw::greedy()
        }),
    ]
}

prop_compose! {
    fn wanted()(
        prompt in prompt(),
        max_tokens in 1..25u32,
        min_tokens in 0..4u32,
        stop_tokens in prop::collection::vec(0..VOCABULARY, 0..3),
        draw in draw(),
        guided in prop::bool::weighted(0.2),
    ) -> Wanted {
        Wanted { prompt, max_tokens, min_tokens, stop_tokens, draw, guided }
    }
}

prop_compose! {
    fn machine()(
        page_tokens in 1..6u32,
        room in 1..4u32,
        slots in 1..8u32,
        stateful in any::<bool>(),
        sequences in 1..6u32,
        tokens in 1..24u32,
        drafts in 0..3u32,
        prefix_caching in prop::bool::weighted(0.8),
        depth in 1..5usize,
    ) -> (Capacity, Options, usize) {
        // The longest sequence fits `room` times.
        let capacity = Capacity {
            page_tokens,
            pages: (70 * room).div_ceil(page_tokens) / 2 + 20,
            slots,
            stateful,
            sequences,
            tokens: tokens + drafts,
            context: 66,
            vocabulary: VOCABULARY,
            drafts,
            top: 5,
        };
        (capacity, Options { prompt_tokens: tokens, prompt_tokens_per_answer: drafts, prefix_caching, drafts }, depth)
    }
}

/// A request, the turn in which it arrives, and the turn after which it is cancelled.
fn arrival() -> impl Strategy<Value = (Wanted, u32, Option<u32>)> {
    (wanted(), 0..40u32, prop::option::weighted(0.2, 0..30u32))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_given_alone(
        (capacity, options, depth) in machine(),
        mut arrivals in prop::collection::vec(arrival(), 1..14),
    ) {
        arrivals.sort_by_key(|(_, at, _)| *at);
        let mut harness = Harness::new(capacity, options, depth);
        let mut added = Vec::new();
        for turn in 0..80 {
            for (wanted, at, cancelled) in &arrivals {
                if *at == turn {
                    added.push((harness.add(wanted), wanted, cancelled.map(|after| at + after)));
                }
            }
            for (id, _, cancelled) in &added {
                if *cancelled == Some(turn) {
                    harness.scheduler.cancel(*id);
                }
            }
            harness.turn();
        }
        harness.run();
        for (id, wanted, cancelled) in added {
            let answer = &harness.answers[&id];
            let expected = alone(capacity, wanted);
            match cancelled {
                None => prop_assert_eq!(&answer.tokens, &expected),
                Some(_) => prop_assert!(expected.starts_with(&answer.tokens)),
            }
            prop_assert!(cancelled.is_some() || answer.finished.is_some());
        }
        let usage = harness.scheduler.usage();
        prop_assert_eq!(usage.used_pages, usage.idle_pages, "pages that no prefix holds");
        prop_assert_eq!((usage.running, usage.waiting), (0, 0));
    }
}
