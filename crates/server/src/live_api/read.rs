//! Bodies of calls, read strictly: what is not known or of another type is refused by name.

use domain::filter::Clause;
use domain::live::Request;
use serde_json::{Map, Value};

use super::Result;
use super::fault::Fault;
use crate::api::LIVE_BATCH_MAX;

/// A registration.
pub(super) fn registration(body: Option<Value>) -> Result<Request> {
    let mut members = Members::of(body)?;
    let request = Request {
        gateway: members.text("gatewayId")?.unwrap_or_default(),
        subscription: members.text("subscriptionId")?.unwrap_or_default(),
        tenant: members.text("tenant")?.unwrap_or_default(),
        collection: members.text("collection")?.unwrap_or_default(),
        filters: members.list("filters")?.map_or(Ok(Vec::new()), clauses)?,
        filter: members.text("filter")?,
        ttl_s: members.whole("ttl")?,
    };
    members.end()?;
    Ok(request)
}

/// The registrations of a batch, each to be read on its own.
pub(super) fn batch(body: Option<Value>) -> Result<Vec<Value>> {
    one_list(body, "subscriptions")
}

/// The ids that are to be renewed.
pub(super) fn ids(body: Option<Value>) -> Result<Vec<String>> {
    let ids = one_list(body, "subscriptionIds")?.into_iter().enumerate();
    ids.map(|(index, id)| match id {
        Value::String(id) => Ok(id),
        _ => Err(Fault::argument(format!("subscriptionIds[{index}]"), "expected a string")),
    })
    .collect()
}

fn one_list(body: Option<Value>, name: &'static str) -> Result<Vec<Value>> {
    let mut members = Members::of(body)?;
    let list = members.list(name)?.ok_or_else(|| Fault::argument(name, "is required"))?;
    members.end()?;
    if list.len() > LIVE_BATCH_MAX {
        let problem = format!("{} of them, at most {LIVE_BATCH_MAX} are allowed", list.len());
        return Err(Fault::argument(name, problem));
    }
    Ok(list)
}

fn clauses(list: Vec<Value>) -> Result<Vec<Clause>> {
    list.into_iter().enumerate().map(|(index, value)| clause(index, value)).collect()
}

fn clause(index: usize, value: Value) -> Result<Clause> {
    let place = |name: &str| format!("filters[{index}].{name}");
    let Value::Object(mut members) = value else {
        let problem = "expected an object with field, op and value";
        return Err(Fault::filter(format!("filters[{index}]"), problem));
    };
    let mut text = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Fault::filter(place(name), "expected a string")),
        None => Err(Fault::filter(place(name), "is required")),
    };
    let (field, op) = (text("field")?, text("op")?);
    let Some(value) = members.remove("value") else {
        return Err(Fault::filter(place("value"), "is required; null is a value too"));
    };
    match members.keys().next() {
        Some(other) => Err(Fault::filter(place(other), "unknown, expected field, op or value")),
        None => Ok(Clause { field, op, value: value.to_string() }),
    }
}

/// The members of a body, each taken once. One that is null counts as missing.
struct Members(Map<String, Value>);

impl Members {
    fn of(body: Option<Value>) -> Result<Self> {
        match body {
            Some(Value::Object(members)) => Ok(Self(members)),
            _ => Err(Fault::argument("body", "expected a JSON object")),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Fault::argument(name, "expected a string")),
        }
    }

    fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(Fault::argument(name, "expected a list")),
        }
    }

    fn whole(&mut self, name: &str) -> Result<Option<i64>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_i64().ok_or_else(|| Fault::argument(name, "expected whole seconds"));
        number.map(Some)
    }

    fn end(self) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => {
                let shown: String = name.chars().take(64).collect();
                Err(Fault::argument(shown, "unknown field"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_registration_is_read_whole() {
        let body = json!({
            "gatewayId": "g", "subscriptionId": "s", "tenant": "t", "collection": "c/d",
            "filters": [
                {"field": "data.a", "op": "==", "value": null},
                {"field": "data.b", "op": "in", "value": [1, "two"]},
            ],
            "ttl": 60,
        });
        let request = registration(Some(body)).unwrap();
        assert_eq!((request.gateway.as_str(), request.collection.as_str()), ("g", "c/d"));
        assert_eq!(request.ttl_s, Some(60));
        let values: Vec<_> = request.filters.iter().map(|clause| clause.value.as_str()).collect();
        assert_eq!(values, ["null", r#"[1,"two"]"#]);
        let plain = registration(Some(json!({"filter": "data.a == 1", "ttl": null}))).unwrap();
        assert_eq!((plain.filter.as_deref(), plain.ttl_s), (Some("data.a == 1"), None));
    }

    #[test]
    fn what_is_unknown_missing_or_of_another_type_is_named() {
        for (body, code, field) in [
            (json!([]), "INVALID_ARGUMENT", "body"),
            (json!({"gatewayID": "g"}), "INVALID_ARGUMENT", "gatewayID"),
            (json!({"gatewayId": 5}), "INVALID_ARGUMENT", "gatewayId"),
            (json!({"subscriptionId": []}), "INVALID_ARGUMENT", "subscriptionId"),
            (json!({"tenant": true}), "INVALID_ARGUMENT", "tenant"),
            (json!({"collection": {}}), "INVALID_ARGUMENT", "collection"),
            (json!({"ttl": "60"}), "INVALID_ARGUMENT", "ttl"),
            (json!({"ttl": 60.5}), "INVALID_ARGUMENT", "ttl"),
            (json!({"filter": 1}), "INVALID_ARGUMENT", "filter"),
            (json!({"filters": {}}), "INVALID_ARGUMENT", "filters"),
            (json!({"filters": [1]}), "INVALID_FILTER", "filters[0]"),
            (json!({"filters": [{"op": "==", "value": 1}]}), "INVALID_FILTER", "filters[0].field"),
            (
                json!({"filters": [{"field": "data.a", "op": 1, "value": 1}]}),
                "INVALID_FILTER",
                "filters[0].op",
            ),
            (
                json!({"filters": [{"field": "data.a", "op": "=="}]}),
                "INVALID_FILTER",
                "filters[0].value",
            ),
            (
                json!({"filters": [{"field": "data.a", "op": "==", "value": 1, "and": 2}]}),
                "INVALID_FILTER",
                "filters[0].and",
            ),
        ] {
            let fault = registration(Some(body.clone())).unwrap_err();
            assert_eq!((fault.code, fault.field.as_deref()), (code, Some(field)), "{body}");
            assert_eq!(fault.status.as_u16(), 400);
        }
    }

    #[test]
    fn lists_are_bounded() {
        let many = vec![json!("a"); LIVE_BATCH_MAX + 1];
        for (body, field) in [
            (json!({}), "subscriptionIds"),
            (json!({"subscriptionIds": many}), "subscriptionIds"),
            (json!({"subscriptionIds": ["a", 1]}), "subscriptionIds[1]"),
            (json!({"subscriptionIds": [], "x": 1}), "x"),
        ] {
            assert_eq!(ids(Some(body)).unwrap_err().field.as_deref(), Some(field));
        }
        assert_eq!(ids(Some(json!({"subscriptionIds": ["a", "b"]}))).unwrap(), ["a", "b"]);
    }
}
