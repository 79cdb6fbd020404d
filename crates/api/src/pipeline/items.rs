//! Apps themselves.

use apps::Apps;
use axum::extract::State;
use service::access::{ChangeApps, ReadApps};
use service::pipeline::{App, AppPatch, NewApp};
use service::{AppId, Service};

use super::collections::In;
use super::views::AppView;
use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::reply::{Created, NoContent, Reply};

macro_rules! routes {
    ($in:ty, $name:literal) => {
        Routes::new()
            .route(
                below!($name, ""),
                get(
                    items::list::<$in>,
                    operation(concat!($name, "_list"), TAG, "List apps, newest first"),
                )
                .post(
                    items::create::<$in>,
                    operation(concat!($name, "_create"), TAG, "Install or create an app"),
                ),
            )
            .route(
                below!($name, "{id}/"),
                get(
                    items::retrieve::<$in>,
                    operation(concat!($name, "_retrieve"), TAG, "Retrieve an app"),
                )
                .patch(
                    items::update::<$in>,
                    operation(concat!($name, "_partial_update"), TAG, "Update an app"),
                )
                .delete(
                    items::destroy::<$in>,
                    operation(concat!($name, "_destroy"), TAG, "Delete an app and its configurations"),
                ),
            )
    };
}
pub(super) use routes;

pub(super) async fn list<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    paging: Paging,
) -> Result<Listed<AppView<'static>>, Problem> {
    let page = service.apps(&caller, C::COLLECTION, paging.window).await?;
    Ok(paging.reply(page.map(AppView::from)).await)
}

pub(super) async fn create<C: In>(
    State(apps): State<Apps>,
    Allowed(caller): Allowed<ChangeApps>,
    Body(new): Body<NewApp>,
) -> Result<Created<AppView<'static>>, Problem> {
    let app = apps.create(&caller, C::COLLECTION, &new).await?;
    Ok(Created::new(&AppView::from(&app)).at(at(&app, "")))
}

pub(super) async fn retrieve<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(id): Id<AppId>,
) -> Result<Reply<AppView<'static>>, Problem> {
    let app = service.app(&caller, C::COLLECTION, id).await?;
    Ok(Reply::new(&AppView::from(&app)))
}

pub(super) async fn update<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    if_match: IfMatch,
    Body(patch): Body<AppPatch>,
) -> Result<Reply<AppView<'static>>, Problem> {
    let precondition = |app: &App| if_match.fits(&AppView::from(app));
    let app = service
        .update_app(&caller, C::COLLECTION, id, &patch, &precondition)
        .await?;
    Ok(Reply::new(&AppView::from(&app)))
}

pub(super) async fn destroy<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(id): Id<AppId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let precondition = |app: &App| if_match.fits(&AppView::from(app));
    service.delete_app(&caller, C::COLLECTION, id, &precondition).await?;
    Ok(NoContent)
}

fn at(app: &App, rest: &str) -> String {
    format!(
        "/api/organizations/{}/{}/{}/{rest}",
        app.organization_id, app.collection, app.id
    )
}
