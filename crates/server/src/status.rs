//! Which status a client sees for what went wrong: Google's code, and the words.

use std::collections::BTreeMap;
use std::fmt;

use broker::{Error, Rejected};
use domain::{Invalid, live};
use tonic::{Code, Status};
use wire::json::JsonError;
use wire::rpc::{self, ErrorInfo};

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Google's code for it.
    pub(crate) code: Code,
    /// The field at fault as the definitions spell it, if there is one.
    field: Option<String>,
    problem: String,
    /// The cause by its name, where programs act on it.
    info: Option<Box<ErrorInfo>>,
}

/// What calls return.
pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

impl Refusal {
    /// A refusal that is not about one field.
    pub(crate) fn new(code: Code, problem: impl Into<String>) -> Self {
        Self { code, field: None, problem: problem.into(), info: None }
    }

    /// The same as the fault of a field, with what to do about it.
    pub(crate) fn about(self, field: &str, remedy: &str) -> Self {
        let problem = format!("{}; {remedy}", self.problem);
        Self { field: Some(field.to_owned()), problem, ..self }
    }

    /// A call that is not built, with what is not there.
    pub(crate) fn no_such_call(service: &str, call: &str) -> Self {
        const SHOWN_MAX: usize = 200;
        let missing = match service {
            "google.iam.v1.IAMPolicy" => {
                "this server has no access policies yet; anyone who can reach it can do anything"
            }
            "google.pubsub.v1.Publisher"
            | "google.pubsub.v1.SchemaService"
            | "google.pubsub.v1.Subscriber"
            | "postrider.live.v1.Live" => "the service has no such call here",
            _ => "this server has no such service",
        };
        let name: String = format!("{service}/{call}").chars().take(SHOWN_MAX).collect();
        Self::new(Code::Unimplemented, format!("{name} is not implemented: {missing}"))
    }

    /// The same with another status.
    pub(crate) fn with(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// A field that only its default value is accepted for.
    pub(crate) fn field_not_built(field: impl Into<String>) -> Self {
        Self {
            code: Code::Unimplemented,
            field: Some(field.into()),
            problem: "not implemented".to_owned(),
            info: None,
        }
    }

    /// A definition of what this server does not run, where the settings say that such are refused.
    pub(crate) fn not_run(field: &str) -> Self {
        let problem = "this server does not run it, and api.unsupported is \"refuse\"; leave it \
                       out, or set api.unsupported = \"keep\" to have it kept and shown";
        Self { problem: problem.to_owned(), ..Self::field_not_built(field) }
    }

    /// Ack ids that no longer count, on an exactly-once subscription. Official clients read which
    /// ones from the detail; the other ids of the call are done. All are listed, however many:
    /// clients take 4 MiB of metadata for it.
    pub(crate) fn ack_ids_void(ids: impl IntoIterator<Item = String>) -> Self {
        let metadata = ids.into_iter().map(|id| (id, VOID_ACK_ID.to_owned())).collect();
        let info = ErrorInfo {
            reason: "EXACTLY_ONCE_ACKID_FAILURE".to_owned(),
            domain: "pubsub.googleapis.com".to_owned(),
            metadata,
        };
        let problem = "some ack ids are invalid: their leases have ended, or they were never ack \
                       ids";
        Self { info: Some(Box::new(info)), ..Self::new(Code::InvalidArgument, problem) }
    }

    /// A message that is not as its schema says, with Google's words for it.
    fn rejected(rejected: &Rejected) -> Self {
        let Rejected { schema, rejection, .. } = rejected;
        let mut metadata = BTreeMap::new();
        let mut put = |key: &str, value: String| metadata.insert(key.to_owned(), value);
        put("message", "Message failed schema validation".to_owned());
        if let Some(schema) = schema {
            let last = rejection.revision.map(|id| format!("revision_id={id}"));
            let info = format!(
                "Could not validate message with any schema revision for schema: {schema}, last \
                 checked revision: {} failed with status: {}",
                last.unwrap_or_else(|| "none".to_owned()),
                rejection.problem
            );
            put("revisionInfo", info);
        }
        let info = ErrorInfo {
            reason: rejection.reason().to_owned(),
            domain: "pubsub.googleapis.com".to_owned(),
            metadata,
        };
        let text = rejected.to_string();
        Self { info: Some(Box::new(info)), ..Self::new(Code::InvalidArgument, text) }
    }

    /// The cause by its name, if it has one.
    pub(crate) fn info(&self) -> Option<&ErrorInfo> {
        self.info.as_deref()
    }

    /// The message as REST words it: fields in camel case.
    pub(crate) fn rest_message(&self) -> String {
        match &self.field {
            Some(field) => format!("{}: {}", camel_case(field), self.problem),
            None => self.problem.clone(),
        }
    }

    /// The field at fault as REST spells it.
    pub(crate) fn rest_field(&self) -> Option<String> {
        self.field.as_deref().map(camel_case)
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
        rpc::code_name(self.code)
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

/// What Google calls an ack id that will never count again.
const VOID_ACK_ID: &str = "PERMANENT_FAILURE_INVALID_ACK_ID";

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal.info {
            None => Self::new(refusal.code, message),
            Some(info) => {
                let details = info.encode_status(refusal.code.into(), &message);
                Self::with_details(refusal.code, message, details)
            }
        }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self {
            code: Code::InvalidArgument,
            field: Some(invalid.field),
            problem: invalid.problem,
            info: None,
        }
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
            Error::Forbidden(invalid) => {
                return Self { code: Code::PermissionDenied, ..invalid.clone().into() };
            }
            Error::Schema(schemas::Error::Request(invalid)) => return invalid.clone().into(),
            Error::Schema(refused) => schema_code(refused.status()),
            Error::Rejected(rejected) => return Self::rejected(rejected),
            Error::SchemaDeleted(_) | Error::Transform(_) => Code::InvalidArgument,
            Error::NotFound(..) => Code::NotFound,
            Error::AlreadyExists(..) => Code::AlreadyExists,
            Error::Contended(..) => Code::Aborted,
            Error::FailedPrecondition(_) => Code::FailedPrecondition,
            Error::Full | Error::TransformsBusy => Code::ResourceExhausted,
            Error::Closing
            | Error::LogStuck(_)
            | Error::NotOwner(_)
            | Error::LeaseOver
            | Error::Stalled => Code::Unavailable,
            Error::Unreadable(..)
            | Error::NoRandomness
            | Error::NoTransforms(_)
            | Error::Export(_)
            | Error::Push(_) => Code::Internal,
            Error::Storage(storage) => storage_code(storage),
        };
        Self::new(code, error.to_string())
    }
}

/// The HTTP status of a refused call about live subscriptions. One that registers has taken an id
/// that is another's, and the id is the trouble; any other call may not touch it.
pub(crate) fn live_http_code(refusal: &live::Refusal, registers: bool) -> http::StatusCode {
    use http::StatusCode as Http;
    match refusal {
        live::Refusal::Invalid(_)
        | live::Refusal::Filter(_)
        | live::Refusal::Cel(_)
        | live::Refusal::FilterTooComplex(_) => Http::BAD_REQUEST,
        live::Refusal::NotOwner(_) if !registers => Http::FORBIDDEN,
        live::Refusal::Exists(_) | live::Refusal::NotOwner(_) => Http::CONFLICT,
        live::Refusal::NotFound(_) => Http::NOT_FOUND,
        live::Refusal::Expired(_) => Http::GONE,
        live::Refusal::GatewayQuota(..)
        | live::Refusal::TenantQuota(..)
        | live::Refusal::GlobalQuota(_) => Http::TOO_MANY_REQUESTS,
    }
}

fn schema_code(status: schemas::Status) -> Code {
    match status {
        schemas::Status::InvalidArgument => Code::InvalidArgument,
        schemas::Status::NotFound => Code::NotFound,
        schemas::Status::AlreadyExists => Code::AlreadyExists,
        schemas::Status::FailedPrecondition => Code::FailedPrecondition,
        schemas::Status::ResourceExhausted => Code::ResourceExhausted,
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
        | storage::Error::InUse(_) => Code::Unavailable,
        storage::Error::Corrupt { .. } => Code::DataLoss,
        storage::Error::NotFound
        | storage::Error::Misplaced { .. }
        | storage::Error::Format { .. } => Code::Internal,
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
            (
                Error::FailedPrecondition("not now".to_owned()),
                Code::FailedPrecondition,
                400,
                "FAILED_PRECONDITION",
            ),
            (Error::Full, Code::ResourceExhausted, 429, "RESOURCE_EXHAUSTED"),
            (Error::Closing, Code::Unavailable, 503, "UNAVAILABLE"),
            (Error::LogStuck("damage".to_owned()), Code::Unavailable, 503, "UNAVAILABLE"),
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
    fn void_ack_ids_are_named_in_a_detail() {
        let refusal = Refusal::ack_ids_void(["a".to_owned(), "b".to_owned()]);
        let info = refusal.info().unwrap().clone();
        let listed: Vec<_> =
            info.metadata.iter().map(|(id, why)| (id.as_str(), why.as_str())).collect();
        assert_eq!(listed, [("a", VOID_ACK_ID), ("b", VOID_ACK_ID)]);
        let status = Status::from(refusal);
        let encoded = info.encode_status(3, status.message());
        assert_eq!((status.code(), status.details()), (Code::InvalidArgument, &encoded[..]));
        let plain = Status::from(Refusal::new(Code::NotFound, "no"));
        assert!(plain.details().is_empty());
    }

    #[test]
    fn a_missing_topic_is_named_as_google_does() {
        let error = Error::NotFound(Resource::Topic, "projects/p/topics/t".to_owned());
        assert_eq!(Refusal::from(error).to_string(), "topic projects/p/topics/t not found");
    }
}
