//! Who may set which headers of a push, and which of them hold secrets.

use http::HeaderName;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE, USER_AGENT,
};

/// Headers that identify the sender and control the transport of the request.
const RESERVED: [HeaderName; 12] = [
    HOST,
    CONTENT_LENGTH,
    CONNECTION,
    TRANSFER_ENCODING,
    TE,
    TRAILER,
    UPGRADE,
    EXPECT,
    PROXY_AUTHORIZATION,
    USER_AGENT,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Headers with these prefixes are ours, Google's or those of signatures.
const RESERVED_PREFIXES: [&str; 3] = ["postrider-", "webhook-", "x-goog-pubsub-"];

/// Headers that a receiver, or a proxy in front of it, acts on. A publisher must not decide how the
/// body is read, who the caller appears to be, or where it comes from.
const TRUSTED: [&str; 22] = [
    "accept",
    "access-control-request-headers",
    "access-control-request-method",
    "cache-control",
    "date",
    "forwarded",
    "from",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "remote-user",
    "true-client-ip",
    "via",
    "x-client-ip",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// The same, by prefix.
const TRUSTED_PREFIXES: [&str; 8] =
    ["accept-", "cf-", "content-", "if-", "proxy-", "sec-", "x-forwarded-", "x-goog-"];

/// The same, by a word between dashes.
const TRUSTED_WORDS: [&str; 7] = [
    "auth",
    "authenticate",
    "authenticated",
    "authentication",
    "authorization",
    "cookie",
    "cookie2",
];

/// Words in a header's name that suggest its value should not be shown. `auth` covers
/// `authorization` and the like; a false positive costs nothing.
const SECRET_WORDS: [&str; 7] =
    ["auth", "cookie", "key", "password", "secret", "signature", "token"];

/// Whether neither a setting nor an attribute of a message may set this header.
pub fn is_reserved_header(name: &HeaderName) -> bool {
    let begins = |prefix: &&str| name.as_str().starts_with(prefix);
    RESERVED.contains(name) || RESERVED_PREFIXES.iter().any(begins)
}

/// Whether a message attribute may be sent as this header.
pub fn is_attribute_header(name: &HeaderName) -> bool {
    let text = name.as_str();
    let is_trusted = TRUSTED.contains(&text)
        || TRUSTED_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        || text.split('-').any(|word| TRUSTED_WORDS.contains(&word));
    !is_trusted && !is_reserved_header(name)
}

/// Whether the value of this header may be a secret, which no log should show.
pub fn is_secret_header(name: &HeaderName) -> bool {
    SECRET_WORDS.iter().any(|word| name.as_str().contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HeaderName {
        text.parse().unwrap()
    }

    #[test]
    fn a_reserved_header_is_known_in_any_letters() {
        for reserved in [
            "Host",
            "keep-alive",
            "Proxy-Connection",
            "proxy-authorization",
            "User-Agent",
            "Postrider-Anything",
            "webhook-id",
            "X-Goog-PubSub-Message-Id",
        ] {
            assert!(is_reserved_header(&name(reserved)), "{reserved}");
        }
        for free in ["authorization", "content-type", "x-goog-other", "webhooks", "x-host"] {
            assert!(!is_reserved_header(&name(free)), "{free}");
        }
    }

    #[test]
    fn an_attribute_is_no_header_that_a_receiver_trusts() {
        for trusted in [
            "Cookie",
            "set-cookie",
            "Content-Type",
            "content-encoding",
            "host",
            "Authorization",
            "x-auth-request-user",
            "proxy-authorization",
            "transfer-encoding",
            "connection",
            "X-Forwarded-For",
            "forwarded",
            "x-http-method-override",
            "origin",
            "sec-fetch-site",
            "x-goog-authenticated-user-email",
            "webhook-id",
        ] {
            assert!(!is_attribute_header(&name(trusted)), "{trusted}");
        }
        for free in ["color", "author", "x-tenant", "key", "contents", "traceparent", "ce-type"] {
            assert!(is_attribute_header(&name(free)), "{free}");
        }
    }

    #[test]
    fn a_header_that_may_hold_a_secret_is_known_by_its_name() {
        for secret in [
            "Authorization",
            "Cookie",
            "X-Api-Key",
            "x-token-2",
            "client-secret",
            "webhook-signature",
        ] {
            assert!(is_secret_header(&name(secret)), "{secret}");
        }
        for plain in ["content-type", "x-tenant", "user-agent"] {
            assert!(!is_secret_header(&name(plain)), "{plain}");
        }
    }
}
