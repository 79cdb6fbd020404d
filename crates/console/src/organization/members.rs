//! Members: the list, and finding somebody in it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::{ReadMembers, WriteInvites};
use service::members::{Member, MemberFilter};
use service::{Service, UserId, UserUuid};

use super::OrganizationAccess;
use super::frame::{Frame, Section};
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::page::page;
use crate::paging::{PageNumber, Pages, with_query};
use crate::show;
use crate::state::Console;
use crate::visitor::InQuery;

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/members/", get(list))
}

#[derive(Template)]
#[template(path = "organization/members.html")]
struct MembersPage {
    frame: Frame,
    search: String,
    count: String,
    members: Vec<Row>,
    pages: Pages,
    may_invite: bool,
    curl: AsCurl,
}

struct Row {
    uuid: UserUuid,
    name: String,
    email: String,
    level: &'static str,
    is_you: bool,
    has_second_factor: bool,
    has_single_sign_on: bool,
    joined: String,
}

impl Row {
    fn new(member: &Member, you: UserId) -> Self {
        Self {
            uuid: member.user.uuid,
            name: member.user.called(),
            email: member.user.email.clone(),
            level: show::level(member.level),
            is_you: member.user.id == you,
            has_second_factor: member.is_2fa_enabled,
            has_single_sign_on: member.has_social_auth,
            joined: show::day(member.joined_at),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct MembersQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

/// As much as the API takes, too.
const MAX_SEARCH: usize = 200;

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadMembers>,
    InQuery(asked): InQuery<MembersQuery>,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    let search: String = asked.search.trim().chars().take(MAX_SEARCH).collect();
    let filter = MemberFilter {
        email: None,
        search: (!search.is_empty()).then(|| search.clone()),
    };
    let members = service.members(&access.caller, &filter, place.window()).await?;
    let filters = [("search", search.as_str())];
    let call = Call::get::<ReadMembers>("List the members", with_query(&access.api("members/"), filters));
    let you = access.caller.user;
    let shown = MembersPage {
        frame: Frame::new(&access, Section::Members).noting(&asked.done),
        count: show::counted(members.count, "member"),
        members: members.items.iter().map(|member| Row::new(member, you)).collect(),
        pages: Pages::new(&access.path("members/"), &filters, place, members.count),
        may_invite: access.may::<WriteInvites>(),
        curl: AsCurl::new(&service, [call]),
        search,
    };
    Ok(page(&shown))
}
