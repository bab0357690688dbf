//! Subscriptions that write to a service of Google's which is not here: their definition is kept,
//! and their messages wait.

use serde_json::{Value, json};

use super::Subscription;
use crate::error::Invalid;
use crate::setting::read::decimal;
use crate::setting::shape::{self, Field, Kind, Shaped, any};
use crate::setting::{Form, Part};

const BIGQUERY: &[Field] = &[
    Field::needed("table", Kind::Text(bigquery_table)),
    Field::new("use_topic_schema", Kind::Switch).one_of("schema"),
    Field::new("write_metadata", Kind::Switch),
    Field::new("drop_unknown_fields", Kind::Switch),
    Field::new("state", Kind::Server),
    Field::new("use_table_schema", Kind::Switch).one_of("schema"),
    Field::new("service_account_email", Kind::Text(email)),
];

const BIGTABLE: &[Field] = &[
    Field::needed("table", Kind::Text(bigtable_table)),
    Field::new("app_profile_id", Kind::Text(any)),
    Field::new("service_account_email", Kind::Text(email)),
    Field::new("state", Kind::Server),
    Field::new("write_metadata", Kind::Switch),
    Field::new("column_family_mapping", Kind::Object(COLUMN_FAMILIES)),
];

const COLUMN_FAMILIES: &[Field] = &[
    Field::new("row_key_schema", Kind::Object(&[])).one_of("key"),
    Field::new("delimited_key", Kind::Object(DELIMITED_KEY)).one_of("key"),
];

const DELIMITED_KEY: &[Field] =
    &[Field::needed("key_fields", Kind::Texts(any)), Field::new("delimiter", Kind::Text(base64))];

/// The parts of `bigquery_config`.
pub(super) const BIGQUERY_PARTS: &[Part] = &[
    Part::new("table", Form::Text, "`project.dataset.table`"),
    Part::new("use_topic_schema", Form::Switch, "columns come from the topic's schema"),
    Part::new("use_table_schema", Form::Switch, "columns come from the table's schema"),
    Part::new("write_metadata", Form::Switch, "ids and attributes get columns"),
    Part::new("drop_unknown_fields", Form::Switch, "fields without a column are left out"),
    Part::new("service_account_email", Form::Text, "the account to write as"),
];

/// The parts of `bigtable_config`.
pub(super) const BIGTABLE_PARTS: &[Part] = &[
    Part::new("table", Form::Text, "`projects/…/instances/…/tables/…`"),
    Part::new("app_profile_id", Form::Text, "the application profile to write with"),
    Part::new("write_metadata", Form::Switch, "ids and attributes get columns"),
    Part::new("column_family_mapping", Form::Own, "how fields become columns"),
    Part::new("service_account_email", Form::Text, "the account to write as"),
];

pub(super) fn read_bigquery(field: &str, value: &Value) -> Result<Option<Shaped>, Invalid> {
    shape::read_filled(BIGQUERY, field, value)
}

pub(super) fn read_bigtable(field: &str, value: &Value) -> Result<Option<Shaped>, Invalid> {
    shape::read_filled(BIGTABLE, field, value)
}

/// The config with the state that Google has for a table that is not there.
pub(super) fn show(config: &Shaped) -> Value {
    let mut shown = config.clone();
    shown.insert("state".to_owned(), json!("NOT_FOUND"));
    Value::Object(shown)
}

/// `project.dataset.table`; projects of domains have a colon, `example.com:project`.
fn bigquery_table(text: &str) -> Option<&'static str> {
    let mut parts = text.rsplitn(3, '.');
    let is_name = |part: &str| {
        !part.is_empty() && !part.contains(['/', ':', '`']) && part.len() <= NAME_BYTES_MAX
    };
    let (table, dataset, project) = (parts.next(), parts.next(), parts.next());
    let is_project = |project: &str| {
        let id = project.rsplit_once(':').map_or(project, |(_, id)| id);
        is_name(id) && !id.contains('.') && decimal(id).is_none()
    };
    let is_table = table.is_some_and(is_name)
        && dataset.is_some_and(is_name)
        && project.is_some_and(is_project);
    (!is_table).then_some("not a table such as my-project.dataset.table")
}

/// `projects/{project}/instances/{instance}/tables/{table}`.
fn bigtable_table(text: &str) -> Option<&'static str> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_table = match parts.as_slice() {
        ["projects", project, "instances", instance, "tables", table] => {
            [project, instance, table].iter().all(|part| !part.is_empty())
        }
        _ => false,
    };
    let problem = "not a table such as projects/my-project/instances/my-instance/tables/my-table";
    (!is_table || text.len() > NAME_BYTES_MAX).then_some(problem)
}

const NAME_BYTES_MAX: usize = 1_024;

fn email(text: &str) -> Option<&'static str> {
    let is_email = text.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace)
    });
    (!is_email).then_some("not an account such as writer@my-project.iam.gserviceaccount.com")
}

/// Bytes as JSON has them.
fn base64(text: &str) -> Option<&'static str> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
    let is_base64 = text.trim_end_matches('=').bytes().all(is_good) && text.len().is_multiple_of(4);
    (!is_base64).then_some("not in base64")
}

/// Messages go one way: to an endpoint, to one service, or to those who pull.
pub(super) fn check_one_way(subscription: &Subscription) -> Result<(), Invalid> {
    let ways = [
        ("push_config", subscription.push.is_some()),
        ("bigquery_config", subscription.bigquery.is_some()),
        ("bigtable_config", subscription.bigtable.is_some()),
        ("cloud_storage_config", subscription.cloud_storage.is_some()),
    ];
    let mut given = ways.iter().filter(|(_, is_given)| *is_given);
    match (given.next(), given.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(Invalid::new(*second, format!("conflicts with {first}; give only one")))
        }
        _ => Ok(()),
    }
}

impl Subscription {
    /// The setting that has its messages written to a service which is not here; `None` = none
    /// does.
    pub fn export(&self) -> Option<&'static str> {
        match (&self.bigquery, &self.bigtable) {
            (Some(_), _) => Some("bigquery_config"),
            (None, Some(_)) => Some("bigtable_config"),
            (None, None) => None,
        }
    }

    /// That its messages go nowhere, and what to do about it; `None` = they go somewhere.
    pub fn export_warning(&self) -> Option<String> {
        let setting = self.export()?;
        Some(format!(
            "{setting} is kept and shown, but this server does not write there: the messages wait, \
             and the state is RESOURCE_ERROR; clear {setting} to pull them, or set a push_config"
        ))
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a panic is a failed test")]
mod tests {
    use super::super::Change;
    use super::super::tests::subscription;
    use super::super::warnings::warnings;
    use super::*;
    use crate::setting::Document;

    const TABLE: &str = "projects/p/instances/i/tables/t";

    fn document(value: Value) -> Document {
        Document(value.as_object().cloned().unwrap_or_default())
    }

    fn made(value: Value) -> Result<Subscription, Invalid> {
        Change::creating(&document(value))?.apply(&subscription())
    }

    #[test]
    fn definitions_are_kept_shown_and_warned_of() {
        let exporting = made(json!({"bigqueryConfig": {
            "table": "p.d.t", "writeMetadata": true, "useTopicSchema": false, "state": "ACTIVE",
        }}))
        .unwrap();
        let shown = exporting.bigquery.as_ref().map(show);
        let expected = json!({"table": "p.d.t", "writeMetadata": true, "state": "NOT_FOUND"});
        assert_eq!(shown, Some(expected));
        assert_eq!(exporting.export(), Some("bigquery_config"));
        let told = warnings(None, &exporting, 0);
        assert!(told.len() == 1 && told[0].is_ascii() && told[0].contains("clear"), "{told:?}");
        assert!(warnings(Some(&exporting), &exporting, 0).is_empty());
        let mapping = json!({"delimitedKey": {"keyFields": ["a", "b"], "delimiter": "Iw=="}});
        let rows = made(json!({"bigtableConfig": {
            "table": TABLE, "appProfileId": "one", "columnFamilyMapping": mapping,
        }}))
        .unwrap();
        assert_eq!(rows.bigtable.as_ref().map(show).unwrap()["columnFamilyMapping"], mapping);
        assert_eq!(rows.export(), Some("bigtable_config"));
        assert_eq!(made(json!({"bigqueryConfig": {}, "bigtableConfig": {}})), Ok(subscription()));
    }

    #[test]
    fn a_part_changes_alone_and_nothing_is_left_without_the_whole() {
        let exporting = made(json!({"bigqueryConfig": {"table": "p.d.t", "writeMetadata": true}}));
        let exporting = exporting.unwrap();
        let masked = |value: Value, path: &str| {
            Change::by_mask(&document(value), false, &[path.to_owned()])?.apply(&exporting)
        };
        let other = json!({"bigqueryConfig": {"table": "p.d.other"}});
        let moved = masked(other, "bigquery_config.table").unwrap().bigquery.unwrap();
        assert_eq!(Value::Object(moved), json!({"table": "p.d.other", "writeMetadata": true}));
        assert_eq!(masked(json!({}), "bigquery_config").unwrap().bigquery, None);
        assert!(masked(json!({}), "bigquery_config.table").is_err());
        let pushing = json!({"pushConfig": {"pushEndpoint": "http://h/"}});
        assert_eq!(masked(pushing, "push_config").unwrap_err().field, "bigquery_config");
    }

    #[test]
    fn bad_definitions_are_named() {
        let both = json!({"table": "p.d.t", "useTopicSchema": true, "useTableSchema": true});
        for (given, field) in [
            (json!({"bigqueryConfig": {"writeMetadata": true}}), "bigquery_config.table"),
            (json!({"bigqueryConfig": {"table": "d.t"}}), "bigquery_config.table"),
            (json!({"bigqueryConfig": {"table": "p:d.t"}}), "bigquery_config.table"),
            (json!({"bigqueryConfig": {"table": "p.d."}}), "bigquery_config.table"),
            (json!({ "bigqueryConfig": both }), "bigquery_config.use_table_schema"),
            (
                json!({"bigqueryConfig": {"table": "p.d.t", "serviceAccountEmail": "me"}}),
                "bigquery_config.service_account_email",
            ),
            (json!({"bigtableConfig": {"table": "p.i.t"}}), "bigtable_config.table"),
            (
                json!({"bigtableConfig": {
                    "table": TABLE, "columnFamilyMapping": {"delimitedKey": {}},
                }}),
                "bigtable_config.column_family_mapping.delimited_key.key_fields",
            ),
            (
                json!({"bigqueryConfig": {"table": "p.d.t"}, "bigtableConfig": {"table": TABLE}}),
                "bigtable_config",
            ),
        ] {
            assert_eq!(made(given.clone()).unwrap_err().field, field, "{given}");
        }
        assert!(made(json!({"bigqueryConfig": {"table": "example.com:p.d.t"}})).is_ok());
    }
}
