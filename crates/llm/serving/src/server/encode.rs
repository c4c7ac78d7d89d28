//! Texts to tokens, within what a prompt may have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use warpwright_llm_step::Token;

use super::App;
use super::error::ApiError;

/// Whether a client still waits. Dropping the last [`Waiting`] of it says that it has left.
#[derive(Clone, Default)]
pub(super) struct Client(Arc<AtomicBool>);

/// Held while a client waits.
pub(super) struct Waiting(Client);

impl Client {
    pub(super) fn waiting(&self) -> Waiting {
        Waiting(self.clone())
    }

    fn has_left(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes that a normalizer may compose to one: three letters of Hangul to a syllable.
const COMPOSED: usize = 3;
/// Bytes of a token of common texts at most. Longer texts are counted before they are encoded.
const COMMON_BYTES: usize = 8;
/// Bytes that are counted together.
const PIECE: usize = 16 << 10;
/// Tokens that a cut between pieces may add.
const PER_CUT: usize = 8;

/// The tokens of a text that may have `most`. Longer texts are refused before all of them is encoded, which takes
/// much more memory than the text.
pub(super) fn encode(
    app: &App,
    text: &str,
    special: bool,
    most: u32,
    client: &Client,
) -> Result<Vec<Token>, ApiError> {
    let tokenizer = &app.model.tokenizer;
    let most = most as usize;
    let too_long = |least: usize| {
        let message =
            format!("The prompt has more than {least} tokens, and may have {most}: shorten the prompt.");
        Err(ApiError::status(StatusCode::BAD_REQUEST, "context_length_exceeded", message))
    };
    let least = text.len() / (COMPOSED * app.longest_token);
    if least > most {
        return too_long(least);
    }
    if text.len() > COMMON_BYTES * most + PIECE {
        let (mut rest, mut count, mut cuts) = (text, 0, 0);
        while !rest.is_empty() {
            if client.has_left() {
                return Err(ApiError::status(
                    StatusCode::REQUEST_TIMEOUT,
                    "client_left",
                    "The client has left.",
                ));
            }
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            count += tokenizer.encode(piece, false)?.len();
            cuts += 1;
            rest = after;
            if let Some(least) = count.checked_sub(PER_CUT * cuts).filter(|least| *least > most) {
                return too_long(least);
            }
        }
    }
    Ok(tokenizer.encode(text, special)?)
}
