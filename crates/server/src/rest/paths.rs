//! The paths that are not Google's: each is given behind a subscription's name.

use wire::rest::{Body, Match, Method, NoRoute, Verb, route};

use super::no_route;
use crate::status::Result;

static METHODS: [Method; 5] = [
    ours(Verb::Get, "/attempts", "ListAttempts", Body::None),
    ours(Verb::Get, "/lanes", "ListLanes", Body::None),
    ours(Verb::Post, "/lanes:release", "ReleaseLane", Body::All),
    ours(Verb::Post, "/lanes:skip", "SkipLane", Body::All),
    ours(Verb::Post, ":rotateSecret", "RotateSecret", Body::All),
];

const fn ours(verb: Verb, path: &'static str, call: &'static str, body: Body) -> Method {
    Method { verb, path, service: "postrider", call, body }
}

/// The call if the path is one of these.
pub(super) fn find(verb: &str, path: &str) -> Result<Option<Match>> {
    for method in &METHODS {
        let Some(subscription) = path.strip_suffix(method.path) else { continue };
        let found = route("GET", subscription).map_err(|none| no_route(none, path))?;
        if found.method.call != "GetSubscription" {
            return Ok(None);
        }
        if verb != method.verb.as_str() {
            return Err(no_route(NoRoute::WrongVerb(vec![method.verb]), path));
        }
        return Ok(Some(Match { method, field: "subscription", value: found.value }));
    }
    Ok(None)
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
        for other in ["/v1/projects/p/topics/orders/lanes", "/v1/projects/p/subscriptions"] {
            assert_eq!(find("GET", other), Ok(None), "{other}");
        }
        assert!(find("GET", "/lanes").is_err());
    }
}
