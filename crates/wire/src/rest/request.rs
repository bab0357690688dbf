//! From path, query and body to the request of a call.

use serde_json::{Map, Value};

use super::percent::{self, Slash};
use super::{Body, Match};
use crate::json::JsonError;

/// How many names a dotted query parameter may have, as in `options.requestedPolicyVersion`.
const NAMES_MAX: usize = 4;

/// Query parameters that steer the transport and are no fields of a request. Those that begin
/// with a dollar sign, such as `$alt`, are of this kind too.
const TRANSPORT_PARAMETERS: [&str; 10] = [
    "access_token",
    "alt",
    "callback",
    "fields",
    "key",
    "oauth_token",
    "prettyPrint",
    "quotaUser",
    "uploadType",
    "upload_protocol",
];

/// Query parameters that are enumerations. Clients that are generated send numbers.
const ENUM_PARAMETERS: [&str; 1] = ["view"];

impl Match {
    /// Makes the request, as a tree for [`crate::json::from_value`], of the field that the path
    /// binds, the query string as it was sent, and the body if there is one.
    ///
    /// The path wins over a field of the body; a field both in body and query is an error.
    pub fn request(&self, query: &str, body: Option<Value>) -> Result<Value, JsonError> {
        let mut request = self.place_body(body)?;
        for pair in self::query(query) {
            let (name, value) = pair?;
            if name.starts_with('$') || TRANSPORT_PARAMETERS.contains(&name.as_str()) {
                continue;
            }
            let value = match value.parse::<i32>() {
                Ok(number) if ENUM_PARAMETERS.contains(&name.as_str()) => Value::from(number),
                _ => Value::String(value),
            };
            if set(&mut request, &name, value)?.is_some() {
                return Err(JsonError::at(&name, "given twice"));
            }
        }
        set(&mut request, self.field, Value::String(self.value.clone()))?;
        Ok(Value::Object(request))
    }

    fn place_body(&self, body: Option<Value>) -> Result<Map<String, Value>, JsonError> {
        let body = match body.unwrap_or_default() {
            Value::Null => Map::new(),
            Value::Object(members) => members,
            _ => return Err(JsonError::new("expected an object as the body")),
        };
        match self.method.body {
            Body::All => Ok(body),
            Body::Field(field) => Ok(Map::from_iter([(field.to_owned(), Value::Object(body))])),
            Body::None if body.is_empty() => Ok(body),
            Body::None => Err(JsonError::new("this method takes no body")),
        }
    }
}

/// The names and values of a query string, decoded, in their order.
pub fn query(text: &str) -> impl Iterator<Item = Result<(String, String), JsonError>> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode_query(name)?, decode_query(value)?))
    })
}

fn decode_query(text: &str) -> Result<String, JsonError> {
    percent::decode(&text.replace('+', " "), Slash::Decoded)
        .ok_or_else(|| JsonError::new("query string is not well-formed"))
}

/// Sets the field of a dotted name, making the objects on the way to it; returns what was there.
fn set(
    request: &mut Map<String, Value>,
    name: &str,
    value: Value,
) -> Result<Option<Value>, JsonError> {
    let mut object = request;
    let mut names = name.splitn(NAMES_MAX, '.').peekable();
    while let Some(part) = names.next() {
        if names.peek().is_none() {
            return Ok(object.insert(part.to_owned(), value).filter(|before| !before.is_null()));
        }
        let member = object.entry(part).or_insert(Value::Null);
        if member.is_null() {
            *member = Value::Object(Map::new());
        }
        object = match member {
            Value::Object(inside) => inside,
            _ => return Err(JsonError::at(part, "expected an object")),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::iam::GetIamPolicyRequest;
    use crate::json::from_value;
    use crate::pubsub::{
        CreateSchemaRequest, GetSchemaRequest, ListTopicsRequest, UpdateTopicRequest,
    };
    use crate::rest::route;

    #[test]
    fn path_and_query_make_a_request() {
        let found = route("GET", "/v1/projects/p/topics").unwrap();
        let request = found.request("pageSize=10&pageToken=a%2Fb+c&alt=json&$alt=x", None).unwrap();
        let expected = ListTopicsRequest {
            project: "projects/p".to_owned(),
            page_size: 10,
            page_token: "a/b c".to_owned(),
        };
        assert_eq!(from_value::<ListTopicsRequest>(request), Ok(expected));
    }

    #[test]
    fn an_enumeration_may_be_a_name_or_a_number() {
        let found = route("GET", "/v1/projects/p/schemas/s").unwrap();
        for view in ["FULL", "2"] {
            let request = found.request(&format!("view={view}"), None).unwrap();
            assert_eq!(from_value::<GetSchemaRequest>(request).unwrap().view, 2);
        }
    }

    #[test]
    fn dotted_names_reach_inside() {
        let found = route("GET", "/v1/projects/p/topics/t:getIamPolicy").unwrap();
        let request = found.request("options.requestedPolicyVersion=3", None).unwrap();
        let request: GetIamPolicyRequest = from_value(request).unwrap();
        assert_eq!(request.options.unwrap().requested_policy_version, 3);
        assert_eq!(request.resource, "projects/p/topics/t");
    }

    #[test]
    fn path_wins_inside_the_body() {
        let found = route("PATCH", "/v1/projects/p/topics/t").unwrap();
        let body = json!({"topic": {"name": "other", "labels": {"a": "b"}}});
        let request = found.request("updateMask=labels", Some(body)).unwrap();
        let request: UpdateTopicRequest = from_value(request).unwrap();
        assert_eq!(request.update_mask.unwrap().paths, ["labels"]);
        let topic = request.topic.unwrap();
        assert_eq!((topic.name.as_str(), topic.labels.len()), ("projects/p/topics/t", 1));
    }

    #[test]
    fn body_may_be_one_field() {
        let found = route("POST", "/v1/projects/p/schemas").unwrap();
        let request = found.request("schemaId=s", Some(json!({"type": "AVRO"}))).unwrap();
        let request: CreateSchemaRequest = from_value(request).unwrap();
        assert_eq!((request.parent.as_str(), request.schema_id.as_str()), ("projects/p", "s"));
        assert_eq!(request.schema.unwrap().r#type, 2);
    }

    #[test]
    fn faults_are_named() {
        let list = route("GET", "/v1/projects/p/topics").unwrap();
        let update = route("PATCH", "/v1/projects/p/topics/t").unwrap();
        let fault = |result: Result<_, crate::json::JsonError>| result.unwrap_err().to_string();
        let body = |value| Some(value);
        assert_eq!(fault(list.request("pageSize=1&pageSize=2", None)), "pageSize: given twice");
        assert_eq!(fault(list.request("a=%zz", None)), "query string is not well-formed");
        assert_eq!(fault(list.request("", body(json!({"a": 1})))), "this method takes no body");
        assert_eq!(fault(update.request("", body(json!([])))), "expected an object as the body");
        assert_eq!(
            fault(update.request("", body(json!({"topic": 1})))),
            "topic: expected an object"
        );
        let twice = update.request("updateMask=a", body(json!({"updateMask": "b"})));
        assert_eq!(fault(twice), "updateMask: given twice");
    }

    #[test]
    fn unknown_parameters_are_refused_and_never_nest_deep() {
        let list = route("GET", "/v1/projects/p/topics").unwrap();
        let request = list.request(&"a.".repeat(10_000), None).unwrap();
        let error = from_value::<ListTopicsRequest>(request).unwrap_err();
        assert_eq!(error.to_string(), "a: unknown field");
    }

    #[test]
    fn absent_and_empty_bodies_are_no_bodies() {
        let list = route("GET", "/v1/projects/p/topics").unwrap();
        for body in [None, Some(json!(null)), Some(json!({}))] {
            assert_eq!(list.request("", body).unwrap(), json!({"project": "projects/p"}));
        }
    }
}
