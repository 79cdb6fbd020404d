//! The child alone, for the tests and the measurement of this crate. The server's binary has it as a subcommand.

mod probe;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().is_some_and(|argument| argument == "probe") {
        probe::run(arguments);
    } else {
        sandbox::child();
    }
}
