//! `postrider completions`.

use clap::Args;
use clap_complete::Shell;

use super::{Failure, command, print_bytes};

pub(super) const EXAMPLES: &str = "\
Examples:
  source <(postrider completions bash)
  postrider completions zsh > ~/.zfunc/_postrider
  postrider completions fish > ~/.config/fish/completions/postrider.fish";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    print_bytes(&script(arguments.shell))
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "postrider", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_has_a_script_that_knows_the_commands() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            assert!(script.contains("dead-letter"), "{shell}: {script}");
        }
    }
}
