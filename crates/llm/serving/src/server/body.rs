//! Bodies of requests: their size, their time, and their JSON.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::encode::Client;
use super::error::ApiError;
use super::{App, Limits};

/// Reads a body and begins its answer, on a thread where a long text delays no other request. As many as there are
/// cores work at once, of which half are for large bodies; others wait.
pub(super) async fn begin<T: Send + 'static>(
    app: &Arc<App>,
    body: Body,
    begin: impl FnOnce(Arc<App>, &Value, &Client) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let (bytes, memory) = read(body, app).await?;
    let client = Client::default();
    // Dropped with this future when the client leaves.
    let _waiting = client.waiting();
    // Grammars and prompts of large bodies take seconds: they leave workers to the others.
    let large = if bytes.len() > UNCOUNTED { Some(permit(&app.large).await) } else { None };
    let worker = permit(&app.workers).await;
    // The work of others alone is waited for: they end.
    let values = room_for_values(&bytes, app)?;
    let values = permits(&app.value_memory, values).await;
    let app = app.clone();
    let work = move || {
        let _held = (large, worker, memory, values);
        begin(app, &parse(&bytes)?, &client)
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        let message = "The server failed on this request. This is a defect of the server: please report it.";
        Err(ApiError::status(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message))
    })
}

async fn permits(semaphore: &Arc<Semaphore>, number: u32) -> OwnedSemaphorePermit {
    let permits = semaphore.clone().acquire_many_owned(number).await;
    permits.unwrap_or_else(|_| unreachable!("the semaphore is never closed"))
}

async fn permit(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    permits(semaphore, 1).await
}

/// Bytes of a body that count for no bound but its own: connections bound how many bodies there are.
const UNCOUNTED: usize = 64 << 10;

/// The bytes of a body, and their part of what all bodies together may have.
async fn read(body: Body, app: &App) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), ApiError> {
    let limits = &app.limits;
    let read = tokio::time::timeout(limits.body_time, collect(body, app));
    read.await.unwrap_or_else(|_| {
        let message = format!("The body did not arrive within {} s.", limits.body_time.as_secs_f64());
        Err(ApiError::status(StatusCode::REQUEST_TIMEOUT, "timeout", message))
    })
}

async fn collect(mut body: Body, app: &App) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), ApiError> {
    let most = app.limits.body_bytes;
    let (mut bytes, mut memory) = (Vec::new(), None::<OwnedSemaphorePermit>);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::invalid(None, format!("The body is incomplete: {error}.")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > most {
            drop((bytes, memory));
            discard(body, most).await;
            let message = format!("The body is larger than {most} bytes.");
            return Err(ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
        }
        let counted = |length: usize| length.saturating_sub(UNCOUNTED);
        let more = counted(bytes.len() + data.len()) - counted(bytes.len());
        // Who waited for memory would keep what it has from others that wait.
        let Ok(more) = app.body_memory.clone().try_acquire_many_owned(more as u32) else {
            drop((bytes, memory));
            discard(body, most).await;
            let message = "The bodies of all requests are too large together: try again.";
            return Err(ApiError::status(StatusCode::TOO_MANY_REQUESTS, "overloaded", message));
        };
        match &mut memory {
            Some(memory) => memory.merge(more),
            None => memory = Some(more),
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, memory))
}

/// Reads a refused request's body to its end, and keeps nothing: a client that still sends when the connection closes
/// never reads why. Of longer bodies only some is read.
pub(super) async fn refuse(body: Body, limits: &Limits) {
    // Who sends slowly does not read the answer.
    drop(tokio::time::timeout(limits.body_time, discard(body, limits.body_bytes)).await);
}

async fn discard(mut body: Body, most: usize) {
    let mut left = MOST_DISCARDED * most;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, |data| data.len());
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}

/// How many times the size of the largest body is read of one that is refused.
const MOST_DISCARDED: usize = 4;

/// Bytes that the values of a body may take for each byte that it may have. Numbers take 36, and texts hardly more than in
/// the body, but a list in a list takes 150.
const VALUE_BYTES: usize = 6;

/// The KiB that the values of a body take in memory, if that is no more than they may.
fn room_for_values(body: &[u8], app: &App) -> Result<u32, ApiError> {
    let limits = &app.limits;
    let most = (VALUE_BYTES * limits.body_bytes.max(UNCOUNTED)).min(limits.all_body_bytes);
    let bytes = value_bytes(body);
    match u32::try_from(bytes >> 10) {
        Ok(room) if bytes <= most => Ok(room),
        _ => {
            let message = format!(
                "The body has too many values: they take {bytes} bytes of memory, and may take {most}."
            );
            Err(ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message))
        }
    }
}

/// About the bytes that the values of a JSON text take in memory. Each is a place in a list or an object, and a list has
/// places for four at least.
fn value_bytes(json: &[u8]) -> usize {
    const VALUE: usize = size_of::<Value>();
    /// The least that the allocator gives.
    const TEXT: usize = 32;
    let mut bytes = json.iter();
    let mut total = VALUE;
    while let Some(byte) = bytes.next() {
        total += match byte {
            b',' => VALUE,
            b'[' | b'{' => 4 * VALUE,
            b'"' => {
                while let Some(byte) = bytes.next().filter(|byte| **byte != b'"') {
                    if *byte == b'\\' {
                        bytes.next();
                    }
                }
                TEXT
            }
            _ => 0,
        };
    }
    total
}

/// The JSON of a body.
fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::invalid(None, format!("The body is not JSON: {error}.")))?;
    if value.is_object() { Ok(value) } else { Err(ApiError::invalid(None, "The body is not a JSON object.")) }
}

/// Reads the fields of `T` from an object. Others are left to other readers.
pub(super) fn fields<T: DeserializeOwned>(object: &Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        let reason = error.into_inner().to_string();
        let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
        match (path.as_str(), missing) {
            (_, Some((field, _))) => ApiError::invalid(None, format!("`{field}` is missing.")).at(field),
            (".", None) => ApiError::invalid(None, format!("The body is wrong: {reason}.")),
            (path, None) => ApiError::invalid(None, format!("`{path}` is wrong: {reason}.")).at(path),
        }
    })
}
