use std::collections::HashMap;

use serde_json::value::RawValue;
use sqlx::QueryBuilder;
use sqlx::types::Json;

use super::{Activity, ActivityFilter, Change};
use crate::clock::Time;
use crate::db::{Connection, Session, answered};
use crate::error::Result;
use crate::id::{ActivityId, KeyId, OrganizationId, TeamId, UserId};
use crate::page::{self, Page, Window};
use crate::users;

#[derive(sqlx::FromRow)]
struct Row {
    id: ActivityId,
    user_id: Option<UserId>,
    key_id: Option<KeyId>,
    scope: String,
    item_id: String,
    activity: String,
    name: String,
    changes: Json<Vec<Change<Box<RawValue>>>>,
    request_id: String,
    created_at: Time,
}

impl Row {
    fn bytes(&self) -> usize {
        let each = |change: &Change<Box<RawValue>>| change.before.get().len() + change.after.get().len();
        self.changes.iter().map(each).sum()
    }
}

/// Adds the conditions that both the page and the count stand under.
macro_rules! filtered {
    ($query:ident, $organization:ident, $teams:ident, $filter:ident) => {
        $query
            .push(" FROM activity WHERE organization_id = ")
            .push_bind($organization);
        if !$teams.is_empty() {
            $query.push(" AND (team_id IS NULL OR team_id IN (");
            let mut list = $query.separated(", ");
            for team in $teams {
                list.push_bind(*team);
            }
            $query.push("))");
        }
        if let Some(user) = $filter.user {
            $query
                .push(" AND user_id = (SELECT id FROM app_user WHERE uuid = ")
                .push_bind(user)
                .push(")");
        }
        if let Some(scope) = &$filter.scope {
            $query.push(" AND scope = ").push_bind(scope.clone());
        }
        if let Some(item) = &$filter.item {
            $query.push(" AND item_id = ").push_bind(item.clone());
        }
        if let Some(after) = $filter.after {
            $query.push(" AND created_at > ").push_bind(after);
        }
        if let Some(before) = $filter.before {
            $query.push(" AND created_at < ").push_bind(before);
        }
    };
}

/// With `teams`, only what belongs to one of them, or to no team.
pub(crate) async fn page(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    filter: &ActivityFilter,
    window: Window,
) -> Result<Page<Activity>> {
    const COLUMNS: &str = "SELECT id, user_id, key_id, scope, item_id, activity, name, changes, request_id, created_at";
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut rows = QueryBuilder::<$driver>::new(COLUMNS);
            filtered!(rows, organization, teams, filter);
            rows.push(" ORDER BY id DESC LIMIT ").push_bind(window.limit);
            rows.push(" OFFSET ").push_bind(window.offset);
            let rows = page::read(rows.build_query_as().fetch(&mut *$conn), Row::bytes).await?;
            let count = match window.count_at_end(rows.len()) {
                Some(count) => count,
                None => {
                    let mut count = QueryBuilder::<$driver>::new("SELECT count(*)");
                    filtered!(count, organization, teams, filter);
                    count.build_query_scalar().fetch_one($conn).await?
                }
            };
            (rows, count)
        }};
    }
    let (rows, count) = match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    };
    Ok(Page {
        items: with_users(db, rows).await?,
        count,
    })
}

async fn with_users(db: &mut Session, rows: Vec<Row>) -> Result<Vec<Activity>> {
    let mut ids: Vec<UserId> = rows.iter().filter_map(|row| row.user_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let users = users::sql::by_ids(db, &ids).await?;
    let users: HashMap<UserId, _> = users.into_iter().map(|user| (user.id, user)).collect();
    let item = |row: Row| Activity {
        id: row.id,
        user: row.user_id.and_then(|id| users.get(&id).cloned()),
        key: row.key_id,
        scope: row.scope,
        item: row.item_id,
        activity: row.activity,
        name: row.name,
        changes: row.changes.0,
        request: row.request_id,
        created_at: row.created_at,
    };
    Ok(rows.into_iter().map(item).collect())
}
