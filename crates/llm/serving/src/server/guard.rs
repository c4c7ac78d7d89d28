//! Who may use the server: keys, hosts, and the origins of web pages.
//!
//! A web page can make its visitor's browser send requests to a server of the visitor's machine. It cannot set the
//! headers `Host` and `Origin`, by which such requests are known: a page that names the machine itself (DNS rebinding)
//! has a foreign host, any other page a foreign origin.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use super::{App, Limits, body, endpoints};

/// What every response tells browsers: nothing of it is run, framed or kept but what the page brings itself.
const SECURITY: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self' 'unsafe-inline' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];

/// Lets a request pass, while requests are accepted, and adds the headers for browsers.
pub(super) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let origin = allowed_origin(request.headers(), &app.limits);
    let mut response = match check(&app, &request, origin.is_some()) {
        Ok(()) if request.method() == Method::OPTIONS && origin.is_some() => {
            preflight(request.headers()).into_response()
        }
        Ok(()) => next.run(request).await,
        Err(error) => {
            body::refuse(request.into_body(), &app.limits).await;
            error.into_response()
        }
    };
    let headers = response.headers_mut();
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

fn check(app: &App, request: &Request, is_allowed_origin: bool) -> Result<(), ApiError> {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if let (Some(host), Some(names)) = (host, &app.limits.hosts)
        && !is_own(host, names)
    {
        let message = format!("This server is not `{host}`: start it with --allowed-hosts to use this name.");
        return Err(ApiError::status(StatusCode::FORBIDDEN, "foreign_host", message));
    }
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let is_same = origin.is_none_or(|origin| origin.split_once("://").map(|(_, origin)| origin) == host);
    if !is_same && !is_allowed_origin && request.method() != Method::GET {
        let message = "Web pages of other origins may not use this server: start it with --allowed-origins.";
        return Err(ApiError::status(StatusCode::FORBIDDEN, "foreign_origin", message));
    }
    // A browser asks without a key whether it may send one.
    if request.method() == Method::OPTIONS && is_allowed_origin {
        return Ok(());
    }
    if request.method() == Method::POST && !is_json(headers) {
        let message = "The body is JSON: send it with `Content-Type: application/json`.";
        return Err(ApiError::status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    let is_plain = |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| !is_plain(encoding)) {
        let message = "The body is compressed: send it without `Content-Encoding`.";
        return Err(ApiError::status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    if endpoints::is_open(request.uri().path()) {
        return Ok(());
    }
    if let Some(key) = &app.limits.api_key {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        let given = given
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map_or("", |(_, key)| key.trim());
        if !equal(given.as_bytes(), key.as_bytes()) {
            let message = "The API key is missing or wrong: send `Authorization: Bearer KEY`.";
            return Err(ApiError::status(StatusCode::UNAUTHORIZED, "invalid_api_key", message));
        }
    }
    if request.method() == Method::POST && *app.draining.borrow() {
        return Err(endpoints::draining());
    }
    Ok(())
}

/// Whether a host is an address, this machine, or one of these names.
fn is_own(host: &str, names: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_local =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    is_local || name.parse::<IpAddr>().is_ok() || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether a body says that it is JSON. curl calls each body a form, which only pages of the same origin can send.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return true };
    let kind =
        kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json") || kind == "application/x-www-form-urlencoded"
}

/// The origin of a request, if pages of it may use the server.
fn allowed_origin(headers: &HeaderMap, limits: &Limits) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    limits
        .origins
        .iter()
        .any(|allowed| allowed == "*" || allowed.as_bytes() == origin.as_bytes())
        .then(|| origin.clone())
}

/// The answer to a browser that asks whether it may send a request.
fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    answer.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        wanted.unwrap_or(HeaderValue::from_static("authorization, content-type")),
    );
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    response
}

/// Compares in a time that does not tell where texts differ.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}
