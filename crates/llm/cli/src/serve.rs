//! `serve`: OpenAI's endpoints for a model.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, value_parser};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use warpwright_llm_engine::DecodePlan;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_serving::server::{Limits, Server};
use warpwright_llm_serving::service::Service;
use warpwright_llm_serving::template::TemplateError;
use warpwright_llm_serving::trace::{Cost, Trace};
use warpwright_llm_step::{Chunk, Executor};

use crate::model::Model;

/// Serves a model until SIGTERM or Ctrl-C; answers that run may end first.
#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    model: Model,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 selects a free one.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Model name in the API. [default: the name of the file or folder]
    #[arg(long = "served-model-name")]
    name: Option<String>,
    /// API key that requests must send. [default: none]
    #[arg(long, env = "WARPWRIGHT_API_KEY", hide_env_values = true, value_parser = api_key)]
    api_key: Option<String>,
    /// Host name that requests may use; repeat the flag for several. By default, a server on the loopback address without
    /// a key accepts addresses and localhost, so that no web page can reach it under another name.
    #[arg(long = "allowed-hosts", value_name = "NAME")]
    allow_host: Vec<String>,
    /// Origin whose web pages may use the server, such as https://example.com; * allows all.
    #[arg(long = "allowed-origins", value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Maximum sequences in a step.
    #[arg(long = "max-num-seqs", default_value_t = 32, value_parser = value_parser!(u32).range(1..=65_536))]
    sequences: u32,
    /// KV cache size in tokens, for all sequences and prefixes. [default: 4 times the context]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    cache_tokens: Option<u32>,
    /// Number of recurrent-state snapshots for cached prefixes.
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u32).range(..=1 << 20))]
    snapshots: u32,
    /// Disable prefix caching: compute each prompt from its first token.
    #[arg(long = "no-enable-prefix-caching")]
    no_prefix_cache: bool,
    /// Maximum seconds of kernel compilation before the socket opens; later kernels compile while requests run.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(..=LONGEST))]
    warm_up_seconds: u64,
    /// Maximum running and waiting answers; more are refused.
    #[arg(long, default_value_t = 1024, value_parser = value_parser!(u32).range(1..))]
    requests: u32,
    /// Maximum answers per request (`n`).
    #[arg(long, default_value_t = 128, value_parser = value_parser!(u32).range(1..))]
    choices: u32,
    /// Maximum connections; more wait to be accepted.
    #[arg(long, default_value_t = 4096, value_parser = value_parser!(u32).range(1..))]
    connections: u32,
    /// Maximum size of a request body in MiB.
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u32).range(1..=4095))]
    body_mib: u32,
    /// Maximum size of all request bodies in progress in MiB, without the first 64 KiB of each; more are refused.
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u32).range(1..))]
    bodies_mib: u32,
    /// Timeout in seconds for the head of a request, and again for its body.
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(1..=LONGEST))]
    body_seconds: u64,
    /// Timeout of an answer in seconds.
    #[arg(long, default_value_t = 3600, value_parser = value_parser!(u64).range(1..=LONGEST))]
    answer_seconds: u64,
    /// Grace period in seconds for running answers after SIGTERM.
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(..=LONGEST))]
    grace_seconds: u64,
    /// Write a trace of requests and steps for Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The most seconds of a flag: a year.
const LONGEST: u64 = 365 * 24 * 3600;

/// A key that a header can carry. A file of a secret may end with a line break.
fn api_key(text: &str) -> Result<String, String> {
    let key = text.trim_end_matches(['\r', '\n']);
    if key.trim().is_empty() {
        return Err("the key is empty: leave it out to serve without one".to_owned());
    }
    if key.chars().any(|c| !c.is_ascii_graphic()) {
        return Err("the key has a character that no header carries: use ASCII without spaces".to_owned());
    }
    Ok(key.to_owned())
}

/// The time for the step that runs when the server ends.
const LAST_STEP: Duration = Duration::from_secs(5);

impl Serve {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // A wrong address is an error before the weights are loaded. The socket opens after that.
        let is_local = self.listen()?.local_addr()?.ip().is_loopback();
        if !is_local && self.api_key.is_none() {
            eprintln!(
                "warning: anyone who reaches {}:{} can use the server: give it a key with --api-key",
                self.host, self.port
            );
        }
        let name = self.name.clone().unwrap_or_else(|| self.model.name());
        let checkpoint = self.model.checkpoint()?;
        let texts = self.model.texts(&name, &checkpoint)?;
        let limits = self.model.limits(self.sequences, self.cache_tokens, self.snapshots);
        let trace = self.trace.as_ref().map(|path| self.trace(path, &checkpoint)).transpose()?;
        let begin = Instant::now();
        let engine =
            self.model.warm_engine(&checkpoint, limits, Duration::from_secs(self.warm_up_seconds))?;
        eprintln!("loaded {name} in {:.1} s", begin.elapsed().as_secs_f64());
        if texts.template.is_missing() {
            eprintln!("warning: {}; until then, conversations are refused", TemplateError::Missing);
        }
        let texts = texts.with_ends(engine.ends(), engine.capacity().vocabulary);
        let options = self.model.scheduling(!self.no_prefix_cache);
        let service = Service::traced(engine.into_executor(), options, self.requests as usize, trace);
        let server = Server::new(texts, service.clone(), self.limits(is_local))?;
        let runtime = tokio::runtime::Runtime::new()?;
        let result = runtime.block_on(self.serve(server, &name));
        // Work on bodies whose clients have left is not waited for.
        runtime.shutdown_background();
        service.stop(LAST_STEP);
        result
    }

    fn limits(&self, is_local: bool) -> Limits {
        let checks_hosts = !self.allow_host.is_empty() || (is_local && self.api_key.is_none());
        Limits {
            hosts: checks_hosts.then(|| self.allow_host.clone()),
            origins: self.allow_origin.clone(),
            body_bytes: (self.body_mib as usize) << 20,
            all_body_bytes: (self.bodies_mib as usize) << 20,
            body_time: Duration::from_secs(self.body_seconds),
            answer_time: Duration::from_secs(self.answer_seconds),
            choices: self.choices as usize,
            connections: self.connections as usize,
            api_key: self.api_key.clone(),
        }
    }

    /// The trace, with what decodes launch and move.
    fn trace(&self, path: &Path, checkpoint: &Checkpoint) -> anyhow::Result<Trace> {
        let mut trace = Trace::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut plans = vec![];
        for batch in (0..).map(|power| 1 << power).take_while(|batch| *batch < 2 * self.sequences) {
            let plan = self.model.plan(checkpoint, batch, PLANNED)?;
            trace.describe(
                &format!("kernels of a decode of {batch}"),
                &plan.launches.iter().cloned().collect(),
            );
            plans.push((batch, plan));
        }
        Ok(trace.with_costs(move |step| decode_cost(&plans, &step.chunks)))
    }

    async fn serve(&self, server: Server, name: &str) -> anyhow::Result<()> {
        let listener = TcpListener::from_std(self.listen()?)?;
        eprintln!("serving {name} at http://{}", listener.local_addr()?);
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut signals = async move || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let stop = async move {
            signals().await;
            eprintln!(
                "shutting down: running answers may end, new requests are refused; a second signal ends all"
            );
            tokio::spawn(async move {
                signals().await;
                std::process::exit(1);
            });
        };
        server.serve(listener, stop, Duration::from_secs(self.grace_seconds)).await;
        Ok(())
    }

    /// A socket at the address.
    fn listen(&self) -> anyhow::Result<std::net::TcpListener> {
        let listener = std::net::TcpListener::bind((self.host.as_str(), self.port))
            .with_context(|| format!("cannot listen on {}:{}", self.host, self.port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

/// Tokens of a sequence of the plans.
const PLANNED: u32 = 64;

/// What a decode launches and moves, from the plan of the next larger batch. Other steps have no plan.
fn decode_cost(plans: &[(u32, DecodePlan)], chunks: &[Chunk]) -> Option<Cost> {
    let is_decode = |chunk: &Chunk| chunk.tokens.len() == 1 && chunk.draft == 0 && chunk.sampling.is_some();
    if !chunks.iter().all(is_decode) {
        return None;
    }
    let number = chunks.len() as u64;
    let (batch, plan) = plans.iter().find(|(batch, _)| u64::from(*batch) >= number)?;
    let tokens: u64 = chunks.iter().map(|chunk| u64::from(chunk.position) + 1).sum();
    let states = plan.states / u64::from(*batch) * number;
    let keys = plan.keys / u64::from(batch * PLANNED) * tokens;
    Some(Cost { launches: plan.count(), bytes: plan.weights + states + keys })
}
