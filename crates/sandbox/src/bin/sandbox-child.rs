//! The child alone, for the tests and the measurement of this crate. The server's binary has it as a subcommand.

fn main() {
    sandbox::child();
}
