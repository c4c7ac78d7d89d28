//! The page's files as a browser gets them.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use warpwright_llm_serving::server::Limits;
use warpwright_llm_step::toy::Toy;

use super::client::{Client, Reply};
use crate::model::CAPACITY;

/// What would make HTML or a program of a text, or fetch from elsewhere.
const FORBIDDEN: [&str; 10] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "DOMParser",
    "createContextualFragment",
    "src=\"http",
    "import(",
];

/// Everything that the page and its modules name.
fn named(text: &str) -> BTreeSet<String> {
    let names = |mark: &str, before: &str| -> Vec<String> {
        let parts = text.split(mark).skip(1);
        parts.filter_map(|rest| Some(format!("{before}{}", rest.split_once('"')?.0))).collect()
    };
    [names("href=\"page/", "/page/"), names("src=\"page/", "/page/"), names("from \"./", "/page/")]
        .concat()
        .into_iter()
        .collect()
}

async fn get(client: &Client, path: &str) -> Reply {
    let reply = client.get(path).await;
    assert_eq!(reply.status, StatusCode::OK, "{path}");
    let policy = reply.headers["content-security-policy"].to_str().unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "require-trusted-types-for 'script'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(rule), "{path}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{path}: {policy}");
    for forbidden in FORBIDDEN {
        assert!(!reply.text.contains(forbidden), "{path} has {forbidden}");
    }
    reply
}

#[tokio::test]
async fn the_page_is_complete_and_makes_no_text_a_program() {
    // A page without its key asks for one.
    let limits = Limits { api_key: Some("secret".to_owned()), ..Limits::default() };
    let client = Client::of(Toy::new(CAPACITY), limits);
    let page = get(&client, "/").await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    for inline in ["style=", "onclick=", "<style", "<script>"] {
        assert!(!page.text.contains(inline), "the policy forbids {inline}");
    }
    let (mut seen, mut open) = (BTreeSet::new(), named(&page.text));
    while let Some(path) = open.pop_first() {
        let file = get(&client, &path).await;
        let kind = match path.rsplit_once('.').unwrap().1 {
            "js" => "text/javascript",
            "css" => "text/css",
            _ => "image/svg+xml",
        };
        assert_eq!(file.headers["content-type"], format!("{kind}; charset=utf-8"));
        open.extend(named(&file.text).into_iter().filter(|path| !seen.contains(path)));
        seen.insert(path);
    }
    // No file is served that nothing names.
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/page")).unwrap();
    let names: BTreeSet<String> =
        files.map(|file| format!("/page/{}", file.unwrap().file_name().display())).collect();
    assert_eq!(&seen | &BTreeSet::from(["/page/index.html".to_owned()]), names);
    assert_eq!(client.get("/page/none.js").await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.get("/v1/models").await.status, StatusCode::UNAUTHORIZED);
}
