use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{UserId, UserUuid};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;
use crate::users::User;
use crate::users::sql::user_columns;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            user_columns!(),
            " FROM app_user u WHERE u.is_operator ",
            $rest
        )
    };
}

/// In the order of their accounts.
pub(super) async fn page(db: &mut Session, window: Window) -> Result<Page<User>> {
    const ROWS: &str = select!("ORDER BY u.id LIMIT $1 OFFSET $2");
    const COUNT: &str = "SELECT count(*) FROM app_user WHERE is_operator";
    let items = on!(db, conn => sqlx::query_as(ROWS).bind(window.limit).bind(window.offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).fetch_one(conn))?;
    Ok(Page { items, count })
}

pub(crate) async fn is_operator(db: &mut Session, user: UserId) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM app_user WHERE id = $1 AND is_operator";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(user).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// All of them, kept from changing until the use case ends, so that no two remove each other.
pub(super) async fn lock_all(db: &mut WriteTx) -> Result<Vec<User>> {
    let sql = db.pick(
        select!("ORDER BY u.id"),
        select!("ORDER BY u.id FOR NO KEY UPDATE OF u"),
    );
    Ok(on!(db, conn => sqlx::query_as(sql).fetch_all(conn))?)
}

pub(super) async fn save(db: &mut WriteTx, user: UserUuid, is_operator: bool) -> Result<()> {
    const SQL: &str = "UPDATE app_user SET is_operator = $2 WHERE uuid = $1";
    changed!(db, sqlx::query(SQL).bind(user).bind(is_operator))?;
    Ok(())
}

/// Whether the user belongs to any organization.
pub(super) async fn belongs_anywhere(db: &mut Session, user: UserId) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM member WHERE user_id = $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(user).fetch_optional(conn))?;
    Ok(found.is_some())
}
