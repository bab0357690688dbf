//! Every limit of the API, by name. Google's own first, ours behind them.

use std::time::Duration;

/// Characters in the id of a topic, subscription, snapshot or schema, at least.
pub const RESOURCE_ID_CHARS_MIN: usize = 3;
/// Characters in the id of a topic, subscription, snapshot or schema, at most.
pub const RESOURCE_ID_CHARS_MAX: usize = 255;

/// Bytes of data in one message, at most ("10 MB").
pub const MESSAGE_DATA_BYTES_MAX: usize = 10_000_000;
/// Messages in one Publish, at least.
pub const PUBLISH_MESSAGES_MIN: usize = 1;
/// Messages in one Publish, at most.
pub const PUBLISH_MESSAGES_MAX: usize = 1_000;
/// Bytes of one request in its binary form, at most. Google's front end counts in binary here,
/// unlike for messages.
pub const REQUEST_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Attributes of one message, at most.
pub const ATTRIBUTES_MAX: usize = 100;
/// Bytes of an attribute's key, at most.
pub const ATTRIBUTE_KEY_BYTES_MAX: usize = 256;
/// Bytes of an attribute's value, at most.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 1_024;
/// Bytes of an ordering key, at most.
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
/// How long a subscription keeps messages unless told.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(7 * DAY_S);

/// The shortest time after which an unused subscription may be deleted.
pub const EXPIRATION_MIN: Duration = Duration::from_secs(DAY_S);
/// After this time an unused subscription is deleted unless told otherwise.
pub const EXPIRATION_DEFAULT: Duration = Duration::from_secs(31 * DAY_S);

/// Bytes of a subscription's filter, at most.
pub const FILTER_BYTES_MAX: usize = 256;

/// The longest backoff a retry policy may name; the shortest is none at all.
pub const BACKOFF_MAX: Duration = Duration::from_secs(600);
/// The first backoff of a retry policy that names none.
pub const BACKOFF_MIN_DEFAULT: Duration = Duration::from_secs(10);
/// The longest backoff of a retry policy that names none.
pub const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(600);

/// Attempts after which a dead letter policy may apply, at least.
pub const DELIVERY_ATTEMPTS_MIN: u32 = 5;
/// Attempts after which a dead letter policy may apply, at most.
pub const DELIVERY_ATTEMPTS_MAX: u32 = 100;
/// The attempts of a dead letter policy that names none (0 on the wire).
pub const DELIVERY_ATTEMPTS_DEFAULT: u32 = 5;

/// How long a snapshot lives at most, counted from its creation. The age of the oldest message
/// it keeps is taken off.
pub const SNAPSHOT_LIFETIME_MAX: Duration = Duration::from_secs(7 * DAY_S);
/// A snapshot that would live shorter than this is not made.
pub const SNAPSHOT_LIFETIME_MIN: Duration = Duration::from_secs(60 * 60);

/// Labels of one resource, at most.
pub const LABELS_MAX: usize = 64;
/// Characters of a label's key (at least one) or value (may be empty), at most.
pub const LABEL_CHARS_MAX: usize = 63;

/// Messages one Pull may ask for, at least.
pub const PULL_MESSAGES_MIN: i32 = 1;
/// Messages one Pull returns, at most; asking for more is not an error.
pub const PULL_MESSAGES_MAX: usize = 1_000;
/// Bytes of ack ids in one Acknowledge, ModifyAckDeadline or StreamingPull request, at most.
pub const ACK_REQUEST_BYTES_MAX: usize = 512 * 1024;

/// Entries of one page of a list when the request leaves it open (0), and at most.
pub const PAGE_SIZE_MAX: usize = 1_000;

/// Characters in a project's id, at most. Ours: Google allows 30, or more with a domain.
pub const PROJECT_ID_CHARS_MAX: usize = 127;
/// Bytes of the JSON of one request, at most. Ours: base64 makes data a third longer, and what fits
/// over gRPC must also fit over REST.
pub const JSON_BYTES_MAX: usize = REQUEST_BYTES_MAX * 3 / 2;
/// Bytes of message bodies one Pull or one response of a stream returns, at most, except that one
/// message always fits. Ours: it keeps answers short, and well within what clients accept.
pub const PULL_BYTES_MAX: usize = 1 << 20;
/// Bytes of a subscription's `postrider.description`, at most. Ours.
pub const DESCRIPTION_BYTES_MAX: usize = 4_096;
/// Entries of a subscription's `postrider.metadata`, at most. Ours.
pub const METADATA_MAX: usize = 64;
/// Bytes of a key of `postrider.metadata`, at most. Ours.
pub const METADATA_KEY_BYTES_MAX: usize = 256;
/// Bytes of a value of `postrider.metadata`, at most. Ours.
pub const METADATA_VALUE_BYTES_MAX: usize = 4_096;
/// Attempts a subscription may be given with `postrider.maxAttempts`, at least. Ours.
pub const ATTEMPTS_MIN: u32 = 1;
/// Attempts a subscription may be given with `postrider.maxAttempts`, at most. Ours.
pub const ATTEMPTS_MAX: u32 = 100;
/// The longest wait of `postrider.backoff`. Ours.
pub const BACKOFF_STEP_MAX: Duration = Duration::from_secs(DAY_S);
/// Waits of `postrider.backoff`, at most. Ours.
pub const BACKOFF_STEPS_MAX: usize = 100;
/// Without a retry policy a push waits as the breaker does: at least so long, doubling. Ours.
pub const PACE_MIN: Duration = Duration::from_millis(100);
/// The longest such wait. Ours.
pub const PACE_MAX: Duration = Duration::from_secs(60);
/// The shortest time an endpoint may be given for its answer. Ours.
pub const PUSH_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// The longest time an endpoint may be given for its answer. Ours: Google's longest ack deadline.
pub const PUSH_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Entries of `push_config.attributes`, at most. Ours.
pub const PUSH_ATTRIBUTES_MAX: usize = 64;
/// Bytes of the `service_account_email` of a token, at most (RFC 5321). It has one at least.
pub const OIDC_EMAIL_BYTES_MAX: usize = 254;
/// Bytes of the `audience` of a token, at most. Ours.
pub const OIDC_AUDIENCE_BYTES_MAX: usize = 2_048;
/// Entries of `postrider.headers`, at most. Ours.
pub const HEADERS_MAX: usize = 64;
/// Bytes of a header's name, at most. Ours.
pub const HEADER_NAME_BYTES_MAX: usize = 256;
/// Bytes of a header's value, at most. Ours.
pub const HEADER_VALUE_BYTES_MAX: usize = 4_096;
/// Bytes of a signing secret, at least: as Standard Webhooks has it.
pub const SECRET_BYTES_MIN: usize = 24;
/// Bytes of a signing secret, at most: as Standard Webhooks has it.
pub const SECRET_BYTES_MAX: usize = 64;
/// How long a secret counts after it was rotated. Ours.
pub const SECRET_PREVIOUS_VALID: Duration = Duration::from_secs(DAY_S);
/// Rotated secrets that count beside the present one, at most. Ours: each makes every request
/// dearer and its header longer.
pub const SECRETS_PREVIOUS_MAX: usize = 5;
/// Messages of one batch, at most. Ours: what one publish holds.
pub const BATCH_MESSAGES_MAX: u32 = 1_000;
/// Bytes of one batch that a subscription may ask for, at least. Ours.
pub const BATCH_BYTES_MIN: u32 = 1 << 10;
/// Bytes of one batch that a subscription may ask for, at most. Ours.
pub const BATCH_BYTES_MAX: u32 = 10 << 20;
/// How long a batch may wait for more messages, at most. Ours.
pub const BATCH_LINGER_MAX: Duration = Duration::from_secs(10);
/// Pushes a second that a subscription may be limited to, at most; one at least. Ours.
pub const PUSH_RATE_MAX: u32 = 100_000;
/// Bytes of a `client_id` on a StreamingPull, at most. Ours.
pub const CLIENT_ID_BYTES_MAX: usize = 1_024;
/// Parentheses and negations inside each other in a filter, at most. Ours: it bounds the stack that
/// reading and matching take, whatever the length of the text.
pub const FILTER_NESTING_MAX: usize = 64;
/// Bytes of a filter that is not Google's, in the CEL spelling, at most. Ours.
pub const LIVE_FILTER_BYTES_MAX: usize = 4_096;
/// Terms of a filter that is not Google's, at most. Ours.
pub const LIVE_FILTER_TERMS_MAX: usize = 32;
/// Bytes of data that a filter looks into, at most: longer data counts as not JSON. Ours.
pub const FILTER_DATA_BYTES_MAX: usize = 1 << 20;
/// Names in the path of a field of a filter, at most. Ours: a body is gone through once per level.
pub const FIELD_SEGMENTS_MAX: usize = 16;
/// The shortest time a live subscription lives without a heartbeat.
pub const LIVE_TTL_MIN: Duration = Duration::from_secs(60);
/// The longest time a live subscription lives without a heartbeat.
pub const LIVE_TTL_MAX: Duration = Duration::from_secs(3_600);
/// How long a live subscription lives without a heartbeat unless told.
pub const LIVE_TTL_DEFAULT: Duration = Duration::from_secs(300);
/// Live subscriptions that can be told apart, at most: no quota may be higher. Ours.
pub const LIVE_SUBSCRIPTIONS_MAX: usize = 1_000_000;
/// Characters in the id of a live subscription, and bytes of a gateway's or a tenant's. Ours.
pub const LIVE_ID_BYTES_MAX: usize = 255;
/// Names in the path of a collection, at most. Ours.
pub const COLLECTION_SEGMENTS_MAX: usize = 16;
/// Bytes of the path of a collection, at most. Ours.
pub const COLLECTION_BYTES_MAX: usize = 1_500;
/// How long it is remembered that a live subscription has expired. Ours.
pub const EXPIRED_REMEMBERED: Duration = Duration::from_secs(300);
/// Expired live subscriptions that are remembered, at most; the oldest are forgotten first. Ours.
pub const EXPIRED_REMEMBERED_MAX: usize = 100_000;

const DAY_S: u64 = 24 * 60 * 60;
