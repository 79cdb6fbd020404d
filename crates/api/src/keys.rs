use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Serialize;
use service::credentials::Credential;
use service::keys::{Fresh, Key, KeyPatch, NewKey};
use service::{KeyId, Scope, Service};
use uuid::Uuid;

use crate::http::access::{self, Person};
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::context::RequestContext;
use crate::http::early_response::EarlyResponse;
use crate::http::error::Problem;
use crate::http::operation::note;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::{Id, KeyRef};
use crate::http::reply::{Created, NoContent, Reply, View};
use crate::http::routing::{Routes, get, post};
use crate::http::state::Api;
use crate::user::Stamp;

const TAG: &str = "Personal API keys";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/personal_api_keys/",
            get(
                list,
                operation("personal_api_keys_list", TAG, "List your API keys, newest first"),
            )
            .post(
                create,
                operation(
                    "personal_api_keys_create",
                    TAG,
                    "Create an API key; its value is shown once",
                ),
            ),
        )
        .route(
            "/api/personal_api_keys/{id}/",
            get(
                retrieve,
                operation(
                    "personal_api_keys_retrieve",
                    TAG,
                    "Retrieve an API key; a key can retrieve itself",
                ),
            )
            .patch(
                update,
                operation("personal_api_keys_partial_update", TAG, "Update an API key"),
            )
            .delete(
                destroy,
                operation("personal_api_keys_destroy", TAG, "Delete an API key"),
            ),
        )
        .route(
            "/api/personal_api_keys/{id}/roll/",
            post(
                roll,
                operation(
                    "personal_api_keys_roll",
                    TAG,
                    "Roll an API key; the old value stops working",
                ),
            ),
        )
}

async fn list(
    State(service): State<Service>,
    Person(person): Person,
    paging: Paging,
) -> Result<Listed<KeyView>, Problem> {
    let page = service.keys(&person, paging.window).await?;
    Ok(paging.reply(page.map(KeyView::from)).await)
}

async fn create(
    State(service): State<Service>,
    Person(person): Person,
    Body(new): Body<NewKey>,
) -> Result<Created<KeyView>, Problem> {
    let fresh = service.create_key(&person, &new).await?;
    let location = format!("/api/personal_api_keys/{}/", fresh.key.id);
    Ok(Created::new(&KeyView::from(&fresh))
        .kept_as(&KeyView::from(&fresh.key))
        .at(location))
}

async fn retrieve(OwnKey(key): OwnKey) -> Reply<KeyView> {
    Reply::new(&KeyView::from(&key))
}

async fn update(
    State(service): State<Service>,
    Person(person): Person,
    Id(id): Id<KeyId>,
    if_match: IfMatch,
    Body(patch): Body<KeyPatch>,
) -> Result<Reply<KeyView>, Problem> {
    let precondition = |key: &Key| if_match.fits(&KeyView::from(key));
    let key = service.update_key(&person, id, &patch, &precondition).await?;
    Ok(Reply::new(&KeyView::from(&key)))
}

async fn roll(
    State(service): State<Service>,
    Person(person): Person,
    Id(id): Id<KeyId>,
) -> Result<Reply<KeyView>, Problem> {
    let fresh = service.roll_key(&person, id).await?;
    Ok(Reply::new(&KeyView::from(&fresh)).kept_as(&KeyView::from(&fresh.key)))
}

async fn destroy(
    State(service): State<Service>,
    Person(person): Person,
    Id(id): Id<KeyId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let precondition = |key: &Key| if_match.fits(&KeyView::from(key));
    service.delete_key(&person, id, &precondition).await?;
    Ok(NoContent)
}

/// A key that the caller may read: any of their own when signed in, or the very key that was sent.
struct OwnKey(Key);

impl FromRequestParts<Api> for OwnKey {
    type Rejection = EarlyResponse;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, EarlyResponse> {
        let wanted = Id::<KeyRef>::from_request_parts(parts, api).await;
        if let Credential::Key(secret) = access::credential(parts)? {
            let key = api
                .service
                .own_key(secret)
                .await
                .map_err(|error| api.refuse(parts, error))?;
            api.count(Some(key.id), key.user_id, &RequestContext::of(parts))?;
            let is_itself = wanted.is_ok_and(|Id(wanted)| wanted == KeyRef::Current || wanted == KeyRef::Id(key.id));
            return if is_itself {
                Ok(Self(key))
            } else {
                Err(Problem::SignInNeeded.into())
            };
        }
        let Person(person) = Person::from_request_parts(parts, api).await?;
        match wanted?.0 {
            KeyRef::Id(id) => Ok(Self(api.service.key(&person, id).await?)),
            KeyRef::Current => Err(service::Error::NotFound("key").into()),
        }
    }
}

impl aide::OperationInput for OwnKey {
    fn operation_input(context: &mut aide::generate::GenContext, operation: &mut aide::openapi::Operation) {
        Id::<KeyRef>::operation_input(context, operation);
        note(operation, access::CREDENTIAL, "own key");
    }
}

/// A personal API key.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PersonalApiKey")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-8f85-3211db872bca", "label": "CI", "value": null, "mask_value": "hgr_...6CjA",
    "scopes": ["organization:read"], "scoped_organizations": [], "scoped_teams": [],
    "created_at": "2026-11-15T09:30:00.000000Z", "last_used_at": null, "unused_scopes": ["organization:read"],
    "last_rolled_at": null, "expires_at": null
}]))]
pub(crate) struct KeyView {
    id: Uuid,
    label: String,
    /// The key itself: only in the response that creates or rolls it, otherwise null.
    value: Option<String>,
    /// The first and last characters, to tell keys apart.
    mask_value: String,
    scopes: Vec<Scope>,
    scoped_organizations: Vec<Uuid>,
    scoped_teams: Vec<i64>,
    created_at: Stamp,
    /// Accurate to ten minutes.
    last_used_at: Option<Stamp>,
    /// The `scopes` that were never used. If only the read access of a scope was used, its `…:write` is listed:
    /// `…:read` would be enough.
    unused_scopes: Vec<Scope>,
    last_rolled_at: Option<Stamp>,
    expires_at: Option<Stamp>,
}

impl View for KeyView {
    type Doc = Self;
}

impl From<&Key> for KeyView {
    fn from(key: &Key) -> Self {
        Self {
            id: key.id.0,
            label: key.label.to_string(),
            value: None,
            mask_value: key.mask_value.clone(),
            scopes: key.scopes.0.clone(),
            scoped_organizations: key.scoped_organizations.iter().map(|id| id.0).collect(),
            scoped_teams: key.scoped_teams.iter().map(|id| id.0).collect(),
            created_at: Stamp(key.created_at),
            last_used_at: key.last_used_at.map(Stamp),
            unused_scopes: key.unused_scopes(),
            last_rolled_at: key.last_rolled_at.map(Stamp),
            expires_at: key.expires_at.map(Stamp),
        }
    }
}

impl From<&Fresh> for KeyView {
    fn from(fresh: &Fresh) -> Self {
        Self {
            value: Some(fresh.secret.clone()),
            ..Self::from(&fresh.key)
        }
    }
}
