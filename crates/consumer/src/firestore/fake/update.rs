//! What a write makes of a document. Field paths are names, plain or in backticks: nothing that
//! is tested writes inside a map.

use tonic::Status;

use crate::firestore::api;
use crate::firestore::api::document_transform::FieldTransform;
use crate::firestore::api::document_transform::field_transform::TransformType;
use crate::firestore::api::value::ValueType;
use crate::firestore::api::write::Operation;

/// The document after the write; `None` = there is none.
pub(super) fn apply(
    write: &api::Write,
    current: Option<&api::Document>,
    now: &prost_types::Timestamp,
) -> Result<Option<api::Document>, Status> {
    let mut document = match &write.operation {
        None | Some(Operation::Delete(_)) => return Ok(None),
        Some(Operation::Update(update)) => updated(update, write.update_mask.as_ref(), current)?,
        Some(Operation::Transform(_)) => current.cloned().unwrap_or_default(),
    };
    document.create_time = current.and_then(|current| current.create_time);
    let transforms = match &write.operation {
        Some(Operation::Transform(transform)) => &transform.field_transforms,
        _ => &write.update_transforms,
    };
    for transform in transforms {
        transformed(&mut document, transform, now)?;
    }
    Ok(Some(document))
}

fn updated(
    update: &api::Document,
    mask: Option<&api::DocumentMask>,
    current: Option<&api::Document>,
) -> Result<api::Document, Status> {
    let Some(mask) = mask else { return Ok(update.clone()) };
    let mut document = current.cloned().unwrap_or_default();
    for path in &mask.field_paths {
        let name = name_of(path)?;
        match update.fields.get(&name) {
            Some(value) => document.fields.insert(name, value.clone()),
            None => document.fields.remove(&name),
        };
    }
    Ok(document)
}

fn transformed(
    document: &mut api::Document,
    transform: &FieldTransform,
    now: &prost_types::Timestamp,
) -> Result<(), Status> {
    let name = name_of(&transform.field_path)?;
    let before = document.fields.get(&name).and_then(|value| value.value_type.as_ref());
    let after = match &transform.transform_type {
        Some(TransformType::SetToServerValue(1)) => ValueType::TimestampValue(*now),
        Some(TransformType::Increment(by)) => sum(before, by)?,
        _ => return Err(Status::unimplemented("the fake does not know this transform")),
    };
    document.fields.insert(name, api::Value { value_type: Some(after) });
    Ok(())
}

/// As the service does: whole numbers stop at their bounds, and what is no number is replaced.
fn sum(before: Option<&ValueType>, by: &api::Value) -> Result<ValueType, Status> {
    use ValueType::{DoubleValue, IntegerValue};
    let by = by.value_type.as_ref();
    Ok(match (before, by) {
        (Some(IntegerValue(before)), Some(IntegerValue(by))) => {
            IntegerValue(before.saturating_add(*by))
        }
        (Some(DoubleValue(before)), Some(DoubleValue(by))) => DoubleValue(before + by),
        #[expect(clippy::cast_precision_loss, reason = "so does the service")]
        (Some(IntegerValue(before)), Some(DoubleValue(by))) => DoubleValue(*before as f64 + by),
        #[expect(clippy::cast_precision_loss, reason = "so does the service")]
        (Some(DoubleValue(before)), Some(IntegerValue(by))) => DoubleValue(before + *by as f64),
        (_, Some(number @ (IntegerValue(_) | DoubleValue(_)))) => number.clone(),
        _ => return Err(Status::invalid_argument("only numbers can be added")),
    })
}

fn name_of(path: &str) -> Result<String, Status> {
    let quoted = path.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    if let Some(quoted) = quoted {
        let mut name = String::new();
        let mut characters = quoted.chars();
        while let Some(c) = characters.next() {
            name.extend(if c == '\\' { characters.next() } else { Some(c) });
        }
        return Ok(name);
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if path.is_empty() || !path.chars().all(is_word) {
        return Err(Status::invalid_argument(format!("{path:?} is no field path of one name")));
    }
    Ok(path.to_owned())
}
