//! The events of a response.

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::super::answer::{Answer, Delta, merge};
use super::super::sse::Events;
use super::item::Item;
use super::{Response, status};
use crate::text::Part;

/// A response that is streamed.
pub(super) struct Stream {
    response: Response,
    events: Events,
    sequence_number: u64,
    /// The item that is not complete.
    open: Option<Item>,
    /// Log-probabilities of text that is still to come.
    logprobs: Vec<Value>,
}

impl Stream {
    pub(super) fn new(response: Response, events: Events) -> Stream {
        Stream { response, events, sequence_number: 0, open: None, logprobs: Vec::new() }
    }

    /// Sends all events.
    pub(super) async fn run(mut self, answers: Vec<Answer>) {
        for event in ["response.created", "response.in_progress"] {
            self.send(event, json!({ "response": self.response.object("in_progress", None) })).await;
        }
        let mut finished = None;
        let mut deltas = std::pin::pin!(merge(answers));
        while let Some((_, delta)) = deltas.next().await {
            match delta {
                Ok(delta) => {
                    self.response.usage.add(&delta);
                    finished = delta.finished.clone().or(finished);
                    self.add(delta).await;
                }
                Err(error) => return self.send("error", error.body()["error"].take()).await,
            }
        }
        if self.open.is_none() && self.response.output.is_empty() {
            self.begin(Part::Content(String::new())).await;
        }
        self.end(status(finished.as_ref())).await;
        let object = self.response.finished(finished.as_ref());
        let event = format!("response.{}", object["status"].as_str().unwrap_or_default());
        self.send(&event, json!({ "response": object })).await;
    }

    async fn add(&mut self, delta: Delta) {
        self.logprobs.extend(self.response.logprobs(&delta));
        for part in delta.parts {
            let text = match &part {
                Part::Content(text) | Part::Reasoning(text) | Part::Arguments(text) => Some(text.clone()),
                Part::Call(_) => None,
            };
            let rest = match &mut self.open {
                Some(item) => item.append(part),
                None => Err(part),
            };
            if let Err(part) = rest {
                self.end(status(None)).await;
                self.begin(part).await;
            }
            if let (Some(item), Some(text)) = (&mut self.open, text) {
                let event = format!("{}.delta", item.event().0);
                let mut data = json!({ "delta": text });
                if item.is_text() {
                    let logprobs = std::mem::take(&mut self.logprobs);
                    item.list(&logprobs);
                    data["logprobs"] = logprobs.into();
                }
                self.send_of_item(&event, data).await;
            }
        }
    }

    /// Announces an item.
    async fn begin(&mut self, part: Part) {
        let item = Item::new(&self.response.app, part);
        let begun = item.begun();
        let empty = item.content().map(|mut content| {
            content["text"] = "".into();
            if content.get("logprobs").is_some() {
                content["logprobs"] = json!([]);
            }
            content
        });
        self.open = Some(item);
        self.send_of_item("response.output_item.added", json!({ "item": begun })).await;
        if let Some(part) = empty {
            self.send_of_item("response.content_part.added", json!({ "part": part })).await;
        }
    }

    /// Ends the item that is open, whole or not.
    async fn end(&mut self, status: &str) {
        let Some(item) = &self.open else { return };
        let (event, key, text) = item.event();
        let (event, mut done, content) = (format!("{event}.done"), json!({ key: text }), item.content());
        if item.is_text() {
            done["logprobs"] = item.logprobs().into();
        }
        let object = item.object(status);
        self.send_of_item(&event, done).await;
        if let Some(part) = content {
            self.send_of_item("response.content_part.done", json!({ "part": part })).await;
        }
        self.send_of_item("response.output_item.done", json!({ "item": object })).await;
        self.response.output.push(object);
        self.open = None;
    }

    async fn send_of_item(&mut self, event: &str, mut data: Value) {
        if let Some(item) = &self.open {
            data["item_id"] = item.id().into();
            data["output_index"] = self.response.output.len().into();
            data["content_index"] = 0.into();
        }
        self.send(event, data).await;
    }

    async fn send(&mut self, event: &str, mut data: Value) {
        data["type"] = event.into();
        data["sequence_number"] = self.sequence_number.into();
        self.sequence_number += 1;
        self.events.named(event, &data).await;
    }
}
