//! Making what may be there already.

use http::{Method, StatusCode};
use serde_json::Value;

use super::client::{Client, Problem};
use super::names::Name;
use super::values::span;
use super::{Failure, warn};

/// What came of making something.
pub(super) enum Created {
    /// It was made.
    Made(Value),
    /// It was there already, and was left as it is.
    There(Value),
}

impl Created {
    /// What exists now, and what was done for it.
    pub(super) fn told(&self) -> (&Value, &'static str) {
        match self {
            Self::Made(answer) => (answer, "made"),
            Self::There(answer) => (answer, "there already:"),
        }
    }
}

/// Makes `name`. What is there already is an error, unless it `may_exist`: then it is looked
/// whether it is as it was asked for.
pub(super) fn create(
    client: &Client,
    name: &Name,
    body: &Value,
    may_exist: bool,
) -> Result<Created, Problem> {
    match client.call(Method::PUT, &name.path(), Some(body)) {
        Ok(answer) => Ok(Created::Made(answer)),
        Err(Problem::Refused { code: StatusCode::CONFLICT, .. }) if may_exist => {
            let there = client.call(Method::GET, &name.path(), None)?;
            for field in differences("", body, &there) {
                warn(&format!("{name} already exists with a different {field}"));
            }
            Ok(Created::There(there))
        }
        Err(problem) => Err(problem),
    }
}

/// What to say of something that could not be made.
pub(super) fn failure(client: &Client, problem: Problem) -> Failure {
    let is_there = matches!(&problem, Problem::Refused { code: StatusCode::CONFLICT, .. });
    let failure = client.failure(problem);
    if !is_there {
        return failure;
    }
    let problem = format!("{}; --if-not-exists accepts an existing one", failure.problem);
    Failure { problem, ..failure }
}

/// The fields of `asked` that are other in `is`. What only counts when something is made, and what
/// is never shown, is not compared.
fn differences(place: &str, asked: &Value, is: &Value) -> Vec<String> {
    if matches!(place, "postrider.start" | "postrider.signing") {
        return Vec::new();
    }
    let differs = || vec![place.to_owned()];
    match (asked, is) {
        (Value::Null, _) => Vec::new(),
        (Value::Object(_), Value::Null) => differs(),
        (Value::Object(asked), _) => {
            let below = asked.iter().flat_map(|(name, value)| {
                let dot = if place.is_empty() { "" } else { "." };
                differences(&format!("{place}{dot}{name}"), value, &is[name])
            });
            below.collect()
        }
        (Value::String(asked), Value::String(is)) if span(asked) == span(is) => Vec::new(),
        _ if asked == is => Vec::new(),
        _ => differs(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_asked_for_is_compared_with_what_is_there() {
        let is = json!({
            "topic": "t", "ackDeadlineSeconds": 10, "retryPolicy": {"minimumBackoff": "60s"},
            "postrider": {"fifo": false, "start": "latest", "signing": {}},
        });
        let same = json!({
            "topic": "t", "retryPolicy": {"minimumBackoff": "60s"},
            "postrider": {"start": "earliest", "signing": {"secret": "s"}, "laneBy": null},
        });
        assert!(differences("", &same, &is).is_empty());
        let other = json!({
            "topic": "u", "ackDeadlineSeconds": 60, "deadLetterPolicy": {"deadLetterTopic": "d"},
            "postrider": {"fifo": true},
        });
        let expected = ["ackDeadlineSeconds", "deadLetterPolicy", "postrider.fifo", "topic"];
        assert_eq!(differences("", &other, &is), expected);
    }
}
