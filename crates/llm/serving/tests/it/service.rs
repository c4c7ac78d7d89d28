//! The thread: many tasks, cancellation, overload and failure.

use std::time::Duration;

use warpwright_llm_serving::scheduler::{Options, Refused};
use warpwright_llm_serving::service::{Generation, Service, SubmitError};
use warpwright_llm_serving::trace::{Cost, Trace};
use warpwright_llm_step::toy::Toy;
use warpwright_llm_step::{Step, Token};

use crate::scheduler::alone::{Wanted, alone};
use crate::scheduler::harness::{CAPACITY, request};

fn wanted(seed: Token, max_tokens: u32) -> Wanted {
    Wanted {
        prompt: (0..9).map(|i| (i * seed + seed) % CAPACITY.vocabulary).collect(),
        max_tokens,
        min_tokens: 0,
        stop_tokens: vec![],
        draw: warpwright_llm_serving::scheduler::Draw::greedy(),
        guided: false,
    }
}

async fn tokens(mut generation: Generation) -> Vec<Token> {
    let mut tokens = Vec::new();
    while let Some(update) = generation.next().await {
        tokens.extend(update.unwrap().tokens.iter().map(|sampled| sampled.token));
    }
    tokens
}

fn submit(service: &Service, wanted: &Wanted) -> Result<Generation, SubmitError> {
    service.submit(request(wanted, CAPACITY.vocabulary))
}

#[test]
fn a_step_without_end_does_not_hold_up_the_end() {
    let toy = Toy::new(CAPACITY).step_time(Duration::from_secs(100_000));
    let service = Service::start(Box::new(toy), Options::default(), 100);
    let _generation = submit(&service, &wanted(1, 30)).unwrap();
    service.stop(Duration::from_millis(20));
}

#[tokio::test]
async fn tasks_get_the_answers_that_they_get_alone() {
    let service = Service::start(Box::new(Toy::new(CAPACITY)), Options::default(), 100);
    let requests: Vec<Wanted> = (1..20).map(|seed| wanted(seed, 30)).collect();
    let generations: Vec<Generation> =
        requests.iter().map(|wanted| submit(&service, wanted).unwrap()).collect();
    for (wanted, generation) in requests.iter().zip(generations) {
        assert_eq!(tokens(generation).await, alone(CAPACITY, wanted));
    }
    assert_eq!(service.requests(), 0);
}

#[tokio::test]
async fn a_dropped_generation_frees_its_pages() {
    let toy = Toy::new(CAPACITY).step_time(Duration::from_millis(2));
    let service = Service::start(Box::new(toy), Options { prefix_caching: false, ..Options::default() }, 100);
    let mut generation = submit(&service, &wanted(3, 100)).unwrap();
    generation.next().await.unwrap().unwrap();
    assert!(service.status().usage.used_pages > 0);
    drop(generation);
    for _ in 0..200 {
        if service.status().usage.used_pages == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("still in use: {:?}", service.status());
}

#[tokio::test]
async fn too_many_requests_are_refused() {
    let toy = Toy::new(CAPACITY).step_time(Duration::from_millis(2));
    let service = Service::start(Box::new(toy), Options::default(), 2);
    let kept: Vec<Generation> = (1..3).map(|seed| submit(&service, &wanted(seed, 50)).unwrap()).collect();
    assert_eq!(submit(&service, &wanted(5, 5)).unwrap_err(), SubmitError::Overloaded { requests: 2 });
    drop(kept);
    assert_eq!(tokens(submit(&service, &wanted(5, 5)).unwrap()).await, alone(CAPACITY, &wanted(5, 5)));
    let empty = Wanted { prompt: vec![], ..wanted(1, 1) };
    assert_eq!(submit(&service, &empty).unwrap_err(), SubmitError::Refused(Refused::EmptyPrompt));
}

#[tokio::test]
async fn a_failed_step_fails_what_runs_and_what_comes() {
    let service = Service::start(Box::new(Toy::new(CAPACITY).fails_at(3)), Options::default(), 10);
    let mut generation = submit(&service, &wanted(3, 100)).unwrap();
    let error = loop {
        match generation.next().await {
            Some(Err(error)) => break error,
            Some(Ok(_)) => {}
            None => panic!("the generation ended"),
        }
    };
    let message = "The engine stopped: the toy was built to fail at this step.";
    assert_eq!(error.to_string(), message);
    assert_eq!(submit(&service, &wanted(3, 1)).unwrap_err().to_string(), message);
}

/// Waits for the error of a generation.
async fn failure(mut generation: Generation) -> String {
    loop {
        match generation.next().await {
            Some(Err(error)) => {
                assert!(generation.next().await.is_none(), "nothing follows an error");
                return error.to_string();
            }
            Some(Ok(_)) => {}
            None => panic!("the generation ended"),
        }
    }
}

/// A sequence whose chunk fails gets an error; the others of its step, and those that come, get their answers.
#[tokio::test]
async fn a_sequence_that_fails_fails_alone() {
    let toy = Toy::new(CAPACITY).fails_chunk_of(7);
    let service = Service::start(Box::new(toy), Options::default(), 100);
    for _ in 0..3 {
        let before = submit(&service, &wanted(3, 30)).unwrap();
        let fails = submit(&service, &Wanted { prompt: vec![1, 7, 2], ..wanted(3, 30) }).unwrap();
        let after = submit(&service, &wanted(9, 30)).unwrap();
        assert_eq!(failure(fails).await, "The answer cannot be computed: the toy was built to.");
        assert_eq!(tokens(before).await, alone(CAPACITY, &wanted(3, 30)));
        assert_eq!(tokens(after).await, alone(CAPACITY, &wanted(9, 30)));
    }
    assert_eq!(service.failed(), None);
    assert_eq!(service.requests(), 0);
}

/// A step that fails ends its sequences, and the engine goes on without their state.
#[tokio::test]
async fn a_step_that_fails_does_not_stop_the_engine() {
    let toy = Toy::new(CAPACITY).fails_step_of(7);
    let service = Service::start(Box::new(toy), Options::default(), 100);
    for _ in 0..3 {
        assert_eq!(tokens(submit(&service, &wanted(3, 30)).unwrap()).await, alone(CAPACITY, &wanted(3, 30)));
        let fails = submit(&service, &Wanted { prompt: vec![1, 7, 2], ..wanted(3, 30) }).unwrap();
        let message = "The answer cannot be computed: the toy was built to fail at this token.";
        assert_eq!(failure(fails).await, message);
        // The prefix of the first answer is computed again.
        let waits: Vec<Generation> = (0..9).map(|_| submit(&service, &wanted(3, 30)).unwrap()).collect();
        for generation in waits {
            assert_eq!(tokens(generation).await, alone(CAPACITY, &wanted(3, 30)));
        }
    }
    assert_eq!(service.failed(), None);
    assert_eq!(service.requests(), 0);
}

#[tokio::test]
async fn a_trace_has_each_request_and_each_step() {
    let path = std::env::temp_dir().join(format!("warpwright-trace-{}.json", std::process::id()));
    let cost = |step: &Step| Some(Cost { launches: 7, bytes: 1000 * step.chunks.len() as u64 });
    let mut trace = Trace::create(&path).unwrap().with_costs(cost);
    trace.describe("kernels", &serde_json::json!({ "a": 7 }));
    let service = Service::traced(Box::new(Toy::new(CAPACITY)), Options::default(), 9, Some(trace));
    let requests = [wanted(3, 6), wanted(5, 6)];
    let generations: Vec<Generation> =
        requests.iter().map(|wanted| submit(&service, wanted).unwrap()).collect();
    for generation in generations {
        tokens(generation).await;
    }
    let steps = service.status().counts.steps;
    service.stop(Duration::MAX);
    let message = "The engine stopped: its thread has ended.";
    assert_eq!(submit(&service, &wanted(3, 1)).unwrap_err().to_string(), message);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let count = |phase: &str, name: &str| {
        events.iter().filter(|event| event["ph"] == phase && event["name"] == name).count()
    };
    for (phase, name, expected) in [
        ("b", "request", 2),
        ("n", "first token", 2),
        ("e", "request", 2),
        ("i", "kernels", 1),
        ("X", "step", steps as usize),
    ] {
        assert_eq!(count(phase, name), expected, "{phase} {name}");
    }
    // Steps follow each other on their track.
    let mut end = 0.0;
    for step in events.iter().filter(|event| event["name"] == "step") {
        let (begin, time) = (step["ts"].as_f64().unwrap(), step["dur"].as_f64().unwrap());
        let args = &step["args"];
        assert!(begin >= end - 0.01 && time >= 0.0 && args["tokens"].as_u64().unwrap() > 0);
        assert_eq!(args["bytes"].as_u64(), args["sequences"].as_u64().map(|sequences| 1000 * sequences));
        assert!(args["launches"] == 7 && args["TB/s"].as_f64().unwrap() > 0.0, "{args}");
        end = begin + time;
    }
}
