//! The paths that are not Google's: behind the name of a subscription, a topic or a project.

use wire::rest::{Body, Match, Method, NoRoute, Verb, route};

use super::no_route;
use crate::status::Result;

/// Behind what names a path is given, as the calls that show what the names stand for.
const SUBSCRIPTION: &[&str] = &["GetSubscription"];
const TOPIC: &[&str] = &["GetTopic"];
const EITHER: &[&str] = &["GetSubscription", "GetTopic"];

/// A path behind a name, and the field that the name goes to.
struct Ours {
    method: Method,
    of: &'static [&'static str],
    field: &'static str,
}

static METHODS: [Ours; 10] = [
    ours(Verb::Get, "/attempts", "ListAttempts", Body::None),
    ours(Verb::Get, "/delivery", "GetDelivery", Body::None),
    ours(Verb::Get, "/lanes", "ListLanes", Body::None),
    ours(Verb::Post, "/lanes:release", "ReleaseLane", Body::All),
    ours(Verb::Post, "/lanes:skip", "SkipLane", Body::All),
    ours(Verb::Post, ":rotateSecret", "RotateSecret", Body::All),
    either(Verb::Get, "/messages", "PeekMessages", Body::None),
    either(Verb::Get, "/deadLetters", "ListDeadLetters", Body::None),
    either(Verb::Post, "/deadLetters:replay", "ReplayDeadLetters", Body::All),
    either(Verb::Post, "/deadLetters:delete", "DeleteDeadLetters", Body::All),
];

static GET_DEAD_LETTER: Method = method(Verb::Get, "/deadLetters/", "GetDeadLetter", Body::None);

/// Behind a project's name.
static OF_PROJECT: [Method; 2] = [
    method(Verb::Get, "replays", "ListReplays", Body::None),
    method(Verb::Get, "lint", "Lint", Body::None),
];

/// Behind a project's name and a colon. These are Google's, but only over REST.
static TO_PROJECT: [Method; 2] = [
    method(Verb::Post, ":validateMessageTransform", "ValidateMessageTransform", Body::All),
    method(Verb::Post, ":testMessageTransforms", "TestMessageTransforms", Body::All),
];

/// Behind nothing, since there is one clock.
static CLOCK: [Method; 2] = [
    method(Verb::Get, "/v1/clock", "GetClock", Body::None),
    method(Verb::Post, "/v1/clock:confirm", "ConfirmClock", Body::All),
];

/// Behind nothing, since a backup is of everything.
static BACKUPS: [Method; 2] = [
    method(Verb::Put, "/v1/backups/", "MakeBackup", Body::All),
    method(Verb::Delete, "/v1/backups/", "DeleteBackup", Body::None),
];
static LIST_BACKUPS: Method = method(Verb::Get, "/v1/backups", "ListBackups", Body::None);

static GET_REPLAY: Method = method(Verb::Get, "/replays/", "GetReplay", Body::None);
static CANCEL_REPLAY: Method = method(Verb::Post, ":cancel", "CancelReplay", Body::All);

const fn method(verb: Verb, path: &'static str, call: &'static str, body: Body) -> Method {
    Method { verb, path, service: "postrider", call, body }
}

const fn ours(verb: Verb, path: &'static str, call: &'static str, body: Body) -> Ours {
    Ours { method: method(verb, path, call, body), of: SUBSCRIPTION, field: "subscription" }
}

const fn either(verb: Verb, path: &'static str, call: &'static str, body: Body) -> Ours {
    Ours { method: method(verb, path, call, body), of: EITHER, field: "resource" }
}

/// The call if the path is one of these.
pub(super) fn find(verb: &str, path: &str) -> Result<Option<Match>> {
    if let Some(found) = find_of_project(verb, path)? {
        return Ok(Some(found));
    }
    if let Some(method) = CLOCK.iter().find(|method| method.path == path) {
        return matched(verb, path, method, "name", "clock".to_owned()).map(Some);
    }
    if let Some(found) = find_backups(verb, path)? {
        return Ok(Some(found));
    }
    if let Some((topic, id)) = path.rsplit_once(GET_DEAD_LETTER.path)
        && !id.is_empty()
        && let Some(value) = named(topic, path, TOPIC)?
    {
        let value = format!("{value}/deadLetters/{id}");
        return matched(verb, path, &GET_DEAD_LETTER, "name", value).map(Some);
    }
    for Ours { method, of, field } in &METHODS {
        let Some(name) = path.strip_suffix(method.path) else { continue };
        let Some(value) = named(name, path, of)? else { return Ok(None) };
        return matched(verb, path, method, field, value).map(Some);
    }
    Ok(None)
}

fn find_backups(verb: &str, path: &str) -> Result<Option<Match>> {
    let [make, delete] = &BACKUPS;
    if path == LIST_BACKUPS.path {
        return matched(verb, path, &LIST_BACKUPS, "name", String::new()).map(Some);
    }
    let Some(name) = path.strip_prefix(make.path) else { return Ok(None) };
    if verb == delete.verb.as_str() {
        return matched(verb, path, delete, "name", name.to_owned()).map(Some);
    }
    matched(verb, path, make, "name", name.to_owned()).map(Some)
}

/// The name in a path, if it is of that kind.
fn named(name: &str, path: &str, of: &[&str]) -> Result<Option<String>> {
    let found = route("GET", name).map_err(|none| no_route(none, path))?;
    Ok(of.contains(&found.method.call).then_some(found.value))
}

fn matched(
    verb: &str,
    path: &str,
    method: &'static Method,
    field: &'static str,
    value: String,
) -> Result<Match> {
    if verb == method.verb.as_str() {
        return Ok(Match { method, field, value });
    }
    Err(no_route(NoRoute::WrongVerb(vec![method.verb]), path))
}

/// `/v1/projects/{project}/replays`, one of them, and `/lint`.
fn find_of_project(verb: &str, path: &str) -> Result<Option<Match>> {
    let Some(name) = path.strip_prefix("/v1/") else { return Ok(None) };
    let parts: Vec<&str> = name.splitn(5, '/').collect();
    match parts[..] {
        ["projects", last] => {
            let found = TO_PROJECT
                .iter()
                .find_map(|method| Some((method, last.strip_suffix(method.path)?)));
            let Some((method, project)) = found else { return Ok(None) };
            matched(verb, path, method, "project", format!("projects/{project}")).map(Some)
        }
        ["projects", project, last] => {
            let Some(method) = OF_PROJECT.iter().find(|method| method.path == last) else {
                return Ok(None);
            };
            matched(verb, path, method, "project", format!("projects/{project}")).map(Some)
        }
        ["projects", project, "replays", id] => {
            let (id, method) = match id.strip_suffix(CANCEL_REPLAY.path) {
                Some(id) => (id, &CANCEL_REPLAY),
                None => (id, &GET_REPLAY),
            };
            matched(verb, path, method, "name", format!("projects/{project}/replays/{id}"))
                .map(Some)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn every_path_of_ours_is_found() {
        let name = "projects/p/subscriptions/billing";
        for (verb, path, call) in [
            ("GET", "/attempts", "ListAttempts"),
            ("GET", "/delivery", "GetDelivery"),
            ("GET", "/lanes", "ListLanes"),
            ("POST", "/lanes:release", "ReleaseLane"),
            ("POST", "/lanes:skip", "SkipLane"),
            ("POST", ":rotateSecret", "RotateSecret"),
        ] {
            let found = find(verb, &format!("/v1/{name}{path}")).unwrap().unwrap();
            assert_eq!((found.method.call, found.value.as_str()), (call, name));
            let other = if verb == "GET" { "POST" } else { "GET" };
            let refusal = find(other, &format!("/v1/{name}{path}")).unwrap_err();
            assert_eq!(refusal.code, Code::NotFound);
        }
        for other in [
            "/v1/projects/p/topics/orders/lanes",
            "/v1/projects/p/topics/deadLetters",
            "/v1/projects/p/subscriptions",
        ] {
            assert_eq!(find("GET", other), Ok(None), "{other}");
        }
        assert!(find("GET", "/lanes").is_err());
    }

    #[test]
    fn dead_letters_and_messages_lie_behind_topics_and_subscriptions() {
        for name in ["projects/p/subscriptions/billing", "projects/p/topics/orders"] {
            for (verb, path, call) in [
                ("GET", "/messages", "PeekMessages"),
                ("GET", "/deadLetters", "ListDeadLetters"),
                ("POST", "/deadLetters:replay", "ReplayDeadLetters"),
                ("POST", "/deadLetters:delete", "DeleteDeadLetters"),
            ] {
                let found = find(verb, &format!("/v1/{name}{path}")).unwrap().unwrap();
                assert_eq!((found.method.call, found.field), (call, "resource"));
                assert_eq!(found.value, name);
            }
        }
        let one = "/v1/projects/p/topics/dead/deadLetters/77";
        let found = find("GET", one).unwrap().unwrap();
        assert_eq!(found.method.call, "GetDeadLetter");
        assert_eq!(found.value, "projects/p/topics/dead/deadLetters/77");
        let of_subscription = "/v1/projects/p/subscriptions/billing/deadLetters/77";
        assert_eq!(find("GET", of_subscription), Ok(None));
        assert!(find("DELETE", one).is_err());
    }

    #[test]
    fn backups_lie_behind_nothing() {
        for (verb, path, call, value) in [
            ("GET", "/v1/backups", "ListBackups", ""),
            ("PUT", "/v1/backups/one", "MakeBackup", "one"),
            ("DELETE", "/v1/backups/one", "DeleteBackup", "one"),
        ] {
            let found = find(verb, path).unwrap().unwrap();
            assert_eq!((found.method.call, found.value.as_str()), (call, value));
            assert!(find("POST", path).is_err());
        }
    }

    #[test]
    fn the_clock_lies_behind_nothing() {
        for (verb, path, call) in
            [("GET", "/v1/clock", "GetClock"), ("POST", "/v1/clock:confirm", "ConfirmClock")]
        {
            assert_eq!(find(verb, path).unwrap().unwrap().method.call, call);
            assert!(find("DELETE", path).is_err());
        }
    }

    #[test]
    fn replays_and_findings_lie_behind_projects() {
        for (verb, path, call, value) in [
            ("GET", "replays", "ListReplays", "projects/p"),
            ("GET", "lint", "Lint", "projects/p"),
            ("GET", "replays/7", "GetReplay", "projects/p/replays/7"),
            ("POST", "replays/7:cancel", "CancelReplay", "projects/p/replays/7"),
        ] {
            let found = find(verb, &format!("/v1/projects/p/{path}")).unwrap().unwrap();
            assert_eq!((found.method.call, found.value.as_str()), (call, value));
            assert!(find("DELETE", &format!("/v1/projects/p/{path}")).is_err());
        }
        assert_eq!(find("GET", "/v1/projects/p/topics"), Ok(None));
    }
}
