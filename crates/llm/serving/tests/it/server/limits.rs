//! Sizes, times, keys, overload, disconnects and the end of a server.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use warpwright_llm_serving::scheduler::Options;
use warpwright_llm_serving::server::{Limits, Server};
use warpwright_llm_serving::service::Service;
use warpwright_llm_step::toy::Toy;

use super::client::{Client, events, expected, greedy, post};
use super::loopback::{Loopback, read, read_some};
use crate::model::{CAPACITY, model};

const PATH: &str = "/v1/completions";

/// An answer that takes a while.
fn long() -> Value {
    json!({ "prompt": "the", "max_tokens": 1000, "ignore_eos": true, "temperature": 0 })
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = true.into();
    body
}

/// Waits until no sequence holds memory.
async fn wait_until_free(client: &Client) {
    for _ in 0..400 {
        let usage = client.service.status().usage;
        if client.service.requests() == 0 && usage.running == 0 && usage.used_pages == usage.idle_pages {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("still in use: {:?}", client.service.status());
}

#[tokio::test]
async fn bodies_have_a_size_and_a_time() {
    let limits = Limits { body_bytes: 100, body_time: Duration::from_millis(30), ..Limits::default() };
    let client = Client::of(Toy::new(CAPACITY), limits);
    let large = json!({ "prompt": "x".repeat(100) });
    let reply = client.post(PATH, &large).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &json!("body_too_large"))
    );
    let cut = stream::iter([Ok(b"{".to_vec()), Err(std::io::Error::other("the connection ended"))]);
    let reply = client.send(Request::post(PATH).body(Body::from_stream(cut)).unwrap()).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["message"]),
        (StatusCode::BAD_REQUEST, &json!("The body is incomplete: the connection ended."))
    );
    let never = stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let reply = client.send(Request::post(PATH).body(Body::from_stream(never)).unwrap()).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (StatusCode::REQUEST_TIMEOUT, &json!("timeout"))
    );
}

/// A client that still sends when the connection closes would never read why.
#[tokio::test]
async fn a_client_reads_why_its_large_body_is_refused() {
    let body = json!({ "prompt": "x".repeat(3 << 20) }).to_string();
    for (path, api_key, status) in [
        (PATH, None, 413),
        (PATH, Some("secret".to_owned()), 401),
        ("/v1/embeddings", None, 404),
        ("/health", None, 405),
    ] {
        let client =
            Client::of(Toy::new(CAPACITY), Limits { body_bytes: 1 << 20, api_key, ..Limits::default() });
        let server = Loopback::start(&client, Duration::ZERO).await;
        assert_eq!(server.post(path, &body).await.unwrap().0, status, "{path}");
    }
}

#[tokio::test]
async fn bodies_have_a_size_together() {
    let limits = Limits { all_body_bytes: 150_000, ..Limits::default() };
    let client = Client::of(Toy::new(CAPACITY), limits);
    let large = json!({ "prompt": "x", "max_tokens": 1, "user": "x".repeat(200_000) }).to_string();
    let part = stream::iter([Ok::<_, std::io::Error>(large.clone().into_bytes())]).chain(stream::pending());
    let open = Request::post(PATH).body(Body::from_stream(part)).unwrap();
    let mut stuck = Box::pin(client.send(open));
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut stuck).await.is_err());
    let reply = client.post(PATH, &large).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("overloaded"))
    );
    let small = json!({ "prompt": "x", "max_tokens": 1 });
    assert_eq!(client.post(PATH, &small).await.status, StatusCode::OK);
    drop(stuck);
    assert_eq!(client.post(PATH, &large).await.status, StatusCode::OK);
}

/// Small bodies of which values take a hundred times as much are refused before they are read.
#[tokio::test]
async fn values_of_bodies_have_a_size() {
    let client = Client::new();
    let of = |values: &str| format!(r#"{{"prompt": "the", "max_tokens": 1, "user": [{values}0]}}"#);
    let nested = format!("{}{},", "[".repeat(100), "]".repeat(100));
    for values in
        ["0,".repeat(2_000_000), "[0],".repeat(400_000), "{},".repeat(400_000), nested.repeat(4_000)]
    {
        let reply = client.post(PATH, of(&values)).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (StatusCode::PAYLOAD_TOO_LARGE, &json!("body_too_large"))
        );
    }
    // Commas of texts are no values.
    let text = format!(r#""{}\"[[","#, ",[{".repeat(2_000_000));
    for values in [text, "0,".repeat(1_000_000)] {
        assert_eq!(client.post(PATH, of(&values)).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_head_has_a_time_and_connections_a_number() {
    for body_time in [Duration::from_millis(50), Limits::default().body_time] {
        let limits = Limits { body_time, connections: 2, ..Limits::default() };
        let client = Client::of(Toy::new(CAPACITY), limits);
        let server = Loopback::start(&client, Duration::ZERO).await;
        let mut silent = TcpStream::connect(server.address).await.unwrap();
        let mut slow = TcpStream::connect(server.address).await.unwrap();
        slow.write_all(b"POST /v1/completions HTTP/1.1\r\nHost").await.unwrap();
        let mut third = Box::pin(server.post(PATH, r#"{"prompt": "the"}"#));
        if body_time < Limits::default().body_time {
            // The time of both connections ends.
            for stream in [&mut silent, &mut slow] {
                stream.read_to_end(&mut Vec::new()).await.unwrap();
            }
        } else {
            // Both connections are taken until one of them is closed.
            assert!(tokio::time::timeout(Duration::from_millis(50), &mut third).await.is_err());
            drop(silent);
        }
        assert_eq!(third.await.unwrap().0, 200);
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_cut() {
    let client = Client::slow(Limits { answer_time: Duration::from_millis(400), ..Limits::default() });
    let answer = client.answer(PATH, &long()).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "abort");
    let text = choice["text"].as_str().unwrap();
    let (_, all) = expected(&{
        let mut wanted = greedy("the", 1000);
        wanted.stop_tokens = vec![];
        wanted
    });
    // A character may be cut.
    assert!(!text.is_empty() && all.starts_with(text.trim_end_matches('\u{fffd}')), "{text:?}");
    wait_until_free(&client).await;
}

#[tokio::test]
async fn a_key_opens_what_is_not_open() {
    let client =
        Client::of(Toy::new(CAPACITY), Limits { api_key: Some("secret".to_owned()), ..Limits::default() });
    let body = json!({ "prompt": "the", "max_tokens": 1 });
    for (key, status) in [
        (None, StatusCode::UNAUTHORIZED),
        (Some("Bearer wrong"), StatusCode::UNAUTHORIZED),
        (Some("Bearer secrets"), StatusCode::UNAUTHORIZED),
        (Some("secret"), StatusCode::UNAUTHORIZED),
        (Some("Bearer secret"), StatusCode::OK),
        (Some("bearer secret"), StatusCode::OK),
        (Some("BEARER  secret "), StatusCode::OK),
        (Some("Basic secret"), StatusCode::UNAUTHORIZED),
    ] {
        let mut request = post(PATH, &body);
        if let Some(key) = key {
            request.headers_mut().insert(header::AUTHORIZATION, key.parse().unwrap());
        }
        let reply = client.send(request).await;
        assert_eq!(reply.status, status, "{key:?}");
        if status == StatusCode::UNAUTHORIZED {
            assert_eq!(reply.json()["error"]["code"], "invalid_api_key");
            assert_eq!(reply.headers[header::WWW_AUTHENTICATE], "Bearer");
        }
    }
    for path in ["/", "/health", "/ready", "/metrics", "/version", "/openapi.json"] {
        assert_eq!(client.get(path).await.status, StatusCode::OK, "{path}");
    }
    for path in ["/v1/models", "/nothing"] {
        assert_eq!(client.get(path).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn an_overloaded_server_says_so() {
    let toy = Toy::new(CAPACITY).step_time(Duration::from_millis(5));
    let service = Service::start(Box::new(toy), Options::default(), 2);
    let router = Server::new(model(), service.clone(), Limits::default()).unwrap().router();
    let send = |body: Value| tower::ServiceExt::oneshot(router.clone(), post(PATH, body));
    let running = send(streamed(long())).await.unwrap();
    assert_eq!(running.status(), StatusCode::OK);
    // Two choices do not fit: neither stays.
    let mut two = long();
    two["n"] = 2.into();
    let refused = send(two).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    let refused = axum::body::to_bytes(refused.into_body(), usize::MAX).await.unwrap();
    let refused: Value = serde_json::from_slice(&refused).unwrap();
    assert_eq!(refused["error"]["type"], "rate_limit_error");
    assert_eq!(service.requests(), 1);
    drop(running);
    for _ in 0..400 {
        if service.requests() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the dropped answer is still counted");
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_pages() {
    let client = Client::slow(Limits::default());
    let server = Loopback::start(&client, Duration::from_secs(5)).await;
    let mut streaming = server.send(PATH, &streamed(long()).to_string()).await.unwrap();
    let waiting = server.send(PATH, &long().to_string()).await.unwrap();
    read_some(&mut streaming).await;
    while client.service.status().usage.running < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop((streaming, waiting));
    wait_until_free(&client).await;
    // Neither has its thousand tokens.
    let text = client.get("/metrics").await.text;
    assert!(
        text.contains("finished_reason=\"abort\",model_name=\"toy\"} 2")
            || text.contains("model_name=\"toy\",finished_reason=\"abort\"} 2"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_that_drains_ends_what_runs() {
    let client = Client::slow(Limits::default());
    let server = Loopback::start(&client, Duration::from_secs(20)).await;
    let body = json!({ "prompt": "the", "max_tokens": 50, "ignore_eos": true, "temperature": 0 });
    let address = server.address;
    let mut running = server.send(PATH, &streamed(body.clone()).to_string()).await.unwrap();
    read_some(&mut running).await;
    let served = server.shut_down();
    while client.get("/ready").await.status == StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // New requests are refused, on connections that exist and on new ones.
    let refused = client.post(PATH, &body).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("shutting_down"))
    );
    assert_eq!(client.get("/health").await.status, StatusCode::OK);
    let mut text = String::new();
    running.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("[DONE]") && text.contains("\"finish_reason\":\"length\""), "{text}");
    served.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
    wait_until_free(&client).await;
}

#[tokio::test]
async fn a_server_without_grace_aborts_what_runs() {
    let client = Client::slow(Limits::default());
    let server = Loopback::start(&client, Duration::ZERO).await;
    let mut running = server.send(PATH, &streamed(long()).to_string()).await.unwrap();
    let waiting = server.send(PATH, &long().to_string()).await.unwrap();
    read_some(&mut running).await;
    while client.service.status().usage.running < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let served = server.shut_down();
    let (status, text) = read(waiting).await.unwrap();
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["choices"][0]["finish_reason"], "abort");
    let mut rest = String::new();
    running.read_to_string(&mut rest).await.unwrap();
    assert!(rest.contains("\"finish_reason\":\"abort\"") && rest.contains("[DONE]"), "{rest}");
    assert!(events(&rest).last().is_some());
    served.await.unwrap();
    wait_until_free(&client).await;
}

#[tokio::test]
async fn web_pages_of_others_cannot_use_the_server() {
    let limits = Limits {
        hosts: Some(vec!["llm.test".to_owned()]),
        origins: vec!["https://good.test".to_owned()],
        ..Limits::default()
    };
    let client = Client::of(Toy::new(CAPACITY), limits);
    let body = json!({ "prompt": "the", "max_tokens": 1 });
    let json_type = "application/json";
    let curl = "application/x-www-form-urlencoded";
    for (host, origin, kind, status) in [
        (None, None, json_type, 200),
        (Some("localhost:8000"), None, json_type, 200),
        (Some("127.0.0.1:8000"), None, "application/json; charset=utf-8", 200),
        (Some("[::1]:8000"), None, curl, 200),
        (Some("LLM.test"), None, json_type, 200),
        (Some("evil.test:8000"), None, json_type, 403),
        (Some("evil.test:8000"), Some("http://evil.test:8000"), json_type, 403),
        (Some("localhost:8000"), Some("http://localhost:8000"), json_type, 200),
        (Some("localhost:8000"), Some("http://localhost:3000"), json_type, 403),
        (Some("localhost:8000"), Some("http://evil.test"), "text/plain", 403),
        (Some("localhost:8000"), Some("null"), curl, 403),
        (Some("localhost:8000"), Some("https://good.test"), json_type, 200),
        (Some("localhost:8000"), None, "text/plain", 415),
        (Some("localhost:8000"), None, "multipart/form-data; boundary=x", 415),
    ] {
        let mut request = post(PATH, &body);
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        let reply = client.send(request).await;
        assert_eq!(reply.status.as_u16(), status, "{host:?} {origin:?} {kind}: {}", reply.text);
        assert_eq!(reply.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        let allowed = reply.headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN);
        assert_eq!(allowed.is_some(), origin == Some("https://good.test"));
    }
    // A browser asks first.
    for (origin, status) in [("https://good.test", 204), ("https://evil.test", 403)] {
        let request = Request::options(PATH).header(header::ORIGIN, origin);
        let request = request.header(header::ACCESS_CONTROL_REQUEST_HEADERS, "authorization,x-stainless-os");
        let reply = client.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status.as_u16(), status);
        if status == 204 {
            assert_eq!(reply.headers[header::ACCESS_CONTROL_ALLOW_HEADERS], "authorization,x-stainless-os");
        }
    }
}

#[tokio::test]
async fn a_long_text_is_refused_before_it_is_encoded() {
    let client = Client::of(Toy::new(CAPACITY), Limits { body_bytes: 64 << 20, ..Limits::default() });
    for text in ["x".repeat(15 << 20), "the man and the ".repeat(1 << 20), "\u{e9}\n".repeat(4 << 20)] {
        for (path, body) in [
            (PATH, json!({ "prompt": text })),
            ("/v1/chat/completions", json!({ "messages": [{ "role": "user", "content": text }] })),
            ("/tokenize", json!({ "prompt": text })),
        ] {
            let reply = client.post(path, &body).await;
            assert_eq!(
                (reply.status.as_u16(), &reply.json()["error"]["code"]),
                (400, &json!("context_length_exceeded"))
            );
            // The number of all tokens is not known.
            let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.starts_with("The prompt has more than "), "{message}");
        }
    }
    // What fits is encoded as a whole, however many bytes it has.
    let spaces = " the".repeat(1000);
    assert_eq!(client.answer("/tokenize", &json!({ "prompt": spaces })).await["count"], 1000);
}
