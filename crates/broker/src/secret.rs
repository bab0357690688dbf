//! Signing secrets that we generate.

use domain::push::Secret;

use crate::error::{Error, Result};

/// Bytes of a generated secret.
const BYTES: usize = 32;

/// A new secret that nobody can guess.
pub fn make_secret() -> Result<Secret> {
    let mut bytes = [0; BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    Ok(Secret::new(&bytes))
}

/// The last part of a name for what was made without one: 16 random hexadecimal digits.
pub fn make_id() -> Result<String> {
    let mut bytes = [0; size_of::<u64>()];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ids_are_the_same() {
        let (one, other) = (make_id().unwrap(), make_id().unwrap());
        assert_ne!(one, other);
        assert!(one.len() == 16 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
    }

    #[test]
    fn no_two_secrets_are_the_same() {
        let (one, other) = (make_secret().unwrap(), make_secret().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.validate("secret"), Ok(()));
    }
}
