//! Errors as OpenAI's API writes them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::guide::GrammarError;
use crate::scheduler::Refused;
use crate::service::{Failed, SubmitError};
use crate::template::TemplateError;
use crate::tokenizer::TokenizerError;

/// An error that a client reads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    message: String,
    kind: &'static str,
    param: Option<String>,
    code: Option<&'static str>,
}

impl ApiError {
    /// The request is wrong.
    pub(super) fn invalid(param: impl Into<Option<&'static str>>, message: impl Into<String>) -> ApiError {
        ApiError {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            kind: "invalid_request_error",
            param: param.into().map(str::to_owned),
            code: None,
        }
    }

    /// The grammar of a field does not compile.
    pub(super) fn grammar(field: &'static str, error: &GrammarError) -> ApiError {
        ApiError::invalid(field, sentence(&format!("The grammar does not compile: {error}")))
    }

    /// The same error, at a field.
    pub(super) fn at(self, param: &str) -> ApiError {
        ApiError { param: Some(param.to_owned()), ..self }
    }

    /// The same error; at a field, if it is of the request and names none.
    pub(super) fn or_at(self, param: &str) -> ApiError {
        if self.status == StatusCode::BAD_REQUEST && self.param.is_none() { self.at(param) } else { self }
    }

    /// The same error of an endpoint that has another name for a field.
    pub(super) fn rename(mut self, from: &str, to: &str) -> ApiError {
        if let Some(rest) = self.param.as_deref().and_then(|param| param.strip_prefix(from)) {
            self.param = Some(format!("{to}{rest}"));
            self.message = self.message.replace(&format!("`{from}"), &format!("`{to}"));
        }
        self
    }

    /// Another status.
    pub(super) fn status(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        ApiError { status, message: message.into(), kind, param: None, code: Some(code) }
    }

    /// The object that clients parse.
    pub(super) fn body(&self) -> Value {
        json!({ "error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
        } })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> ApiError {
        let code = matches!(refused, Refused::TooLong { .. }).then_some("context_length_exceeded");
        ApiError { code, ..ApiError::invalid(None, refused.to_string()) }
    }
}

impl From<Failed> for ApiError {
    fn from(failed: Failed) -> ApiError {
        let (status, code) = match failed {
            Failed::Engine(_) => (StatusCode::SERVICE_UNAVAILABLE, "engine_failed"),
            Failed::Answer(_) => (StatusCode::INTERNAL_SERVER_ERROR, "answer_failed"),
        };
        ApiError::status(status, code, failed.to_string())
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> ApiError {
        match error {
            SubmitError::Refused(refused) => refused.into(),
            SubmitError::Failed(failed) => failed.into(),
            SubmitError::Overloaded { .. } => {
                ApiError::status(StatusCode::TOO_MANY_REQUESTS, "overloaded", error.to_string())
            }
        }
    }
}

impl From<TokenizerError> for ApiError {
    fn from(error: TokenizerError) -> ApiError {
        let message = sentence(&error.to_string());
        match error {
            TokenizerError::TooLong { .. } => {
                ApiError::status(StatusCode::BAD_REQUEST, "context_length_exceeded", message)
            }
            TokenizerError::Stopped => ApiError::status(StatusCode::REQUEST_TIMEOUT, "client_left", message),
            _ => ApiError::invalid(None, message),
        }
    }
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> ApiError {
        ApiError::invalid("messages", sentence(&error.to_string()))
    }
}

/// The text with a capital and a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim_end().trim_end_matches('.');
    let mut characters = text.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", characters.as_str())
}
