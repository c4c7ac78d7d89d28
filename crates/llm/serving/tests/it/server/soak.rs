//! Minutes of everything at once: answers that are compared with those alone, clients that leave,
//! bodies that are wrong, and more requests than fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use warpwright_llm_serving::scheduler::{Draw, Options};
use warpwright_llm_serving::server::Limits;
use warpwright_llm_serving::service::Service;
use warpwright_llm_step::random::Random;
use warpwright_llm_step::toy::Toy;
use warpwright_llm_step::{Capacity, Token};

use super::client::{Client, events, expected_of, greedy, joined};
use super::loopback::Loopback;
use crate::model::CAPACITY;
use crate::scheduler::alone::Wanted;

/// Little memory, so that sequences lose their pages and prefixes are evicted.
const SMALL: Capacity =
    Capacity { pages: 36, slots: 14, sequences: 10, tokens: 96, context: 512, drafts: 2, ..CAPACITY };
const CLIENTS: u64 = 32;
/// Fewer than the clients can have.
const MOST_REQUESTS: usize = 24;

/// What happened.
#[derive(Default)]
struct Tally {
    answers: AtomicU64,
    streams: AtomicU64,
    tokens: AtomicU64,
    refused: AtomicU64,
    wrong: AtomicU64,
    left: AtomicU64,
    garbage: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A request, and what the model answers to it alone.
fn request(random: &mut Random) -> (Value, Vec<Wanted>) {
    // Prompts that share beginnings, of up to 230 tokens.
    let family = random.below(4) as Token;
    let length = 1 + random.below(230) as Token;
    let own = random.below(3) as Token;
    let prompt: Vec<Token> = (0..length)
        .map(|at| if at < 150 { (at * (family + 3)) % 250 } else { (at * (own + 7)) % 250 })
        .collect();
    let max_tokens = 1 + random.below(70) as u32;
    let seed = random.below(1 << 40);
    let mut body =
        json!({ "prompt": prompt, "max_tokens": max_tokens, "seed": seed, "return_token_ids": true });
    let mut wanted = Wanted { prompt, ..greedy("", max_tokens) };
    wanted.draw = Draw { temperature: 1.0, seed, ..Draw::greedy() };
    match random.below(8) {
        0 => {
            body["temperature"] = 0.into();
            wanted.draw.temperature = 0.0;
        }
        1 => {
            body["frequency_penalty"] = 1.5.into();
            wanted.draw.frequency_penalty = 1.5;
        }
        2 => {
            body["logit_bias"] = json!({ "65": 4.0, "302": -100 });
            wanted.draw.logit_bias = vec![(65, 4.0), (302, -100.0)];
        }
        3 => {
            body["ignore_eos"] = true.into();
            wanted.stop_tokens = vec![];
        }
        4 => {
            (body["top_k"], body["min_p"]) = (20.into(), 0.25.into());
            (wanted.draw.top_k, wanted.draw.min_p) = (20, 0.25);
        }
        _ => {}
    }
    let n = if random.below(6) == 0 { 2 + random.below(2) } else { 1 };
    body["n"] = n.into();
    let choice = |index| {
        let mut wanted = wanted.clone();
        wanted.draw.seed += index;
        wanted
    };
    (body, (0..n).map(choice).collect())
}

struct Soak {
    server: Loopback,
    tally: Tally,
    /// The end.
    deadline: Instant,
}

impl Soak {
    /// A refusal is an error object. Returns whether this is one.
    fn is_refusal(&self, status: u16, text: &str) -> bool {
        if status != 429 {
            return false;
        }
        let error: Value = serde_json::from_str(text).unwrap();
        assert_eq!(error["error"]["code"], "overloaded");
        count(&self.tally.refused);
        true
    }

    /// Compares an answer with that of the model alone.
    async fn answer(&self, random: &mut Random) {
        let (mut body, wanted) = request(random);
        let streams = random.below(2) == 0;
        body["stream"] = streams.into();
        let (status, text) = self.server.post("/v1/completions", &body.to_string()).await.unwrap();
        if self.is_refusal(status, &text) {
            return;
        }
        assert_eq!(status, 200, "{text}");
        let objects = if streams { events(&text) } else { vec![serde_json::from_str(&text).unwrap()] };
        assert!(!streams || objects.last().is_some_and(|last| last == "[DONE]"), "{text}");
        for (index, wanted) in wanted.iter().enumerate() {
            let (tokens, expected) = expected_of(SMALL, wanted);
            assert_eq!(joined(&objects, index, "/text"), expected, "{body}");
            let choices =
                objects.iter().flat_map(|object| object["choices"].as_array().into_iter().flatten());
            let own = choices.filter(|choice| choice["index"] == index);
            let ids: Vec<&Value> = own.flat_map(|choice| choice["token_ids"].as_array().unwrap()).collect();
            assert_eq!(json!(ids), json!(tokens), "{body}");
            self.tally.tokens.fetch_add(tokens.len() as u64, Ordering::Relaxed);
        }
        count(if streams { &self.tally.streams } else { &self.tally.answers });
    }

    /// A conversation whose answer a grammar restricts.
    async fn choose(&self) {
        let body = json!({ "messages": [{ "role": "user", "content": "the" }],
            "structured_outputs": { "choice": ["yes", "no"] } });
        let (status, text) = self.server.post("/v1/chat/completions", &body.to_string()).await.unwrap();
        if !self.is_refusal(status, &text) {
            let answer: Value = serde_json::from_str(&text).unwrap();
            let content = &answer["choices"][0]["message"]["content"];
            assert!(content == "yes" || content == "no", "{text}");
            count(&self.tally.answers);
        }
    }

    /// A client that leaves before its answer is complete, or even its body.
    async fn leave(&self, random: &mut Random) {
        let (mut body, _) = request(random);
        body["stream"] = (random.below(2) == 0).into();
        let body = body.to_string();
        let mut stream = match random.below(4) {
            0 => {
                let mut stream = TcpStream::connect(self.server.address).await.unwrap();
                let head =
                    format!("POST /v1/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len() + 9);
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
                stream
            }
            _ => self.server.send("/v1/completions", &body).await.unwrap(),
        };
        let time = Duration::from_micros(random.below(20_000));
        let mut buffer = [0; 256];
        // What arrives in this time is read and forgotten.
        drop(tokio::time::timeout(time, stream.read(&mut buffer)).await);
        count(&self.tally.left);
    }

    /// A body that is wrong.
    async fn wrong(&self, random: &mut Random) {
        let large = format!("{{\"prompt\": \"{}\"}}", "x".repeat(70_000));
        let table = [
            ("/v1/completions", "{", 400),
            ("/v1/completions", r#"{"prompt": [999]}"#, 400),
            ("/v1/completions", r#"{"prompt": "a", "n": 1000}"#, 400),
            ("/v1/completions", large.as_str(), 413),
            ("/v1/chat/completions", r#"{"messages": [{"role": "user"}]}"#, 400),
            ("/v1/chat/completions", r#"{"messages": [], "response_format": {"type": "json_schema"}}"#, 400),
            ("/v1/responses", r#"{"input": 5}"#, 400),
            ("/v1/nothing", "{}", 404),
            ("/health", "{}", 405),
        ];
        let (path, body, expected) = table[random.below(table.len() as u64) as usize];
        // A server that refuses a body may close before all of it is sent.
        if let Ok((status, text)) = self.server.post(path, body).await
            && (status, text.as_str()) != (0, "")
        {
            assert_eq!(status, expected, "{path}: {text}");
            let error: Value = serde_json::from_str(&text).unwrap();
            assert!(error["error"]["message"].is_string(), "{path}: {text}");
        }
        count(&self.tally.wrong);
    }

    /// Bytes that are no HTTP.
    async fn garbage(&self, random: &mut Random) {
        let mut stream = TcpStream::connect(self.server.address).await.unwrap();
        let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.below(256) as u8).collect();
        drop(stream.write_all(&bytes).await);
        drop(stream.shutdown().await);
        drop(tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut Vec::new())).await);
        count(&self.tally.garbage);
    }

    async fn client(self: Arc<Self>, number: u64) {
        let mut random = Random::new(number);
        while Instant::now() < self.deadline {
            match random.below(20) {
                0..12 => self.answer(&mut random).await,
                12 => self.choose().await,
                13..16 => self.leave(&mut random).await,
                16..19 => self.wrong(&mut random).await,
                _ => self.garbage(&mut random).await,
            }
        }
    }
}

/// MiB of memory that the process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// `WARPWRIGHT_SOAK_SECONDS` is how long it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it runs for minutes: cargo test -p warpwright-llm-serving --test it -- --ignored --nocapture soak"]
async fn soak() {
    let seconds =
        std::env::var("WARPWRIGHT_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let options = Options { prompt_tokens: 64, drafts: 2, ..Options::default() };
    // Steps take a while, so that requests meet.
    let toy = Toy::new(SMALL).step_time(Duration::from_millis(4));
    let service = Service::start(Box::new(toy), options, MOST_REQUESTS);
    // Clients on a busy machine may be slow.
    let limits = Limits { body_bytes: 64 << 10, body_time: Duration::from_secs(20), ..Limits::default() };
    let client = Client::with(service.clone(), limits);
    let server = Loopback::start(&client, Duration::from_secs(30)).await;
    let time = Duration::from_secs(seconds);
    let begin = Instant::now();
    let soak = Arc::new(Soak { server, tally: Tally::default(), deadline: begin + time });
    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(soak.clone().client(number))).collect();
    // The server stays healthy; its memory after a tenth of the time is what it needs.
    let mut settled = 0;
    while begin.elapsed() < time {
        tokio::time::sleep(time / 100).await;
        assert_eq!(client.get("/health").await.status, 200);
        assert!(service.requests() <= MOST_REQUESTS + CLIENTS as usize * 3);
        if settled == 0 && begin.elapsed() > time / 10 {
            settled = resident();
        }
    }
    for client in clients {
        client.await.unwrap();
    }
    let end = resident();
    let soak = Arc::into_inner(soak).unwrap();
    soak.server.shut_down().await.unwrap();
    // Clients that left have to be noticed.
    let free = || {
        let usage = service.status().usage;
        service.requests() == 0 && usage.running + usage.waiting == 0
    };
    for _ in 0..400 {
        if free() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let status = service.status();
    let (usage, counts) = (status.usage, status.counts);
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let tally = &soak.tally;
    println!(
        "{seconds} s: {} answers and {} streams equal to those alone ({} tokens), {} refused as overload, {} clients left, \
         {} wrong bodies, {} connections of garbage",
        of(&tally.answers),
        of(&tally.streams),
        of(&tally.tokens),
        of(&tally.refused),
        of(&tally.left),
        of(&tally.wrong),
        of(&tally.garbage),
    );
    println!("{counts:?}\n{usage:?}\nresident memory {settled} MiB after a tenth, {end} MiB at the end");
    assert!(free(), "still in use: {usage:?}, {} requests", service.requests());
    assert_eq!(usage.used_pages, usage.idle_pages, "a page is lost");
    assert_eq!(usage.used_slots, usage.snapshots, "a slot is lost");
    assert!(end <= settled + 48, "memory grows");
    assert!(
        counts.preemptions > 0 && counts.prefix_hits > 0 && of(&tally.refused) > 0,
        "too little happened"
    );
}
