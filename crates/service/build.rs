//! Cargo does not see by itself that a migration was added.

#![expect(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
