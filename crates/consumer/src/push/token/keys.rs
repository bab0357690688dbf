//! The keys that tokens are signed with: given, or fetched and cached for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::fetch;

/// How long fetched keys are used before they are fetched again.
const FRESH_FOR: Duration = Duration::from_secs(60 * 60);
/// A key that is not known makes the set be fetched again, but not more often than this: anyone
/// can send tokens with keys that do not exist.
const FETCH_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Keys of a set, at most.
const KEYS_MAX: usize = 100;

/// Where the keys come from, as a JSON Web Key Set.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Fetched from this address, such as Google's
    /// `https://www.googleapis.com/oauth2/v3/certs`; Postrider has them under `/oauth2/v3/certs`.
    Url(String),
    /// This text.
    Set(String),
}

/// A public key.
#[derive(Debug)]
pub(super) enum Key {
    /// For RS256: modulus and exponent.
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// For ES256: the point, uncompressed.
    P256(Vec<u8>),
}

impl Key {
    /// The algorithm must be the key's own: a token does not choose how it is checked.
    pub(super) fn verifies(&self, alg: &str, signed: &[u8], signature: &[u8]) -> bool {
        match (self, alg) {
            (Self::Rsa(key), "RS256") => {
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            (Self::P256(point), "ES256") => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(signed, signature).is_ok()
            }
            _ => false,
        }
    }
}

type Set = Arc<HashMap<String, Arc<Key>>>;

/// The keys by their ids.
pub(super) struct KeyRing {
    url: Option<String>,
    cached: Mutex<CachedKeys>,
    /// Held while the set is fetched. Only those wait for it whose key is not known.
    fetching: tokio::sync::Mutex<()>,
}

struct CachedKeys {
    set: Set,
    fetched: Option<Timestamp>,
    /// When it was last tried, and why that failed.
    tried: Option<(Timestamp, Option<String>)>,
}

impl KeyRing {
    /// Reads keys that are given as text; an error if there is none that can be used.
    pub(super) fn new(keys: &Keys) -> Result<Self, String> {
        let (url, set) = match keys {
            Keys::Url(url) => (Some(url.clone()), Set::default()),
            Keys::Set(text) => (None, read(text.as_bytes())?),
        };
        let cached = Mutex::new(CachedKeys { set, fetched: None, tried: None });
        Ok(Self { url, cached, fetching: tokio::sync::Mutex::default() })
    }

    /// The key of this id; `None` if there is none. An error if the keys cannot be had.
    pub(super) async fn key(&self, id: &str, now: Timestamp) -> Result<Option<Arc<Key>>, String> {
        let Some(url) = &self.url else { return Ok(self.cached.lock().set.get(id).cloned()) };
        let known = {
            let cached = self.cached.lock();
            let known = cached.set.get(id).cloned();
            if !cached.wants_fetch(id, now) {
                return cached.found(known);
            }
            known
        };
        let _turn = match known {
            // A slow answer must not hold up requests whose key is at hand.
            Some(known) => match self.fetching.try_lock() {
                Ok(turn) => turn,
                Err(_) => return Ok(Some(known)),
            },
            None => self.fetching.lock().await,
        };
        // Someone else may have fetched it meanwhile.
        if self.cached.lock().wants_fetch(id, now) {
            let fetched = fetch::get(url).await.map_err(|error| format!("{url}: {error}"));
            self.cached.lock().take(fetched.and_then(|body| read(&body)), now);
        }
        let cached = self.cached.lock();
        cached.found(cached.set.get(id).cloned())
    }
}

impl CachedKeys {
    fn wants_fetch(&self, id: &str, now: Timestamp) -> bool {
        let is_fresh = self.fetched.is_some_and(|at| now.since(at) < FRESH_FOR);
        if is_fresh && self.set.contains_key(id) {
            return false;
        }
        self.tried.as_ref().is_none_or(|(at, _)| now.since(*at) >= FETCH_AGAIN_AFTER || now < *at)
    }

    /// What is said of a key that was looked for.
    fn found(&self, key: Option<Arc<Key>>) -> Result<Option<Arc<Key>>, String> {
        match (key, &self.tried) {
            (Some(key), _) => Ok(Some(key)),
            (None, Some((_, Some(problem)))) => Err(problem.clone()),
            (None, _) => Ok(None),
        }
    }

    /// Keys that were fetched before stay in use when they cannot be fetched again.
    fn take(&mut self, fetched: Result<Set, String>, now: Timestamp) {
        let problem = match fetched {
            Ok(set) => {
                (self.set, self.fetched) = (set, Some(now));
                None
            }
            Err(problem) => {
                tracing::error!(problem, "could not fetch the keys for tokens");
                Some(problem)
            }
        };
        self.tried = Some((now, problem));
    }
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    #[serde(default)]
    kid: String,
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The keys of a set that can be used here; others are skipped.
fn read(text: &[u8]) -> Result<Set, String> {
    let jwks: Jwks =
        serde_json::from_slice(text).map_err(|error| format!("not a JSON Web Key Set: {error}"))?;
    let signs = |jwk: &&Jwk| jwk.usage.as_deref().is_none_or(|usage| usage == "sig");
    let usable = jwks.keys.iter().take(KEYS_MAX).filter(signs);
    let keys: HashMap<_, _> =
        usable.filter_map(|jwk| Some((jwk.kid.clone(), Arc::new(key(jwk)?)))).collect();
    if keys.is_empty() {
        return Err("the key set has no RSA or P-256 key".to_owned());
    }
    Ok(Arc::new(keys))
}

fn key(jwk: &Jwk) -> Option<Key> {
    const COORDINATE_BYTES: usize = 32;
    let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
    match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => {
            Some(Key::Rsa(RsaPublicKeyComponents { n: bytes(&jwk.n)?, e: bytes(&jwk.e)? }))
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
            let fits = x.len() == COORDINATE_BYTES && y.len() == COORDINATE_BYTES;
            fits.then(|| Key::P256([&[4][..], &x, &y].concat()))
        }
        _ => None,
    }
}
