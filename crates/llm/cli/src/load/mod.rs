//! `load`: times answers that run together, through the whole server but its sockets.
//!
//! ```text
//! requests    the first of each client, in the middle of their answers | others, from their beginning
//! measured    from when all of those, and then all that were sent until then, have a token
//! ```

mod figures;
mod lengths;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use clap::{Args, value_parser};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use warpwright_llm_serving::server::{Limits, Server};
use warpwright_llm_serving::service::Service;
use warpwright_llm_serving::trace::Trace;
use warpwright_llm_step::Capacity;

use crate::model::Model;
use figures::{Figures, Timed};
use lengths::{Lengths, Random};

/// Times answers that run together, in a steady state. Lengths are log-normal, with the means and the
/// spread of conversations in ShareGPT. The first request of each client is in the middle of its answer, and
/// the measurement begins when all of those, and all that were sent until then, have a token.
#[derive(Debug, Args)]
pub struct Load {
    #[command(flatten)]
    model: Model,
    /// Answers that run together.
    #[arg(long = "max-concurrency", default_value_t = 512, value_parser = value_parser!(u32).range(1..=65_536))]
    concurrent: u32,
    /// Number of requests.
    #[arg(long = "num-prompts", default_value_t = 2048)]
    requests: u32,
    /// End after this time with answers that run.
    #[arg(long)]
    seconds: Option<f64>,
    /// Mean prompt length in tokens.
    #[arg(long = "random-input-len", default_value_t = 215.0)]
    prompt_tokens: f64,
    /// Mean answer length in tokens.
    #[arg(long = "random-output-len", default_value_t = 200.0)]
    answer_tokens: f64,
    /// Use the mean length for all prompts and answers.
    #[arg(long)]
    same_lengths: bool,
    /// Maximum tokens of a prompt or an answer.
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
    /// Write a trace of requests and steps for Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the figures as a line of JSON.
    #[arg(long)]
    json: bool,
}

/// A load is measured when all kernels are compiled.
const WARM_UP: Duration = Duration::from_secs(600);

impl Load {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let checkpoint = self.model.checkpoint()?;
        let texts = self.model.texts("load", &checkpoint)?;
        // Sequences are in their middle on average, and some are long.
        let average = self.prompt_tokens + self.answer_tokens;
        let enough = average * 1.5 * f64::from(self.concurrent)
            + f64::from(self.long_tokens)
            + 2.0 * f64::from(self.most_tokens);
        let cache_tokens = Some(self.cache_tokens.unwrap_or(enough as u32));
        let limits = self.model.limits(self.concurrent, cache_tokens, 0);
        let Capacity { vocabulary, context, .. } = limits.capacity_of(&checkpoint)?;
        if context / 2 < self.most_tokens {
            bail!(
                "a context of {context} tokens does not hold prompt and answer: give --max-model-len or --most-tokens"
            );
        }
        let create =
            |path: &PathBuf| Trace::create(path).with_context(|| format!("cannot write {}", path.display()));
        let trace = self.trace.as_ref().map(create).transpose()?;
        let begin = Instant::now();
        let engine = self.model.warm_engine(&checkpoint, limits, WARM_UP)?;
        eprintln!("loaded {} in {:.1} s", self.model.name(), begin.elapsed().as_secs_f64());
        // Random prompts share no prefix.
        let options = self.model.scheduling(false);
        let service = Service::traced(engine.into_executor(), options, usize::MAX, trace);
        let router = Server::new(texts, service.clone(), Limits::default())?.router();
        let runtime = tokio::runtime::Runtime::new()?;
        let lengths = self.lengths(context);
        let begin = Instant::now();
        let timed = runtime.block_on(self.send_all(&router, vocabulary, lengths))?;
        let during = self.steady(&timed, begin);
        if during.is_empty() {
            bail!("the load ended before a steady state: give more --seconds or --num-prompts");
        }
        let preemptions = service.status().counts.preemptions;
        let figures = Figures::new(&timed, (begin, during), preemptions, lengths.means());
        match self.json {
            true => println!("{}", figures.json()),
            false => print!("{figures}"),
        }
        service.stop(Duration::MAX);
        Ok(())
    }

    fn lengths(&self, context: u32) -> Lengths {
        Lengths {
            seed: self.seed,
            prompt: self.prompt_tokens,
            answer: self.answer_tokens,
            most: self.most_tokens,
            are_same: self.same_lengths,
            long_every: self.long_every,
            long: self.long_tokens,
            context,
        }
    }

    /// Whether requests follow those that begin together.
    fn has_steady_state(&self) -> bool {
        self.requests > self.concurrent
    }

    /// The time in which `concurrent` requests run: from when each of the first ones has a token, and then each that
    /// was sent until then, because they have waited longer than others will; to the end, or to when no request is
    /// left to follow one that ends.
    fn steady(&self, timed: &[Timed], begin: Instant) -> Range<Instant> {
        let end = self.seconds.map(|seconds| begin + Duration::from_secs_f64(seconds));
        let end = end.map_or_else(Instant::now, |end| end.min(Instant::now()));
        if !self.has_steady_state() {
            return begin..end;
        }
        let all_have_tokens = |is_counted: &dyn Fn(&Timed) -> bool| {
            let counted = timed.iter().filter(|one| is_counted(one));
            counted.map(|one| one.tokens.first().copied().unwrap_or(end)).max().unwrap_or(begin)
        };
        let first = all_have_tokens(&|one| one.number < self.concurrent);
        let start = all_have_tokens(&|one| one.begin < first);
        let last = timed.iter().find(|one| one.number + 1 == self.requests).map_or(end, |one| one.begin);
        start..last.max(start).min(end)
    }

    /// Sends all requests, a number of them at once.
    async fn send_all(
        &self,
        router: &Router,
        vocabulary: u32,
        lengths: Lengths,
    ) -> anyhow::Result<Vec<Timed>> {
        let next = Arc::new(AtomicU32::new(0));
        let end = self.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        let running = if self.has_steady_state() { self.concurrent } else { 0 };
        let (requests, seed) = (self.requests, self.seed);
        let clients = (0..self.concurrent.min(requests)).map(|_| {
            let (router, next) = (router.clone(), next.clone());
            tokio::spawn(async move {
                let mut timed = vec![];
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return Ok(timed);
                    }
                    let (prompt, answer) =
                        if number < running { lengths.of_running(number) } else { lengths.of(number) };
                    let mut random = Random::of(seed, number, 2);
                    let ids: Vec<u64> = (0..prompt).map(|_| random.bits() % u64::from(vocabulary)).collect();
                    let body = json!({ "prompt": ids, "max_tokens": answer, "ignore_eos": true, "stream": true,
                        "return_token_ids": true, "seed": number });
                    timed.push(send(&router, (number, prompt), &body, end).await?);
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
}

/// Sends a request and reads its stream, up to a time.
async fn send(
    router: &Router,
    (number, prompt): (u32, u32),
    body: &Value,
    end: Option<Instant>,
) -> anyhow::Result<Timed> {
    let mut timed = Timed { number, prompt, begin: Instant::now(), tokens: vec![] };
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
