//! The real binary, started as an operator starts it, on both databases.

mod apps;
mod backup;
mod capture_load;
mod client;
mod command_line;
mod crash;
mod faults;
mod first_start;
mod home;
mod import;
mod journeys;
mod modes;
mod operation;
mod replicas;
mod sandbox;
mod sdks;
mod secret_key;
mod settings;
mod speed;
mod stopping;

/// Writes a test once and runs it on each database, empty at first.
macro_rules! on_each {
    ($(fn $name:ident($home:ident: $kind:ty) $body:block)+) => {$(
        fn $name($home: &$kind) $body

        mod $name {
            use testkit::databases::Backend;

            use crate::home::Home;

            #[test]
            fn sqlite() {
                super::$name(&Home::new(Backend::Sqlite));
            }

            #[test]
            fn postgres() {
                super::$name(&Home::new(Backend::Postgres));
            }
        }
    )+};
}
use on_each;
