//! Bodies of requests: their size, their time, and their JSON.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::encode::Client;
use super::error::ApiError;
use super::{App, Limits};

/// Reads a body and begins its answer, on a thread where a long text delays no other request. As many as there are
/// cores work at once; others wait.
pub(super) async fn begin<T: Send + 'static>(
    app: &Arc<App>,
    body: Body,
    begin: impl FnOnce(Arc<App>, &Value, &Client) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let bytes = read(body, &app.limits).await?;
    let client = Client::default();
    // Dropped with this future when the client leaves.
    let _waiting = client.waiting();
    let Ok(worker) = app.workers.clone().acquire_owned().await else {
        unreachable!("the semaphore is never closed")
    };
    let app = app.clone();
    let work = move || {
        let _worker = worker;
        begin(app, &parse(&bytes)?, &client)
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        let message = "The server failed on this request. This is a defect of the server: please report it.";
        Err(ApiError::status(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message))
    })
}

/// The bytes of a body.
async fn read(body: Body, limits: &Limits) -> Result<Bytes, ApiError> {
    let bytes = tokio::time::timeout(limits.body_time, axum::body::to_bytes(body, limits.body_bytes));
    let bytes = bytes.await.map_err(|_| {
        let message = format!("The body did not arrive within {} s.", limits.body_time.as_secs_f64());
        ApiError::status(StatusCode::REQUEST_TIMEOUT, "timeout", message)
    })?;
    bytes.map_err(|error| {
        let error = error.into_inner();
        if error.is::<LengthLimitError>() {
            let message = format!("The body is larger than {} bytes.", limits.body_bytes);
            return ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message);
        }
        ApiError::invalid(None, format!("The body is incomplete: {error}."))
    })
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
