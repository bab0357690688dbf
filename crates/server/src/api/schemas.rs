//! Schemas: made, found, revised, ended, and messages checked against them.

use broker::{Against, Revised};
use domain::{Invalid, ProjectName, SchemaName};
use schemas::{RevisionId, RevisionName};
use wire::protobuf::Empty;
use wire::pubsub;
use wire::pubsub::validate_message_request::SchemaSpec;

use super::{Api, paging};
use crate::convert::{self, View};
use crate::status::Result;

/// Bytes of definitions on one page, except that one always fits. A thousand of them would be more
/// than clients take.
const PAGE_BYTES_MAX: usize = 2 << 20;

impl Api {
    pub(crate) async fn create_schema(
        &self,
        request: pubsub::CreateSchemaRequest,
    ) -> Result<pubsub::Schema> {
        let project = ProjectName::parse("parent", &request.parent)?;
        let name = format!("{project}/schemas/{}", request.schema_id);
        let name = SchemaName::parse("schema_id", &name)?;
        let (kind, definition) = convert::definition_from_wire(request.schema)?;
        Ok(shown(&self.broker.create_schema(name, kind, definition).await?))
    }

    pub(crate) fn get_schema(&self, request: &pubsub::GetSchemaRequest) -> Result<pubsub::Schema> {
        let name = RevisionName::parse("name", &request.name)?;
        let view = View::read(request.view, View::Full)?;
        let schema = self.broker.schema(&name.schema)?.current();
        let revision = schema.revision(name.revision).map_err(broker::Error::from)?;
        Ok(convert::schema_to_wire(&schema, revision, view))
    }

    pub(crate) fn list_schemas(
        &self,
        request: &pubsub::ListSchemasRequest,
    ) -> Result<pubsub::ListSchemasResponse> {
        let project = ProjectName::parse("parent", &request.parent)?;
        let view = View::read(request.view, View::Basic)?;
        let size = paging::page_size(request.page_size)?;
        let after = paging::after(&request.page_token, |name| {
            SchemaName::parse("", name).is_ok_and(|name| name.is_in(&project))
        })?;
        let (page, mut next) = self.broker.list_schemas(&project, after.as_deref(), size);
        let all = page.iter().map(|one| one.current());
        let (schemas, is_cut) =
            fitting(all.map(|schema| convert::schema_to_wire(&schema, schema.newest(), view)));
        if is_cut {
            next = schemas.last().map(|last| last.name.clone());
        }
        Ok(pubsub::ListSchemasResponse { schemas, next_page_token: paging::token(next) })
    }

    /// The newest revision first.
    pub(crate) fn list_schema_revisions(
        &self,
        request: &pubsub::ListSchemaRevisionsRequest,
    ) -> Result<pubsub::ListSchemaRevisionsResponse> {
        let name = SchemaName::parse("name", &request.name)?;
        let view = View::read(request.view, View::Basic)?;
        let size = paging::page_size(request.page_size)?;
        let before = paging::number_of(&request.page_token)?.unwrap_or(u64::MAX);
        let schema = self.broker.schema(&name)?.current();
        let rest = schema.revisions().iter().rev().filter(|one| one.number < before);
        let rest: Vec<_> = rest.collect();
        let page = rest.iter().take(size);
        let (schemas, _) =
            fitting(page.map(|revision| convert::schema_to_wire(&schema, revision, view)));
        let is_more = schemas.len() < rest.len();
        let last = schemas.len().checked_sub(1).and_then(|last| rest.get(last));
        let next = last.filter(|_| is_more).map(|last| paging::number_token(last.number));
        let next_page_token = next.unwrap_or_default();
        Ok(pubsub::ListSchemaRevisionsResponse { schemas, next_page_token })
    }

    /// What `schema.name` says is not looked at, as in creating: the request has the name.
    pub(crate) async fn commit_schema(
        &self,
        request: pubsub::CommitSchemaRequest,
    ) -> Result<pubsub::Schema> {
        let name = SchemaName::parse("name", &request.name)?;
        let (kind, definition) = convert::definition_from_wire(request.schema)?;
        Ok(shown(&self.broker.commit_schema(&name, kind, definition).await?))
    }

    pub(crate) async fn rollback_schema(
        &self,
        request: &pubsub::RollbackSchemaRequest,
    ) -> Result<pubsub::Schema> {
        let name = SchemaName::parse("name", &request.name)?;
        let id = RevisionId::parse("revision_id", &request.revision_id)?;
        Ok(shown(&self.broker.roll_back_schema(&name, id).await?))
    }

    /// Shows the revision that was deleted.
    pub(crate) async fn delete_schema_revision(
        &self,
        request: &pubsub::DeleteSchemaRevisionRequest,
    ) -> Result<pubsub::Schema> {
        let (name, id) = match request.revision_id.as_str() {
            "" => RevisionName::parse_revision("name", &request.name)?,
            // The older way to name it.
            given => {
                let name = RevisionName::parse("name", &request.name)?;
                let id = RevisionId::parse("revision_id", given)?;
                if name.revision.is_some_and(|named| named != id) {
                    let problem = "names a different revision than name; leave one out";
                    return Err(Invalid::new("revision_id", problem).into());
                }
                (name.schema, id)
            }
        };
        Ok(shown(&self.broker.delete_schema_revision(&name, id).await?))
    }

    pub(crate) async fn delete_schema(
        &self,
        request: &pubsub::DeleteSchemaRequest,
    ) -> Result<Empty> {
        let name = SchemaName::parse("name", &request.name)?;
        self.broker.delete_schema(&name).await?;
        Ok(Empty {})
    }

    pub(crate) async fn validate_schema(
        &self,
        request: pubsub::ValidateSchemaRequest,
    ) -> Result<pubsub::ValidateSchemaResponse> {
        ProjectName::parse("parent", &request.parent)?;
        let (kind, definition) = convert::definition_from_wire(request.schema)?;
        self.broker.validate_schema(kind, definition).await?;
        Ok(pubsub::ValidateSchemaResponse {})
    }

    pub(crate) async fn validate_message(
        &self,
        request: pubsub::ValidateMessageRequest,
    ) -> Result<pubsub::ValidateMessageResponse> {
        ProjectName::parse("parent", &request.parent)?;
        let against = match request.schema_spec {
            Some(SchemaSpec::Name(name)) => Against::Stored(RevisionName::parse("name", &name)?),
            Some(SchemaSpec::Schema(schema)) => {
                let (kind, definition) = convert::definition_from_wire(Some(schema))?;
                Against::Given(kind, definition)
            }
            None => return Err(Invalid::new("name", "give name or schema").into()),
        };
        let encoding = convert::encoding_from_wire("encoding", request.encoding)?;
        self.broker.validate_message(against, encoding, request.message).await?;
        Ok(pubsub::ValidateMessageResponse {})
    }
}

fn shown(revised: &Revised) -> pubsub::Schema {
    convert::schema_to_wire(&revised.schema, &revised.revision, View::Full)
}

/// As many as one page may hold, and whether some did not fit.
fn fitting(all: impl Iterator<Item = pubsub::Schema>) -> (Vec<pubsub::Schema>, bool) {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for schema in all {
        bytes += schema.definition.len();
        if bytes > PAGE_BYTES_MAX && !page.is_empty() {
            return (page, true);
        }
        page.push(schema);
    }
    (page, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_two_mebibytes_of_definitions_or_one_definition() {
        let of = |bytes: usize| pubsub::Schema { definition: "x".repeat(bytes), ..<_>::default() };
        let count = |bytes: usize, count: usize| {
            let (page, is_cut) = fitting(std::iter::repeat_with(|| of(bytes)).take(count));
            (page.len(), is_cut)
        };
        assert_eq!(count(PAGE_BYTES_MAX / 4, 4), (4, false));
        assert_eq!(count(PAGE_BYTES_MAX / 4, 5), (4, true));
        assert_eq!(count(PAGE_BYTES_MAX + 1, 1), (1, false));
        assert_eq!(count(PAGE_BYTES_MAX + 1, 2), (1, true));
        assert_eq!(count(0, 1_000), (1_000, false));
    }
}
