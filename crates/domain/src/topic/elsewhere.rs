//! Settings that mean something at Google only: kept, shown, and warned of.

use super::Topic;
use crate::error::Invalid;
use crate::setting::shape::{Field, Kind};
use crate::setting::{Form, Part};
use crate::validate::tags_warning;

/// `message_storage_policy`. A list without regions would allow none, which Google refuses.
pub(super) const STORAGE_POLICY: &[Field] = &[
    Field::needed("allowed_persistence_regions", Kind::Texts(region)),
    Field::new("enforce_in_transit", Kind::Switch),
];

/// The parts of `message_storage_policy`.
pub(super) const STORAGE_PARTS: &[Part] = &[
    Part::new("allowed_persistence_regions", Form::Own, "Regions such as `[\"europe-west1\"]`"),
    Part::new("enforce_in_transit", Form::Switch, "Google holds clients to them too"),
];

fn region(text: &str) -> Option<&'static str> {
    let is_good = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    let is_region = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.len() <= REGION_BYTES_MAX
        && text.chars().all(is_good);
    (!is_region).then_some("not a region such as europe-west1")
}

const REGION_BYTES_MAX: usize = 63;

/// `projects/*/locations/*/keyRings/*/cryptoKeys/*`.
pub(super) fn check_kms_key(key: &str) -> Result<(), Invalid> {
    let names = ["projects", "locations", "keyRings", "cryptoKeys"];
    let parts: Vec<&str> = key.split('/').collect();
    let is_key = parts.len() == 2 * names.len()
        && parts.chunks(2).zip(names).all(|(pair, name)| match pair {
            [kind, id] => *kind == name && !id.is_empty(),
            _ => false,
        });
    if is_key && key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let problem = "not a key such as projects/p/locations/l/keyRings/r/cryptoKeys/k";
    Err(Invalid::new("kms_key_name", problem))
}

const KEY_BYTES_MAX: usize = 1_024;

/// That nothing flows into a topic though its settings say so; `None` = they do not.
pub fn ingestion_warning(topic: &Topic) -> Option<String> {
    let warning = "ingestion_data_source_settings are kept and shown, but this server ingests \
                   nothing: the state is INGESTION_RESOURCE_ERROR; publish to the topic instead";
    topic.ingestion.as_ref().map(|_| warning.to_owned())
}

/// What the owner of a topic should know about the settings `after`, which replace `before`
/// (`None` = it is new). Plain ASCII.
pub fn warnings(before: Option<&Topic>, after: &Topic) -> Vec<String> {
    let becomes = |is: fn(&Topic) -> bool| is(after) && !before.is_some_and(is);
    let mut warnings = Vec::new();
    if becomes(|one| one.kms_key.is_some()) {
        warnings.push(
            "kms_key_name is kept and shown, but encrypts nothing here: use an encrypted disk"
                .to_owned(),
        );
    }
    if becomes(|one| one.storage_policy.is_some()) {
        warnings.push(
            "message_storage_policy is kept and shown, but holds nobody to it here: messages are \
             where this server is"
                .to_owned(),
        );
    }
    if becomes(|one| one.ingestion.is_some()) {
        warnings.extend(ingestion_warning(after));
    }
    if before.is_none() {
        warnings.extend(tags_warning(&after.tags));
    }
    warnings
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a panic is a failed test")]
mod tests {
    use serde_json::{Value, json};

    use super::super::Change;
    use super::*;
    use crate::setting::{Document, Resource};

    const KEY: &str = "projects/p/locations/l/keyRings/r/cryptoKeys/k";

    fn document(value: Value) -> Document {
        Document(value.as_object().cloned().unwrap_or_default())
    }

    fn made(value: Value) -> Result<Topic, Invalid> {
        Change::creating(&document(value))?.apply(&Topic::scratch()?)
    }

    fn masked(before: &Topic, value: Value, path: &str) -> Result<Topic, Invalid> {
        Change::by_mask(&document(value), false, &[path.to_owned()])?.apply(before)
    }

    #[test]
    fn keys_regions_and_tags_are_kept_and_warned_of_once() {
        let policy =
            json!({"allowedPersistenceRegions": ["europe-west1"], "enforceInTransit": true});
        let given = json!({
            "kmsKeyName": KEY, "messageStoragePolicy": policy, "tags": {"123/environment": "test"},
        });
        let topic = made(given).unwrap();
        assert_eq!(topic.kms_key.as_deref(), Some(KEY));
        assert_eq!(topic.storage_policy.clone().map(Value::Object), Some(policy));
        assert_eq!(topic.tags["123/environment"], "test");
        let told = warnings(None, &topic);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told.iter().all(|warning| warning.is_ascii()));
        assert!(warnings(Some(&topic), &topic).is_empty());
        assert!(warnings(None, &Topic::scratch().unwrap()).is_empty());
    }

    #[test]
    fn keys_and_policies_can_be_changed_and_tags_cannot() {
        let regions = |region: &str| json!({"allowedPersistenceRegions": [region]});
        let topic = made(json!({
            "kmsKeyName": KEY,
            "messageStoragePolicy": regions("europe-west1"),
            "tags": {"1/a": "b"},
        }))
        .unwrap();
        let other = format!("{KEY}2");
        let changed = masked(&topic, json!({ "kmsKeyName": other }), "kms_key_name").unwrap();
        assert_eq!(changed.kms_key, Some(other));
        assert_eq!(masked(&topic, json!({}), "kms_key_name").unwrap().kms_key, None);
        let cleared = masked(&topic, json!({}), "message_storage_policy").unwrap();
        assert_eq!(cleared.storage_policy, None);
        let strict = json!({"messageStoragePolicy": {"enforceInTransit": true}});
        let path = "message_storage_policy.enforce_in_transit";
        let strict = masked(&topic, strict, path).unwrap().storage_policy.unwrap();
        assert_eq!(strict["allowedPersistenceRegions"], json!(["europe-west1"]), "the rest stays");
        assert_eq!(strict["enforceInTransit"], true);
        let error = masked(&topic, json!({"tags": {"1/a": "c"}}), "tags").unwrap_err();
        assert!(error.problem.contains("cannot be changed"), "{error}");
    }

    #[test]
    fn bad_ones_are_named() {
        for (given, field) in [
            (json!({"kmsKeyName": "k"}), "kms_key_name"),
            (json!({"kmsKeyName": KEY.replace("/l/", "//")}), "kms_key_name"),
            (json!({"kmsKeyName": format!("{KEY}/cryptoKeyVersions/1")}), "kms_key_name"),
            (
                json!({"messageStoragePolicy": {}}),
                "message_storage_policy.allowed_persistence_regions",
            ),
            (
                json!({"messageStoragePolicy": {"allowedPersistenceRegions": []}}),
                "message_storage_policy.allowed_persistence_regions",
            ),
            (
                json!({"messageStoragePolicy": {"allowedPersistenceRegions": ["Mars"]}}),
                "message_storage_policy.allowed_persistence_regions[0]",
            ),
            (json!({"tags": {"environment": "test"}}), "tags"),
        ] {
            assert_eq!(made(given.clone()).unwrap_err().field, field, "{given}");
        }
    }
}
