//! A message in Avro's JSON form, written in its binary form.

use serde_json::Value;

use super::tree::{Node, NodeId, Record, Tree};
use crate::problem::{Problem, quoted};

/// The binary form of a message. One that passes the check of its JSON form has one.
pub(crate) fn json_to_binary(tree: &Tree, message: &[u8]) -> Result<Vec<u8>, Problem> {
    let value: Value =
        serde_json::from_slice(message).map_err(|error| Problem::new(error.to_string()))?;
    let mut out = Vec::with_capacity(message.len());
    put(tree, tree.root, &value, &mut out)?;
    Ok(out)
}

fn put(tree: &Tree, id: NodeId, value: &Value, out: &mut Vec<u8>) -> Result<(), Problem> {
    let node = tree.node(id);
    let wrong = || Problem::new(format!("no {}", node.called()));
    match (node, value) {
        (Node::Null, Value::Null) => {}
        (Node::Boolean, Value::Bool(value)) => out.push(u8::from(*value)),
        (Node::Int | Node::Long, Value::Number(number)) => {
            put_long(number.as_i64().ok_or_else(wrong)?, out);
        }
        (Node::Float, Value::Number(number)) => {
            #[expect(clippy::cast_possible_truncation, reason = "a float is as exact as it can be")]
            let float = number.as_f64().ok_or_else(wrong)? as f32;
            out.extend_from_slice(&float.to_le_bytes());
        }
        (Node::Double, Value::Number(number)) => {
            out.extend_from_slice(&number.as_f64().ok_or_else(wrong)?.to_le_bytes());
        }
        (Node::String, Value::String(text)) => put_bytes(text.as_bytes(), out),
        (Node::Bytes, Value::String(text)) => put_bytes(&bytes(text).ok_or_else(wrong)?, out),
        (Node::Fixed(fixed), Value::String(text)) => {
            let bytes = bytes(text).filter(|bytes| bytes.len() == fixed.size);
            out.extend_from_slice(&bytes.ok_or_else(wrong)?);
        }
        (Node::Enum(an_enum), Value::String(text)) => {
            let index = an_enum.symbols.iter().position(|symbol| **symbol == **text);
            put_count(index.ok_or_else(wrong)?, out);
        }
        (Node::Array(items), Value::Array(values)) => {
            put_block(values.len(), out);
            values.iter().try_for_each(|value| put(tree, *items, value, out))?;
            put_long(0, out);
        }
        (Node::Map(items), Value::Object(pairs)) => {
            put_block(pairs.len(), out);
            for (key, value) in pairs {
                put_bytes(key.as_bytes(), out);
                put(tree, *items, value, out)?;
            }
            put_long(0, out);
        }
        (Node::Union(union), value) => {
            let (name, inner) = match value {
                Value::Object(object) => object.iter().next().ok_or_else(wrong)?,
                _ => (&"null".to_owned(), value),
            };
            let index = *union.by_name.get(name.as_str()).ok_or_else(wrong)?;
            put_count(index, out);
            let branch = union.branches.get(index).ok_or_else(wrong)?;
            put(tree, branch.node, inner, out)?;
        }
        (Node::Record(record), Value::Object(fields)) => put_record(tree, record, fields, out)?,
        _ => return Err(wrong()),
    }
    Ok(())
}

fn put_record(
    tree: &Tree,
    record: &Record,
    fields: &serde_json::Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    for field in &record.fields {
        let Some(value) = fields.get(&*field.name) else {
            return Err(Problem::new(format!("field {} is missing", quoted(&field.name))));
        };
        put(tree, field.node, value, out).map_err(|problem| problem.inside(&field.name))?;
    }
    Ok(())
}

/// Characters below 256 are bytes.
fn bytes(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}

/// Items come in one block, which is left out where there are none.
fn put_block(count: usize, out: &mut Vec<u8>) {
    if count > 0 {
        put_count(count, out);
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_count(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    put_long(i64::try_from(count).unwrap_or(i64::MAX), out);
}

/// Zigzag: small numbers of either sign take few bytes.
fn put_long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push((rest & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use apache_avro::reader::datum::GenericDatumReader;
    use apache_avro::types::Value as Avro;

    use super::*;
    use crate::avro::{check_binary, check_json};

    const ALL: &str = r#"{"type":"record","name":"R","fields":[
        {"name":"n","type":"null"}, {"name":"b","type":"boolean"}, {"name":"i","type":"int"},
        {"name":"l","type":"long"}, {"name":"f","type":"float"}, {"name":"d","type":"double"},
        {"name":"s","type":"string"}, {"name":"y","type":"bytes"},
        {"name":"x","type":{"type":"fixed","name":"X","size":2}},
        {"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},
        {"name":"a","type":{"type":"array","items":"int"}},
        {"name":"m","type":{"type":"map","values":"string"}},
        {"name":"u","type":["null","int","string"]}, {"name":"v","type":["null","int"]}]}"#;

    #[test]
    fn every_type_is_written_as_others_read_it() {
        let message = r#"{"n":null,"b":true,"i":-7,"l":5000000000,"f":1.5,"d":2,"s":"größe",
            "y":"\u00ff\u0000","x":"ab","e":"B","a":[1,2,-3],"m":{"k":"v"},
            "u":{"string":"t"},"v":null}"#;
        let tree = Tree::read(ALL).unwrap();
        check_json(&tree, message.as_bytes()).unwrap();
        let binary = json_to_binary(&tree, message.as_bytes()).unwrap();
        check_binary(&tree, &binary).unwrap();
        let schema = apache_avro::Schema::parse_str(ALL).unwrap();
        let reader = GenericDatumReader::builder(&schema).build().unwrap();
        let read = reader.read_value(&mut &binary[..]).unwrap();
        let Avro::Record(fields) = read else { panic!() };
        let field = |name: &str| fields.iter().find(|(own, _)| own == name).unwrap().1.clone();
        assert_eq!(field("l"), Avro::Long(5_000_000_000));
        assert_eq!((field("f"), field("d")), (Avro::Float(1.5), Avro::Double(2.0)));
        assert_eq!(field("y"), Avro::Bytes(vec![255, 0]));
        assert_eq!(field("e"), Avro::Enum(1, "B".to_owned()));
        assert_eq!(field("a"), Avro::Array([1, 2, -3].map(Avro::Int).to_vec()));
        assert_eq!(field("u"), Avro::Union(2, Box::new(Avro::String("t".to_owned()))));
        assert_eq!(field("v"), Avro::Union(0, Box::new(Avro::Null)));
    }

    #[test]
    fn what_is_of_another_schema_is_refused() {
        let tree = Tree::read(r#"{"type":"array","items":"int"}"#).unwrap();
        assert_eq!(json_to_binary(&tree, b"[]").unwrap(), [0]);
        for bad in ["{}", "[\"a\"]", "[1.5]", "nonsense"] {
            assert!(json_to_binary(&tree, bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
