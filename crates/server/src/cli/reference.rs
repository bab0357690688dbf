//! `docs/operating/cli.md` lists every command as its help has it.

use std::path::Path;

use clap::Command;

use super::{EXIT_CODES, command};

/// What stands before the list in the document.
const MARK: &str = "<!-- What follows is written by a test: \
                    POSTRIDER_WRITE_DOCS=1 cargo test -p postrider reference -->\n";

/// The list of all commands with their help.
fn reference() -> String {
    let mut text = String::new();
    let mut root = command();
    // Now every command knows its whole name.
    root.build();
    for command in root.get_subcommands() {
        describe(command, &mut text);
    }
    text
}

fn describe(command: &Command, text: &mut String) {
    if command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or_default();
    let mut command = command.clone();
    let help = command.render_help().to_string();
    let help = help.replace(EXIT_CODES, "");
    let lines: Vec<&str> = help.trim().lines().map(str::trim_end).collect();
    text.push_str(&format!("\n### {name}\n\n```text\n{}\n```\n", lines.join("\n")));
    for below in command.get_subcommands() {
        describe(below, text);
    }
}

#[test]
fn the_document_lists_every_command_as_its_help_has_it() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/cli.md");
    let document = std::fs::read_to_string(&file).unwrap();
    let (before, listed) = document.split_once(MARK).unwrap();
    if std::env::var_os("POSTRIDER_WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{MARK}{}", reference())).unwrap();
        return;
    }
    assert!(
        listed == reference(),
        "docs/operating/cli.md is not what the commands' help says; write it anew with \
         POSTRIDER_WRITE_DOCS=1 cargo test -p postrider reference"
    );
}

#[test]
fn every_command_has_help_with_examples() {
    fn check(command: &Command) {
        let name = command.get_bin_name().unwrap_or_default().to_owned();
        assert!(command.get_about().is_some(), "{name} says nothing of itself");
        let shown = command.get_arguments().filter(|one| !one.is_hide_set());
        for argument in shown.filter(|one| one.get_id() != "help") {
            let id = argument.get_id();
            assert!(argument.get_help().is_some(), "{name}: {id} has no help");
        }
        command.get_subcommands().filter(|below| below.get_name() != "help").for_each(check);
    }
    let mut root = command();
    root.build();
    for command in root.get_subcommands().filter(|one| one.get_name() != "help") {
        check(command);
        let help = command.clone().render_help().to_string();
        let has_examples = help.contains("Example") || command.has_subcommands();
        assert!(has_examples, "{} has no examples", command.get_name());
    }
}
