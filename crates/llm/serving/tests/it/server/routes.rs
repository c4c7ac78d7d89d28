//! Endpoints that generate nothing.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};

use super::client::Client;
use crate::model::{CAPACITY, SPECIALS};

#[tokio::test]
async fn texts_become_tokens_and_texts_again() {
    let client = Client::new();
    for text in ["", "the man and", "日本語 🦀", SPECIALS[2]] {
        let tokens = client.answer("/tokenize", &json!({ "prompt": text })).await;
        assert_eq!(tokens["count"], tokens["tokens"].as_array().unwrap().len());
        assert_eq!(tokens["max_model_len"], CAPACITY.context);
        assert!(tokens["token_strs"].is_null());
        let back = client.answer("/detokenize", &json!({ "tokens": tokens["tokens"] })).await;
        assert_eq!(back["prompt"], text);
    }
    let body = json!({ "prompt": "the man", "return_token_strs": true });
    assert_eq!(client.answer("/tokenize", &body).await["token_strs"], json!(["the", " ", "m", "an"]));
}

#[tokio::test]
async fn the_model_is_listed() {
    let client = Client::new();
    let models = client.get("/v1/models").await.json();
    let model = &models["data"][0];
    assert_eq!((&model["id"], &model["max_model_len"]), (&json!("toy"), &json!(CAPACITY.context)));
    assert_eq!(client.get("/v1/models/toy").await.json(), *model);
    let other = client.get("/v1/models/some/other").await;
    assert_eq!((other.status.as_u16(), &other.json()["error"]["code"]), (404, &json!("model_not_found")));
}

/// Names as vLLM has them, with the endings that Prometheus sees.
const METRICS: [&str; 24] = [
    "vllm:num_requests_running{model_name=\"toy\"} 0",
    "vllm:num_requests_waiting{model_name=\"toy\"} 0",
    "vllm:kv_cache_usage_perc{model_name=\"toy\"} 0.0",
    "vllm:prefix_cache_queries_total{model_name=\"toy\"} 3",
    "vllm:prefix_cache_hits_total{model_name=\"toy\"} 0",
    "vllm:num_preemptions_total{model_name=\"toy\"} 0",
    "vllm:prompt_tokens_total{model_name=\"toy\"} 3",
    "vllm:generation_tokens_total{model_name=\"toy\"} 5",
    "vllm:time_to_first_token_seconds_count{model_name=\"toy\"} 1",
    "vllm:inter_token_latency_seconds_count{model_name=\"toy\"} 4",
    "vllm:e2e_request_latency_seconds_count{model_name=\"toy\"} 1",
    "vllm:iteration_tokens_total_sum{model_name=\"toy\"} 7.0",
    "vllm:request_prompt_tokens_sum{model_name=\"toy\"} 3.0",
    "vllm:request_generation_tokens_sum{model_name=\"toy\"} 5.0",
    "vllm:request_params_max_tokens_sum{model_name=\"toy\"} 5.0",
    "vllm:request_params_n_sum{model_name=\"toy\"} 1.0",
    "vllm:request_queue_time_seconds_count{model_name=\"toy\"} 1",
    "vllm:request_prefill_time_seconds_count{model_name=\"toy\"} 1",
    "vllm:request_decode_time_seconds_count{model_name=\"toy\"} 1",
    "vllm:request_inference_time_seconds_count{model_name=\"toy\"} 1",
    "vllm:request_time_per_output_token_seconds_count{model_name=\"toy\"} 1",
    "vllm:spec_decode_num_drafts_total{model_name=\"toy\"} 0",
    "vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",model_name=\"toy\",num_gpu_blocks=\"256\"} 1",
    "vllm:request_success_total{finished_reason=\"length\",model_name=\"toy\"} 1",
];

#[tokio::test]
async fn metrics_have_the_names_of_vllm() {
    let client = Client::new();
    let body = json!({ "prompt": [65, 66, 67], "max_tokens": 5, "ignore_eos": true });
    client.answer("/v1/completions", &body).await;
    for _ in 0..200 {
        if client.service.status().usage.used_pages == client.service.status().usage.idle_pages {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let text = client.get("/metrics").await.text;
    let sorted = |line: &str| {
        let (name, rest) = line.split_once('{').unwrap_or((line, "} "));
        let (labels, value) = rest.split_once("} ").unwrap_or(("", ""));
        let mut labels: Vec<&str> = labels.split(',').collect();
        labels.sort_unstable();
        format!("{name}{{{}}} {value}", labels.join(","))
    };
    let lines: Vec<String> = text.lines().map(sorted).collect();
    for metric in METRICS {
        assert!(lines.iter().any(|line| line == metric), "no {metric} in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn openapi_describes_every_route_and_every_field() {
    let client = Client::new();
    let document = client.get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let expected = [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/models",
        "/v1/models/{model}",
        "/tokenize",
        "/detokenize",
        "/health",
        "/ready",
        "/metrics",
        "/version",
        "/openapi.json",
        "/",
    ];
    for path in expected {
        assert!(paths.contains_key(path), "{path}");
    }
    assert_eq!(paths.len(), expected.len());
    for (path, operations) in paths {
        for method in operations.as_object().unwrap().keys() {
            let uri = path.replace("{model}", "toy");
            let request = Request::builder().method(method.to_uppercase().as_str()).uri(uri);
            let reply = client.send(request.body(Body::empty()).unwrap()).await;
            let is_there = ![StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&reply.status);
            assert!(
                is_there && (method == "post") == (reply.status == StatusCode::BAD_REQUEST),
                "{method} {path}"
            );
        }
    }
    // Each reference of a body leads to an object whose fields all have a description.
    let schemas = &document["components"]["schemas"];
    let of_bodies = ["ChatFields", "CompletionFields", "ResponsesFields", "SamplingFields", "TokenizeFields"];
    for name in of_bodies {
        let fields = schemas[name]["properties"].as_object().unwrap();
        for (field, schema) in fields {
            let described = schema.get("description").is_some_and(Value::is_string);
            assert!(described, "{name}.{field}: {schema}");
        }
    }
    assert!(!document.to_string().contains("#/$defs"), "a reference to nowhere");
}

/// `docs/serving.md`.
const PAGE: &str = include_str!("../../../../../../docs/serving.md");

#[tokio::test]
async fn the_documentation_has_every_endpoint_and_every_metric() {
    let client = Client::new();
    let document = client.get("/openapi.json").await.json();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(PAGE.contains(&format!(" {path}`")), "{path}");
    }
    for line in client.get("/metrics").await.text.lines() {
        // `# TYPE name type`; the names of counters end in `_total` where they are read.
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            assert!(PAGE.contains(&format!("`{name}`")), "{name}");
        }
    }
}

#[tokio::test]
async fn pages_and_probes_answer() {
    let client = Client::new();
    let page = client.get("/").await;
    assert!(page.status == StatusCode::OK && page.text.contains("v1/chat/completions"));
    for path in ["/health", "/ready"] {
        assert_eq!(client.get(path).await.status, StatusCode::OK);
    }
    assert!(client.get("/version").await.json()["version"].is_string());
    let missing = client.get("/v2/nothing").await;
    assert_eq!(
        (missing.status, &missing.json()["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    let method = client.get("/v1/completions").await;
    assert_eq!(method.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(method.json()["error"]["code"], "method_not_allowed");
}
