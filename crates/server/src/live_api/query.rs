//! Query strings, read strictly.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::Result;
use super::fault::Fault;

/// The parameters of a call. An empty one counts as missing.
#[derive(Debug)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the parameters, of which only `known` may be there, once each.
    pub(super) fn read(text: Option<&str>, known: &[&str]) -> Result<Self> {
        let mut found = BTreeMap::new();
        for pair in wire::rest::query(text.unwrap_or_default()) {
            let (name, value) = pair?;
            if !known.contains(&name.as_str()) {
                let problem = format!("unknown parameter, expected one of {}", known.join(", "));
                let shown: String = name.chars().take(64).collect();
                return Err(Fault::argument(shown, problem));
            }
            if found.insert(name.clone(), value).is_some() {
                return Err(Fault::argument(name, "given twice"));
            }
        }
        found.retain(|_, value| !value.is_empty());
        Ok(Self(found))
    }

    /// A text.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// A text that must be there.
    pub(super) fn need(&mut self, name: &str) -> Result<String> {
        self.take(name).ok_or_else(|| Fault::argument(name, "is required"))
    }

    /// A number.
    pub(super) fn number<N: FromStr>(&mut self, name: &str) -> Result<Option<N>> {
        self.take(name).map(|text| number(name, &text)).transpose()
    }
}

/// A number in decimal digits.
pub(super) fn number<N: FromStr>(name: &str, text: &str) -> Result<N> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_plain);
    number.ok_or_else(|| Fault::argument(name, "expected a number in decimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_known_and_given_once() {
        let mut query = Query::read(Some("a=x%2Fy&b=7&c="), &["a", "b", "c"]).unwrap();
        assert_eq!(query.number::<u64>("b").unwrap(), Some(7));
        assert_eq!(query.need("a").unwrap(), "x/y");
        assert_eq!(query.need("c").unwrap_err().field.as_deref(), Some("c"));
        for (text, field) in [("d=1", "d"), ("a=1&a=2", "a")] {
            let refused = Query::read(Some(text), &["a"]).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some(field));
        }
        assert!(Query::read(Some("a=%zz"), &["a"]).is_err());
        for bad in ["-1", "+1", "1.5", "x", "99999999999999999999"] {
            assert!(number::<u64>("a", bad).is_err(), "{bad}");
        }
    }
}
