//! Inputs to begin with, and words that get an input past the next check.

/// An append frame with a record without a message, and a frame that settles an offset.
pub(super) const LOG_FILE: &[&[u8]] = &[
    b"\x01\0\0\0\x19\0\0\0\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01\0\0\0\
      \x19\0\0\0\x11\x22\x33\x44\x07\0\0\0\0\0\0\0\x40\x42\x0f\0\0\0\0\0\0",
    b"\x02\0\0\0\x05\0\0\0\x03\0\0\0\0\0\0\0\x01\0\x01\x02\x01",
    b"PRWAL\0\r\n\0\0\0\0\x01\0\0\0",
    b"",
];

pub(super) const PROGRESS: &[&[u8]] = &[
    b"\x02\x07\0\0\0\0",
    b"\x02\x40\x01\x02\x01\x06\x01\0\0\0\0\0\0\x80\x01\x02\x03\x04",
    b"\x01\x07\x01\x05\0",
    b"\x01\0\x02\x02\x01\x06\x02",
    b"\x01\x01\x01\x0e\x02\x09",
    b"\x01\x02\x02\x07\0\0\0\0",
];

pub(super) const DEFINITIONS: &[&[u8]] = &[
    br#"{"labels":{"team":"shop"},"message_retention_ms":600000,"first_offset":1}"#,
    br#"{"topic":"projects/p/topics/t","topic_id":1,"cursor":7,"ack_deadline_ms":10000,
        "retain_acked_messages":false,"message_retention_ms":604800000,"labels":{},
        "expiration_ms":null,"start":"latest","fifo":true,"poison":"halt","filter":"attributes:a",
        "retry_policy":{"min_ms":10000,"max_ms":600000},
        "dead_letter_policy":{"topic":"projects/p/topics/dead","attempts":5}}"#,
    br#"{"topic":"projects/p/topics/t","topic_id":1,"created_us":1,"expire_time_us":2,
        "labels":{},"progress":"AgcAAAAA"}"#,
    br#"{"topic":"projects/p/topics/t","topic_id":1,"to":"subscription","per_second":10,
        "again":false,"until_offset":9,"created_us":1,"state":"running","total":1,"replayed":0,
        "skipped":0,"failed":0,"updated_us":1}"#,
];

pub(super) const DEFINITION_WORDS: &[&str] = &[
    "null",
    "-1",
    "1e99",
    "18446744073709551615",
    "{}",
    "[]",
    "\"\"",
    "\"projects/p/topics/t\"",
    "\"start\":",
    "\"push\":{\"endpoint\":\"http://a\"}",
    "\"alerts\":[",
    "\"lane_by\":\"a\"",
    "\"signing\":{",
    "\"batch\":{",
    "\"headers\":{\"x-a\":\"1\"}",
    "\"cel_filter\":\"a == 1\"",
    "\"messages\":[1]",
    "\"state\":\"done\"",
    "\\ud800",
    ",",
];

pub(super) const FILTERS: &[&[u8]] = &[
    br#"attributes.kind = "order" AND NOT hasPrefix(attributes.id, "x")"#,
    b"attributes:a OR (attributes:b AND -attributes:c)\n\x0a\x01x\x12\x06\x0a\x01a\x12\x01b",
    br#"attributes."with space" != "\"quoted\"""#,
];

pub(super) const FILTER_WORDS: &[&str] = &[
    "attributes",
    ".",
    ":",
    "=",
    "!=",
    "AND",
    "OR",
    "NOT",
    "-",
    "(",
    ")",
    "hasPrefix(",
    ",",
    "\"",
    "\\",
    "\\u",
    " ",
    "\n",
    "é",
    "a",
];

pub(super) const CEL: &[&[u8]] = &[
    b"data.price > 10 && data.kind in ['a', \"b\"]\n{\"price\": 11, \"kind\": \"a\"}",
    b"!(attributes.a == 'b' || data.n <= -1.5e3) || has(data.x.y)\n{\"n\": 7}",
    b"data.tags.contains('x') && data.name.startsWith('y')\n{\"tags\": [\"x\"]}",
    b"true",
];

pub(super) const CEL_WORDS: &[&str] = &[
    "data",
    ".",
    "attributes",
    "&&",
    "||",
    "!",
    "(",
    ")",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    " in ",
    "[",
    "]",
    "'",
    "\"",
    "has(",
    ".contains(",
    ".startsWith(",
    ".endsWith(",
    "true",
    "null",
    "1.5",
    "-",
    "1e308",
    "9007199254740993",
    "\\",
    "\\U0001F600",
    "\n",
    "{\"a\":",
    "}",
    ",",
    "é",
];

pub(super) const NAMES: &[&[u8]] = &[
    b"projects/my-project/topics/orders",
    b"projects/p/subscriptions/billing",
    b"projects/p/snapshots/before",
    b"projects/p/schemas/s",
    b"_deleted-topic_",
    b"push_config.oidc_token.audience",
    b"retry_policy.minimum_backoff",
    b"postrider.laneBy",
];

pub(super) const NAME_WORDS: &[&str] = &[
    "projects/",
    "/topics/",
    "/subscriptions/",
    "/snapshots/",
    "/schemas/",
    "goog",
    "_",
    "-",
    ".",
    "~",
    "+",
    "%",
    ":",
    "é",
    "a",
    "push_config.",
    "postrider.",
    "dead_letter_policy",
    "message_retention_duration",
    "labels",
    "a.b.c",
    "/",
];

pub(super) const PROTO_JSON: &[&[u8]] = &[
    br#"{"messages": [{"data": "aGk=", "attributes": {"k": "v"}, "orderingKey": "o"}]}"#,
    br#"{"name": "projects/p/subscriptions/s", "topic": "projects/p/topics/t",
        "ackDeadlineSeconds": 10, "retryPolicy": {"minimumBackoff": "10.5s"},
        "expirationPolicy": {"ttl": "86400s"}, "labels": {"a": "b"},
        "pushConfig": {"pushEndpoint": "https://a.example", "attributes": {"x": "y"}}}"#,
    br#"{"name": "projects/p/topics/t", "messageRetentionDuration": "600s"}"#,
    br#"{"receivedMessages": [{"ackId": "a", "deliveryAttempt": 2,
        "message": {"messageId": "7", "publishTime": "2026-01-31T08:30:00.123Z"}}]}"#,
];

pub(super) const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "1e9",
    "2.5",
    "\"",
    "\"\"",
    "\"data\":",
    "\"aGk=\"",
    "\"attributes\":{",
    "\"publishTime\":",
    "\"2026-01-31T08:30:00Z\"",
    "\"10s\"",
    "\\u",
    "\\ud800",
    "\n",
    "é",
    "\"message\":{",
    "\"messageId\":\"7\"",
    "\"subscription\":",
    "\"deliveryAttempt\":",
    "99999999999999999999",
    "webhook-id: 1\n",
    "webhook-timestamp: ",
    "webhook-signature: v1,",
    "x-goog-pubsub-message-id: 7\n",
    "\"filters\":[",
    "\"op\":\"==\"",
    "\"subscriptionIds\":[",
];

pub(super) const REST: &[&[u8]] = &[
    b"/v1/projects/p/topics/orders:publish\n\n{\"messages\": []}",
    b"/v1/projects/p/subscriptions/s\nupdateMask=labels&alt=json\n{\"name\": \"x\"}",
    b"/v1/projects/p/subscriptions/s/lanes\nstate=blocked&pageSize=7",
    b"/v1/projects/p%2Fq/topics/t/deadLetters/77",
    b"/v1/projects/p/replays/7:cancel",
    b"/v1/backups/nightly",
];

pub(super) const REST_WORDS: &[&str] = &[
    "/v1/",
    "/",
    "projects",
    "/topics/",
    "/subscriptions/",
    ":publish",
    ":",
    "%2F",
    "%",
    "%c3",
    "%A9",
    "é",
    "..",
    "?",
    "&",
    "=",
    "+",
    "\n",
    "/messages",
    "/deadLetters",
    ":replay",
    "/delivery",
    "options.requestedPolicyVersion=1",
    "a.b.c.d.e=1",
    "{",
    "\"subscription\":{\"name\":",
];

pub(super) const ENVELOPES: &[&[u8]] = &[
    br#"{"message": {"data": "aGk=", "attributes": {"k": "v"}, "messageId": "7",
        "publishTime": "2026-01-31T08:30:00Z", "orderingKey": "o"},
        "subscription": "projects/p/subscriptions/s", "deliveryAttempt": 2}"#,
    b"x-goog-pubsub-message-id: 7\nx-goog-pubsub-publish-time: 2026-01-31T08:30:00Z\nk: v\n\nhi",
    b"webhook-id: 7\nwebhook-timestamp: 1794787200\nwebhook-signature: v1,aGk= v1,AAAA\n\n{}",
];

/// A header of RS256, some claims, no signature; and a key of P-256.
pub(super) const TOKENS: &[&[u8]] = &[
    b"eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJhIn0.AAAA\n\
      {\"keys\":[{\"kid\":\"a\",\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
    b"eyJhbGciOiJFUzI1NiIsImtpZCI6ImIifQ.eyJleHAiOjE3OTQ3OTA4MDB9.AAAA\n\
      {\"keys\":[{\"kid\":\"b\",\"kty\":\"EC\",\"crv\":\"P-256\",\
      \"x\":\"axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY\",\
      \"y\":\"T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU\"}]}",
    b"a.b.c",
];

pub(super) const ADDRESSES: &[&[u8]] = &[
    b"https://user:pass@hooks.example:8443/path?secret=1",
    b"http://127.0.0.1:8085/push",
    b"http://[::ffff:10.0.0.1]/",
    b"http://[2001:db8::1]:80/",
    b"http://[64:ff9b::7f00:1]/",
    b"http://2130706433/",
    b"\x20\x01\x48\x60\x48\x60\0\0\0\0\0\0\0\0\x88\x88",
    b"\0\x64\xff\x9b\0\x01\x0a\0\0\0\x01\0\0\0\0\x01",
    b"\x20\x02\x0a\0\0\x01\0\0\0\0\0\0\0\0\0\x01",
    b"\x20\x01\0\0\x08\x08\x08\x08\0\0\0\0\x80\xff\xff\xfe",
];

pub(super) const ADDRESS_WORDS: &[&str] = &[
    "http://",
    "https://",
    "@",
    ":",
    "[",
    "]",
    "::",
    "ffff:",
    "127.0.0.1",
    "0x7f.1",
    "10.",
    "192.168.",
    "169.254.169.254",
    "100.64.0.0",
    "224.",
    "255.255.255.255",
    "fe80::",
    "fc00::",
    "2002:",
    "64:ff9b::",
    "2001:0:",
    "%25eth0",
    "#",
    "?",
    "65536",
    "\0\0\0\0",
];

pub(super) const ANSWERS: &[&[u8]] = &[
    b"\x01HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    b"\x03HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nx: y\r\n\r\n",
    b"\x07HTTP/1.0 503 Busy\r\nretry-after: 5\r\nconnection: close\r\n\r\nwait",
    b"\x02HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
];

pub(super) const ANSWER_WORDS: &[&str] = &[
    "HTTP/1.1 ",
    "HTTP/1.0 ",
    "200 OK",
    "304 ",
    "100 Continue",
    "\r\n",
    "\n",
    "\r\n\r\n",
    "content-length: ",
    "transfer-encoding: chunked",
    ", gzip",
    "connection: close",
    "keep-alive",
    "ffffffffffffffff",
    "0\r\n\r\n",
    ";",
    " ",
    "99999999999999999999",
    ":",
];

pub(super) const LIVE: &[&[u8]] = &[
    b"/internal/v1/subscriptions\n\n{\"gatewayId\": \"g\", \"subscriptionId\": \"s\", \
      \"tenant\": \"t\", \"collection\": \"c\", \"ttl\": 60, \
      \"filters\": [{\"field\": \"data.a\", \"op\": \"==\", \"value\": 1}]}",
    b"/internal/v1/gateways/g/stream?sequence=7\n9\n",
    b"/internal/v1/gateways/g/stream?topic=projects%2Fp%2Ftopics%2Ft&offset=7\n\n",
    b"/internal/v1/heartbeats\n\n{\"subscriptionIds\": [\"a\", \"b\"]}",
];

/// The id of a lease, tokens of an offset and of a name, and one of lanes.
pub(super) const GIVEN_OUT: &[&[u8]] = &[
    b"AAAAAAAAAAcAAAAAAAAACQAAAAAAAAADAAAAAAAAAAEAAAAA",
    b"YXQgNw",
    b"cHJvamVjdHMvcC90b3BpY3MvdA",
    b"NyAxODQ0Njc0NDA3MzcwOTU1MTYxNSBr",
    b"",
];

pub(super) const CONFIGS: &[&[u8]] = &[
    b"listen = \"127.0.0.1:0\"\nengine = \"memory\"\nshutdown_grace = \"1s\"\n",
    b"[storage]\ndurability = \"os\"\nwal_max = \"64MiB\"\n[push]\nallow = [\"10.0.0.0/8\"]\n",
    b"[[topics]]\nname = \"projects/p/topics/t\"\n[[subscriptions]]\n\
      name = \"projects/p/subscriptions/s\"\ntopic = \"projects/p/topics/t\"\nfifo = true\n\
      retry_policy = { minimum_backoff = \"10s\", maximum_backoff = \"600s\" }\n",
    b"",
];

pub(super) const CONFIG_WORDS: &[&str] = &[
    "=",
    "\n",
    "[",
    "]",
    "[[",
    "]]",
    "\"",
    "'",
    "{",
    "}",
    ",",
    ".",
    "#",
    "true",
    "-1",
    "9223372036854775807",
    "1e308",
    "nan",
    "\"1h\"",
    "\"1GiB\"",
    "\"99999999999999999999s\"",
    "listen",
    "data_dir",
    "storage.",
    "[limits]\n",
    "[live]\n",
    "[log]\n",
    "[metrics]\n",
    "push_endpoint",
    "alerts",
    "labels",
    "2026-01-31T08:30:00Z",
    "\\u0000",
    "\\UFFFFFFFF",
    "\"\"\"",
];

pub(super) const JSON: &[&[u8]] = &[
    br#"{"a": {"b": [1, -2.5e3, true, null, "x\u00e9\ud83d\ude00"]}, "c": 9007199254740993}"#,
    b"[1, [2, [3]]]",
    b"\"text\"",
    b"1e400",
];
