//! Logs that people read: those of exports and those of apps are asked for in one way.

/// A page of a log, newest first, and how many entries match in all: `(Vec<Row>, i64)`. What stands in brackets is asked about
/// only if it is something. What is not asked about is not in the statement, so that an index fits the rest.
macro_rules! log_page {
    (
        $db:ident, $columns:literal, $owned:literal = $owner:expr, [$($column:literal = $wanted:expr),*], $filter:ident,
        $window:ident
    ) => {
        match $db.connection() {
            $crate::db::Connection::Sqlite(conn) => $crate::db::log_page!(
                sqlx::Sqlite, conn, $columns, $owned = $owner, [$($column = $wanted),*], $filter, $window
            ),
            $crate::db::Connection::Postgres(conn) => $crate::db::answered(async {
                Ok($crate::db::log_page!(
                    sqlx::Postgres, conn, $columns, $owned = $owner, [$($column = $wanted),*], $filter, $window
                ))
            })
            .await?,
        }
    };
    (
        $driver:ty, $conn:ident, $columns:literal, $owned:literal = $owner:expr, [$($column:literal = $wanted:expr),*],
        $filter:ident, $window:ident
    ) => {{
        let matching = |what: &str| {
            let mut query = sqlx::QueryBuilder::<$driver>::new(format!("SELECT {what} FROM {} = ", $owned));
            query.push_bind($owner);
            $(if let Some(wanted) = $wanted {
                query.push(concat!(" AND ", $column, " = ")).push_bind(wanted);
            })*
            if let Some(level) = $filter.level {
                query.push(" AND level = ").push_bind(level.as_str());
            }
            if let Some(search) = &$filter.search {
                query.push(" AND lower(message) LIKE ").push_bind($crate::db::containing(search)).push(" ESCAPE '\\'");
            }
            if let Some(after) = $filter.after {
                query.push(" AND created_at >= ").push_bind(after);
            }
            if let Some(before) = $filter.before {
                query.push(" AND created_at < ").push_bind(before);
            }
            query
        };
        let mut rows = matching($columns);
        rows.push(" ORDER BY created_at DESC, id DESC LIMIT ").push_bind($window.limit);
        rows.push(" OFFSET ").push_bind($window.offset);
        let rows: Vec<Row> = rows.build_query_as().fetch_all(&mut *$conn).await?;
        let count: i64 = matching("count(*)").build_query_scalar().fetch_one($conn).await?;
        (rows, count)
    }};
}
pub(crate) use log_page;
