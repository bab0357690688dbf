//! Which accounts pushes may carry tokens for.

use crate::error::Invalid;

/// Maximum bytes of a pattern: no account has a longer name.
const PATTERN_BYTES_MAX: usize = 320;

/// The accounts that the OIDC token of a push may name. A token is sent to whatever endpoint its
/// subscription names, so anyone allowed to name an account can act as that account elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accounts {
    /// Any account.
    Any,
    /// Those that match one of these patterns; with no patterns, none.
    Listed(Vec<Pattern>),
}

impl Accounts {
    /// Refuses an account that may not be named, and says who can change that.
    pub fn check(&self, account: &str) -> Result<(), String> {
        let patterns = match self {
            Self::Any => return Ok(()),
            Self::Listed(patterns) => patterns,
        };
        if patterns.iter().any(|pattern| pattern.matches(account)) {
            return Ok(());
        }
        let shown = crate::text::shortened(account, 100);
        let who = if patterns.is_empty() { "no account is listed" } else { "it is not listed" };
        Err(format!("{shown:?} is not allowed: {who} in the server's push.oidc_accounts"))
    }
}

/// An account, or several: `*` matches any characters except `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Parses a pattern such as `pusher@shop.iam.gserviceaccount.com` or `*@shop.example.com`; `*`
    /// alone matches everyone.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let is_bad = |c: char| c.is_whitespace() || c.is_control();
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX || text.contains(is_bad) {
            let problem = format!(
                "{:?} is not an account or a pattern such as \"*@shop.example.com\"",
                crate::text::shortened(text, 100)
            );
            return Err(Invalid::new("push.oidc_accounts", problem));
        }
        Ok(Self(text.to_owned()))
    }

    fn matches(&self, account: &str) -> bool {
        if self.0 == "*" {
            return true;
        }
        let mut pieces = self.0.split('*');
        let Some(mut rest) = pieces.next().and_then(|first| account.strip_prefix(first)) else {
            return false;
        };
        let mut pieces = pieces.peekable();
        while let Some(piece) = pieces.next() {
            let at = match pieces.peek() {
                // The last piece must be at the end.
                None => rest.len().checked_sub(piece.len()).filter(|_| rest.ends_with(piece)),
                Some(_) => rest.find(piece),
            };
            let Some((skipped, behind)) = at.and_then(|at| rest.split_at_checked(at)) else {
                return false;
            };
            if skipped.contains('@') {
                return false;
            }
            rest = behind.get(piece.len()..).unwrap_or_default();
        }
        rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(patterns: &[&str]) -> Accounts {
        Accounts::Listed(patterns.iter().map(|text| Pattern::parse(text).unwrap()).collect())
    }

    #[test]
    fn an_account_is_named_only_if_it_is_listed() {
        for (patterns, account, is_allowed) in [
            (&["a@b.c"][..], "a@b.c", true),
            (&["a@b.c"], "a@b.cc", false),
            (&["a@b.c"], "aa@b.c", false),
            (&["*@b.c"], "any.body-1@b.c", true),
            (&["*@b.c"], "x@evil.d@b.c", false),
            (&["*@b.c"], "@b.c", true),
            (&["push-*@*.c"], "push-1@x.y.c", true),
            (&["push-*@*.c"], "pull-1@x.y.c", false),
            (&["*a*a@b"], "xaya@b", true),
            (&["*a*a@b"], "xa@b", false),
            (&["*"], "anybody@anywhere", true),
            (&["a@b.c", "d@b.c"], "d@b.c", true),
            (&[], "a@b.c", false),
            (&["*@b.c"], "", false),
        ] {
            let checked = listed(patterns).check(account);
            assert_eq!(checked.is_ok(), is_allowed, "{patterns:?} {account}");
            assert!(checked.is_ok() || checked.unwrap_err().contains("push.oidc_accounts"));
        }
        assert_eq!(Accounts::Any.check("a@b.c"), Ok(()));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["", "a b@c", "a@b\n", &"x".repeat(321)] {
            assert!(Pattern::parse(bad).is_err(), "{bad:?}");
        }
    }
}
