//! Standard Webhooks signatures.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::Timestamp;
use domain::push::{Secret, Signing};
use http::HeaderValue;

/// Signs requests with a secret, and with previous ones while they are valid. The keys are prepared
/// once.
pub(crate) struct Signer {
    key: hmac::Key,
    previous: Vec<(hmac::Key, Timestamp)>,
}

impl Signer {
    /// Prepares the keys of `signing`.
    pub(crate) fn new(signing: &Signing) -> Self {
        let previous = signing.previous.iter().map(|(secret, until)| (key(secret), *until));
        Self { key: key(&signing.secret), previous: previous.collect() }
    }

    /// The `webhook-signature` of a request with this id and body, sent now.
    pub(crate) fn header(&self, id: &[u8], now: Timestamp, body: &[u8]) -> HeaderValue {
        const SIGNATURE_BYTES: usize = "v1,".len() + 44 + " ".len();
        let mut value = String::with_capacity(SIGNATURE_BYTES * (1 + self.previous.len()));
        sign(&self.key, id, now, body, &mut value);
        for (key, _) in self.previous.iter().filter(|(_, until)| now < *until) {
            value.push(' ');
            sign(key, id, now, body, &mut value);
        }
        header_value(value)
    }
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.bytes())
}

/// Appends `v1,` and the signature of id, time in seconds and body, joined by periods.
fn sign(key: &hmac::Key, id: &[u8], now: Timestamp, body: &[u8], out: &mut String) {
    let mut context = hmac::Context::with_key(key);
    context.update(id);
    context.update(b".");
    context.update(now.seconds().to_string().as_bytes());
    context.update(b".");
    context.update(body);
    out.push_str("v1,");
    STANDARD.encode_string(context.sign(), out);
}

#[expect(clippy::expect_used, reason = "base64, commas and spaces are legal in a header")]
fn header_value(text: String) -> HeaderValue {
    let mut value = HeaderValue::try_from(text).expect("a signature is ASCII");
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The example from the specification.
    const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &[u8] = b"msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIME: Timestamp = Timestamp(1_614_265_330_999_999);
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secret() -> Secret {
        Secret::new(&STANDARD.decode(SECRET).unwrap())
    }

    #[test]
    fn a_signature_is_that_of_the_specification() {
        let signer = Signer::new(&Signing::new(secret()));
        assert_eq!(signer.header(ID, TIME, BODY), SIGNATURE);
        assert!(signer.header(ID, TIME, BODY).is_sensitive());
        for (id, time, body) in [
            (&b"x"[..], TIME, BODY),
            (ID, TIME.plus(Duration::from_secs(1)), BODY),
            (ID, TIME, b""),
        ] {
            assert_ne!(signer.header(id, time, body), SIGNATURE);
        }
    }

    #[test]
    fn two_secrets_sign_while_both_count() {
        let until = TIME.plus(Duration::from_secs(60));
        let new = Secret::new(b"another secret of 24 bytes or more");
        let signer = Signer::new(&Signing { secret: new, previous: vec![(secret(), until)] });
        let both = signer.header(ID, TIME, BODY);
        let (first, second) = both.to_str().unwrap().split_once(' ').unwrap();
        assert!(first.starts_with("v1,") && first != SIGNATURE);
        assert_eq!(second, SIGNATURE);
        let late = signer.header(ID, until, BODY);
        assert!(!late.to_str().unwrap().contains(' '));
    }

    #[test]
    fn each_earlier_secret_signs_until_its_own_end() {
        let at = |seconds: u64| TIME.plus(Duration::from_secs(seconds));
        let other = |byte: u8| Secret::new(&[byte; 32]);
        let previous = vec![(other(2), at(60)), (secret(), at(30))];
        let signer = Signer::new(&Signing { secret: other(1), previous });
        let signatures = |seconds: u64| {
            let header = signer.header(ID, at(seconds), BODY);
            header.to_str().unwrap().split(' ').map(str::to_owned).collect::<Vec<_>>()
        };
        let all = signatures(0);
        assert_eq!((all.len(), all[2].as_str()), (3, SIGNATURE));
        assert_eq!([29, 30, 59, 60].map(|seconds| signatures(seconds).len()), [3, 2, 2, 1]);
    }
}
