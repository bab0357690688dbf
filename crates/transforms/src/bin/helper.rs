//! A helper process: runs scripts for the process that started it.

fn main() -> std::io::Result<()> {
    transforms::serve()
}
