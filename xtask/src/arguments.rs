//! The few flags of the commands.

use anyhow::{Result, bail};

/// The words after the command; flags are taken out of it by name.
pub(crate) struct Arguments {
    words: Vec<String>,
}

impl Arguments {
    pub(crate) fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// Takes the value of `flag` out, if the flag was given.
    pub(crate) fn take(&mut self, flag: &str) -> Result<Option<String>> {
        let Some(place) = self.words.iter().position(|word| word == flag) else {
            return Ok(None);
        };
        if place + 1 >= self.words.len() {
            bail!("{flag} needs a value");
        }
        self.words.remove(place);
        Ok(Some(self.words.remove(place)))
    }

    /// Takes `flag` out, which has no value; whether it was given.
    pub(crate) fn has(&mut self, flag: &str) -> bool {
        let place = self.words.iter().position(|word| word == flag);
        place.map(|place| self.words.remove(place)).is_some()
    }

    /// Refuses whatever nobody has taken.
    pub(crate) fn finish(self) -> Result<()> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => bail!("unknown argument {word:?}; see `cargo xtask help`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Arguments {
        Arguments::new(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn a_flag_is_taken_once_with_its_value() {
        let mut given = arguments(&["--rounds", "7"]);
        assert_eq!(given.take("--rounds").unwrap().as_deref(), Some("7"));
        assert_eq!(given.take("--rounds").unwrap(), None);
        given.finish().unwrap();
    }

    #[test]
    fn a_flag_without_a_value_is_taken_alone() {
        let mut given = arguments(&["--cluster", "--seeds", "7"]);
        assert!(given.has("--cluster") && !given.has("--cluster"));
        assert_eq!(given.take("--seeds").unwrap().as_deref(), Some("7"));
        given.finish().unwrap();
    }

    #[test]
    fn a_flag_without_its_value_and_an_unknown_word_are_refused() {
        assert!(arguments(&["--seed"]).take("--seed").is_err());
        assert!(arguments(&["--sed", "1"]).finish().is_err());
    }
}
