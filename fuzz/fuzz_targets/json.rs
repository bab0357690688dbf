//! Any bytes as JSON: read or refused, in the same way however they are gone through.
#![no_main]

use domain::filter::Clause;
use domain::{Filter, json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let text = std::str::from_utf8(input);
    let read = text.map_err(|_| json::NotJson).and_then(json::read);
    match json::open(input) {
        Err(_) => assert!(read.is_err()),
        Ok(None) => assert!(!matches!(read, Err(_) | Ok(json::Value::Object(_)))),
        Ok(Some(members)) => {
            let all = members.clone().all(|member| member.is_ok());
            assert_eq!(all, read.is_ok());
            for (name, _) in members.flatten() {
                let mut text = String::new();
                name.append_to(&mut text);
                assert!(name.is(&text));
            }
        }
    }
    if let Ok(value) = read {
        value.elements().for_each(drop);
    }
    for op in ["==", ">", "in", "contains"] {
        let clause = Clause {
            field: String::from_utf8_lossy(input).into_owned(),
            op: op.to_owned(),
            value: String::from_utf8_lossy(input).into_owned(),
        };
        let data = Clause { field: "data.a".to_owned(), ..clause.clone() };
        for clause in [clause, data] {
            if let Ok(Some(filter)) = Filter::from_clauses("filters", &[clause]) {
                let again = Filter::parse_cel("filter", filter.text()).expect("its own text");
                assert_eq!(again.expression(), filter.expression());
            }
        }
    }
});
