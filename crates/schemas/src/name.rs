//! Names of revisions: `projects/{project}/schemas/{schema}@{revision}`.

use std::fmt;

use domain::{Invalid, RevisionId, SchemaName};

/// What a topic shows in place of its schema's name once the schema is deleted.
pub const DELETED_SCHEMA: &str = "_deleted-schema_";

/// The name of a schema, and perhaps of one of its revisions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RevisionName {
    /// The schema.
    pub schema: SchemaName,
    /// The revision; none means the newest.
    pub revision: Option<RevisionId>,
}

impl RevisionName {
    /// The shape of a name with a revision.
    pub const SHAPE: &'static str = "projects/{project}/schemas/{schema}@{revision}";

    /// Reads `projects/{project}/schemas/{schema}`, with or without `@{revision}`; `field` is the
    /// request's field that holds it.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let (name, revision) = match text.split_once('@') {
            Some((name, revision)) => (name, Some(RevisionId::parse(field, revision)?)),
            None => (text, None),
        };
        Ok(Self { schema: SchemaName::parse(field, name)?, revision })
    }

    /// Reads a name that must have a revision.
    pub fn parse_revision(field: &str, text: &str) -> Result<(SchemaName, RevisionId), Invalid> {
        let name = Self::parse(field, text)?;
        let problem = || Invalid::new(field, format!("must be of the form {}", Self::SHAPE));
        let revision = name.revision.ok_or_else(problem)?;
        Ok((name.schema, revision))
    }
}

impl fmt::Display for RevisionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schema.fmt(f)?;
        self.revision.map_or(Ok(()), |revision| write!(f, "@{revision}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_revision() {
        let name = RevisionName::parse("name", "projects/p/schemas/abc@00fe12ab").unwrap();
        assert_eq!(name.schema.id(), "abc");
        assert_eq!(name.revision, Some(RevisionId(0x00fe_12ab)));
        assert_eq!(name.to_string(), "projects/p/schemas/abc@00fe12ab");
        let name = RevisionName::parse("name", "projects/p/schemas/abc").unwrap();
        assert_eq!(name.revision, None);
        assert_eq!(name.to_string(), "projects/p/schemas/abc");
    }

    #[test]
    fn a_revision_is_eight_lower_case_hexadecimal_digits() {
        for bad in ["", "1234567", "123456789", "1234567g", "1234567A", "+1234567", "@1234567"] {
            let name = format!("projects/p/schemas/abc@{bad}");
            assert!(RevisionName::parse("name", &name).is_err(), "{bad:?}");
        }
        assert!(RevisionName::parse_revision("name", "projects/p/schemas/abc").is_err());
        assert!(RevisionName::parse_revision("name", "projects/p/schemas/abc@12345678").is_ok());
    }

    #[test]
    fn ids_of_schemas_are_3_to_255_characters_and_not_googles() {
        for bad in ["ab", "1abc", "google", &"a".repeat(256), DELETED_SCHEMA] {
            let name = format!("projects/p/schemas/{bad}");
            assert!(RevisionName::parse("name", &name).is_err(), "{bad:?}");
        }
    }
}
