//! One member: how much they may do, and their leaving.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeMembers, Permission, ReadMembers, RemoveMembers};
use service::members::{Member, MemberPatch, MemberRef};
use service::{Error, Level, MemberId, Service, UserUuid};

use super::Inside;
use super::confirm::ConfirmPage;
use super::frame::{Frame, Section};
use crate::choices::{self, Select};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::page::{go_to, page_again};
use crate::paging::with_query;
use crate::seen::SeenAt;
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, PageQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(
            "/organizations/{organization}/members/{user}/",
            get(show_member).post(change_level),
        )
        .route(
            "/organizations/{organization}/members/{user}/remove/",
            get(ask).post(remove),
        )
}

#[derive(Template)]
#[template(path = "inside/member.html")]
struct MemberPage {
    frame: Frame,
    alerts: Vec<String>,
    uuid: UserUuid,
    membership: MemberId,
    name: String,
    email: String,
    security: AccountSecurity,
    level: &'static str,
    is_you: bool,
    joined: String,
    /// For those who may change it.
    levels: Option<(SeenAt, Select)>,
    may_remove: bool,
    curl: AsCurl,
}

/// How sure one can be who it is.
struct AccountSecurity {
    is_email_verified: bool,
    has_second_factor: bool,
    has_single_sign_on: bool,
}

async fn show_member(
    State(service): State<Service>,
    inside: Inside<ReadMembers>,
    Id(uuid): Id<UserUuid>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let member = service.member(&inside.caller, MemberRef::Uuid(uuid)).await?;
    let chosen = (member.level, SeenAt::of(member.updated_at));
    Ok(member_page(
        &service,
        &inside,
        &member,
        chosen,
        &asked.done,
        &Problems::default(),
    ))
}

#[derive(Deserialize)]
struct RoleForm {
    level: String,
    #[serde(default)]
    seen: SeenAt,
}

async fn change_level(
    State(service): State<Service>,
    inside: Inside<ChangeMembers>,
    Id(uuid): Id<UserUuid>,
    Sent(sent): Sent<RoleForm>,
) -> Result<Response, Failure> {
    let level = choices::level(&sent.level);
    let changed = match level {
        Some(level) => {
            let patch = MemberPatch { level: Some(level) };
            let member = MemberRef::Uuid(uuid);
            let unchanged = |now: &Member| sent.seen.fits(now.updated_at);
            service.update_member(&inside.caller, member, &patch, &unchanged).await
        }
        None => Err(Error::invalid("level", "invalid_choice", "choose one of these roles")),
    };
    match changed {
        Ok(_) => Ok(go_to(&inside.path(&format!("members/{uuid}/?done=role-changed")))),
        Err(error) => {
            let problems = Problems::try_from(error)?.about("level");
            let member = service
                .member(&inside.also(&service).await?, MemberRef::Uuid(uuid))
                .await?;
            let chosen = (level.unwrap_or(member.level), sent.seen);
            Ok(member_page(&service, &inside, &member, chosen, "", &problems))
        }
    }
}

fn member_page<P: Permission>(
    service: &Service,
    inside: &Inside<P>,
    member: &Member,
    (chosen, seen): (Level, SeenAt),
    done: &str,
    problems: &Problems,
) -> Response {
    let caller = &inside.caller;
    let is_you = member.user.id == caller.user;
    let may_change = inside.may::<ChangeMembers>() && caller.level >= member.level;
    let found = with_query(&inside.api("members/"), [("email", member.user.email.as_str())]);
    let read = Call::get::<ReadMembers>("Find the member", found);
    let write = Call::patch::<ChangeMembers>("Change the role", api_path(inside, member))
        .sending(json!({ "level": i16::from(chosen) }));
    let levels = Select::level("Role", caller.level, chosen);
    let shown = MemberPage {
        frame: Frame::new(inside, Section::Members).below().noting(done),
        // Beside the field, unless there is none to change it with.
        alerts: problems.besides(if may_change { &["level"] } else { &[] }),
        uuid: member.user.uuid,
        membership: member.id,
        name: member.user.called(),
        email: member.user.email.clone(),
        security: AccountSecurity {
            is_email_verified: member.user.is_email_verified,
            has_second_factor: member.is_2fa_enabled,
            has_single_sign_on: member.has_social_auth,
        },
        level: show::level(member.level),
        is_you,
        joined: show::day(member.joined_at),
        levels: may_change.then(|| (seen, levels.judged(problems))),
        may_remove: is_you || may_change,
        curl: AsCurl::new(service, [read].into_iter().chain(may_change.then_some(write))),
    };
    page_again(problems, &shown)
}

fn api_path<P: Permission>(inside: &Inside<P>, member: &Member) -> String {
    inside.api(&format!("members/{}/", member.user.uuid))
}

async fn ask(
    State(service): State<Service>,
    inside: Inside<RemoveMembers>,
    Id(uuid): Id<UserUuid>,
) -> Result<Response, Failure> {
    sure(&service, &inside, uuid, &Problems::default()).await
}

async fn remove(
    State(service): State<Service>,
    inside: Inside<RemoveMembers>,
    Id(uuid): Id<UserUuid>,
) -> Result<Response, Failure> {
    let member = MemberRef::Uuid(uuid);
    match service
        .delete_member(&inside.caller, member, &service::no_precondition)
        .await
    {
        // Leaving ends all sessions, so the way leads through signing in.
        Ok(()) if inside.caller.person.uuid == uuid => Ok(go_to("/organizations/")),
        Ok(()) => Ok(go_to(&inside.path("members/?done=removed"))),
        Err(error) => sure(&service, &inside, uuid, &Problems::try_from(error)?).await,
    }
}

async fn sure(
    service: &Service,
    inside: &Inside<RemoveMembers>,
    uuid: UserUuid,
    problems: &Problems,
) -> Result<Response, Failure> {
    let reader = inside.also::<ReadMembers>(service).await?;
    let member = service.member(&reader, MemberRef::Uuid(uuid)).await?;
    let is_you = member.user.id == inside.caller.user;
    let name = member.user.called();
    let organization = &inside.organization.name;
    let heading = if is_you {
        format!("Leave {organization}?")
    } else {
        format!("Remove {name}?")
    };
    let text = if is_you {
        "You'll lose access until someone invites you again. This will immediately remove:".to_owned()
    } else {
        format!("{name} will lose access until someone invites them again. This will immediately remove:")
    };
    let below = format!("members/{uuid}/");
    let call = Call::delete::<RemoveMembers>("Remove the member", api_path(inside, &member));
    let shown = ConfirmPage {
        frame: Frame::new(inside, Section::Members).below().through(&below, name),
        alerts: problems.besides(&[]),
        heading,
        text,
        losses: losses(),
        typed: None,
        button: if is_you { "Leave" } else { "Remove member" },
        back: inside.path(&below),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}

fn losses() -> Vec<String> {
    [
        "the membership and its role",
        "the access of their API keys to this organization",
        "the pending invites they sent",
        "their sessions: they have to sign in again, also to other organizations",
    ]
    .map(str::to_owned)
    .into()
}
