//! A refused call: its HTTP status, and the body that says why.

use domain::{Invalid, live};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tonic::body::Body;
use wire::json::JsonError;

use crate::rest::json_response;
use crate::status::{Refusal, live_http_code};

/// A refused call.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) field: Option<String>,
}

const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
const INVALID_FILTER: &str = "INVALID_FILTER";

impl Fault {
    /// A field that breaks a rule.
    pub(super) fn argument(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Invalid::new(field, problem).into()
    }

    /// A part of a filter that breaks a rule.
    pub(super) fn filter(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { code: INVALID_FILTER, ..Self::argument(field, problem) }
    }

    /// There is no such path.
    pub(super) fn not_found(message: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, code: "NOT_FOUND", message, field: None }
    }

    /// What a call that registers is refused for.
    pub(super) fn registering(refusal: &live::Refusal) -> Self {
        Self::live(refusal, true)
    }

    /// What any other call is refused for.
    pub(super) fn touching(refusal: &live::Refusal) -> Self {
        Self::live(refusal, false)
    }

    fn live(refusal: &live::Refusal, registers: bool) -> Self {
        Self {
            status: live_http_code(refusal, registers),
            code: refusal.code(),
            message: refusal.to_string(),
            field: refusal.field().map(str::to_owned),
        }
    }

    /// What is in the body under `error`.
    pub(super) fn show(&self) -> Value {
        let mut shown = json!({"code": self.code, "message": self.message});
        if let Some(field) = &self.field {
            shown["field"] = json!(field);
        }
        shown
    }

    pub(super) fn response(&self) -> Response<Body> {
        json_response(self.status, json!({"error": self.show()}).to_string())
    }
}

impl From<Invalid> for Fault {
    fn from(invalid: Invalid) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code: INVALID_ARGUMENT,
            message: invalid.to_string(),
            field: Some(invalid.field),
        }
    }
}

impl From<JsonError> for Fault {
    fn from(error: JsonError) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code: INVALID_ARGUMENT,
            message: error.to_string(),
            field: Some(error.path).filter(|path| !path.is_empty()),
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self {
            status: refusal.http_code(),
            code: refusal.code_name(),
            message: refusal.rest_message(),
            field: refusal.rest_field(),
        }
    }
}
