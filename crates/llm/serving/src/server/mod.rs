//! An HTTP server with OpenAI's endpoints.

mod answer;
mod body;
mod chat;
mod chat_request;
mod completion;
mod encode;
mod endpoints;
mod error;
mod fields;
mod generate;
mod guard;
mod listen;
mod log_probabilities;
mod metrics;
mod page;
mod responses;
mod sse;
mod tokens;

use std::future::Future;
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::guide::{GrammarError, Grammars};
use crate::model::Model;
use crate::service::Service;
use error::ApiError;
use metrics::Metrics;

/// What a server accepts.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most bytes of a body.
    pub body_bytes: usize,
    /// The most bytes of all bodies that are read or worked on, without the first 64 KiB of each, and of the values of
    /// their JSON that are worked on.
    pub all_body_bytes: usize,
    /// The time in which the head of a request has to arrive, and then its body.
    pub body_time: Duration,
    /// The time after which an answer ends, finished or not.
    pub answer_time: Duration,
    /// The most answers of one request.
    pub choices: usize,
    /// The most connections. Others wait to be accepted.
    pub connections: usize,
    /// Clients have to send this key, if there is one.
    pub api_key: Option<String>,
    /// Names of the server that requests may give as their host, beside addresses and `localhost`. `None` allows all.
    pub hosts: Option<Vec<String>>,
    /// Origins of web pages that may use the server, such as `https://example.com`. `*` allows all.
    pub origins: Vec<String>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 16 << 20,
            all_body_bytes: 256 << 20,
            body_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(3600),
            choices: 128,
            connections: 4096,
            api_key: None,
            hosts: None,
            origins: Vec::new(),
        }
    }
}

impl Limits {
    /// The time after which a stream ends, even if its client does not read it.
    fn stream_time(&self) -> Duration {
        self.answer_time + self.body_time
    }
}

/// What all requests share.
struct App {
    model: Model,
    service: Service,
    grammars: Grammars,
    limits: Limits,
    metrics: Metrics,
    /// Bodies that are worked on at once.
    workers: Arc<Semaphore>,
    /// Large ones among them.
    large: Arc<Semaphore>,
    /// Bytes that bodies may still take.
    body_memory: Arc<Semaphore>,
    /// KiB that the values of their JSON may still take.
    value_memory: Arc<Semaphore>,
    created: u64,
    /// Whether new requests are turned away.
    draining: watch::Sender<bool>,
    /// Whether running answers end.
    abort: watch::Sender<bool>,
}

impl App {
    /// A new identifier of a call, as the chat template takes it back.
    fn call_id(&self) -> String {
        let id = name("call_");
        if self.model.template.has_short_ids() { id[id.len() - SHORT_ID..].to_owned() } else { id }
    }

    fn no_such_model(&self, name: &str) -> ApiError {
        let message = format!("The model `{name}` does not exist: this server serves `{}`.", self.model.name);
        ApiError::status(StatusCode::NOT_FOUND, "model_not_found", message)
    }

    /// Whether this number of alternatives can be listed with each log-probability.
    fn check_alternatives(&self, field: &'static str, wanted: Option<u32>) -> Result<(), ApiError> {
        let top = self.service.limits().top;
        match wanted.filter(|wanted| *wanted > top) {
            Some(wanted) => Err(ApiError::invalid(
                field,
                format!("`{field}` is {wanted}: at most {top} alternatives can be listed."),
            )),
            None => Ok(()),
        }
    }
}

/// A server.
#[derive(Clone)]
pub struct Server {
    app: Arc<App>,
}

impl Server {
    /// A server of a model that the service runs.
    pub fn new(model: Model, service: Service, limits: Limits) -> Result<Server, GrammarError> {
        let vocabulary = service.limits().vocabulary;
        // A tokenizer may have tokens that the model lacks.
        let model = model.with_ends(&[], vocabulary);
        let workers = std::thread::available_parallelism().map_or(1, NonZero::get).max(2);
        let app = App {
            workers: Arc::new(Semaphore::new(workers)),
            large: Arc::new(Semaphore::new(workers / 2)),
            body_memory: Arc::new(Semaphore::new(limits.all_body_bytes.min(Semaphore::MAX_PERMITS))),
            value_memory: Arc::new(Semaphore::new((limits.all_body_bytes >> 10).min(Semaphore::MAX_PERMITS))),
            grammars: Grammars::new(&model.tokenizer, vocabulary, &model.stops)?,
            metrics: Metrics::new(&model.name, &service),
            created: now(),
            draining: watch::Sender::new(false),
            abort: watch::Sender::new(false),
            model,
            service,
            limits,
        };
        Ok(Server { app: Arc::new(app) })
    }

    /// The routes, without a socket.
    pub fn router(&self) -> Router {
        endpoints::router(&self.app)
    }

    /// Serves until `shutdown` is ready. Then new requests are refused, running answers have
    /// `grace` to end, and what is left is aborted with the text that there is.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
        grace: Duration,
    ) {
        let app = self.app.clone();
        let stop = async move {
            shutdown.await;
            app.draining.send_replace(true);
            tokio::spawn(async move {
                tokio::time::sleep(grace).await;
                app.abort.send_replace(true);
            });
        };
        // Connections that do not even close after their answers were aborted do not hold the
        // server up.
        let mut abort = self.app.abort.subscribe();
        tokio::select! {
            () = listen::serve(listener, self.router(), &self.app.limits, stop) => {}
            () = async {
                drop(abort.wait_for(|abort| *abort).await);
                tokio::time::sleep(CLOSING_TIME).await;
            } => {}
        }
    }
}

/// The time for the last bytes of aborted answers.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A new name with this prefix.
fn name(prefix: &str) -> String {
    format!("{prefix}{:016x}{:016x}", fields::random(), fields::random())
}

/// Letters and digits of an identifier in Mistral's templates.
const SHORT_ID: usize = 9;
