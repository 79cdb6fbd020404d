//! Columns of a table, named once for all its statements.

/// Their names, each behind the name that a statement has for the table: `columns!("r." => id, status)`.
macro_rules! columns {
    ($table:literal => $first:ident $(, $more:ident)* $(,)?) => {
        concat!($table, stringify!($first) $(, ", ", $table, stringify!($more))*)
    };
}
pub(crate) use columns;

/// Types whose values have a name each: `as_str` of one of `ALL`.
macro_rules! parse_by_name {
    ($($type:ty),+ $(,)?) => {$(
        impl std::str::FromStr for $type {
            type Err = ();

            fn from_str(text: &str) -> std::result::Result<Self, ()> {
                Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(())
            }
        }
    )+};
}
pub(crate) use parse_by_name;

/// Types that a column has as text: `#[sqlx(try_from = "String")]` reads them.
macro_rules! read_as_text {
    ($($type:ty),+ $(,)?) => {$(
        impl TryFrom<String> for $type {
            type Error = String;

            /// A text that this version does not know was written by a newer one.
            fn try_from(text: String) -> std::result::Result<Self, String> {
                text.parse().map_err(|()| format!("{text:?} is an unknown {}", stringify!($type)))
            }
        }
    )+};
}
pub(crate) use read_as_text;
