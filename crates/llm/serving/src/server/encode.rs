//! Texts to tokens, within what a prompt may have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// The tokens of a text that may have `most`, while its client waits.
pub(super) fn encode(
    app: &App,
    text: &str,
    special: bool,
    most: u32,
    client: &Client,
) -> Result<Vec<Token>, ApiError> {
    let goes_on = || !client.has_left();
    Ok(app.model.tokenizer.encode_within(text, special, most as usize, goes_on)?)
}
