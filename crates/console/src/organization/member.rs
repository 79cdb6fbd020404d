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

use super::OrganizationAccess;
use super::confirm::ConfirmPage;
use super::frame::{Frame, Section};
use crate::choices::{self, Select};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::form_version::FormVersion;
use crate::page::{go_to, page_again};
use crate::paging::with_query;
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
#[template(path = "organization/member.html")]
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
    levels: Option<(FormVersion, Select)>,
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
    access: OrganizationAccess<ReadMembers>,
    Id(uuid): Id<UserUuid>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let member = service.member(&access.caller, MemberRef::Uuid(uuid)).await?;
    let chosen = (member.level, FormVersion::of(member.updated_at));
    Ok(member_page(
        &service,
        &access,
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
    seen: FormVersion,
}

async fn change_level(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeMembers>,
    Id(uuid): Id<UserUuid>,
    Sent(sent): Sent<RoleForm>,
) -> Result<Response, Failure> {
    let level = choices::level(&sent.level);
    let changed = match level {
        Some(level) => {
            let patch = MemberPatch { level: Some(level) };
            let member = MemberRef::Uuid(uuid);
            let precondition = |now: &Member| sent.seen.fits(now.updated_at);
            service
                .update_member(&access.caller, member, &patch, &precondition)
                .await
        }
        None => Err(Error::invalid("level", "invalid_choice", "choose one of these roles")),
    };
    match changed {
        Ok(_) => Ok(go_to(&access.path(&format!("members/{uuid}/?done=role-changed")))),
        Err(error) => {
            let problems = Problems::try_from(error)?.about("level");
            let member = service
                .member(&access.also(&service).await?, MemberRef::Uuid(uuid))
                .await?;
            let chosen = (level.unwrap_or(member.level), sent.seen);
            Ok(member_page(&service, &access, &member, chosen, "", &problems))
        }
    }
}

fn member_page<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    member: &Member,
    (chosen, seen): (Level, FormVersion),
    done: &str,
    problems: &Problems,
) -> Response {
    let caller = &access.caller;
    let is_you = member.user.id == caller.user;
    let may_change = access.may::<ChangeMembers>() && caller.level >= member.level;
    let found = with_query(&access.api("members/"), [("email", member.user.email.as_str())]);
    let read = Call::get::<ReadMembers>("Find the member", found);
    let write = Call::patch::<ChangeMembers>("Change the role", api_path(access, member))
        .sending(json!({ "level": i16::from(chosen) }));
    let levels = Select::level("Role", caller.level, chosen);
    let shown = MemberPage {
        frame: Frame::new(access, Section::Members).below().noting(done),
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

fn api_path<P: Permission>(access: &OrganizationAccess<P>, member: &Member) -> String {
    access.api(&format!("members/{}/", member.user.uuid))
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<RemoveMembers>,
    Id(uuid): Id<UserUuid>,
) -> Result<Response, Failure> {
    confirm_page(&service, &access, uuid, &Problems::default()).await
}

async fn remove(
    State(service): State<Service>,
    access: OrganizationAccess<RemoveMembers>,
    Id(uuid): Id<UserUuid>,
) -> Result<Response, Failure> {
    let member = MemberRef::Uuid(uuid);
    match service
        .delete_member(&access.caller, member, &service::no_precondition)
        .await
    {
        // Leaving ends all sessions, so the way leads through signing in.
        Ok(()) if access.caller.person.uuid == uuid => Ok(go_to("/organizations/")),
        Ok(()) => Ok(go_to(&access.path("members/?done=removed"))),
        Err(error) => confirm_page(&service, &access, uuid, &Problems::try_from(error)?).await,
    }
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<RemoveMembers>,
    uuid: UserUuid,
    problems: &Problems,
) -> Result<Response, Failure> {
    let reader = access.also::<ReadMembers>(service).await?;
    let member = service.member(&reader, MemberRef::Uuid(uuid)).await?;
    let is_you = member.user.id == access.caller.user;
    let name = member.user.called();
    let organization = &access.organization.name;
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
    let call = Call::delete::<RemoveMembers>("Remove the member", api_path(access, &member));
    let shown = ConfirmPage {
        frame: Frame::new(access, Section::Members).below().through(&below, name),
        alerts: problems.besides(&[]),
        heading,
        text,
        losses: losses(),
        typed: None,
        button: if is_you { "Leave" } else { "Remove member" },
        back: access.path(&below),
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
