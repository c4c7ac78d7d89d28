//! What the scheduler does in particular situations.

use warpwright_llm_serving::scheduler::{Draw, Finished, Options, Refused, Scheduler};
use warpwright_llm_step::{Capacity, Token};

use super::alone::{Wanted, alone};
use super::harness::{CAPACITY, Harness, request};

fn wanted(prompt: Vec<Token>, max_tokens: u32) -> Wanted {
    Wanted { prompt, max_tokens, min_tokens: 0, stop_tokens: vec![], draw: Draw::greedy(), guided: false }
}

fn counting(from: Token, number: u32) -> Vec<Token> {
    (from..from + number).map(|token| token % CAPACITY.vocabulary).collect()
}

fn cached(harness: &mut Harness, prompt: Vec<Token>) -> u32 {
    let wanted = wanted(prompt, 3);
    let id = harness.add(&wanted);
    harness.run();
    assert_eq!(harness.answers[&id].tokens, alone(harness.capacity, &wanted));
    harness.answers[&id].prompt.as_ref().unwrap().cached
}

#[test]
fn a_repeated_prompt_is_computed_from_its_last_boundary() {
    for stateful in [false, true] {
        let capacity = Capacity { stateful, ..CAPACITY };
        let mut harness = Harness::new(capacity, Options::default(), 2);
        assert_eq!(cached(&mut harness, counting(0, 22)), 0);
        assert_eq!(cached(&mut harness, counting(0, 22)), 20);
        // The last token is always computed.
        assert_eq!(cached(&mut harness, counting(0, 20)), if stateful { 0 } else { 16 });
        assert_eq!(cached(&mut harness, counting(0, 20)), 16);
    }
}

#[test]
fn a_shared_beginning_is_snapshotted_where_prompts_diverge() {
    let mut harness = Harness::new(CAPACITY, Options::default(), 2);
    let prompt = |own: Token| [counting(0, 18), counting(own, 10)].concat();
    let found: Vec<u32> = [30, 40, 50].map(|own| cached(&mut harness, prompt(own))).to_vec();
    // The second prompt shows where the first diverges; the third starts there.
    assert_eq!(found, [0, 0, 16]);
}

#[test]
fn equal_prompts_at_once_are_computed_once() {
    for (stateful, prompt_tokens) in [(false, 64), (true, 64), (false, 10), (true, 10)] {
        let capacity = Capacity { stateful, ..CAPACITY };
        let mut harness = Harness::new(capacity, Options { prompt_tokens, ..Options::default() }, 2);
        let prompt = [wanted(counting(0, 42), 1), wanted(counting(0, 42), 2), wanted(counting(0, 42), 1)];
        let ids = [0, 1, 2].map(|i| harness.add(&prompt[i]));
        harness.run();
        let cached = ids.map(|id| harness.answers[&id].prompt.as_ref().unwrap().cached);
        assert_eq!(cached, [0, 40, 40], "stateful: {stateful}, {prompt_tokens} prompt tokens in a step");
        for (id, wanted) in ids.iter().zip(&prompt) {
            assert_eq!(harness.answers[id].tokens, alone(capacity, wanted));
        }
    }
}

#[test]
fn caching_can_be_switched_off() {
    let options = Options { prefix_caching: false, ..Options::default() };
    let mut harness = Harness::new(CAPACITY, options, 2);
    assert_eq!([0, 0].map(|from| cached(&mut harness, counting(from, 22))), [0, 0]);
    assert_eq!(harness.scheduler.usage().used_pages, 0);
}

#[test]
fn old_sequences_keep_their_pages_and_end_first() {
    // Room for two of four sequences at their full length.
    let capacity = Capacity { pages: 25, ..CAPACITY };
    let mut harness = Harness::new(capacity, Options::default(), 2);
    let requests: Vec<Wanted> = (0..4).map(|i| wanted(counting(i * 11, 9), 40)).collect();
    let ids: Vec<_> = requests.iter().map(|wanted| harness.add(wanted)).collect();
    harness.run();
    let steps: Vec<u64> = ids.iter().map(|id| harness.answers[id].step).collect();
    assert!(harness.scheduler.counts().preemptions > 0, "memory was not short");
    assert!(steps.is_sorted(), "{steps:?}");
    for (id, wanted) in ids.iter().zip(&requests) {
        assert_eq!(harness.answers[id].tokens, alone(capacity, wanted));
    }
}

#[test]
fn a_long_prompt_delays_no_running_sequence() {
    let options = Options { prompt_tokens: 8, ..Options::default() };
    let mut harness = Harness::new(CAPACITY, options, 1);
    let short = harness.add(&wanted(counting(0, 4), 30));
    harness.turn();
    harness.add(&wanted(counting(5, 100), 1));
    for turn in 0..12 {
        let before = harness.answers[&short].tokens.len();
        harness.turn();
        assert_eq!(harness.answers[&short].tokens.len(), before + 1, "turn {turn}");
    }
}

#[test]
fn a_short_prompt_does_not_wait_for_a_long_one() {
    let options = Options { prompt_tokens: 8, ..Options::default() };
    let mut harness = Harness::new(CAPACITY, options, 1);
    let long = harness.add(&wanted(counting(0, 100), 1));
    harness.turn();
    let short = harness.add(&wanted(counting(30, 4), 1));
    harness.turn();
    assert_eq!(harness.answers[&short].tokens.len(), 1);
    // However many short ones come, the long one has half of each step.
    let others: Vec<_> = (0..40).map(|from| harness.add(&wanted(counting(from, 7), 1))).collect();
    harness.run();
    let (long, last) = (&harness.answers[&long], &harness.answers[&others[39]]);
    assert!(long.step <= 25 && last.step > long.step, "{} and {}", long.step, last.step);
}

#[test]
fn steps_of_many_answers_have_more_tokens_of_prompts() {
    let options = Options { prompt_tokens: 2, prompt_tokens_per_answer: 3, ..Options::default() };
    let mut harness = Harness::new(CAPACITY, options, 1);
    for from in 0..4 {
        harness.add(&wanted(counting(from, 2), 60));
    }
    for _ in 0..4 {
        harness.turn();
    }
    harness.add(&wanted(counting(9, 100), 1));
    let before = harness.scheduler.counts().step_tokens;
    harness.turn();
    assert_eq!(harness.scheduler.counts().step_tokens - before, 4 + 2 + 4 * 3);
}

#[test]
fn a_step_can_be_planned_before_the_last_is_read() {
    let mut harness = Harness::new(CAPACITY, Options::default(), 2);
    harness.add(&wanted(counting(0, 4), 10));
    harness.turn();
    harness.turn();
    assert_eq!(harness.scheduler.steps_in_flight(), 1);
    let steps = harness.scheduler.counts().steps;
    harness.run();
    assert_eq!((steps, harness.scheduler.counts().steps), (2, 10), "no step is wasted");
}

#[test]
fn stop_tokens_and_lengths_end_sequences() {
    let full = alone(CAPACITY, &wanted(counting(0, 5), 20));
    let stop = full[6];
    let first = full.iter().position(|token| *token == stop).unwrap();
    let mut harness = Harness::new(CAPACITY, Options::default(), 2);
    let stopped = harness.add(&Wanted { stop_tokens: vec![stop], ..wanted(counting(0, 5), 20) });
    let long = harness.add(&wanted(counting(0, 5), 20));
    let context = harness.add(&wanted(counting(0, 120), 20));
    harness.run();
    assert_eq!(harness.answers[&stopped].finished, Some(Finished::Stop(stop)));
    assert_eq!(harness.answers[&stopped].tokens, full[..=first]);
    assert_eq!(harness.answers[&long].finished, Some(Finished::Length));
    assert_eq!(harness.answers[&context].tokens.len(), 8, "the context ends the answer");
}

#[test]
fn a_prompt_is_scored_once_in_chunks_and_after_preemption() {
    let options = Options { prompt_tokens: 7, ..Options::default() };
    let mut harness = Harness::new(Capacity { pages: 25, ..CAPACITY }, options, 2);
    let mut scored = request(&wanted(counting(3, 41), 0), CAPACITY.vocabulary);
    scored.prompt_log_probabilities = Some(2);
    harness.add(&wanted(counting(0, 30), 40));
    let id = harness.scheduler.add(scored).unwrap();
    harness.answers.insert(id, Default::default());
    harness.run();
    let answer = &harness.answers[&id];
    let scored = &answer.prompt.as_ref().unwrap().log_probabilities;
    assert_eq!(scored.iter().map(|scored| scored.token).collect::<Vec<_>>(), counting(4, 40));
    assert!(scored.iter().all(|scored| scored.top.len() == 2 && scored.log_probability < 0.0));
    assert!(answer.tokens.is_empty() && answer.finished == Some(Finished::Length));
}

#[test]
fn requests_that_cannot_run_are_refused() {
    let mut scheduler = Scheduler::new(CAPACITY, Options::default());
    let mut add = |wanted: &Wanted| scheduler.add(request(wanted, CAPACITY.vocabulary)).unwrap_err();
    assert_eq!(add(&wanted(vec![], 1)), Refused::EmptyPrompt);
    assert_eq!(add(&wanted(counting(0, 128), 1)), Refused::TooLong { prompt: 128, context: 128 });
    assert_eq!(add(&wanted(vec![60], 1)), Refused::NoSuchToken { token: 60, vocabulary: 60 });
}
