//! Whether a definition may become a revision beside another, by Google's rule.
//!
//! Optional fields may be added and removed. Other fields (required, repeated, maps) may not, and
//! a field that stays may not be changed: its number, name, type, label and oneof are as before.
//! That holds for the messages that fields contain, too; what those are called does not matter, as
//! no message says it. A value of an enum that stays keeps its number; values may come and go.

use std::collections::HashSet;

use super::tree::{Enum, Field, Form, Kind, Label, Message, Tree};
use crate::problem::{Problem, quoted};

/// Checks a new definition against an old one.
///
/// A list of pairs of messages instead of a recursion, each pair once: messages may contain
/// themselves and may be chained as long as the definition is.
pub(crate) fn check(new: &Tree, old: &Tree) -> Result<(), Problem> {
    let mut walk = Walk { new, old, seen: HashSet::new(), pairs: Vec::new() };
    walk.push(0, 0);
    let mut next = 0;
    while let Some((new, old)) = walk.pairs.get(next).copied() {
        if let (Some(new), Some(old)) = (walk.new.message(new), walk.old.message(old)) {
            walk.messages(new, old).map_err(|problem| problem.inside(&new.name))?;
        }
        next += 1;
    }
    Ok(())
}

struct Walk<'t> {
    new: &'t Tree,
    old: &'t Tree,
    seen: HashSet<(usize, usize)>,
    pairs: Vec<(usize, usize)>,
}

impl Walk<'_> {
    fn push(&mut self, new: usize, old: usize) {
        if self.seen.insert((new, old)) {
            self.pairs.push((new, old));
        }
    }

    fn messages(&mut self, new: &Message, old: &Message) -> Result<(), Problem> {
        if !is_same_form(new.form, old.form) {
            let what = format!("the type was {}, which JSON writes differently", old.name);
            return Err(Problem::new(what));
        }
        for field in &new.fields {
            let former = old.fields.binary_search_by_key(&field.number, |field| field.number);
            match former.ok().and_then(|index| old.fields.get(index)) {
                Some(former) => {
                    self.fields(field, former).map_err(|problem| problem.inside(&field.name))?;
                }
                None => come_or_gone(field, old, "added")?,
            }
        }
        for field in &old.fields {
            if new.field(field.number, 0).is_none() {
                come_or_gone(field, new, "removed")?;
            }
        }
        Ok(())
    }

    fn fields(&mut self, new: &Field, old: &Field) -> Result<(), Problem> {
        if new.name != old.name {
            return Err(edited("name", &old.name, &new.name));
        }
        if new.label != old.label {
            return Err(edited("label", label(old.label), label(new.label)));
        }
        if new.oneof.is_some() != old.oneof.is_some() {
            return Err(Problem::new("an existing field cannot go into or out of a oneof"));
        }
        match (new.kind, old.kind) {
            (Kind::Message(new), Kind::Message(old)) | (Kind::Group(new), Kind::Group(old)) => {
                self.push(new, old);
                Ok(())
            }
            (Kind::Enum(new), Kind::Enum(old)) => {
                match (self.new.enums.get(new), self.old.enums.get(old)) {
                    (Some(new), Some(old)) => enums(new, old),
                    _ => Ok(()),
                }
            }
            (Kind::Text { .. }, Kind::Text { .. }) => Ok(()),
            (new, old) if new == old => Ok(()),
            (new, old) => Err(edited("type", old.word(), new.word())),
        }
    }
}

/// A field that only one of the two has must be optional, and its name must not be used by the
/// other for another number.
fn come_or_gone(field: &Field, other: &Message, what: &str) -> Result<(), Problem> {
    if field.label != Label::Optional {
        let label = label(field.label);
        let what = format!("{label} field {} is {what}, only optional ones may be", field.name);
        return Err(Problem::new(what));
    }
    let namesake = other.by_name.get(&field.name).and_then(|index| other.fields.get(*index));
    match namesake {
        Some(other) => {
            let (one, another) = (field.number, other.number);
            let what = format!("field {} has number {one} and number {another}", field.name);
            Err(Problem::new(what))
        }
        None => Ok(()),
    }
}

fn enums(new: &Enum, old: &Enum) -> Result<(), Problem> {
    let is_moved = |name: &str| match (new.values.get(name), old.values.get(name)) {
        (Some(new), Some(old)) => new != old,
        _ => false,
    };
    // The least name, so that the same pair is always refused in the same words.
    let moved = new.values.keys().filter(|name| is_moved(name)).min();
    moved.map_or(Ok(()), |name| {
        Err(Problem::new(format!("value {} of the enum has another number", quoted(name))))
    })
}

fn is_same_form(new: Form, old: Form) -> bool {
    match (new, old) {
        (Form::Wrapper(_), Form::Wrapper(_)) => true,
        (new, old) => new == old,
    }
}

fn edited(what: &str, old: &str, new: &str) -> Problem {
    Problem::new(format!("the {what} of an existing field cannot change, from {old} to {new}"))
}

fn label(label: Label) -> &'static str {
    match label {
        Label::Optional => "optional",
        Label::Required => "required",
        Label::Repeated => "repeated",
        Label::Map => "map",
    }
}
