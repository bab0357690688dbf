//! Which status a client sees for what went wrong: Google's code, and the words.

use std::fmt;

use broker::Error;
use domain::Invalid;
use tonic::{Code, Status};
use wire::json::JsonError;

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Google's code for it.
    pub(crate) code: Code,
    /// The field at fault as the definitions spell it, if there is one.
    field: Option<String>,
    problem: String,
}

/// What calls return.
pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

impl Refusal {
    /// A refusal that is not about one field.
    pub(crate) fn new(code: Code, problem: impl Into<String>) -> Self {
        Self { code, field: None, problem: problem.into() }
    }

    /// A call that is not built.
    pub(crate) fn call_not_built(call: &str) -> Self {
        Self::new(Code::Unimplemented, format!("{call} is not implemented"))
    }

    /// A field that only its default value is accepted for.
    pub(crate) fn field_not_built(field: impl Into<String>) -> Self {
        Self {
            code: Code::Unimplemented,
            field: Some(field.into()),
            problem: "not implemented".to_owned(),
        }
    }

    /// The message as REST words it: fields in camel case.
    pub(crate) fn rest_message(&self) -> String {
        match &self.field {
            Some(field) => format!("{}: {}", camel_case(field), self.problem),
            None => self.problem.clone(),
        }
    }

    /// The HTTP status code Google sends with this code.
    pub(crate) fn http_code(&self) -> http::StatusCode {
        use http::StatusCode as Http;
        match self.code {
            Code::Ok => Http::OK,
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
                Http::BAD_REQUEST
            }
            Code::Unauthenticated => Http::UNAUTHORIZED,
            Code::PermissionDenied => Http::FORBIDDEN,
            Code::NotFound => Http::NOT_FOUND,
            Code::AlreadyExists | Code::Aborted => Http::CONFLICT,
            Code::ResourceExhausted => Http::TOO_MANY_REQUESTS,
            Code::Cancelled => Http::from_u16(499).unwrap_or(Http::BAD_REQUEST),
            Code::Unimplemented => Http::NOT_IMPLEMENTED,
            Code::Unavailable => Http::SERVICE_UNAVAILABLE,
            Code::DeadlineExceeded => Http::GATEWAY_TIMEOUT,
            Code::Unknown | Code::Internal | Code::DataLoss => Http::INTERNAL_SERVER_ERROR,
        }
    }

    /// The code's name in REST answers.
    pub(crate) fn code_name(&self) -> &'static str {
        match self.code {
            Code::Ok => "OK",
            Code::Cancelled => "CANCELLED",
            Code::Unknown => "UNKNOWN",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Aborted => "ABORTED",
            Code::OutOfRange => "OUT_OF_RANGE",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
            Code::DataLoss => "DATA_LOSS",
            Code::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.to_string())
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self { code: Code::InvalidArgument, field: Some(invalid.field), problem: invalid.problem }
    }
}

impl From<JsonError> for Refusal {
    fn from(error: JsonError) -> Self {
        // The path is what the client wrote, so it stays as it is in every spelling.
        Self::new(Code::InvalidArgument, error.to_string())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Invalid(invalid) => return invalid.clone().into(),
            Error::NotFound(..) => Code::NotFound,
            Error::AlreadyExists(..) => Code::AlreadyExists,
            Error::Contended(..) => Code::Aborted,
            Error::Full => Code::ResourceExhausted,
            Error::Closing => Code::Unavailable,
            Error::Unreadable(..) => Code::Internal,
            Error::Storage(storage) => storage_code(storage),
        };
        Self::new(code, error.to_string())
    }
}

/// Clients repeat what is `UNAVAILABLE`. That is right for an unknown outcome too: a publish may
/// then happen twice, but it is not lost.
fn storage_code(error: &storage::Error) -> Code {
    match error {
        storage::Error::Full => Code::ResourceExhausted,
        storage::Error::Conflict => Code::Aborted,
        storage::Error::Unavailable(_)
        | storage::Error::Indeterminate(_)
        | storage::Error::Fenced { .. }
        | storage::Error::InUse(_)
        | storage::Error::Database(_) => Code::Unavailable,
        storage::Error::Corrupt { .. } => Code::DataLoss,
        storage::Error::NotFound | storage::Error::Format { .. } => Code::Internal,
    }
}

/// `ack_deadline_seconds` → `ackDeadlineSeconds`; what stands in quotes is left alone.
fn camel_case(field: &str) -> String {
    let mut camel = String::with_capacity(field.len());
    let (mut quoted, mut raise) = (false, false);
    for char in field.chars() {
        quoted ^= char == '"';
        if char == '_' && !quoted {
            raise = true;
        } else if raise {
            camel.push(char.to_ascii_uppercase());
            raise = false;
        } else {
            camel.push(char);
        }
    }
    camel
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use broker::Resource;

    use super::*;

    #[test]
    fn rest_spells_fields_in_camel_case() {
        assert_eq!(camel_case("page_size"), "pageSize");
        assert_eq!(camel_case("messages[1].ordering_key"), "messages[1].orderingKey");
        assert_eq!(
            camel_case(r#"messages[0].attributes["a_b"]"#),
            r#"messages[0].attributes["a_b"]"#
        );
        let refusal = Refusal::from(Invalid::new("page_size", "negative"));
        assert_eq!(refusal.rest_message(), "pageSize: negative");
        assert_eq!(refusal.to_string(), "page_size: negative");
    }

    #[test]
    fn every_error_of_the_broker_has_its_code() {
        let io = || Arc::new(std::io::Error::other("x"));
        let name = || "projects/p/topics/orders".to_owned();
        for (error, code, http, word) in [
            (Invalid::new("f", "p").into(), Code::InvalidArgument, 400, "INVALID_ARGUMENT"),
            (Error::NotFound(Resource::Topic, name()), Code::NotFound, 404, "NOT_FOUND"),
            (
                Error::AlreadyExists(Resource::Topic, name()),
                Code::AlreadyExists,
                409,
                "ALREADY_EXISTS",
            ),
            (Error::Contended(Resource::Topic, name()), Code::Aborted, 409, "ABORTED"),
            (Error::Full, Code::ResourceExhausted, 429, "RESOURCE_EXHAUSTED"),
            (Error::Closing, Code::Unavailable, 503, "UNAVAILABLE"),
            (storage::Error::Unavailable(io()).into(), Code::Unavailable, 503, "UNAVAILABLE"),
            (storage::Error::Indeterminate(io()).into(), Code::Unavailable, 503, "UNAVAILABLE"),
            (storage::Error::Full.into(), Code::ResourceExhausted, 429, "RESOURCE_EXHAUSTED"),
        ] {
            let error: Error = error;
            let refusal = Refusal::from(error);
            assert_eq!(refusal.code, code, "{refusal}");
            assert_eq!(refusal.http_code().as_u16(), http, "{refusal}");
            assert_eq!(refusal.code_name(), word, "{refusal}");
        }
    }

    #[test]
    fn a_missing_topic_is_named_as_google_does() {
        let error = Error::NotFound(Resource::Topic, "projects/p/topics/t".to_owned());
        assert_eq!(Refusal::from(error).to_string(), "topic projects/p/topics/t not found");
    }
}
