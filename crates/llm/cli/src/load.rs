//! `load`: times answers that run together, through the whole server but its sockets.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use clap::Args;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use warpwright_llm_serving::scheduler::Options;
use warpwright_llm_serving::server::{Limits, Server};
use warpwright_llm_serving::service::Service;
use warpwright_llm_step::Executor;

use crate::model::Model;

/// Times answers that run together. Lengths are log-normal, with the means and the spread of
/// conversations in ShareGPT.
#[derive(Debug, Args)]
pub struct Load {
    #[command(flatten)]
    model: Model,
    /// Answers that run together.
    #[arg(long, default_value_t = 512)]
    concurrent: u32,
    /// Answers in all.
    #[arg(long, default_value_t = 2048)]
    requests: u32,
    /// End after this time with answers that run; rates are those of its last three quarters.
    #[arg(long)]
    seconds: Option<f64>,
    /// Tokens of a prompt on average.
    #[arg(long, default_value_t = 215.0)]
    prompt_tokens: f64,
    /// Tokens of an answer on average.
    #[arg(long, default_value_t = 200.0)]
    answer_tokens: f64,
    /// Give each prompt and each answer the average length.
    #[arg(long)]
    same_lengths: bool,
    /// Tokens of a prompt or an answer at most.
    #[arg(long, default_value_t = 1024)]
    most_tokens: u32,
    /// Give every request of this number a prompt of `--long-tokens`; 0: none.
    #[arg(long, default_value_t = 0)]
    long_every: u32,
    /// Tokens of a long prompt.
    #[arg(long, default_value_t = 8192)]
    long_tokens: u32,
    /// The seed of lengths and prompts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tokens of the KV cache. [default: enough for all that run together, at their averages]
    #[arg(long)]
    cache_tokens: Option<u32>,
    /// Print the figures as a line of JSON.
    #[arg(long)]
    json: bool,
}

/// The deviations of the logarithms of lengths.
const PROMPT_SPREAD: f64 = 1.2;
const ANSWER_SPREAD: f64 = 1.0;
/// Tokens of the shortest prompt and answer.
const LEAST_TOKENS: u32 = 4;

/// One request, and when its tokens came.
struct Timed {
    prompt: u32,
    begin: Instant,
    tokens: Vec<Instant>,
}

impl Load {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let checkpoint = self.model.checkpoint()?;
        let texts = self.model.texts("load", &checkpoint)?;
        // Sequences are in their middle on average, and some are long.
        let average = self.prompt_tokens + self.answer_tokens;
        let enough =
            (average * 1.5 * f64::from(self.concurrent)) as u32 + self.long_tokens + 2 * self.most_tokens;
        let cache_tokens = Some(self.cache_tokens.unwrap_or(enough));
        let engine = self.model.engine(&checkpoint, self.model.limits(self.concurrent, cache_tokens, 0))?;
        // Random prompts share no prefix.
        let options = Options {
            prompt_tokens: self.model.prompt_tokens(),
            prefix_caching: false,
            drafts: self.model.drafts(),
        };
        let (vocabulary, context) = (engine.capacity().vocabulary, engine.capacity().context);
        if context < 2 * self.most_tokens.max(LEAST_TOKENS) {
            bail!(
                "a context of {context} tokens does not hold prompt and answer: give --context or --most-tokens"
            );
        }
        let service = Service::start(engine.into_executor(), options, usize::MAX);
        let router = Server::new(texts, service.clone(), Limits::default())?.router();
        let runtime = tokio::runtime::Runtime::new()?;
        let begin = Instant::now();
        let timed = runtime.block_on(self.send_all(&router, vocabulary, context))?;
        let after = |seconds| begin + Duration::from_secs_f64(seconds);
        let end = self.seconds.map_or_else(Instant::now, |seconds| after(seconds).min(Instant::now()));
        let begin = self.seconds.map_or(begin, |seconds| after(seconds / 4.0).min(end));
        let figures = Figures::new(&timed, begin..end, service.status().counts.preemptions);
        match self.json {
            true => println!("{}", figures.json()),
            false => print!("{figures}"),
        }
        service.stop();
        Ok(())
    }

    /// Sends all requests, a number of them at once.
    async fn send_all(&self, router: &Router, vocabulary: u32, context: u32) -> anyhow::Result<Vec<Timed>> {
        let next = Arc::new(AtomicU32::new(0));
        let end = self.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        let lengths: Arc<[(u32, u32)]> =
            (0..self.requests).map(|number| self.lengths(number, context)).collect();
        let clients = (0..self.concurrent.min(self.requests)).map(|_| {
            let (router, next, lengths, seed) = (router.clone(), next.clone(), lengths.clone(), self.seed);
            tokio::spawn(async move {
                let mut timed = vec![];
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(prompt, answer)) = lengths.get(number as usize) else { return Ok(timed) };
                    let mut random = Random::of(seed, number, 2);
                    let ids: Vec<u64> = (0..prompt).map(|_| random.bits() % u64::from(vocabulary)).collect();
                    let body = json!({ "prompt": ids, "max_tokens": answer, "ignore_eos": true, "stream": true,
                        "return_token_ids": true, "seed": number });
                    timed.push(send(&router, prompt, &body, end).await?);
                    if end.is_some_and(|end| Instant::now() >= end) {
                        return Ok(timed);
                    }
                }
            })
        });
        let mut all = vec![];
        for client in clients.collect::<Vec<_>>() {
            let timed: anyhow::Result<Vec<Timed>> = client.await?;
            all.extend(timed?);
        }
        Ok(all)
    }

    /// The tokens of a request's prompt and answer.
    fn lengths(&self, number: u32, context: u32) -> (u32, u32) {
        let mut random = Random::of(self.seed, number, 1);
        let mut length = |mean: f64, spread: f64| {
            let spread = if self.same_lengths { 0.0 } else { spread };
            // The mean of a log-normal distribution is that of its logarithm plus half the
            // variance.
            let tokens = mean * (spread * random.normal() - spread * spread / 2.0).exp();
            (tokens as u32).clamp(LEAST_TOKENS, self.most_tokens.max(LEAST_TOKENS))
        };
        let (prompt, answer) =
            (length(self.prompt_tokens, PROMPT_SPREAD), length(self.answer_tokens, ANSWER_SPREAD));
        let is_long = self.long_every > 0 && (number + 1).is_multiple_of(self.long_every);
        (if is_long { self.long_tokens.min(context - answer) } else { prompt }, answer)
    }
}

/// Sends a request and reads its stream, up to a time.
async fn send(router: &Router, prompt: u32, body: &Value, end: Option<Instant>) -> anyhow::Result<Timed> {
    let mut timed = Timed { prompt, begin: Instant::now(), tokens: vec![] };
    let answer = answer(router, body, &mut timed.tokens);
    match end {
        Some(end) => tokio::time::timeout_at(end.into(), answer).await.unwrap_or(Ok(()))?,
        None => answer.await?,
    }
    Ok(timed)
}

/// Reads the stream of an answer: when each token came.
async fn answer(router: &Router, body: &Value, tokens: &mut Vec<Instant>) -> anyhow::Result<()> {
    let request = Request::post("/v1/completions").body(Body::from(body.to_string()))?;
    let Ok(response) = router.clone().oneshot(request).await;
    let status = response.status();
    let (mut body, mut text) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if !status.is_success() {
            bail!("{status}: {}", String::from_utf8_lossy(&data));
        }
        text.extend_from_slice(&data);
        while let Some(end) = text.windows(2).position(|end| end == b"\n\n") {
            let event: Vec<u8> = text.drain(..end + 2).collect();
            let Some(json) = event.strip_prefix(b"data: {") else { continue };
            let object: Value = serde_json::from_slice(&[b"{", json].concat())?;
            let ids = object["choices"][0]["token_ids"].as_array();
            let ids = ids.with_context(|| format!("the stream failed: {object}"))?;
            tokens.extend(ids.iter().map(|_| Instant::now()));
        }
    }
    Ok(())
}

/// Rates and times of answers.
struct Figures {
    answers: usize,
    seconds: f64,
    /// Tokens of the prompts whose first token came in that time, and of answers.
    prompt_tokens: u32,
    answer_tokens: usize,
    first: Times,
    between: Times,
    preemptions: u64,
}

impl Figures {
    fn new(timed: &[Timed], during: Range<Instant>, preemptions: u64) -> Self {
        let is_during = |time: &&Instant| during.contains(*time);
        let first = || timed.iter().filter_map(|one| Some((one, one.tokens.first().filter(is_during)?)));
        let pairs = timed.iter().flat_map(|one| one.tokens.windows(2));
        let between = pairs.filter(|pair| during.contains(&pair[1])).map(|pair| pair[1] - pair[0]);
        Self {
            answers: first().count(),
            seconds: (during.end - during.start).as_secs_f64(),
            prompt_tokens: first().map(|(one, _)| one.prompt).sum(),
            answer_tokens: timed.iter().flat_map(|one| &one.tokens).filter(is_during).count(),
            first: Times::new(first().map(|(one, first)| *first - one.begin).collect()),
            between: Times::new(between.collect()),
            preemptions,
        }
    }

    fn rates(&self) -> (f64, f64) {
        (f64::from(self.prompt_tokens) / self.seconds, self.answer_tokens as f64 / self.seconds)
    }

    fn json(&self) -> Value {
        let (prompt, output) = self.rates();
        json!({ "answers": self.answers, "seconds": self.seconds, "prompt_tokens_per_second": prompt,
            "output_tokens_per_second": output, "first_token_ms": self.first.json(),
            "between_tokens_ms": self.between.json(), "preemptions": self.preemptions })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answers, seconds, prompt_tokens, answer_tokens, first, between, preemptions } = self;
        let ((prompt, output), number) = (self.rates(), (*answers).max(1) as f64);
        writeln!(
            f,
            "{answers} answers in {seconds:.1} s; prompts of {:.0} tokens and answers of {:.0} on average",
            f64::from(*prompt_tokens) / number,
            *answer_tokens as f64 / number
        )?;
        writeln!(f, "{prompt:.1} prompt tok/s, {output:.1} output tok/s")?;
        writeln!(f, "time to first token  {first}")?;
        writeln!(f, "between tokens       {between}")?;
        writeln!(f, "{preemptions} sequences gave up their pages")
    }
}

/// Times in order, of which the median and high ones are shown.
struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The milliseconds that this part of the times does not exceed.
    fn milliseconds(&self, part: f64) -> f64 {
        let time = self.0.get(((self.0.len().max(1) - 1) as f64 * part) as usize);
        time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    fn json(&self) -> Value {
        json!({ "median": self.milliseconds(0.5), "p90": self.milliseconds(0.9), "p99": self.milliseconds(0.99) })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |part| self.milliseconds(part);
        write!(f, "median {:.2} ms, p90 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.9), at(0.99))
    }
}

/// splitmix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    /// The stream of a request.
    fn of(seed: u64, number: u32, stream: u64) -> Random {
        Random(Random(seed ^ (u64::from(number) << 20) ^ (stream << 52)).bits())
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number of the standard normal distribution (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let mut uniform = || ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
    }
}
