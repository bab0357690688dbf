//! Modules of the broker use only what lies below them.

use std::collections::{BTreeMap, BTreeSet};

use super::File;

const SOURCE: &str = "crates/broker/src/";

/// The broker's modules, lowest layer first. A module may use those of lower layers, and of its
/// own layer as long as no two use each other, be it by way of others.
const LAYERS: [&[&str]; 7] = [
    // Tools, figures and notes: they know nothing of topics and subscriptions.
    &[
        "audit",
        "changed",
        "damaged",
        "expiries",
        "figures",
        "remembered",
        "ranges",
        "replay",
        "source",
        "timers",
        "waiters",
    ],
    // What can be told, refused, stored and written down.
    &[
        "compiling",
        "definition",
        "delivery_log",
        "error",
        "guard",
        "handled_letters",
        "lease",
        "options",
        "parcel",
        "secret",
        "serving",
        "settings",
        "transform",
        "upkeep",
    ],
    // Log, clock and catalogue.
    &["catalogue", "directory", "runtime"],
    // What there is.
    &["consumer", "registry", "schema", "shards", "snapshot", "subscription", "tail", "topic"],
    // What is done with it.
    &["courier", "dead_letter", "dead_letter_admin", "export", "live", "peek", "push", "seek"],
    // What changes or watches all of it.
    &["admin", "alerts", "maintenance", "status"],
    // What others see.
    &["broker", "fuzzing"],
];

/// Which modules each module uses, and the file that does so first.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// Every module stands in the table, and uses no more than it may.
pub(super) fn check(files: &[File], faults: &mut Vec<String>) {
    let uses = uses(files);
    let layer_of = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    for (module, used) in &uses {
        let Some(layer) = layer_of(module) else {
            faults.push(format!("{SOURCE}: module {module} stands in no layer of {}", file!()));
            continue;
        };
        for (other, path) in used {
            if layer_of(other).is_none_or(|other| other > layer) {
                faults.push(format!("{path}: {module} must not use {other}, which is above it"));
            }
        }
    }
    for module in LAYERS.iter().flat_map(|layer| layer.iter()) {
        if !uses.contains_key(*module) {
            faults.push(format!("{}: there is no module {module} in {SOURCE}", file!()));
        }
    }
    for circle in circles(&uses) {
        let (count, names) = (circle.len(), circle.join(", "));
        faults.push(format!("{SOURCE}: {count} modules use each other in a circle: {names}"));
    }
}

/// What every top module of the broker uses of the others, tests aside.
fn uses(files: &[File]) -> Uses {
    let sources: Vec<_> =
        files.iter().filter_map(|file| Some((module(&file.path)?, file))).collect();
    let modules: BTreeSet<&str> = sources.iter().map(|(module, _)| *module).collect();
    let mut uses: Uses =
        modules.iter().map(|&module| (module.to_owned(), BTreeMap::new())).collect();
    for (module, file) in sources {
        let text = without_tests(&blanked(&file.text));
        let upwards = "super::".repeat(depth(&file.path));
        let by_parents = named(&text, &upwards).filter(|name| modules.contains(name));
        for name in named(&text, "crate::").chain(by_parents).filter(|&name| name != module) {
            // What the crate shows to others comes from all layers.
            let used = if modules.contains(name) { name } else { "lib" };
            let of_module = uses.entry(module.to_owned()).or_default();
            of_module.entry(used.to_owned()).or_insert_with(|| file.path.clone());
        }
    }
    uses
}

/// The top module that a file belongs to; none for tests and for the crate's own file.
fn module(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(SOURCE)?.strip_suffix(".rs")?;
    let is_test = inside.split('/').any(|part| part == "tests");
    let top = inside.split('/').next()?;
    (!is_test && top != "lib").then_some(top)
}

/// How many parents up the crate's own file is.
fn depth(path: &str) -> usize {
    let inside = path.strip_prefix(SOURCE).unwrap_or(path);
    inside.strip_suffix("/mod.rs").unwrap_or(inside).split('/').count()
}

/// The first names of all paths that begin with `root`, those in braces included.
fn named<'text>(text: &'text str, root: &'text str) -> impl Iterator<Item = &'text str> {
    let is_path = move |(at, _): &(usize, &str)| {
        let before = &text[..*at];
        !before.ends_with(is_in_name) && !before.ends_with("::")
    };
    text.match_indices(root)
        .filter(is_path)
        .flat_map(move |(at, _)| first_names(&text[at + root.len()..]))
}

/// The first name of a path, or those of each path in braces.
fn first_names(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else { return vec![first_name(path)] };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' if depth == 0 => {
                names.push(first_name(&group[start..at]));
                start = at + 1;
            }
            b'}' => {
                names.push(first_name(&group[start..at]));
                break;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(path: &str) -> &str {
    let path = path.trim_start();
    path.split(|c: char| !is_in_name(c)).next().unwrap_or_default()
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Groups of modules of which each uses all others, at least by way of others.
fn circles(uses: &Uses) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|module| (module.as_str(), reached(uses, module))).collect();
    let mut circles = BTreeSet::new();
    for (&module, others) in &reached {
        let is_mutual =
            |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(module));
        let circle: Vec<&str> = others.iter().filter(is_mutual).copied().collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// All that a module uses, at least by way of others.
fn reached<'uses>(uses: &'uses Uses, module: &str) -> BTreeSet<&'uses str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![module];
    while let Some(module) = open.pop() {
        for other in uses.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(other.as_str()) {
                open.push(other);
            }
        }
    }
    reached
}

/// The text without items that are compiled for tests only.
fn without_tests(text: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, item)) = rest.split_once(MARK) {
        kept.push_str(before);
        rest = &item[item_bytes(item)..];
    }
    kept.push_str(rest);
    kept
}

/// How long an item is: up to the brace that closes its body, or to what ends it without one.
fn item_bytes(item: &str) -> usize {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, byte) in item.bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b'{' => braces += 1,
            b'}' if braces <= 1 => return at + 1,
            b'}' => braces -= 1,
            b';' | b',' if braces == 0 && brackets == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

/// The text with what stands in comments, strings and characters left out.
fn blanked(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = skipped_bytes(rest);
        if skipped == 0 {
            kept.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            kept.push(' ');
            rest = &rest[skipped..];
        }
    }
    kept
}

/// How much of `rest` is a comment, a string or a character; zero if it begins otherwise.
fn skipped_bytes(rest: &str) -> usize {
    let to = |end: Option<usize>| end.unwrap_or(rest.len());
    if rest.starts_with("//") {
        return to(rest.find('\n'));
    }
    for (start, end) in [("r#\"", "\"#"), ("r\"", "\""), ("/*", "*/")] {
        if let Some(inside) = rest.strip_prefix(start) {
            return to(inside.find(end).map(|at| start.len() + at + end.len()));
        }
    }
    if rest.starts_with('"') {
        return quoted_bytes(rest, b'"');
    }
    let mut after = rest.strip_prefix('\'').unwrap_or_default().chars();
    // A lifetime has no quote behind its first letter.
    match (after.next(), after.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted_bytes(rest, b'\''),
        _ => 0,
    }
}

fn quoted_bytes(rest: &str, quote: u8) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("{SOURCE}{path}"), text: text.to_owned() }
    }

    fn used(uses: &Uses, module: &str) -> Vec<String> {
        uses.get(module).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    #[test]
    fn paths_are_found_with_what_stands_in_braces() {
        let text = "use crate::{a, b::{c, d}, e::f as g};\nlet x = crate::h::i();\nmycrate::j";
        assert_eq!(named(text, "crate::").collect::<Vec<_>>(), ["a", "b", "e", "h"]);
    }

    #[test]
    fn files_of_a_folder_belong_to_the_module_it_is_named_for() {
        let files = [
            file("top.rs", "use crate::low::Low;"),
            file("top/part.rs", "use crate::side;\nuse crate::top::Top;"),
            file("top/tests.rs", "use crate::broker::Broker;"),
            file("low.rs", ""),
            file("side.rs", ""),
            file("broker.rs", "use crate::Shown;"),
            file("lib.rs", "pub use crate::low::Low;"),
        ];
        let uses = uses(&files);
        assert_eq!(uses.keys().collect::<Vec<_>>(), ["broker", "low", "side", "top"]);
        assert_eq!(used(&uses, "top"), ["low", "side"]);
        assert_eq!(used(&uses, "broker"), ["lib"], "a name that only the crate shows");
    }

    #[test]
    fn a_path_by_way_of_the_parents_counts_where_it_leads_to_a_module() {
        let files = [
            file("low.rs", ""),
            file("top.rs", "mod part;\nuse super::low;"),
            file("side/mod.rs", "use super::low;\nuse self::part::Part;"),
            file("side/part.rs", "use super::Side;\nuse super::super::top::Top;"),
            file("other/part.rs", "use super::low::Own;"),
        ];
        let uses = uses(&files);
        assert_eq!(used(&uses, "top"), ["low"]);
        assert_eq!(used(&uses, "side"), ["low", "top"]);
        assert_eq!(used(&uses, "other"), [""; 0], "that is its own");
    }

    #[test]
    fn tests_comments_and_strings_use_nothing() {
        let text = r##"
            // crate::a, "and so on
            const OPEN: (char, &str) = ('"', "crate::b {");
            #[cfg(test)]
            use crate::c::C;
            #[cfg(test)]
            fn only_for_tests<'life>(a: u8, b: [u8; 2]) -> crate::d::D { if true { '}' } }
            use crate::e::E;
            #[cfg(test)]
            mod tests {
                use crate::f::F;
                const TEXT: &str = r#"a " and { "#;
            }
        "##;
        let text = without_tests(&blanked(text));
        assert_eq!(named(&text, "crate::").collect::<Vec<_>>(), ["e"]);
    }

    #[test]
    fn a_circle_is_found_however_long_and_a_chain_is_none() {
        let files = [
            file("a.rs", "use crate::b;"),
            file("b.rs", "use crate::c;"),
            file("c.rs", "use crate::{a, d};"),
            file("d.rs", "use crate::e;"),
            file("e.rs", ""),
        ];
        assert_eq!(circles(&uses(&files)), [["a", "b", "c"]]);
    }

    #[test]
    fn whoever_uses_what_is_above_is_named() {
        let mut faults = Vec::new();
        let mut files: Vec<_> = LAYERS
            .iter()
            .flat_map(|layer| layer.iter())
            .map(|module| file(&format!("{module}.rs"), ""))
            .collect();
        check(&files, &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        files.push(file("audit/part.rs", "use crate::broker::Broker;"));
        files.push(file("new.rs", ""));
        check(&files, &mut faults);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].ends_with("audit must not use broker, which is above it"));
        assert!(faults[1].contains("module new stands in no layer"));
    }
}
