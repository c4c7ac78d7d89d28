//! `serve`: OpenAI's endpoints for a model.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use warpwright_llm_serving::scheduler::Options;
use warpwright_llm_serving::server::{Limits, Server};
use warpwright_llm_serving::service::Service;
use warpwright_llm_serving::trace::Trace;
use warpwright_llm_step::Executor;

use crate::model::Model;

/// Serves a model until SIGTERM or Ctrl-C; answers that run may end first.
#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    model: Model,
    /// The address.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The port; 0 takes a free one.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// The model's name in the API. [default: the name of its file or folder]
    #[arg(long)]
    name: Option<String>,
    /// The key that requests have to send. [default: none]
    #[arg(long, env = "WARPWRIGHT_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Sequences that run together at most.
    #[arg(long, default_value_t = 32)]
    sequences: u32,
    /// Tokens of the KV cache, for all sequences and prefixes. [default: 4 times the context]
    #[arg(long)]
    cache_tokens: Option<u32>,
    /// Snapshots of recurrent state for cached prefixes.
    #[arg(long, default_value_t = 16)]
    snapshots: u32,
    /// Compute each prompt from its first token.
    #[arg(long)]
    no_prefix_cache: bool,
    /// Answers that run or wait at most; more are refused.
    #[arg(long, default_value_t = 1024)]
    requests: usize,
    /// Answers of one request at most.
    #[arg(long, default_value_t = 128)]
    choices: usize,
    /// Connections at most; more wait to be accepted.
    #[arg(long, default_value_t = 4096)]
    connections: usize,
    /// MiB of a body at most.
    #[arg(long, default_value_t = 16)]
    body_mib: usize,
    /// Seconds in which the head of a request has to arrive, and then its body.
    #[arg(long, default_value_t = 30)]
    body_seconds: u64,
    /// Seconds after which an answer ends.
    #[arg(long, default_value_t = 3600)]
    answer_seconds: u64,
    /// Seconds that answers have to end after SIGTERM.
    #[arg(long, default_value_t = 30)]
    grace_seconds: u64,
    /// Write a trace of requests and steps for Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl Serve {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // A wrong address is an error before the weights are loaded. The socket opens after that.
        drop(self.listen()?);
        let name = self.name.clone().unwrap_or_else(|| self.model.name());
        let checkpoint = self.model.checkpoint()?;
        let mut texts = self.model.texts(&name, &checkpoint)?;
        let limits = self.model.limits(self.sequences, self.cache_tokens, self.snapshots);
        let engine = self.model.engine(&checkpoint, limits)?;
        texts.stops.extend_from_slice(engine.ends());
        let trace = match &self.trace {
            Some(path) => {
                Some(Trace::create(path).with_context(|| format!("cannot write {}", path.display()))?)
            }
            None => None,
        };
        let options = Options {
            step_tokens: engine.capacity().tokens,
            prefix_caching: !self.no_prefix_cache,
            drafts: self.model.drafts(),
        };
        let service = Service::traced(engine.into_executor(), options, self.requests, trace);
        let server = Server::new(texts, service.clone(), self.limits())?;
        let result = tokio::runtime::Runtime::new()?.block_on(self.serve(server, &name));
        service.stop();
        result
    }

    fn limits(&self) -> Limits {
        Limits {
            body_bytes: self.body_mib << 20,
            body_time: Duration::from_secs(self.body_seconds),
            answer_time: Duration::from_secs(self.answer_seconds),
            choices: self.choices,
            connections: self.connections,
            api_key: self.api_key.clone(),
        }
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
