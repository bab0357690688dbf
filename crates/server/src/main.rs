//! The program `postrider`.

use std::process::ExitCode;

fn main() -> ExitCode {
    server::cli::run()
}
