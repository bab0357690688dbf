//! Random filters and messages, alike enough to meet often. A seed makes the same ones again.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::filter::{Condition, Expression, Field, Order, Scalar, Term};
use domain::json::{self, Number};
use domain::{Message, Offset, Timestamp, message};
use testkit::Random;

const NUMBERS: [&str; 16] = [
    "0",
    "-0.0",
    "1",
    "1.0",
    "2",
    "3",
    "4.5",
    "5",
    "1.5",
    "-1",
    "1e6",
    "1000000",
    "-7.25",
    "9007199254740993",
    "9007199254740992",
    "18446744073709551615",
];
/// So many of them are common.
const FEW: usize = 5;
const TEXTS: [&str; 12] = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "1",
    "true",
    "é",
    "\u{10000}",
    "\u{ffff}",
    "q\"\\\n",
    "' || data.a == '",
];
const NAMES: [&str; 5] = ["a", "b", "c", "d e", "é\"."];
const KEYS: [&str; 3] = ["kind", "a", "x.y/z"];

/// A message as its publisher sent it.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) data: Vec<u8>,
}

impl Sent {
    pub(crate) fn body(&self) -> Vec<u8> {
        let message = Message {
            data: Bytes::from(self.data.clone()),
            attributes: self.attributes.clone(),
            ordering_key: String::new(),
        };
        let mut body = Vec::new();
        message::encode(&message, Offset(7), Timestamp(1_500_000), &mut body);
        body
    }
}

pub(crate) fn number(text: &str) -> Number {
    match json::read(text) {
        Ok(json::Value::Number(number)) => number,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn scalar(random: &mut Random) -> Scalar {
    match random.index(9) {
        0 => Scalar::Null,
        1 => Scalar::Bool(random.one_in(2)),
        2..=5 => Scalar::Number(number(random.pick(&NUMBERS))),
        _ => Scalar::Text(random.pick(&TEXTS).to_owned()),
    }
}

fn field(random: &mut Random) -> Field {
    if random.one_in(5) {
        return Field::Attribute(random.pick(&KEYS).to_owned());
    }
    let levels = 1 + random.index(2) * random.index(3);
    Field::Data((0..levels).map(|_| random.pick(&NAMES).to_owned()).collect())
}

fn ordered(random: &mut Random) -> Condition {
    let order = random.pick(&[Order::Above, Order::AtLeast, Order::Below, Order::AtMost]);
    loop {
        let bound = scalar(random);
        if matches!(bound, Scalar::Number(_) | Scalar::Text(_)) {
            return Condition::Ordered(order, bound);
        }
    }
}

pub(crate) fn term(random: &mut Random) -> Term {
    let condition = match random.index(14) {
        0..=4 => Condition::Equals(scalar(random)),
        5 => Condition::Unequal(scalar(random)),
        6..=8 => ordered(random),
        9 => {
            let most = if random.one_in(8) { 20 } else { 4 };
            let values = 1 + random.index(most);
            Condition::In((0..values).map(|_| scalar(random)).collect())
        }
        10 => Condition::StartsWith(random.pick(&TEXTS).to_owned()),
        11 => Condition::Contains(scalar(random)),
        12 => Condition::Includes(scalar(random)),
        _ => Condition::Present,
    };
    Term { field: field(random), condition }
}

pub(crate) fn expression(random: &mut Random, depth: usize) -> Expression {
    let parts = |random: &mut Random| {
        let count = 2 + random.index(2);
        (0..count).map(|_| expression(random, depth - 1)).collect()
    };
    match random.index(if depth == 0 { 5 } else { 10 }) {
        0..=4 => Expression::Term(term(random)),
        5..=7 => Expression::All(parts(random)),
        8 => Expression::Any(parts(random)),
        _ => Expression::Not(Box::new(expression(random, depth - 1))),
    }
}

/// A filter of one of the shapes that are found quickly, or any.
pub(crate) fn filter(random: &mut Random) -> Expression {
    let named = |name: &str, condition| {
        Expression::Term(Term { field: Field::Data(vec![name.to_owned()]), condition })
    };
    let few = |random: &mut Random| Scalar::Number(number(random.pick(&NUMBERS[..FEW])));
    match random.index(8) {
        0 => named(random.pick(&NAMES), Condition::Equals(scalar(random))),
        1 => named("b", ordered(random)),
        2 | 3 => {
            let equal = named("a", Condition::Equals(few(random)));
            Expression::All(vec![equal, named("b", ordered(random))])
        }
        // Alternatives that a message often meets together.
        4 => {
            let values = vec![few(random), few(random)];
            let both = [Condition::Equals(few(random)), Condition::In(values)];
            let [one, other] = both;
            let mut parts = vec![named("a", one), named("b", other)];
            if random.one_in(2) {
                parts.push(named("c", Condition::Equals(few(random))));
            }
            Expression::Any(parts)
        }
        5 => {
            let equal = named("a", Condition::Equals(few(random)));
            Expression::All(vec![
                equal,
                named("b", ordered(random)),
                Expression::Term(term(random)),
            ])
        }
        _ => expression(random, 3),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn value(random: &mut Random, depth: usize) -> String {
    match random.index(if depth == 0 { 8 } else { 12 }) {
        0 => "null".to_owned(),
        1 => random.pick(&["true", "false"]).to_owned(),
        2..=4 => random.pick(&NUMBERS).to_owned(),
        5 => "\"\\u0061\"".to_owned(),
        6 | 7 => quoted(random.pick(&TEXTS)),
        8 => {
            let count = random.index(4);
            let list: Vec<String> = (0..count).map(|_| value(random, depth - 1)).collect();
            format!("[{}]", list.join(", "))
        }
        _ => object(random, depth - 1),
    }
}

/// Sometimes with a name twice, of which the last counts.
fn object(random: &mut Random, depth: usize) -> String {
    let count = random.index(7);
    let members: Vec<String> = (0..count)
        .map(|_| format!("{}:{}", quoted(random.pick(&NAMES)), value(random, depth)))
        .collect();
    format!("{{{}}}", members.join(","))
}

pub(crate) fn sent(random: &mut Random) -> Sent {
    let mut attributes = BTreeMap::new();
    for _ in 0..random.index(3) {
        attributes.insert(random.pick(&KEYS).to_owned(), random.pick(&TEXTS).to_owned());
    }
    let data = match random.index(20) {
        0 => "not JSON".to_owned(),
        1 => format!("{} and more", object(random, 1)),
        2 => String::new(),
        3 => value(random, 2),
        4..=9 => {
            let few = [0; 2].map(|_| random.pick(&NUMBERS[..FEW]));
            format!("{{\"a\":{},\"b\":{},\"c\":{}}}", few[0], few[1], value(random, 1))
        }
        _ => object(random, 3),
    };
    Sent { attributes, data: data.into_bytes() }
}
