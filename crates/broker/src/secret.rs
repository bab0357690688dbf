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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_secrets_are_the_same() {
        let (one, other) = (make_secret().unwrap(), make_secret().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.validate("secret"), Ok(()));
    }
}
