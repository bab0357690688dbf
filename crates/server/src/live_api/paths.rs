//! Which call a verb and a path mean.

use wire::rest::segment;

use super::fault::Fault;
use super::{PREFIX, Result};

/// A call, with what its path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Register,
    RegisterBatch,
    List,
    Get(String),
    Delete(String),
    Heartbeat(String),
    HeartbeatBatch,
    HeartbeatGateway(String),
    CloseGateway(String),
    Stream(String),
    Interest,
    Health,
}

/// The call.
pub(super) fn find(verb: &str, path: &str) -> Result<Call> {
    let shown = || path.chars().take(200).collect::<String>();
    let segments = path.strip_prefix(PREFIX).unwrap_or_default().split('/').map(segment);
    let Some(segments) = segments.collect::<Option<Vec<String>>>() else {
        return Err(Fault::argument("path", format!("{:?} is not well-formed", shown())));
    };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let calls = calls(&segments);
    if calls.is_empty() {
        return Err(Fault::not_found(format!("no such path: {:?}", shown())));
    }
    let verbs: Vec<&str> = calls.iter().map(|(verb, _)| *verb).collect();
    let verbs = verbs.join(", ");
    let call = calls.into_iter().find(|(other, _)| *other == verb).map(|(_, call)| call);
    call.ok_or_else(|| Fault::not_found(format!("{:?} can only be used with {verbs}", shown())))
}

/// What a path can be used for, and with which verb.
fn calls(segments: &[&str]) -> Vec<(&'static str, Call)> {
    let own = |text: &str| text.to_owned();
    match *segments {
        ["subscriptions"] => vec![("POST", Call::Register), ("GET", Call::List)],
        ["subscriptions:batch"] => vec![("POST", Call::RegisterBatch)],
        ["subscriptions:heartbeat"] => vec![("PUT", Call::HeartbeatBatch)],
        ["subscriptions", id] => {
            vec![("GET", Call::Get(own(id))), ("DELETE", Call::Delete(own(id)))]
        }
        ["subscriptions", id, "heartbeat"] => vec![("PUT", Call::Heartbeat(own(id)))],
        ["gateways", id, "heartbeat"] => vec![("PUT", Call::HeartbeatGateway(own(id)))],
        ["gateways", id, "subscriptions"] => vec![("DELETE", Call::CloseGateway(own(id)))],
        ["gateways", id, "stream"] => vec![("GET", Call::Stream(own(id)))],
        ["interest"] => vec![("GET", Call::Interest)],
        ["health"] => vec![("GET", Call::Health)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_call() {
        let id = || "a b/c".to_owned();
        for (verb, path, call) in [
            ("POST", "subscriptions", Call::Register),
            ("GET", "subscriptions", Call::List),
            ("POST", "subscriptions:batch", Call::RegisterBatch),
            ("PUT", "subscriptions:heartbeat", Call::HeartbeatBatch),
            ("GET", "subscriptions/a%20b%2Fc", Call::Get(id())),
            ("DELETE", "subscriptions/a%20b%2Fc", Call::Delete(id())),
            ("PUT", "subscriptions/a%20b%2Fc/heartbeat", Call::Heartbeat(id())),
            ("PUT", "gateways/a%20b%2Fc/heartbeat", Call::HeartbeatGateway(id())),
            ("DELETE", "gateways/a%20b%2Fc/subscriptions", Call::CloseGateway(id())),
            ("GET", "gateways/a%20b%2Fc/stream", Call::Stream(id())),
            ("GET", "interest", Call::Interest),
            ("GET", "health", Call::Health),
        ] {
            assert_eq!(find(verb, &format!("{PREFIX}{path}")).unwrap(), call);
            let refused = find("PATCH", &format!("{PREFIX}{path}")).unwrap_err();
            assert_eq!(refused.status.as_u16(), 404);
            assert!(refused.message.contains(verb), "{}", refused.message);
        }
        for (path, status) in [("", 404), ("gateways/a", 404), ("a/b/c/d", 404), ("a%zz", 400)] {
            let refused = find("GET", &format!("{PREFIX}{path}")).unwrap_err();
            assert_eq!(refused.status.as_u16(), status, "{path}");
        }
    }
}
