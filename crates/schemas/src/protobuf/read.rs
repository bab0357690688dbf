//! Reads a definition: protox parses and checks it, what messages are checked with is made here.

use std::collections::HashMap;

use miette::Diagnostic;
use prost_reflect as reflect;
use prost_reflect::{Cardinality, FieldDescriptor, MessageDescriptor, Syntax};
use protox::Compiler;
use protox::file::{File, FileResolver, GoogleFileResolver};

use super::nesting;
use super::tree::{Enum, Field, Form, Kind, Label, Message, Tree};
use crate::limits::FIELDS_MAX;
use crate::problem::{Problem, quoted};

/// The name that a definition has as a file.
const FILE: &str = "schema.proto";
/// Where the files that may be imported are.
const IMPORTABLE: &str = "google/protobuf/";

/// Reads a definition.
pub(super) fn read(definition: &str) -> Result<Tree, Problem> {
    nesting::check(definition)?;
    let file = File::from_source(FILE, definition).map_err(|e| problem(&e, definition))?;
    check_rules(&file)?;
    let files = Files { definition: definition.to_owned(), google: GoogleFileResolver::new() };
    let mut compiler = Compiler::with_file_resolver(files);
    compiler.open_file(FILE).map_err(|error| problem(&error, definition))?;
    let pool = compiler.descriptor_pool();
    let top = pool.get_file_by_name(FILE).and_then(|file| file.messages().next());
    let top = top.ok_or_else(|| Problem::new("the definition has no message"))?;
    Reader::default().read(top)
}

/// Google's rules, which protox does not know.
fn check_rules(file: &File) -> Result<(), Problem> {
    let file = file.file_descriptor_proto();
    match file.message_type.as_slice() {
        [_] => {}
        [] => {
            return Err(Problem::new("the definition has no message at the top; it must have one"));
        }
        [_, second, ..] => {
            let name = quoted(second.name());
            let what = format!("{name} is a second message at the top, only one may be there");
            return Err(Problem::new(what));
        }
    }
    let other = file.dependency.iter().find(|import| !import.starts_with(IMPORTABLE));
    if let Some(import) = other {
        let what = format!("{} cannot be imported, only {IMPORTABLE}*.proto can", quoted(import));
        return Err(Problem::new(what));
    }
    Ok(())
}

/// The definition, and the files that may be imported; nothing is read from a disk.
struct Files {
    definition: String,
    google: GoogleFileResolver,
}

impl FileResolver for Files {
    fn resolve_path(&self, path: &std::path::Path) -> Option<String> {
        path.to_str().map(str::to_owned)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == FILE {
            File::from_source(FILE, &self.definition)
        } else {
            self.google.open_file(name)
        }
    }
}

/// What protox says, and where.
fn problem(error: &protox::Error, definition: &str) -> Problem {
    let what = error.to_string();
    let mut labels = error.labels().into_iter().flatten();
    match labels.next() {
        Some(label) => Problem::in_text(what, definition, label.offset()),
        None => Problem::new(what),
    }
}

/// Makes the tree, message by message as they are met.
#[derive(Default)]
struct Reader {
    found: Vec<MessageDescriptor>,
    messages: HashMap<String, usize>,
    enums: HashMap<String, usize>,
    read: Vec<Enum>,
}

impl Reader {
    fn read(mut self, top: MessageDescriptor) -> Result<Tree, Problem> {
        self.message_index(&top);
        let mut messages = Vec::new();
        let mut fields = 0;
        while let Some(message) = self.found.get(messages.len()).cloned() {
            fields += message.fields().len();
            if fields > FIELDS_MAX {
                return Err(Problem::new(format!("there are more than {FIELDS_MAX} fields")));
            }
            messages.push(self.message(&message));
        }
        Ok(Tree { messages, enums: self.read })
    }

    fn message(&mut self, message: &MessageDescriptor) -> Message {
        let mut fields: Vec<_> = message.fields().map(|field| self.field(&field)).collect();
        fields.sort_by_key(|field| field.number);
        let mut by_name = HashMap::with_capacity(2 * fields.len());
        for (index, field) in fields.iter().enumerate() {
            by_name.insert(field.name.clone(), index);
            by_name.insert(field.json_name.clone(), index);
        }
        let required = fields.iter().filter(|field| field.label == Label::Required).count();
        let form = form(message.full_name(), &fields);
        Message { name: message.full_name().into(), form, fields, by_name, required }
    }

    fn field(&mut self, field: &FieldDescriptor) -> Field {
        let label = match field.cardinality() {
            _ if field.is_map() => Label::Map,
            Cardinality::Optional => Label::Optional,
            Cardinality::Required => Label::Required,
            Cardinality::Repeated => Label::Repeated,
        };
        let oneofs = field.parent_message().oneofs();
        let oneof = field.containing_oneof();
        let oneof = oneof.and_then(|own| oneofs.into_iter().position(|oneof| oneof == own));
        Field {
            number: field.number(),
            name: field.name().into(),
            json_name: field.json_name().into(),
            kind: self.kind(field),
            label,
            oneof,
        }
    }

    fn kind(&mut self, field: &FieldDescriptor) -> Kind {
        match field.kind() {
            reflect::Kind::Double => Kind::Double,
            reflect::Kind::Float => Kind::Float,
            reflect::Kind::Int32 => Kind::Int32,
            reflect::Kind::Int64 => Kind::Int64,
            reflect::Kind::Uint32 => Kind::Uint32,
            reflect::Kind::Uint64 => Kind::Uint64,
            reflect::Kind::Sint32 => Kind::Sint32,
            reflect::Kind::Sint64 => Kind::Sint64,
            reflect::Kind::Fixed32 => Kind::Fixed32,
            reflect::Kind::Fixed64 => Kind::Fixed64,
            reflect::Kind::Sfixed32 => Kind::Sfixed32,
            reflect::Kind::Sfixed64 => Kind::Sfixed64,
            reflect::Kind::Bool => Kind::Bool,
            reflect::Kind::Bytes => Kind::Bytes,
            reflect::Kind::String => {
                Kind::Text { is_checked: field.parent_file().syntax() == Syntax::Proto3 }
            }
            reflect::Kind::Enum(one) => Kind::Enum(self.enum_index(&one)),
            reflect::Kind::Message(message) if field.is_group() => {
                Kind::Group(self.message_index(&message))
            }
            reflect::Kind::Message(message) => Kind::Message(self.message_index(&message)),
        }
    }

    fn message_index(&mut self, message: &MessageDescriptor) -> usize {
        let next = self.found.len();
        let index = *self.messages.entry(message.full_name().to_owned()).or_insert(next);
        if index == next {
            self.found.push(message.clone());
        }
        index
    }

    fn enum_index(&mut self, one: &reflect::EnumDescriptor) -> usize {
        let next = self.read.len();
        let index = *self.enums.entry(one.full_name().to_owned()).or_insert(next);
        if index == next {
            let values = one.values().map(|value| (value.name().into(), value.number()));
            let is_null = one.full_name() == "google.protobuf.NullValue";
            self.read.push(Enum { is_null, values: values.collect() });
        }
        index
    }
}

fn form(name: &str, fields: &[Field]) -> Form {
    let Some(name) = name.strip_prefix("google.protobuf.") else { return Form::Fields };
    match name {
        "Any" => Form::Any,
        "Timestamp" => Form::Timestamp,
        "Duration" => Form::Duration,
        "FieldMask" => Form::FieldMask,
        "Struct" => Form::Struct,
        "Value" => Form::Value,
        "ListValue" => Form::ListValue,
        "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value"
        | "UInt32Value" | "BoolValue" | "StringValue" | "BytesValue" => {
            fields.first().map_or(Form::Fields, |field| Form::Wrapper(field.kind))
        }
        _ => Form::Fields,
    }
}
