//! The page to chat: its files, and the headers that keep it from running anything else.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};

use super::App;

/// The folder of the page's files in addresses. They hold no secret and need no key.
pub(super) const FOLDER: &str = "/page/";

/// Files, and their types.
const FILES: [(&str, &str, &str); 12] = [
    ("style.css", "text/css", include_str!("page/style.css")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("main.js", "text/javascript", include_str!("page/main.js")),
    ("answer.js", "text/javascript", include_str!("page/answer.js")),
    ("api.js", "text/javascript", include_str!("page/api.js")),
    ("code.js", "text/javascript", include_str!("page/code.js")),
    ("dialog.js", "text/javascript", include_str!("page/dialog.js")),
    ("inline.js", "text/javascript", include_str!("page/inline.js")),
    ("markdown.js", "text/javascript", include_str!("page/markdown.js")),
    ("message.js", "text/javascript", include_str!("page/message.js")),
    ("settings.js", "text/javascript", include_str!("page/settings.js")),
    ("store.js", "text/javascript", include_str!("page/store.js")),
];

/// Only the page's own files run, style or are asked for; no text becomes HTML (trusted types), and no other page
/// frames this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// The page itself.
pub(super) fn index() -> MethodRouter<Arc<App>> {
    get(|| async { file("text/html", include_str!("page/index.html")) })
}

/// The files that the page names.
pub(super) fn files() -> Router<Arc<App>> {
    FILES.into_iter().fold(Router::new(), |router, (name, kind, text)| {
        router.route(&format!("{FOLDER}{name}"), get(move || async move { file(kind, text) }))
    })
}

fn file(kind: &str, text: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, String); 3] = [
        (header::CONTENT_TYPE, format!("{kind}; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        // A new version of the server has a new page.
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    (headers, text)
}
