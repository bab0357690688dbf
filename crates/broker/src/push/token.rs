//! OIDC tokens, and the key pair they are signed with.

mod key;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{Moment, Timestamp};
use http::HeaderValue;
use parking_lot::Mutex;
use serde::Serialize;

use key::Key;
pub use key::NAME as KEY_FILE;

/// Who tokens say they come from: Google, so that libraries that check it take them.
pub const ISSUER: &str = "https://accounts.google.com";
/// How long a token is good, in seconds.
const VALID_S: u64 = 3_600;
/// So many seconds before its end a token is no longer sent.
const SPARE_S: u64 = 300;
/// Tokens that are kept, at most.
const KEPT_MAX: usize = 4_096;
/// How long it is not tried again to make a key pair after that failed.
pub(super) const PREPARE_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The key pair, and the tokens signed with it that are still good.
///
/// A pair that was kept is read when this is opened. A new one is made when it is asked for,
/// because that takes a tenth of a second or more and most servers never need it.
pub(crate) struct Keys {
    folder: Option<PathBuf>,
    key: OnceLock<Key>,
    /// Held while a pair is made, and only then: nobody who wants a token waits for it.
    failed: Mutex<Option<Failed>>,
    cache: Mutex<TokenCache>,
}

/// Why the last try to make a pair failed, and when.
struct Failed {
    at: Moment,
    problem: String,
}

impl Keys {
    /// Opens the key pair kept in `folder`, if there is one already; without a folder it is kept
    /// in memory only. A key file that cannot be read is an error.
    pub(crate) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let key = folder.map(Key::read).transpose()?.flatten();
        Ok(Self {
            folder: folder.map(Path::to_owned),
            key: key.map_or_else(OnceLock::new, OnceLock::from),
            failed: Mutex::default(),
            cache: Mutex::default(),
        })
    }

    /// Whether the key pair is there, so that tokens can be had.
    pub(crate) fn is_ready(&self) -> bool {
        self.key.get().is_some()
    }

    /// Makes the key pair if there is none yet, and keeps it. Blocks for a tenth of a second or
    /// more: call it off the async threads. For a minute after it failed the same error is
    /// returned again.
    pub(crate) fn prepare(&self, now: Moment) -> io::Result<()> {
        self.key_or_make(now).map(drop)
    }

    /// The `authorization` header that says to `audience` that the sender is `email`: a token
    /// that is good for five minutes at least. An error if the key pair is not there yet: this
    /// makes none.
    pub(crate) fn token(
        &self,
        email: &str,
        audience: &str,
        now: Timestamp,
    ) -> io::Result<HeaderValue> {
        let wanted = format!("{email}\0{audience}");
        if let Some(value) = self.cache.lock().get(&wanted, now) {
            return Ok(value);
        }
        let key = self.key.get().ok_or_else(|| io::Error::other("there is no key pair yet"))?;
        let value = bearer(key, email, audience, now)?;
        self.cache.lock().put(wanted, value.clone(), now);
        Ok(value)
    }

    /// The public key as a JSON Web Key Set, for those who check tokens. Makes the key pair if
    /// there is none yet, as `prepare` does.
    pub(crate) fn jwks(&self, now: Moment) -> io::Result<String> {
        let key = self.key_or_make(now)?;
        let jwk = Jwk {
            alg: "RS256",
            e: &key.exponent,
            kid: &key.id,
            kty: "RSA",
            n: &key.modulus,
            usage: "sig",
        };
        Ok(serde_json::to_string(&Jwks { keys: [jwk] })?)
    }

    fn key_or_make(&self, now: Moment) -> io::Result<&Key> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let mut failed = self.failed.lock();
        // Another may have made it while this one waited.
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        if let Some(failed) = &*failed
            && now < failed.at.plus(PREPARE_AGAIN_AFTER)
        {
            return Err(io::Error::other(failed.problem.clone()));
        }
        match Key::make(self.folder.as_deref()) {
            Ok(key) => Ok(self.key.get_or_init(|| key)),
            Err(error) => {
                tracing::error!(%error, "no key pair for the tokens of pushes");
                *failed = Some(Failed { at: now, problem: error.to_string() });
                Err(error)
            }
        }
    }
}

/// Tokens that are still good, the oldest first.
#[derive(Default)]
struct TokenCache {
    by_claims: HashMap<String, (HeaderValue, Timestamp)>,
    oldest: VecDeque<String>,
}

impl TokenCache {
    /// A clock that was set back makes a token that is not good yet: it is not sent.
    fn get(&self, wanted: &str, now: Timestamp) -> Option<HeaderValue> {
        let (value, made) = self.by_claims.get(wanted)?;
        let is_good = *made <= now && now.seconds() < made.seconds() + VALID_S - SPARE_S;
        is_good.then(|| value.clone())
    }

    fn put(&mut self, wanted: String, value: HeaderValue, now: Timestamp) {
        if self.by_claims.insert(wanted.clone(), (value, now)).is_none() {
            self.oldest.push_back(wanted);
        }
        if self.oldest.len() > KEPT_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.by_claims.remove(&oldest);
        }
    }
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    kid: &'a str,
    typ: &'static str,
}

#[derive(Serialize)]
struct Claims<'a> {
    aud: &'a str,
    azp: &'a str,
    email: &'a str,
    email_verified: bool,
    exp: u64,
    iat: u64,
    iss: &'static str,
    sub: &'a str,
}

#[derive(Serialize)]
struct Jwks<'a> {
    keys: [Jwk<'a>; 1],
}

#[derive(Serialize)]
struct Jwk<'a> {
    alg: &'static str,
    e: &'a str,
    kid: &'a str,
    kty: &'static str,
    n: &'a str,
    #[serde(rename = "use")]
    usage: &'static str,
}

fn bearer(key: &Key, email: &str, audience: &str, now: Timestamp) -> io::Result<HeaderValue> {
    let subject = subject(email);
    let iat = now.seconds();
    let header = Header { alg: "RS256", kid: &key.id, typ: "JWT" };
    let claims = Claims {
        aud: audience,
        azp: &subject,
        email,
        email_verified: true,
        exp: iat + VALID_S,
        iat,
        iss: ISSUER,
        sub: &subject,
    };
    let mut text = "Bearer ".to_owned();
    let begin = text.len();
    URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(&header)?, &mut text);
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(&claims)?, &mut text);
    let signature = key.sign(&text.as_bytes()[begin..])?;
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut text);
    let mut value = HeaderValue::try_from(text).map_err(io::Error::other)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The account's number: Google has 21 digits, and so has ours, always the same for an account.
fn subject(email: &str) -> String {
    let hash = digest::digest(&digest::SHA256, email.as_bytes());
    let begin =
        hash.as_ref().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("1{begin:020}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
    const START: Moment = Moment(7);
    const EMAIL: &str = "pusher@project.iam.gserviceaccount.com";

    fn later(seconds: u64) -> Timestamp {
        Timestamp(NOW.0 + seconds * 1_000_000)
    }

    fn decoded(part: &str) -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    /// Checks the token with what the key set says, and returns its header and claims.
    fn verified(token: &HeaderValue, jwks: &str) -> (Value, Value) {
        let jwks: Value = serde_json::from_str(jwks).unwrap();
        let bytes =
            |field: &str| URL_SAFE_NO_PAD.decode(jwks["keys"][0][field].as_str().unwrap()).unwrap();
        let token = token.to_str().unwrap().strip_prefix("Bearer ").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let key = RsaPublicKeyComponents { n: bytes("n"), e: bytes("e") };
        key.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature).unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let header = decoded(header);
        assert_eq!(header["kid"], jwks["keys"][0]["kid"]);
        (header, decoded(claims))
    }

    #[test]
    fn a_token_has_googles_claims_and_the_published_key_checks_it() {
        let keys = Keys::open(None).unwrap();
        assert!(!keys.is_ready());
        keys.prepare(START).unwrap();
        assert!(keys.is_ready());
        let token = keys.token(EMAIL, "https://example.com/push", NOW).unwrap();
        assert!(token.is_sensitive());
        let (header, claims) = verified(&token, &keys.jwks(START).unwrap());
        assert_eq!((&header["alg"], &header["typ"]), (&json!("RS256"), &json!("JWT")));
        let subject = claims["sub"].as_str().unwrap().to_owned();
        assert!(subject.len() == 21 && subject.bytes().all(|byte| byte.is_ascii_digit()));
        let expected = json!({
            "iss": "https://accounts.google.com",
            "aud": "https://example.com/push",
            "azp": subject,
            "sub": subject,
            "email": EMAIL,
            "email_verified": true,
            "iat": 1_800_000_000,
            "exp": 1_800_003_600,
        });
        assert_eq!(claims, expected);
        let jwks: Value = serde_json::from_str(&keys.jwks(START).unwrap()).unwrap();
        let jwk = &jwks["keys"][0];
        assert_eq!((&jwk["kty"], &jwk["use"]), (&json!("RSA"), &json!("sig")));
        assert_eq!((&jwk["alg"], &jwk["e"]), (&json!("RS256"), &json!("AQAB")));
    }

    #[test]
    fn a_token_is_used_again_until_five_minutes_before_its_end() {
        let keys = Keys::open(None).unwrap();
        keys.prepare(START).unwrap();
        let first = keys.token(EMAIL, "a", NOW).unwrap();
        assert_eq!(keys.token(EMAIL, "a", later(3_299)).unwrap(), first);
        assert_ne!(keys.token(EMAIL, "b", later(3_299)).unwrap(), first);
        let second = keys.token(EMAIL, "a", later(3_300)).unwrap();
        assert_ne!(second, first);
        let earlier = Timestamp(NOW.0 - 60_000_000);
        assert_ne!(keys.token(EMAIL, "a", earlier).unwrap(), second, "the clock was set back");
    }

    #[test]
    fn a_kept_key_is_the_same_after_opening_again_and_only_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::open(Some(folder.path())).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "made when asked for");
        keys.prepare(START).unwrap();
        let token = keys.token(EMAIL, "a", NOW).unwrap();
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["oidc-key.pem"]);
        let file = folder.path().join("oidc-key.pem");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Keys::open(Some(folder.path())).unwrap();
        assert!(again.is_ready());
        verified(&token, &again.jwks(START).unwrap());
        assert_eq!(again.jwks(START).unwrap(), keys.jwks(START).unwrap());
        std::fs::write(&file, "-----BEGIN PRIVATE KEY-----\nnot a key\n").unwrap();
        let error = Keys::open(Some(folder.path())).map(drop).unwrap_err();
        assert!(error.to_string().contains("oidc-key.pem"), "{error}");
    }

    #[test]
    fn a_token_makes_no_key() {
        let keys = Keys::open(None).unwrap();
        let error = keys.token(EMAIL, "a", NOW).unwrap_err();
        assert!(error.to_string().contains("no key pair"), "{error}");
        assert!(!keys.is_ready());
    }

    #[test]
    fn making_a_key_that_failed_is_tried_again_after_a_minute() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("missing");
        let keys = Keys::open(Some(&folder)).unwrap();
        let first = keys.prepare(START).unwrap_err().to_string();
        assert!(first.contains("oidc-key.pem"), "{first}");
        std::fs::create_dir(&folder).unwrap();
        let soon = Moment(START.plus(PREPARE_AGAIN_AFTER).0 - 1);
        assert_eq!(keys.prepare(soon).unwrap_err().to_string(), first);
        assert_eq!(keys.jwks(soon).unwrap_err().to_string(), first);
        assert!(!keys.is_ready());
        keys.prepare(START.plus(PREPARE_AGAIN_AFTER)).unwrap();
        assert!(keys.is_ready());
    }

    #[test]
    fn tokens_that_are_kept_are_bounded() {
        let mut cache = TokenCache::default();
        for number in 0..=KEPT_MAX {
            cache.put(number.to_string(), HeaderValue::from(1), NOW);
            cache.put(number.to_string(), HeaderValue::from(2), NOW);
        }
        assert_eq!((cache.by_claims.len(), cache.oldest.len()), (KEPT_MAX, KEPT_MAX));
        assert!(cache.get("0", NOW).is_none());
        assert_eq!(cache.get("1", NOW).unwrap(), "2");
    }
}
