//! Every limit of the API, by name: Google's first, then ours.

use std::time::Duration;

/// Minimum characters in the id of a topic, subscription, snapshot or schema.
pub const RESOURCE_ID_CHARS_MIN: usize = 3;
/// Maximum characters in the id of a topic, subscription, snapshot or schema.
pub const RESOURCE_ID_CHARS_MAX: usize = 255;

/// Maximum bytes of data in one message ("10 MB").
pub const MESSAGE_DATA_BYTES_MAX: usize = 10_000_000;
/// Minimum messages in one Publish.
pub const PUBLISH_MESSAGES_MIN: usize = 1;
/// Maximum messages in one Publish.
pub const PUBLISH_MESSAGES_MAX: usize = 1_000;
/// Maximum bytes of one request in its binary form. Google's front end counts in binary here,
/// unlike for messages.
pub const REQUEST_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Maximum attributes of one message.
pub const ATTRIBUTES_MAX: usize = 100;
/// Maximum bytes of an attribute's key.
pub const ATTRIBUTE_KEY_BYTES_MAX: usize = 256;
/// Maximum bytes of an attribute's value.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 1_024;
/// Maximum bytes of an ordering key.
pub const ORDERING_KEY_BYTES_MAX: usize = 1_024;

/// The shortest ack deadline of a subscription or a stream.
pub const ACK_DEADLINE_MIN: Duration = Duration::from_secs(10);
/// The longest ack deadline, also for a single lease.
pub const ACK_DEADLINE_MAX: Duration = Duration::from_secs(600);
/// The ack deadline of a subscription that names none (0 on the wire).
pub const ACK_DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// The shortest time messages are kept, on a topic or a subscription.
pub const RETENTION_MIN: Duration = Duration::from_secs(10 * 60);
/// The longest time messages are kept, on a topic or a subscription.
pub const RETENTION_MAX: Duration = Duration::from_secs(31 * DAY_S);
/// How long a subscription keeps messages by default.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(7 * DAY_S);

/// The shortest time after which an unused subscription may be deleted.
pub const EXPIRATION_MIN: Duration = Duration::from_secs(DAY_S);
/// How long after its last use a subscription is deleted by default.
pub const EXPIRATION_DEFAULT: Duration = Duration::from_secs(31 * DAY_S);

/// Maximum bytes of a subscription's filter.
pub const FILTER_BYTES_MAX: usize = 256;

/// The longest backoff a retry policy may set; the shortest is zero.
pub const BACKOFF_MAX: Duration = Duration::from_secs(600);
/// The first backoff of a retry policy that does not set one.
pub const BACKOFF_MIN_DEFAULT: Duration = Duration::from_secs(10);
/// The longest backoff of a retry policy that does not set one.
pub const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(600);

/// Minimum attempts after which a dead letter policy may apply.
pub const DELIVERY_ATTEMPTS_MIN: u32 = 5;
/// Maximum attempts after which a dead letter policy may apply.
pub const DELIVERY_ATTEMPTS_MAX: u32 = 100;
/// The attempts of a dead letter policy that sets none (0 on the wire).
pub const DELIVERY_ATTEMPTS_DEFAULT: u32 = 5;

/// How long a snapshot lives at most, counted from its creation and minus the age of the oldest
/// message it keeps.
pub const SNAPSHOT_LIFETIME_MAX: Duration = Duration::from_secs(7 * DAY_S);
/// A snapshot that would live for less than this is not created.
pub const SNAPSHOT_LIFETIME_MIN: Duration = Duration::from_secs(60 * 60);

/// Maximum labels of one resource.
pub const LABELS_MAX: usize = 64;
/// Maximum characters of a label's key (at least one) or value (may be empty).
pub const LABEL_CHARS_MAX: usize = 63;

/// Resource tags of a topic, a subscription or a snapshot.
pub const TAGS_MAX: usize = 50;
/// Bytes of a resource tag's key, and of its value.
pub const TAG_BYTES_MAX: usize = 512;
/// Minimum messages one Pull may ask for.
pub const PULL_MESSAGES_MIN: i32 = 1;
/// Maximum messages one Pull returns; asking for more is not an error.
pub const PULL_MESSAGES_MAX: usize = 1_000;
/// Maximum bytes of ack ids in one Acknowledge, ModifyAckDeadline or StreamingPull request.
pub const ACK_REQUEST_BYTES_MAX: usize = 512 * 1024;

/// The shortest time an object in a bucket may be asked to stay open.
pub const OBJECT_DURATION_MIN: Duration = Duration::from_secs(60);
/// The longest time an object in a bucket stays open.
pub const OBJECT_DURATION_MAX: Duration = Duration::from_secs(600);
/// How long an object in a bucket stays open by default.
pub const OBJECT_DURATION_DEFAULT: Duration = Duration::from_secs(300);
/// Minimum bytes after which a new object may be asked for ("1 KB").
pub const OBJECT_BYTES_MIN: u64 = 1_000;
/// Maximum bytes of an object.
pub const OBJECT_BYTES_MAX: u64 = 10 << 30;
/// Minimum messages after which a new object may be asked for.
pub const OBJECT_MESSAGES_MIN: u64 = 1_000;
/// Maximum bytes of an object's name.
pub const OBJECT_NAME_BYTES_MAX: usize = 1_024;

/// Default (0 in the request) and maximum page size of a list.
pub const PAGE_SIZE_MAX: usize = 1_000;

/// Maximum characters in a project's id. Ours: Google allows 30, or more with a domain.
pub const PROJECT_ID_CHARS_MAX: usize = 127;
/// Maximum bytes of the JSON of one request. Ours: base64 makes data a third longer, and what fits
/// over gRPC must also fit over REST.
pub const JSON_BYTES_MAX: usize = REQUEST_BYTES_MAX * 3 / 2;
/// Maximum bytes of message bodies one Pull or one response of a stream returns, except that one
/// message always fits. Ours: it keeps answers short, and well within what clients accept.
pub const PULL_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a subscription's `postrider.description`. Ours.
pub const DESCRIPTION_BYTES_MAX: usize = 4_096;
/// Maximum entries of a subscription's `postrider.metadata`. Ours.
pub const METADATA_MAX: usize = 64;
/// Maximum bytes of a key of `postrider.metadata`. Ours.
pub const METADATA_KEY_BYTES_MAX: usize = 256;
/// Maximum bytes of a value of `postrider.metadata`. Ours.
pub const METADATA_VALUE_BYTES_MAX: usize = 4_096;
/// Minimum attempts a subscription may be given with `postrider.maxAttempts`. Ours.
pub const ATTEMPTS_MIN: u32 = 1;
/// Maximum attempts a subscription may be given with `postrider.maxAttempts`. Ours.
pub const ATTEMPTS_MAX: u32 = 100;
/// The longest wait of `postrider.backoff`. Ours.
pub const BACKOFF_STEP_MAX: Duration = Duration::from_secs(DAY_S);
/// Maximum waits of `postrider.backoff`. Ours.
pub const BACKOFF_STEPS_MAX: usize = 100;
/// Without a retry policy, push backs off like the breaker: at least this long, doubling. Ours.
pub const PACE_MIN: Duration = Duration::from_millis(100);
/// The longest such backoff. Ours.
pub const PACE_MAX: Duration = Duration::from_secs(60);
/// The shortest timeout for an endpoint's answer. Ours.
pub const PUSH_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// The longest timeout for an endpoint's answer. Ours: Google's longest ack deadline.
pub const PUSH_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Maximum entries of `push_config.attributes`. Ours.
pub const PUSH_ATTRIBUTES_MAX: usize = 64;
/// Maximum bytes of the `service_account_email` of a token (RFC 5321). The minimum is one.
pub const OIDC_EMAIL_BYTES_MAX: usize = 254;
/// Maximum bytes of the `audience` of a token. Ours.
pub const OIDC_AUDIENCE_BYTES_MAX: usize = 2_048;
/// Maximum entries of `postrider.headers`. Ours.
pub const HEADERS_MAX: usize = 64;
/// Maximum bytes of a header's name. Ours.
pub const HEADER_NAME_BYTES_MAX: usize = 256;
/// Maximum bytes of a header's value. Ours.
pub const HEADER_VALUE_BYTES_MAX: usize = 4_096;
/// Minimum bytes of a signing secret, from Standard Webhooks.
pub const SECRET_BYTES_MIN: usize = 24;
/// Maximum bytes of a signing secret, from Standard Webhooks.
pub const SECRET_BYTES_MAX: usize = 64;
/// How long a secret stays valid after it was rotated. Ours.
pub const SECRET_PREVIOUS_VALID: Duration = Duration::from_secs(DAY_S);
/// Maximum rotated secrets that are valid beside the current one. Ours: each makes every request
/// more expensive and its header longer.
pub const SECRETS_PREVIOUS_MAX: usize = 5;
/// Maximum messages of one batch. Ours: as many as one publish holds.
pub const BATCH_MESSAGES_MAX: u32 = 1_000;
/// Minimum bytes of one batch that a subscription may ask for. Ours.
pub const BATCH_BYTES_MIN: u32 = 1 << 10;
/// Maximum bytes of one batch that a subscription may ask for. Ours.
pub const BATCH_BYTES_MAX: u32 = 10 << 20;
/// The longest a batch may wait for more messages. Ours.
pub const BATCH_LINGER_MAX: Duration = Duration::from_secs(10);
/// Maximum pushes per second that a subscription may be limited to; the minimum is one. Ours.
pub const PUSH_RATE_MAX: u32 = 100_000;
/// Maximum bytes of the format of times in the names of objects. Ours.
pub const DATETIME_FORMAT_BYTES_MAX: usize = 128;
/// Maximum bytes of a `client_id` on a StreamingPull. Ours.
pub const CLIENT_ID_BYTES_MAX: usize = 1_024;
/// Maximum nesting of parentheses and negations in a filter. Ours: it bounds the stack that parsing
/// and matching take, whatever the length of the text.
pub const FILTER_NESTING_MAX: usize = 64;
/// Maximum bytes of a filter that is not Google's, in the CEL spelling. Ours.
pub const LIVE_FILTER_BYTES_MAX: usize = 4_096;
/// Maximum terms of a filter that is not Google's. Ours.
pub const LIVE_FILTER_TERMS_MAX: usize = 32;
/// Maximum bytes of data that a filter reads: longer data counts as not JSON. Ours.
pub const FILTER_DATA_BYTES_MAX: usize = 1 << 20;
/// Maximum names in the path of a filter's field. Ours: a body is walked once per level.
pub const FIELD_SEGMENTS_MAX: usize = 16;
/// The shortest time a live subscription lives without a heartbeat.
pub const LIVE_TTL_MIN: Duration = Duration::from_secs(60);
/// The longest time a live subscription lives without a heartbeat.
pub const LIVE_TTL_MAX: Duration = Duration::from_secs(3_600);
/// How long a live subscription lives without a heartbeat by default.
pub const LIVE_TTL_DEFAULT: Duration = Duration::from_secs(300);
/// Maximum live subscriptions that can be told apart: no quota may be higher. Ours.
pub const LIVE_SUBSCRIPTIONS_MAX: usize = 1_000_000;
/// Maximum characters in the id of a live subscription, and bytes of a gateway's or a tenant's.
/// Ours.
pub const LIVE_ID_BYTES_MAX: usize = 255;
/// Maximum names in the path of a collection. Ours.
pub const COLLECTION_SEGMENTS_MAX: usize = 16;
/// Maximum bytes of the path of a collection. Ours.
pub const COLLECTION_BYTES_MAX: usize = 1_500;
/// How long an expired live subscription is remembered. Ours.
pub const EXPIRED_REMEMBERED: Duration = Duration::from_secs(300);
/// Maximum expired live subscriptions remembered; the oldest are forgotten first. Ours.
pub const EXPIRED_REMEMBERED_MAX: usize = 100_000;

const DAY_S: u64 = 24 * 60 * 60;
