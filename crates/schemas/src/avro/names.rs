//! Avro's names: what they are made of, and what they stand for where they are used.

use crate::problem::{Problem, quoted};

/// The types that have a name and no definition.
pub(super) const PRIMITIVES: [&str; 8] =
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];

/// The full name of a type: `name` within its namespace, unless it has dots of its own.
pub(super) fn full(name: &str, namespace: &str) -> Result<String, Problem> {
    let full = match name.strip_prefix('.') {
        Some(name) => name.to_owned(),
        None if name.contains('.') || namespace.is_empty() => name.to_owned(),
        None => format!("{namespace}.{name}"),
    };
    if !full.split('.').all(is_plain) {
        return Err(Problem::new(format!(
            "{} is not a name: letters, digits and _, no digit first, parts separated by dots",
            quoted(&full)
        )));
    }
    Ok(full)
}

/// Refuses what is no name of a field or symbol.
pub(super) fn check_plain(name: &str) -> Result<(), Problem> {
    if is_plain(name) {
        return Ok(());
    }
    let what = format!("{} is not a name: letters, digits and _, no digit first", quoted(name));
    Err(Problem::new(what))
}

/// The part of a full name before its last dot.
pub(super) fn namespace(full: &str) -> &str {
    full.rsplit_once('.').map_or("", |(namespace, _)| namespace)
}

/// The part of a full name behind its last dot.
pub(super) fn last(full: &str) -> &str {
    full.rsplit_once('.').map_or(full, |(_, last)| last)
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_dots_is_in_the_namespace_around_it() {
        assert_eq!(full("A", "x.y").unwrap(), "x.y.A");
        assert_eq!(full("z.A", "x.y").unwrap(), "z.A");
        assert_eq!(full(".A", "x.y").unwrap(), "A");
        assert_eq!(full("A", "").unwrap(), "A");
        assert_eq!((namespace("x.y.A"), last("x.y.A"), namespace("A")), ("x.y", "A", ""));
    }

    #[test]
    fn names_are_letters_digits_and_underscores() {
        for bad in ["", "1a", "a-b", "a..b", "a.", "ä", "a b"] {
            assert!(full(bad, "").is_err(), "{bad:?}");
        }
        assert!(check_plain("_a1").is_ok());
        assert!(check_plain("a.b").is_err());
    }
}
