//! Which call a path means.

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called<'path> {
    Publisher,
    Subscriber,
    StreamingPull,
    Live,
    LiveStream,
    Schemas,
    /// Health and reflection.
    Other,
    /// A service and a call that are not built.
    Missing(&'path str, &'path str),
}

const PUBLISHER: &str = "google.pubsub.v1.Publisher";
const SUBSCRIBER: &str = "google.pubsub.v1.Subscriber";
const LIVE: &str = "postrider.live.v1.Live";
const SCHEMAS: &str = "google.pubsub.v1.SchemaService";

/// What every path of another service that there is begins with.
const OTHERS: [&str; 2] = ["grpc.health.v1.", "grpc.reflection."];

/// The calls of the services, the frequent ones first.
const PUBLISHER_CALLS: [&str; 9] = [
    "Publish",
    "CreateTopic",
    "UpdateTopic",
    "GetTopic",
    "ListTopics",
    "ListTopicSubscriptions",
    "ListTopicSnapshots",
    "DeleteTopic",
    "DetachSubscription",
];
const SUBSCRIBER_CALLS: [&str; 15] = [
    "Acknowledge",
    "ModifyAckDeadline",
    "Pull",
    "CreateSubscription",
    "GetSubscription",
    "UpdateSubscription",
    "ListSubscriptions",
    "DeleteSubscription",
    "ModifyPushConfig",
    "GetSnapshot",
    "ListSnapshots",
    "CreateSnapshot",
    "UpdateSnapshot",
    "DeleteSnapshot",
    "Seek",
];
const SCHEMA_CALLS: [&str; 10] = [
    "GetSchema",
    "ValidateMessage",
    "ListSchemas",
    "ListSchemaRevisions",
    "CreateSchema",
    "CommitSchema",
    "RollbackSchema",
    "DeleteSchemaRevision",
    "DeleteSchema",
    "ValidateSchema",
];
const LIVE_CALLS: [&str; 3] = ["Heartbeat", "Register", "Delete"];

impl<'path> Called<'path> {
    /// What the path of a request means.
    pub(super) fn find(path: &'path str) -> Self {
        let name = path.strip_prefix('/').unwrap_or(path);
        let (service, call) = name.split_once('/').unwrap_or((name, ""));
        match service {
            PUBLISHER if PUBLISHER_CALLS.contains(&call) => Self::Publisher,
            SUBSCRIBER if call == "StreamingPull" => Self::StreamingPull,
            SUBSCRIBER if SUBSCRIBER_CALLS.contains(&call) => Self::Subscriber,
            LIVE if call == "Stream" => Self::LiveStream,
            LIVE if LIVE_CALLS.contains(&call) => Self::Live,
            SCHEMAS if SCHEMA_CALLS.contains(&call) => Self::Schemas,
            _ if OTHERS.iter().any(|other| service.starts_with(other)) => Self::Other,
            _ => Self::Missing(service, call),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::rest::METHODS;

    use super::*;

    #[test]
    fn every_call_of_google_s_services_is_found() {
        for method in METHODS {
            let path = format!("/{}/{}", method.service, method.call);
            let expected = match method.service {
                PUBLISHER => Called::Publisher,
                SUBSCRIBER => Called::Subscriber,
                SCHEMAS => Called::Schemas,
                service => Called::Missing(service, method.call),
            };
            assert_eq!(Called::find(&path), expected, "{path}");
        }
        let stream = "/google.pubsub.v1.Subscriber/StreamingPull";
        assert_eq!(Called::find(stream), Called::StreamingPull);
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (path, service, call) in [
            ("/google.pubsub.v1.Publisher/Fly", PUBLISHER, "Fly"),
            ("/no.such.Service/Call", "no.such.Service", "Call"),
            ("/no.such.Service/Call/x", "no.such.Service", "Call/x"),
            ("/x", "x", ""),
            ("/", "", ""),
            ("", "", ""),
        ] {
            assert_eq!(Called::find(path), Called::Missing(service, call));
        }
        assert_eq!(Called::find("/grpc.health.v1.Health/Check"), Called::Other);
        let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        assert_eq!(Called::find(reflection), Called::Other);
    }
}
