//! The three collections.

use service::pipeline::Collection;

/// A collection as a type, so that each operation of each stands in the route table.
pub(super) trait In: Send + Sync + 'static {
    const COLLECTION: Collection;
}

macro_rules! collections {
    ($($name:ident),+) => {$(
        pub(super) struct $name;

        impl In for $name {
            const COLLECTION: Collection = Collection::$name;
        }
    )+};
}

collections!(Destinations, FrontendApps, ImportApps);
