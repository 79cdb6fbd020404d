//! Names that are typed.

use service::{Error, Invalid, Name};

/// What somebody typed as the name of something.
pub(crate) fn name(text: &str) -> Result<Name, Error> {
    Name::new(text).map_err(|invalid| {
        Error::Invalid(vec![Invalid {
            field: Some("name".into()),
            ..invalid
        }])
    })
}
