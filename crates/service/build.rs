//! Cargo does not notice automatically that a migration was added.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
