//! Logs that people read: those of exports and those of apps are asked for in one way.

/// A page of a log, newest first, and how many entries match in all: `(Vec<row>, i64)`. Conditions
/// in brackets are added only if their value is set, so that an index fits the statement.
macro_rules! log_page {
    (
        $db:ident, $columns:literal as $row:ty, $owned:literal = $owner:expr, [$($column:literal = $wanted:expr),*],
        $filter:ident, $window:ident
    ) => {
        match $db.connection() {
            $crate::db::Connection::Sqlite(conn) => $crate::db::log_page!(
                sqlx::Sqlite, conn, $columns as $row, $owned = $owner, [$($column = $wanted),*], $filter, $window
            ),
            $crate::db::Connection::Postgres(conn) => $crate::db::answered(async {
                Ok($crate::db::log_page!(
                    sqlx::Postgres, conn, $columns as $row, $owned = $owner, [$($column = $wanted),*], $filter, $window
                ))
            })
            .await?,
        }
    };
    (
        $driver:ty, $conn:ident, $columns:literal as $row:ty, $owned:literal = $owner:expr,
        [$($column:literal = $wanted:expr),*], $filter:ident, $window:ident
    ) => {{
        const NEWEST_FIRST: &str = " ORDER BY created_at DESC, id DESC";
        // A search reads the newest 10,000 of them, and no more than 16 MiB.
        const READ: &str = "created_at, id FROM (SELECT created_at, id, sum(size) OVER (ORDER BY created_at DESC, id DESC) AS total             FROM (SELECT created_at, id, octet_length(message) AS size";
        const BOUND: &str = " LIMIT 10000) AS newest) AS counted WHERE total <= 16777216 ORDER BY created_at, id LIMIT 1";
        let filtered = |what: &str| {
            let mut query = sqlx::QueryBuilder::<$driver>::new(format!("SELECT {what} FROM {} = ", $owned));
            query.push_bind($owner);
            $(if let Some(wanted) = $wanted {
                query.push(concat!(" AND ", $column, " = ")).push_bind(wanted);
            })*
            if let Some(level) = $filter.level {
                query.push(" AND level = ").push_bind(level.as_str());
            }
            if let Some(after) = $filter.after {
                query.push(" AND created_at >= ").push_bind(after);
            }
            if let Some(before) = $filter.before {
                query.push(" AND created_at < ").push_bind(before);
            }
            query
        };
        match &$filter.search {
            None => {
                let mut rows = filtered($columns);
                rows.push(NEWEST_FIRST).push(" LIMIT ").push_bind($window.limit);
                rows.push(" OFFSET ").push_bind($window.offset);
                let rows: Vec<$row> = rows.build_query_as().fetch_all(&mut *$conn).await?;
                let count: i64 = filtered("count(*)").build_query_scalar().fetch_one($conn).await?;
                (rows, count)
            }
            Some(search) => {
                let mut read = filtered(READ);
                read.push(NEWEST_FIRST).push(BOUND);
                let oldest: Option<($crate::clock::Time, uuid::Uuid)> =
                    read.build_query_as().fetch_optional(&mut *$conn).await?;
                let mut lines = filtered("id, message");
                if let Some((created_at, id)) = oldest {
                    lines.push(" AND (created_at, id) >= (").push_bind(created_at).push(", ").push_bind(id).push(")");
                }
                lines.push(NEWEST_FIRST);
                // Looked through here, in linear time: the databases look at a text again for each of its characters.
                let (search, mut found) = (search.to_lowercase(), Vec::<uuid::Uuid>::new());
                let mut lines = lines.build_query_as::<(uuid::Uuid, String)>().fetch(&mut *$conn);
                while let Some((id, message)) = futures_util::TryStreamExt::try_next(&mut lines).await? {
                    if message.to_lowercase().contains(&search) {
                        found.push(id);
                    }
                }
                drop(lines);
                let mut rows = filtered($columns);
                rows.push(" AND id IN (NULL");
                let [offset, limit] = [$window.offset, $window.limit].map(|part| usize::try_from(part).unwrap_or(usize::MAX));
                for id in found.iter().skip(offset).take(limit) {
                    rows.push(", ").push_bind(*id);
                }
                rows.push(")").push(NEWEST_FIRST);
                let rows: Vec<$row> = rows.build_query_as().fetch_all($conn).await?;
                (rows, i64::try_from(found.len()).unwrap_or(i64::MAX))
            }
        }
    }};
}
pub(crate) use log_page;
