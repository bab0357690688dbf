//! The table of REST methods.

use super::Body::{All, Field, None};
use super::Verb::{Delete, Get, Patch, Post, Put};
use super::{Body, Method, Verb};

/// Every REST method of Pub/Sub v1, those of access policies included. StreamingPull has none.
pub const METHODS: &[Method] = &[
    // Topics
    publisher(Put, "/v1/{name=projects/*/topics/*}", "CreateTopic", All),
    publisher(Patch, "/v1/{topic.name=projects/*/topics/*}", "UpdateTopic", All),
    publisher(Post, "/v1/{topic=projects/*/topics/*}:publish", "Publish", All),
    publisher(Get, "/v1/{topic=projects/*/topics/*}", "GetTopic", None),
    publisher(Get, "/v1/{project=projects/*}/topics", "ListTopics", None),
    publisher(Get, "/v1/{topic=projects/*/topics/*}/subscriptions", "ListTopicSubscriptions", None),
    publisher(Get, "/v1/{topic=projects/*/topics/*}/snapshots", "ListTopicSnapshots", None),
    publisher(Delete, "/v1/{topic=projects/*/topics/*}", "DeleteTopic", None),
    publisher(
        Post,
        "/v1/{subscription=projects/*/subscriptions/*}:detach",
        "DetachSubscription",
        None,
    ),
    // Subscriptions
    subscriber(Put, "/v1/{name=projects/*/subscriptions/*}", "CreateSubscription", All),
    subscriber(Get, "/v1/{subscription=projects/*/subscriptions/*}", "GetSubscription", None),
    subscriber(
        Patch,
        "/v1/{subscription.name=projects/*/subscriptions/*}",
        "UpdateSubscription",
        All,
    ),
    subscriber(Get, "/v1/{project=projects/*}/subscriptions", "ListSubscriptions", None),
    subscriber(Delete, "/v1/{subscription=projects/*/subscriptions/*}", "DeleteSubscription", None),
    subscriber(
        Post,
        "/v1/{subscription=projects/*/subscriptions/*}:modifyAckDeadline",
        "ModifyAckDeadline",
        All,
    ),
    subscriber(
        Post,
        "/v1/{subscription=projects/*/subscriptions/*}:acknowledge",
        "Acknowledge",
        All,
    ),
    subscriber(Post, "/v1/{subscription=projects/*/subscriptions/*}:pull", "Pull", All),
    subscriber(
        Post,
        "/v1/{subscription=projects/*/subscriptions/*}:modifyPushConfig",
        "ModifyPushConfig",
        All,
    ),
    subscriber(Post, "/v1/{subscription=projects/*/subscriptions/*}:seek", "Seek", All),
    // Snapshots
    subscriber(Get, "/v1/{snapshot=projects/*/snapshots/*}", "GetSnapshot", None),
    subscriber(Get, "/v1/{project=projects/*}/snapshots", "ListSnapshots", None),
    subscriber(Put, "/v1/{name=projects/*/snapshots/*}", "CreateSnapshot", All),
    subscriber(Patch, "/v1/{snapshot.name=projects/*/snapshots/*}", "UpdateSnapshot", All),
    subscriber(Delete, "/v1/{snapshot=projects/*/snapshots/*}", "DeleteSnapshot", None),
    // Schemas
    schemas(Post, "/v1/{parent=projects/*}/schemas", "CreateSchema", Field("schema")),
    schemas(Get, "/v1/{name=projects/*/schemas/*}", "GetSchema", None),
    schemas(Get, "/v1/{parent=projects/*}/schemas", "ListSchemas", None),
    schemas(Get, "/v1/{name=projects/*/schemas/*}:listRevisions", "ListSchemaRevisions", None),
    schemas(Post, "/v1/{name=projects/*/schemas/*}:commit", "CommitSchema", All),
    schemas(Post, "/v1/{name=projects/*/schemas/*}:rollback", "RollbackSchema", All),
    schemas(Delete, "/v1/{name=projects/*/schemas/*}:deleteRevision", "DeleteSchemaRevision", None),
    schemas(Delete, "/v1/{name=projects/*/schemas/*}", "DeleteSchema", None),
    schemas(Post, "/v1/{parent=projects/*}/schemas:validate", "ValidateSchema", All),
    schemas(Post, "/v1/{parent=projects/*}/schemas:validateMessage", "ValidateMessage", All),
    // Access policies
    get_policy("/v1/{resource=projects/*/topics/*}:getIamPolicy"),
    get_policy("/v1/{resource=projects/*/subscriptions/*}:getIamPolicy"),
    get_policy("/v1/{resource=projects/*/snapshots/*}:getIamPolicy"),
    get_policy("/v1/{resource=projects/*/schemas/*}:getIamPolicy"),
    set_policy("/v1/{resource=projects/*/topics/*}:setIamPolicy"),
    set_policy("/v1/{resource=projects/*/subscriptions/*}:setIamPolicy"),
    set_policy("/v1/{resource=projects/*/snapshots/*}:setIamPolicy"),
    set_policy("/v1/{resource=projects/*/schemas/*}:setIamPolicy"),
    test_permissions("/v1/{resource=projects/*/topics/*}:testIamPermissions"),
    test_permissions("/v1/{resource=projects/*/subscriptions/*}:testIamPermissions"),
    test_permissions("/v1/{resource=projects/*/snapshots/*}:testIamPermissions"),
    test_permissions("/v1/{resource=projects/*/schemas/*}:testIamPermissions"),
];

const fn publisher(verb: Verb, path: &'static str, call: &'static str, body: Body) -> Method {
    Method { verb, path, service: "google.pubsub.v1.Publisher", call, body }
}

const fn subscriber(verb: Verb, path: &'static str, call: &'static str, body: Body) -> Method {
    Method { verb, path, service: "google.pubsub.v1.Subscriber", call, body }
}

const fn schemas(verb: Verb, path: &'static str, call: &'static str, body: Body) -> Method {
    Method { verb, path, service: "google.pubsub.v1.SchemaService", call, body }
}

const fn policy(verb: Verb, path: &'static str, call: &'static str, body: Body) -> Method {
    Method { verb, path, service: "google.iam.v1.IAMPolicy", call, body }
}

const fn get_policy(path: &'static str) -> Method {
    policy(Get, path, "GetIamPolicy", None)
}

const fn set_policy(path: &'static str) -> Method {
    policy(Post, path, "SetIamPolicy", All)
}

const fn test_permissions(path: &'static str) -> Method {
    policy(Post, path, "TestIamPermissions", All)
}
