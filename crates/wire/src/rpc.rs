//! `google.rpc`: why a call was refused, in a form that programs read.
//!
//! gRPC carries a [`Status`] in the metadata `grpc-status-details-bin`; REST shows the same in
//! the array `details` of its error body.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use serde::ser::{Serialize, SerializeMap, Serializer};
use tonic::Code;

/// A code as Google writes it.
pub fn code_name(code: Code) -> &'static str {
    match code {
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

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Status {
    /// The code of the call's status.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The message of the call's status.
    #[prost(string, tag = "2")]
    pub message: String,
    /// What there is to say besides.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.protobuf.Any`: an encoded message and its type.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Any {
    /// `type.googleapis.com/` and the full name of the type.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The message.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// `google.rpc.ErrorInfo`: the cause of a refusal by its name.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ErrorInfo {
    /// The cause, such as `EXACTLY_ONCE_ACKID_FAILURE`.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// Whose causes these are, such as `pubsub.googleapis.com`.
    #[prost(string, tag = "2")]
    pub domain: String,
    /// More about it, by name.
    #[prost(btree_map = "string, string", tag = "3")]
    pub metadata: BTreeMap<String, String>,
}

impl ErrorInfo {
    /// Its type, where a detail names it.
    pub const TYPE_URL: &'static str = "type.googleapis.com/google.rpc.ErrorInfo";

    /// The encoded [`Status`] that has this as its only detail. `code` and `message` must be
    /// those of the call's own status: clients refuse what differs.
    pub fn encode_status(&self, code: i32, message: &str) -> Bytes {
        let detail =
            Any { type_url: Self::TYPE_URL.to_owned(), value: self.encode_to_vec().into() };
        let status = Status { code, message: message.to_owned(), details: vec![detail] };
        status.encode_to_vec().into()
    }
}

/// As one of the `details` of a REST error.
impl Serialize for ErrorInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("@type", Self::TYPE_URL)?;
        fields.serialize_entry("reason", &self.reason)?;
        fields.serialize_entry("domain", &self.domain)?;
        fields.serialize_entry("metadata", &self.metadata)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ErrorInfo {
        ErrorInfo {
            reason: "BAD_ID".to_owned(),
            domain: "pubsub.googleapis.com".to_owned(),
            metadata: BTreeMap::from([("id-1".to_owned(), "PERMANENT".to_owned())]),
        }
    }

    #[test]
    fn a_status_holds_the_detail() {
        let status = Status::decode(info().encode_status(3, "no")).unwrap();
        assert_eq!((status.code, status.message.as_str()), (3, "no"));
        assert_eq!(status.details.len(), 1);
        assert_eq!(status.details[0].type_url, ErrorInfo::TYPE_URL);
        assert_eq!(ErrorInfo::decode(status.details[0].value.clone()).unwrap(), info());
    }

    #[test]
    fn json_names_the_type() {
        let text = concat!(
            r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BAD_ID","#,
            r#""domain":"pubsub.googleapis.com","metadata":{"id-1":"PERMANENT"}}"#
        );
        assert_eq!(serde_json::to_string(&info()).unwrap(), text);
    }
}
