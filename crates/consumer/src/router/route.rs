//! One route, checked and ready.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Filter, Invalid, Timestamp};
use serde_json::Value as Json;

use super::Routed;
use super::field::{self, Field};
use super::settings::{
    DedupeSettings, EventTimeSettings, Kind, RouteSettings, SchemaVersion, Type, duration,
};
use super::source::{Seen, Source, short};
use super::template::Template;
use crate::effects::{EventTime, Path, Value, Write};
use crate::{About, Failure, Message};

/// Bytes of a document's id, at most, as Firestore has it.
const ID_BYTES_MAX: usize = 1_500;

/// A route.
#[derive(Debug)]
pub(super) struct Route {
    name: String,
    subscription: Option<String>,
    filter: Option<Filter>,
    version: Option<Version>,
    event_type: Option<Template>,
    collection: String,
    document: Template,
    kind: Kind,
    event_time: Option<When>,
    dedupe_collection: String,
    dedupe_id: Template,
    dedupe_expiry: Duration,
    fields: BTreeMap<String, Field>,
}

#[derive(Debug)]
struct Version {
    from: Source,
    known: Vec<String>,
}

#[derive(Debug)]
struct When {
    from: Source,
    field: String,
    kind: Type,
}

impl Route {
    /// Checks the route with this number. A refusal names its field. Notes must be kept for
    /// `expiry_min` at least.
    pub(super) fn new(
        number: usize,
        settings: RouteSettings,
        expiry_min: Duration,
    ) -> Result<Self, Invalid> {
        let field = |name: &str| format!("route[{number}].{name}");
        if settings.name.is_empty() {
            return Err(Invalid::new(field("name"), "is empty: give the route a name"));
        }
        check_collection(&field("collection"), &settings.collection)?;
        let filter = settings.filter.as_deref();
        let filter = filter.map(|text| Filter::parse_cel(&field("match"), text)).transpose();
        let filter = filter.map_err(|refusal| refusal.invalid().clone())?;
        let event_type = settings.event_type.as_deref();
        let fields = fields(number, settings.fields, settings.kind)?;
        let event_time = settings.event_time;
        let event_time = event_time.map(|it| When::new(&field("event_time"), it)).transpose()?;
        if fields.is_empty() && event_time.is_none() {
            return Err(Invalid::new(
                field("fields"),
                "there are none, so there is nothing to \
                                                      write",
            ));
        }
        let (dedupe_id, dedupe_expiry) = dedupe(&field("dedupe"), &settings.dedupe, expiry_min)?;
        if settings.dedupe.collection == settings.collection {
            let problem = "is the collection being written: notes need their own";
            return Err(Invalid::new(field("dedupe.collection"), problem));
        }
        let version = settings.schema_version;
        Ok(Self {
            version: version.map(|it| Version::new(&field("schema_version"), it)).transpose()?,
            event_type: event_type
                .map(|text| Template::parse(&field("event_type"), text))
                .transpose()?,
            document: Template::parse(&field("document"), &settings.document)?,
            name: settings.name,
            subscription: settings.subscription,
            filter,
            collection: settings.collection,
            kind: settings.kind,
            event_time,
            dedupe_collection: settings.dedupe.collection,
            dedupe_id,
            dedupe_expiry,
            fields,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the message is for this route; `body` is the message as filters look at it.
    pub(super) fn takes(&self, message: &Message, body: &[u8]) -> bool {
        let is_from = |wanted: &String| {
            let from = message.subscription.as_deref();
            from.is_some_and(|from| from == wanted || short(from) == wanted)
        };
        self.subscription.as_ref().is_none_or(is_from)
            && self.filter.as_ref().is_none_or(|filter| filter.matches(body).unwrap_or(false))
    }

    /// What the message comes to.
    pub(super) fn apply(&self, seen: &Seen<'_>, now: Timestamp) -> Routed {
        let mut about = About {
            handler: Some(self.name.clone()),
            write_kind: Some(self.kind.as_str().to_owned()),
            ..About::default()
        };
        let write = self.write(seen, now, &mut about);
        Routed { write, about }
    }

    fn write(&self, seen: &Seen<'_>, now: Timestamp, about: &mut About) -> Result<Write, Failure> {
        about.event_type = self.event_type.as_ref().map(|it| it.render(seen)).transpose()?;
        if let Some(version) = &self.version {
            version.check(seen, about)?;
        }
        let document = path("document", &self.collection, self.document.render(seen)?)?;
        let dedupe = path("dedupe.id", &self.dedupe_collection, self.dedupe_id.render(seen)?)?;
        about.doc_path = Some(shown(&document));
        about.idempotency_doc = Some(shown(&dedupe));
        let mut fields = BTreeMap::<String, Value>::new();
        for (name, field) in &self.fields {
            fields.extend(field.value(seen)?.map(|value| (name.clone(), value)));
        }
        let event_time = self.event_time.as_ref().map(|when| when.find(seen)).transpose()?;
        let dedupe_until = now.plus(self.dedupe_expiry);
        let kind = self.kind.into();
        Ok(Write { document, dedupe, dedupe_until, kind, fields, event_time })
    }
}

impl Version {
    fn new(field: &str, settings: SchemaVersion) -> Result<Self, Invalid> {
        let from = Source::parse(&format!("{field}.from"), &settings.from)?;
        let known = settings.known.iter().map(|version| match version {
            toml::Value::String(text) => Ok(text.clone()),
            toml::Value::Integer(number) => Ok(number.to_string()),
            _ => Err(Invalid::new(format!("{field}.known"), "must be whole numbers or text")),
        });
        let known: Vec<String> = known.collect::<Result<_, _>>()?;
        if known.is_empty() {
            let problem = "is empty, so every message would be poison: name a version";
            return Err(Invalid::new(format!("{field}.known"), problem));
        }
        Ok(Self { from, known })
    }

    fn check(&self, seen: &Seen<'_>, about: &mut About) -> Result<(), Failure> {
        let version = match self.from.get(seen)? {
            Json::String(text) => text,
            other => other.to_string(),
        };
        about.schema_version = Some(version.clone());
        if self.known.contains(&version) {
            return Ok(());
        }
        let known = self.known.join(", ");
        Err(Failure {
            kind: "UnknownSchemaVersion".to_owned(),
            code: None,
            message: format!("{}: version {version} is unknown, expected {known}", self.from),
        })
    }
}

impl When {
    fn new(field: &str, settings: EventTimeSettings) -> Result<Self, Invalid> {
        if !matches!(settings.kind, Type::Time | Type::TimeSeconds | Type::TimeMillis) {
            let problem = "must be time, time_seconds or time_millis";
            return Err(Invalid::new(format!("{field}.type"), problem));
        }
        let from = Source::parse(&format!("{field}.from"), &settings.from)?;
        check_name(&format!("{field}.field"), &settings.field)?;
        Ok(Self { from, field: settings.field, kind: settings.kind })
    }

    fn find(&self, seen: &Seen<'_>) -> Result<EventTime, Failure> {
        let at = field::time(&self.from, self.kind, seen)?;
        Ok(EventTime { field: self.field.clone(), at })
    }
}

fn fields(
    number: usize,
    settings: BTreeMap<String, super::settings::FieldSettings>,
    kind: Kind,
) -> Result<BTreeMap<String, Field>, Invalid> {
    let mut fields = BTreeMap::new();
    for (name, settings) in settings {
        let at = format!("route[{number}].fields.{name}");
        check_name(&at, &name)?;
        let field = Field::new(&at, settings)?;
        if kind == Kind::Increment && !field.is_number() {
            let problem = "kind increment adds numbers: set type to integer or double, or give a \
                           constant number";
            return Err(Invalid::new(at, problem));
        }
        fields.insert(name, field);
    }
    Ok(fields)
}

fn dedupe(
    field: &str,
    settings: &DedupeSettings,
    expiry_min: Duration,
) -> Result<(Template, Duration), Invalid> {
    check_collection(&format!("{field}.collection"), &settings.collection)?;
    let id = settings.id.as_deref().unwrap_or("{message.id}");
    let id = Template::parse(&format!("{field}.id"), id)?;
    let at = format!("{field}.expiry");
    let expiry = settings.expiry.as_deref().map(|text| duration(&at, text)).transpose()?;
    let expiry = expiry.unwrap_or(expiry_min);
    if expiry < expiry_min {
        let least = expiry_min.as_secs_f64() / 86_400.0;
        let problem = format!(
            "too short: a message may come back for {least} days (dedupe.retention + \
             dedupe.dead_letter_retention), and would then take effect twice"
        );
        return Err(Invalid::new(at, problem));
    }
    Ok((id, expiry))
}

/// `services`, or `a/b/services` inside the document `a/b`.
fn check_collection(field: &str, collection: &str) -> Result<(), Invalid> {
    let segments: Vec<&str> = collection.split('/').collect();
    let is_sound = segments.len() % 2 == 1 && segments.iter().all(|segment| is_id(segment));
    if is_sound {
        return Ok(());
    }
    Err(Invalid::new(field, format!("{collection:?} is not a collection such as ops_services")))
}

fn check_name(field: &str, name: &str) -> Result<(), Invalid> {
    let is_reserved = name.starts_with("__") && name.ends_with("__");
    if name.is_empty() || name.len() > ID_BYTES_MAX || is_reserved {
        let problem = "a field's name has 1 to 1,500 bytes, and not __ on both sides";
        return Err(Invalid::new(field, problem));
    }
    Ok(())
}

/// What Firestore takes as an id.
fn is_id(id: &str) -> bool {
    let is_reserved = id.starts_with("__") && id.ends_with("__");
    let is_dots = id == "." || id == "..";
    (1..=ID_BYTES_MAX).contains(&id.len()) && !id.contains('/') && !is_reserved && !is_dots
}

fn path(field: &str, collection: &str, id: String) -> Result<Path, Failure> {
    if !is_id(&id) {
        let shown: String = id.chars().take(64).collect();
        return Err(Failure {
            kind: "InvalidDocumentId".to_owned(),
            code: None,
            message: format!(
                "{field}: {shown:?} is not an id: it must have 1 to {ID_BYTES_MAX} bytes, no \
                 slash, not __ on both sides, and not be dots"
            ),
        });
    }
    Ok(Path { collection: collection.to_owned(), id })
}

fn shown(path: &Path) -> String {
    format!("{}/{}", path.collection, path.id)
}
