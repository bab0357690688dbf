//! From a verb and a path to a method.

use std::sync::LazyLock;

use super::percent::{self, Slash};
use super::{METHODS, Method, Verb};

/// The longest paths of the table have five segments after `/v1/`; one more tells that a path
/// is too long.
const SEGMENTS_MAX: usize = 6;

/// What a request means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The method.
    pub method: &'static Method,
    /// The field of the request that the path binds, such as `topic` or `topic.name`.
    pub field: &'static str,
    /// Its value, percent-decoded, such as `projects/p/topics/t`. An encoded slash stays encoded.
    pub value: String,
}

/// Why a request means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No method has such a path.
    NotFound,
    /// The path is known, but only with these verbs.
    WrongVerb(Vec<Verb>),
    /// The path is known, but its percent-encoding is malformed or not UTF-8.
    Malformed,
}

/// Finds the method for a verb, as HTTP spells it, and a path, as it was sent and without the
/// query.
pub fn route(verb: &str, path: &str) -> Result<Match, NoRoute> {
    let request = RequestPath::split(path).ok_or(NoRoute::NotFound)?;
    let mut allowed = Vec::new();
    for pattern in PATTERNS.iter().filter(|pattern| pattern.fits(&request)) {
        if pattern.method.verb.as_str() == verb {
            return pattern.bind(&request);
        }
        allowed.push(pattern.method.verb);
    }
    if allowed.is_empty() { Err(NoRoute::NotFound) } else { Err(NoRoute::WrongVerb(allowed)) }
}

static PATTERNS: LazyLock<Vec<Pattern>> =
    LazyLock::new(|| METHODS.iter().filter_map(Pattern::parse).collect());

/// The path of a method, taken apart once.
struct Pattern {
    method: &'static Method,
    field: &'static str,
    segments: Vec<&'static str>,
    /// How many of the segments make up the field's value.
    bound: usize,
    /// What follows the colon, such as `publish`.
    action: Option<&'static str>,
}

impl Pattern {
    fn parse(method: &'static Method) -> Option<Self> {
        let (field, rest) = method.path.strip_prefix("/v1/{")?.split_once('=')?;
        let (shape, rest) = rest.split_once('}')?;
        let (tail, action) = match rest.split_once(':') {
            Some((tail, action)) => (tail, Some(action)),
            None => (rest, None),
        };
        let mut segments: Vec<&str> = shape.split('/').collect();
        let bound = segments.len();
        segments.extend(tail.split('/').filter(|segment| !segment.is_empty()));
        Some(Self { method, field, segments, bound, action })
    }

    fn fits(&self, path: &RequestPath<'_>) -> bool {
        self.action == path.action
            && self.segments.len() == path.segments.len()
            && self.segments.iter().zip(&path.segments).all(|(&pattern, &segment)| {
                if pattern == "*" { !segment.is_empty() } else { pattern == segment }
            })
    }

    fn bind(&self, path: &RequestPath<'_>) -> Result<Match, NoRoute> {
        let bound = path.segments.get(..self.bound).unwrap_or_default();
        let decoded: Option<Vec<String>> =
            bound.iter().map(|segment| percent::decode(segment, Slash::Kept)).collect();
        let value = decoded.ok_or(NoRoute::Malformed)?.join("/");
        Ok(Match { method: self.method, field: self.field, value })
    }
}

/// The path of a request, taken apart.
struct RequestPath<'a> {
    segments: Vec<&'a str>,
    action: Option<&'a str>,
}

impl<'a> RequestPath<'a> {
    fn split(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix("/v1/")?;
        let (path, action) = split_action(path);
        let segments: Vec<&str> = path.split('/').take(SEGMENTS_MAX).collect();
        Some(Self { segments, action })
    }
}

/// Splits `…/t:publish` at the colon. What follows must be an action of some method: a name may
/// hold a colon too, as in `projects/example.com:p/topics`.
fn split_action(path: &str) -> (&str, Option<&str>) {
    match path.rsplit_once(':') {
        Some((path, action)) if PATTERNS.iter().any(|p| p.action == Some(action)) => {
            (path, Some(action))
        }
        _ => (path, None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn found(verb: &str, path: &str) -> (&'static str, &'static str, String) {
        let found = route(verb, path).unwrap_or_else(|error| panic!("{verb} {path}: {error:?}"));
        (found.method.call, found.field, found.value)
    }

    #[test]
    fn every_method_is_found_by_its_own_path() {
        for method in METHODS {
            let (field, shape) = method.path[5..].split_once('=').unwrap();
            let value = shape.split_once('}').unwrap().0.replace('*', "x-1");
            let path = format!("/v1/{}", shape.replace('*', "x-1").replace('}', ""));
            let expected = Match { method, field, value };
            assert_eq!(route(method.verb.as_str(), &path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn no_two_methods_have_the_same_verb_and_shape() {
        let shapes: BTreeSet<_> = PATTERNS
            .iter()
            .map(|pattern| (pattern.method.verb, &pattern.segments, pattern.action))
            .collect();
        assert_eq!(shapes.len(), METHODS.len());
    }

    #[test]
    fn calls_of_one_name_are_of_one_service() {
        let rpcs: BTreeSet<_> = METHODS.iter().map(Method::rpc).collect();
        let calls: BTreeSet<_> = METHODS.iter().map(|method| method.call).collect();
        assert_eq!(rpcs.len(), calls.len());
        assert_eq!(METHODS[0].rpc(), "google.pubsub.v1.Publisher/CreateTopic");
    }

    #[test]
    fn well_known_paths_mean_what_they_should() {
        for (verb, path, call, field, value) in [
            ("PUT", "/v1/projects/p/topics/t", "CreateTopic", "name", "projects/p/topics/t"),
            (
                "PATCH",
                "/v1/projects/p/topics/t",
                "UpdateTopic",
                "topic.name",
                "projects/p/topics/t",
            ),
            ("POST", "/v1/projects/p/topics/t:publish", "Publish", "topic", "projects/p/topics/t"),
            ("GET", "/v1/projects/p/topics", "ListTopics", "project", "projects/p"),
            (
                "GET",
                "/v1/projects/p/topics/t/subscriptions",
                "ListTopicSubscriptions",
                "topic",
                "projects/p/topics/t",
            ),
            ("POST", "/v1/projects/p/schemas:validate", "ValidateSchema", "parent", "projects/p"),
            (
                "GET",
                "/v1/projects/p/snapshots/s:getIamPolicy",
                "GetIamPolicy",
                "resource",
                "projects/p/snapshots/s",
            ),
        ] {
            assert_eq!(found(verb, path), (call, field, value.to_owned()));
        }
    }

    #[test]
    fn names_are_percent_decoded() {
        let name = |path| found("GET", path).2;
        assert_eq!(name("/v1/projects/p/topics/a%2Bb"), "projects/p/topics/a+b");
        assert_eq!(name("/v1/projects/p/topics/a%3Apublish"), "projects/p/topics/a:publish");
        assert_eq!(name("/v1/projects/p/topics/a%2Fb"), "projects/p/topics/a%2Fb");
        assert_eq!(name("/v1/projects/example.com:p/topics"), "projects/example.com:p");
        assert_eq!(name("/v1/projects/p/topics/a:b"), "projects/p/topics/a:b");
        assert_eq!(route("GET", "/v1/projects/p/topics/a%zz"), Err(NoRoute::Malformed));
        assert_eq!(route("GET", "/v1/projects/p/topics/%ff"), Err(NoRoute::Malformed));
    }

    #[test]
    fn a_known_path_with_another_verb_says_so() {
        let wrong = |verb, path| route(verb, path).unwrap_err();
        assert_eq!(
            wrong("POST", "/v1/projects/p/topics/t"),
            NoRoute::WrongVerb(vec![Verb::Put, Verb::Patch, Verb::Get, Verb::Delete])
        );
        assert_eq!(
            wrong("GET", "/v1/projects/p/topics/t:publish"),
            NoRoute::WrongVerb(vec![Verb::Post])
        );
        assert_eq!(wrong("get", "/v1/projects/p/topics"), NoRoute::WrongVerb(vec![Verb::Get]));
    }

    #[test]
    fn rubbish_is_not_found() {
        let long = format!("/v1/{}", "projects/".repeat(100_000));
        for path in [
            "",
            "/",
            "*",
            "/v1",
            "/v1/",
            "/v2/projects/p/topics",
            "v1/projects/p/topics",
            "/v1/projects//topics",
            "/v1/projects/p/topics/",
            "/v1/projects/p/topics/t/",
            "/v1//projects/p/topics",
            "/v1/projects/p/queues/t",
            "/v1/projects/p/topics/t:detach",
            "/v1/projects/p/topics/t/subscriptions/s",
            "/v1/projects/p/topics/t/subscriptions/s/x/y",
            "/v1/:publish",
            "/v1/é/%",
            long.as_str(),
        ] {
            assert_eq!(route("GET", path), Err(NoRoute::NotFound), "{path:.60}");
        }
    }
}
