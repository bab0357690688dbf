//! Documents: decisions are numbered, links lead somewhere.

use super::File;
use crate::place;

/// `docs/decisions/NNNN-title.md`, numbered without holes; relative links exist.
pub(super) fn check(files: &[File], faults: &mut Vec<String>) {
    let names: Vec<&str> =
        files.iter().filter_map(|file| file.path.strip_prefix("docs/decisions/")).collect();
    for (number, name) in names.iter().enumerate() {
        let wanted = format!("{:04}-", number + 1);
        if !name.starts_with(&wanted) {
            faults.push(format!("docs/decisions/{name}: expected a name that begins {wanted}"));
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = place::root().join(&file.path);
        for link in links(&file.text) {
            let exists = folder.parent().is_some_and(|parent| parent.join(link).exists());
            if !exists {
                faults.push(format!("{}: the link {link} leads nowhere", file.path));
            }
        }
    }
}

/// Targets of `[text](target)` that are files beside the document.
fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found() {
        let text = "see [a](docs/a.md#part), [b](https://b.org) and [c](#here)";
        assert_eq!(links(text), ["docs/a.md"]);
    }
}
