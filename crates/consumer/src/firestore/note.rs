//! The note of a message: the document that says it was handled.
//!
//! ```text
//! ops_dedupe/{messageId}
//!   document   "ops_services/api"         what it was about
//!   outcome    "applied" or "stale_ignored"
//!   handledAt  when, by Firestore's clock
//!   expiresAt  for a TTL policy on this field: nothing else ever deletes notes
//! ```

use std::collections::BTreeMap;

use super::api;
use super::api::document_transform::FieldTransform;
use super::api::document_transform::field_transform::{ServerValue, TransformType};
use super::api::precondition::ConditionType;
use super::api::value::ValueType;
use super::api::write::Operation;
use super::value::to_api;
use crate::effects::{Applied, Value, Write};

const APPLIED: &str = "applied";
const STALE: &str = "stale_ignored";

/// The write that notes a message of which this came, on the condition that there is no note yet.
/// `name` is the note's full name.
pub(super) fn write(name: &str, write: &Write, outcome: Applied) -> api::Write {
    let document = format!("{}/{}", write.document.collection, write.document.id);
    let outcome = if outcome == Applied::Stale { STALE } else { APPLIED };
    let fields = BTreeMap::from([
        ("document".to_owned(), to_api(&Value::Text(document))),
        ("outcome".to_owned(), to_api(&Value::Text(outcome.to_owned()))),
        ("expiresAt".to_owned(), to_api(&Value::Time(write.dedupe_until))),
    ]);
    let handled_at = FieldTransform {
        field_path: "handledAt".to_owned(),
        transform_type: Some(TransformType::SetToServerValue(ServerValue::RequestTime.into())),
    };
    let missing = api::Precondition { condition_type: Some(ConditionType::Exists(false)) };
    api::Write {
        operation: Some(Operation::Update(api::Document {
            name: name.to_owned(),
            fields,
            ..api::Document::default()
        })),
        update_transforms: vec![handled_at],
        current_document: Some(missing),
        ..api::Write::default()
    }
}

/// What came of the message that was noted.
pub(super) fn outcome(note: &api::Document) -> Applied {
    let outcome = note.fields.get("outcome").and_then(|value| value.value_type.as_ref());
    match outcome {
        Some(ValueType::StringValue(text)) if text == STALE => Applied::Stale,
        _ => Applied::Applied,
    }
}
