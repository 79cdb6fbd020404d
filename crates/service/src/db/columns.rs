//! Columns of a table, named once for all its statements.

/// Their names, each behind the name that a statement has for the table: `columns!("r." => id, status)`.
macro_rules! columns {
    ($table:literal => $first:ident $(, $more:ident)* $(,)?) => {
        concat!($table, stringify!($first) $(, ", ", $table, stringify!($more))*)
    };
}
pub(crate) use columns;

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
