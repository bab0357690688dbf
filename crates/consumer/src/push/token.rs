//! OIDC tokens: whether a request comes from the expected sender.

mod keys;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Timestamp;
use http::{HeaderMap, header};
use serde::Deserialize;

pub use keys::Keys;
use keys::{Key, KeyRing};

/// How far clocks may be apart, in seconds.
const SKEW_S: u64 = 300;
/// Bytes of a token, at most. Google's have about 900.
const TOKEN_BYTES_MAX: usize = 8_192;

/// Who issues Google's tokens, and Postrider's.
const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];

/// What a token must say to be let in.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// Whom it must be meant for.
    pub audience: String,
    /// The account that it must be of; `None` = any.
    pub email: Option<String>,
    /// Who must have issued it; `None` = Google, as Postrider's say too.
    pub issuer: Option<String>,
    /// The keys that sign tokens.
    pub keys: Keys,
}

/// Why a token does not let a request in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is not good.
    Bad(&'static str),
    /// The keys to check it with cannot be had.
    NoKeys(String),
}

/// Checks tokens.
pub(super) struct Gatekeeper {
    oidc: Oidc,
    ring: KeyRing,
}

impl Gatekeeper {
    pub(super) fn new(oidc: Oidc) -> Result<Self, String> {
        let ring = KeyRing::new(&oidc.keys)?;
        Ok(Self { oidc, ring })
    }

    /// Whether the request's bearer token is good now.
    pub(super) async fn check(&self, headers: &HeaderMap, now: Timestamp) -> Result<(), Refusal> {
        let token = Token::read(headers).map_err(Refusal::Bad)?;
        let key = self.ring.key(&token.header.kid, now).await.map_err(Refusal::NoKeys)?;
        let key = key.ok_or(Refusal::Bad("the token is signed with an unknown key"))?;
        self.verify(&token, &key, now).map_err(Refusal::Bad)
    }

    fn verify(&self, token: &Token<'_>, key: &Key, now: Timestamp) -> Result<(), &'static str> {
        if !key.verifies(&token.header.alg, token.signed.as_bytes(), &token.signature) {
            return Err("the token's signature is wrong");
        }
        // Only now may what it says be believed.
        let claims: Claims = part(token.claims).ok_or("the token's claims are broken")?;
        let now = now.seconds();
        if claims.exp.saturating_add(SKEW_S) <= now {
            return Err("the token has expired");
        }
        let begins = [claims.iat, claims.nbf];
        if begins.into_iter().flatten().any(|from| from > now.saturating_add(SKEW_S)) {
            return Err("the token is not valid yet");
        }
        let issuer_is_right = match &self.oidc.issuer {
            Some(issuer) => *issuer == claims.iss,
            None => ISSUERS.contains(&claims.iss.as_str()),
        };
        if !issuer_is_right {
            return Err("the token is from another issuer");
        }
        if claims.aud != self.oidc.audience {
            return Err("the token is for another audience");
        }
        let Some(email) = &self.oidc.email else { return Ok(()) };
        if claims.email.as_ref() != Some(email) || claims.email_verified != Some(true) {
            return Err("the token is for another account");
        }
        Ok(())
    }
}

/// A token in its parts.
struct Token<'a> {
    header: Header,
    claims: &'a str,
    /// What the signature is of.
    signed: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    exp: u64,
    iat: Option<u64>,
    nbf: Option<u64>,
    email: Option<String>,
    email_verified: Option<bool>,
}

impl<'a> Token<'a> {
    fn read(headers: &'a HeaderMap) -> Result<Self, &'static str> {
        let value = headers.get(header::AUTHORIZATION).ok_or("the request has no token")?;
        let value = value.to_str().map_err(|_| "the token is not text")?;
        let token = value.strip_prefix("Bearer ").ok_or("the request has no bearer token")?;
        if token.len() > TOKEN_BYTES_MAX {
            return Err("the token is too long");
        }
        let broken = "the token is broken";
        let (signed, signature) = token.rsplit_once('.').ok_or(broken)?;
        let (header, claims) = signed.split_once('.').ok_or(broken)?;
        Ok(Self {
            header: part(header).ok_or(broken)?,
            claims,
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_| broken)?,
        })
    }
}

fn part<T: for<'a> Deserialize<'a>>(text: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests;
