//! A server without a socket, and what the model alone would answer.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use warpwright_llm_serving::defaults::Defaults;
use warpwright_llm_serving::model::Model;
use warpwright_llm_serving::scheduler::{Draw, Options};
use warpwright_llm_serving::server::{Limits, Server};
use warpwright_llm_serving::service::Service;
use warpwright_llm_step::toy::Toy;
use warpwright_llm_step::{Capacity, Token};

use crate::model::{CAPACITY, model};
use crate::scheduler::alone::{Wanted, alone};

/// A server of the toy model.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) server: Server,
    pub(crate) service: Service,
    router: Router,
}

/// A response whose body is complete.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Client {
    pub(crate) fn new() -> Client {
        Client::of(Toy::new(CAPACITY), Limits::default())
    }

    /// A server whose model answers a conversation by this text, after what ends its prompt.
    pub(crate) fn answering(prompt_end: &str, answer: &str) -> Client {
        let tokenizer = model().tokenizer;
        let mut tokens = tokenizer.encode(answer, false).unwrap();
        tokens.push(model().stops[0]);
        let trigger = tokenizer.encode(prompt_end, false).unwrap();
        Client::of(Toy::new(CAPACITY).scripted(trigger, tokens), Limits::default())
    }

    /// A server that takes its time for each step.
    pub(crate) fn slow(limits: Limits) -> Client {
        Client::of(Toy::new(CAPACITY).step_time(Duration::from_millis(5)), limits)
    }

    pub(crate) fn of(toy: Toy, limits: Limits) -> Client {
        Client::with(Service::start(Box::new(toy), Options::default(), 64), limits)
    }

    pub(crate) fn with(service: Service, limits: Limits) -> Client {
        Client::serving(model(), service, limits)
    }

    /// A server of a model whose files recommend this.
    pub(crate) fn recommending(defaults: Defaults) -> Client {
        let service = Service::start(Box::new(Toy::new(CAPACITY)), Options::default(), 64);
        Client::serving(Model { defaults, ..model() }, service, Limits::default())
    }

    fn serving(model: Model, service: Service, limits: Limits) -> Client {
        let server = Server::new(model, service.clone(), limits).unwrap();
        Client { router: server.router(), server, service }
    }

    /// Sends a request and returns the response with its body still to come.
    pub(crate) async fn open(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.open(request).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Reply { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl ToString) -> Reply {
        self.send(post(path, body)).await
    }

    /// The object of an answer.
    pub(crate) async fn answer(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body).await;
        assert_eq!(reply.status, StatusCode::OK, "{body}: {}", reply.text);
        reply.json()
    }

    /// The objects of a streamed answer, which ends as OpenAI's do.
    pub(crate) async fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let mut body = body.clone();
        body["stream"] = true.into();
        let reply = self.post(path, &body).await;
        assert_eq!(reply.status, StatusCode::OK, "{body}: {}", reply.text);
        assert_eq!(reply.headers[header::CONTENT_TYPE], "text/event-stream; charset=utf-8");
        let mut events = events(&reply.text);
        if !path.ends_with("responses") {
            assert_eq!(events.pop(), Some(Value::from("[DONE]")));
        }
        events
    }
}

/// The data of server-sent events. `[DONE]` is a text.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into())).collect()
}

pub(crate) fn post(path: &str, body: impl ToString) -> Request<Body> {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    request.body(Body::from(body.to_string())).unwrap()
}

/// A greedy answer of at most `max_tokens` tokens.
pub(crate) fn greedy(prompt: &str, max_tokens: u32) -> Wanted {
    let model = model();
    Wanted {
        prompt: model.tokenizer.encode(prompt, true).unwrap(),
        max_tokens,
        min_tokens: 0,
        stop_tokens: model.stops,
        draw: Draw::greedy(),
        guided: false,
    }
}

/// The tokens of the answer that the model gives alone, and its text.
pub(crate) fn expected(wanted: &Wanted) -> (Vec<Token>, String) {
    expected_of(CAPACITY, wanted)
}

/// The same of a model with other limits.
pub(crate) fn expected_of(capacity: Capacity, wanted: &Wanted) -> (Vec<Token>, String) {
    let tokens = alone(capacity, wanted);
    let stopped = tokens.last().is_some_and(|last| wanted.stop_tokens.contains(last));
    let of_text = &tokens[..tokens.len() - usize::from(stopped)];
    (tokens.clone(), model().tokenizer.decode(of_text, true))
}

/// The text at a path, in all objects of a stream that have it for this choice.
pub(crate) fn joined(objects: &[Value], index: usize, path: &str) -> String {
    let choices = objects.iter().flat_map(|object| object["choices"].as_array().into_iter().flatten());
    let own = choices.filter(|choice| choice["index"] == index);
    own.filter_map(|choice| choice.pointer(path)?.as_str()).collect()
}

/// The last value at a path of this choice that is not null.
pub(crate) fn last(objects: &[Value], index: usize, path: &str) -> Value {
    let choices = objects.iter().flat_map(|object| object["choices"].as_array().into_iter().flatten());
    let own = choices.filter(|choice| choice["index"] == index);
    own.filter_map(|choice| choice.pointer(path).filter(|value| !value.is_null()))
        .next_back()
        .cloned()
        .unwrap_or_default()
}
