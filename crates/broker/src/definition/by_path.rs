//! Settings that the stored form of their resource has no field of its own for.

use domain::setting::{Resource, Set, Setting};
use serde_json::{Map, Value};

use super::Unreadable;

/// What `settings` say and `read`, which came back from the form's own fields, does not: by path,
/// as it is shown.
pub(super) fn beyond<S: Resource>(
    table: &[Setting<S>],
    settings: &S,
    read: &S,
) -> Map<String, Value> {
    let alone = table.iter().filter(|setting| matches!(setting.set, Set::Alone(_)));
    let shown = alone.map(|setting| (setting, (setting.show)(settings)));
    let others = shown.filter(|(setting, value)| (setting.show)(read) != *value);
    others.map(|(setting, value)| (setting.path.to_owned(), value)).collect()
}

/// Puts back what was kept by its path.
pub(super) fn put_back<S: Resource>(
    table: &[Setting<S>],
    kept: &Map<String, Value>,
    settings: &mut S,
) -> Result<(), Unreadable> {
    for (path, value) in kept {
        match table.iter().find(|setting| setting.path == path).map(|setting| setting.set) {
            Some(Set::Alone(set)) => set(settings, path, value)?,
            _ => return Err(Unreadable::Word(path.clone())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use domain::topic::{Entry, Topic};

    use super::*;

    #[test]
    fn a_setting_that_the_form_has_no_field_for_comes_back() {
        let trial = Entry {
            path: "postrider.trial",
            set: Set::Alone(|one, _, value| {
                let text = value.as_str().unwrap_or_default();
                one.labels.insert("trial".to_owned(), text.to_owned());
                Ok(())
            }),
            show: |one| one.labels.get("trial").cloned().into(),
            ..Entry::NONE
        };
        let table = [trial];
        let read = Topic::scratch().unwrap();
        let mut given = read.clone();
        given.labels.insert("trial".to_owned(), "tried".to_owned());
        let kept = beyond(&table, &given, &read);
        assert_eq!(kept, Map::from_iter([("postrider.trial".to_owned(), "tried".into())]));
        assert_eq!(beyond(&table, &given, &given), Map::new(), "the form brought it back");
        let mut back = read;
        put_back(&table, &kept, &mut back).unwrap();
        assert_eq!(back, given);
        assert!(put_back(&[], &kept, &mut back).is_err(), "of a later version");
    }
}
