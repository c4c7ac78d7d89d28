//! The table of endpoints: what the router serves and what OpenAPI describes.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::chat_request::ChatFields;
use super::completion::CompletionFields;
use super::error::ApiError;
use super::fields::SamplingFields;
use super::responses::ResponsesFields;
use super::tokens::{DetokenizeFields, TokenizeFields};
use super::{App, body, chat, completion, guard, page, responses, tokens};

/// The fields of a body, as schemas that all hold.
type Body = fn(&mut SchemaGenerator) -> Vec<schemars::Schema>;

struct Endpoint {
    path: &'static str,
    method: Method,
    summary: &'static str,
    body: Option<Body>,
    handler: MethodRouter<Arc<App>>,
}

fn reads(path: &'static str, summary: &'static str, handler: MethodRouter<Arc<App>>) -> Endpoint {
    Endpoint { path, method: Method::GET, summary, body: None, handler }
}

fn posts(path: &'static str, summary: &'static str, body: Body, handler: MethodRouter<Arc<App>>) -> Endpoint {
    Endpoint { path, method: Method::POST, summary, body: Some(body), handler }
}

fn endpoints() -> Vec<Endpoint> {
    vec![
        posts(
            "/v1/chat/completions",
            "Answer a conversation",
            |schemas| vec![schemas.subschema_for::<ChatFields>(), schemas.subschema_for::<SamplingFields>()],
            post(chat::handle),
        ),
        posts(
            "/v1/completions",
            "Continue a text",
            |schemas| {
                vec![schemas.subschema_for::<CompletionFields>(), schemas.subschema_for::<SamplingFields>()]
            },
            post(completion::handle),
        ),
        posts(
            "/v1/responses",
            "Answer a conversation, by the responses API",
            |schemas| {
                vec![schemas.subschema_for::<ResponsesFields>(), schemas.subschema_for::<SamplingFields>()]
            },
            post(responses::handle),
        ),
        posts(
            "/tokenize",
            "Text or a conversation to tokens",
            |schemas| vec![schemas.subschema_for::<TokenizeFields>()],
            post(tokens::tokenize),
        ),
        posts(
            "/detokenize",
            "Tokens to text",
            |schemas| vec![schemas.subschema_for::<DetokenizeFields>()],
            post(tokens::detokenize),
        ),
        reads("/v1/models", "The model that is served", get(models)),
        reads("/v1/models/{*model}", "One model", get(model)),
        reads("/health", "Whether the engine runs", get(health)),
        reads("/ready", "Whether new requests are accepted", get(ready)),
        reads("/metrics", "Metrics for Prometheus", get(metrics)),
        reads("/version", "The version of the server", get(version)),
        reads("/openapi.json", "This description", get(openapi)),
        reads("/", "A page to chat", page::index()),
    ]
}

/// Paths that need no key: probes, and what holds no secret.
const OPEN: [&str; 6] = ["/", "/health", "/ready", "/metrics", "/version", "/openapi.json"];

pub(super) fn router(app: &Arc<App>) -> Router {
    let routes = endpoints().into_iter();
    let router = routes.fold(Router::new(), |router, endpoint| router.route(endpoint.path, endpoint.handler));
    router
        .merge(page::files())
        .fallback(|State(app): State<Arc<App>>, request: Request| async move {
            let message = format!("There is no endpoint {}: see /openapi.json.", request.uri().path());
            body::refuse(request.into_body(), &app.limits).await;
            ApiError::status(StatusCode::NOT_FOUND, "not_found", message)
        })
        .method_not_allowed_fallback(|State(app): State<Arc<App>>, request: Request| async move {
            let message = format!("{} has no method {}.", request.uri().path(), request.method());
            body::refuse(request.into_body(), &app.limits).await;
            ApiError::status(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        })
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app.clone())
}

/// Whether a path needs no key.
pub(super) fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || path.starts_with(page::FOLDER)
}

pub(super) fn draining() -> ApiError {
    ApiError::status(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "The server is shutting down.")
}

async fn health(State(app): State<Arc<App>>) -> Result<&'static str, ApiError> {
    app.service.failed().map_or(Ok(""), |failed| Err(failed.into()))
}

async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, ApiError> {
    if *app.draining.borrow() {
        return Err(draining());
    }
    app.service.failed().map_or(Ok(""), |failed| Err(failed.into()))
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.encode(&app.service.status())).into_response()
}

async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({ "object": "list", "data": [served(&app)] }))
}

async fn model(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    if name == app.model.name { Ok(Json(served(&app))) } else { Err(app.no_such_model(&name)) }
}

fn served(app: &App) -> Value {
    json!({
        "id": app.model.name,
        "object": "model",
        "created": app.created,
        "owned_by": "warpwright",
        "max_model_len": app.service.limits().context,
        // Not OpenAI's: what the page and the terminal take where their users say nothing.
        "chat_defaults": app.model.for_chat(),
    })
}

async fn openapi() -> Json<Value> {
    let mut schemas = SchemaSettings::openapi3().into_generator();
    let error = json!({ "description": "An error", "content": { "application/json": { "schema": {
        "type": "object", "properties": { "error": { "type": "object", "properties": {
            "message": { "type": "string" },
            "type": { "type": "string" },
            "param": { "type": "string", "nullable": true },
            "code": { "type": "string", "nullable": true },
        } } },
    } } } });
    let mut paths = Map::new();
    for endpoint in endpoints() {
        let mut operation = json!({
            "summary": endpoint.summary,
            "responses": { "200": { "description": "The answer" }, "default": error },
        });
        if !OPEN.contains(&endpoint.path) {
            operation["security"] = json!([{ "key": [] }]);
        }
        if let Some(body) = endpoint.body {
            operation["requestBody"] = json!({ "required": true, "content": {
                "application/json": { "schema": { "allOf": body(&mut schemas) } },
            } });
        }
        let method = endpoint.method.as_str().to_lowercase();
        let path = endpoint.path.replace("{*", "{");
        if path.contains('{') {
            operation["parameters"] =
                json!([{ "name": "model", "in": "path", "required": true, "schema": { "type": "string" } }]);
        }
        paths.insert(path, Value::Object(Map::from_iter([(method, operation)])));
    }
    Json(json!({
        "openapi": "3.0.3",
        "info": { "title": "warpwright-llm", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
    }))
}
