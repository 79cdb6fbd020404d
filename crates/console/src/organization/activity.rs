//! Who did what, with what was before and after.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chrono::{NaiveDate, NaiveTime, TimeDelta};
use serde::Deserialize;
use service::access::{ReadActivity, ReadMembers};
use service::activity::ActivityFilter;
use service::members::{MemberFilter, MemberRef};
use service::{Error, Service, Time, UserUuid, Window};

use super::OrganizationAccess;
use super::activity_entry::{ActivityEntry, KINDS};
use super::frame::{Frame, Section};
use crate::choices::Select;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::page::page_again;
use crate::paging::{PageNumber, Pages, with_query};
use crate::show;
use crate::state::Console;
use crate::visitor::InQuery;

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/activity/", get(list))
}

#[derive(Template)]
#[template(path = "organization/activity.html")]
struct ActivityPage {
    frame: Frame,
    user: Field,
    scope: Select,
    item: Field,
    after: Field,
    before: Field,
    is_filtered: bool,
    entries: Vec<ActivityEntry>,
    pages: Pages,
    curl: AsCurl,
}

/// The filters, as they stand in the address.
#[derive(Debug, Default, Deserialize)]
struct ActivityQuery {
    /// An email address, or the user's id.
    #[serde(default)]
    user: String,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    item: String,
    /// The first day.
    #[serde(default)]
    after: String,
    /// The last day.
    #[serde(default)]
    before: String,
    #[serde(default)]
    page: String,
}

impl ActivityQuery {
    fn filters(&self) -> [(&str, &str); 5] {
        [
            ("user", self.user.trim()),
            ("scope", self.scope.as_str()),
            ("item", self.item.trim()),
            ("after", self.after.as_str()),
            ("before", self.before.as_str()),
        ]
    }

    fn is_filtered(&self) -> bool {
        self.filters().iter().any(|(_, value)| !value.is_empty())
    }
}

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadActivity>,
    InQuery(asked): InQuery<ActivityQuery>,
) -> Result<Response, Failure> {
    match filter(&service, &access, &asked).await {
        Ok(filter) => activity_page(&service, &access, &asked, &filter).await,
        Err(error) => {
            let problems = Problems::try_from(error)?;
            Ok(page_again(
                &problems,
                &empty_page(&service, &access, &asked, &asked.user, &problems),
            ))
        }
    }
}

async fn filter(
    service: &Service,
    access: &OrganizationAccess<ReadActivity>,
    asked: &ActivityQuery,
) -> Result<ActivityFilter, Error> {
    let last_day = start_of_day("before", &asked.before)?;
    Ok(ActivityFilter {
        user: match text("user", &asked.user, 254)? {
            Some(user) => Some(user_called(service, access, &user).await?),
            None => None,
        },
        scope: text("scope", &asked.scope, 100)?,
        item: text("item", &asked.item, 100)?,
        after: start_of_day("after", &asked.after)?,
        before: last_day.and_then(|day| day.checked_add_signed(TimeDelta::days(1))),
    })
}

/// As long as what the API takes.
fn text(field: &'static str, text: &str, most: usize) -> Result<Option<String>, Error> {
    let text = text.trim();
    if text.chars().count() > most {
        let detail = format!("must have at most {most} characters");
        return Err(Error::invalid(field, "max_length", detail));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Days begin in UTC: whoever looks at a log should not have to guess.
fn start_of_day(field: &'static str, text: &str) -> Result<Option<Time>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let day: Option<NaiveDate> = text.parse().ok();
    let wrong = || Error::invalid(field, "invalid_input", "enter a valid date, such as 2026-11-15");
    let day = day.ok_or_else(wrong)?;
    Ok(Some(day.and_time(NaiveTime::MIN).and_utc()))
}

async fn user_called(
    service: &Service,
    access: &OrganizationAccess<ReadActivity>,
    text: &str,
) -> Result<UserUuid, Error> {
    if let Ok(uuid) = text.parse() {
        return Ok(uuid);
    }
    let filter = MemberFilter {
        email: Some(text.to_owned()),
        search: None,
    };
    let reader = access.also::<ReadMembers>(service).await?;
    let found = service.members(&reader, &filter, Window::new(Some(1), None)).await?;
    let member = found.items.first();
    let detail = "no member has this email: to find a former member, enter their user ID";
    member
        .map(|member| member.user.uuid)
        .ok_or_else(|| Error::invalid("user", "does_not_exist", detail))
}

async fn activity_page(
    service: &Service,
    access: &OrganizationAccess<ReadActivity>,
    asked: &ActivityQuery,
    filter: &ActivityFilter,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    let found = service.activity(&access.caller, filter, place.window()).await?;
    let now = service.clock().now();
    let user = shown_user(service, access, asked, filter).await?;
    let problems = Problems::default();
    let shown = ActivityPage {
        entries: found
            .items
            .iter()
            .map(|activity| ActivityEntry::new(activity, now))
            .collect(),
        pages: Pages::new(&access.path("activity/"), &asked.filters(), place, found.count),
        curl: AsCurl::new(service, [call(access, filter)]),
        ..empty_page(service, access, asked, &user, &problems)
    };
    Ok(page_again(&problems, &shown))
}

/// Links name people by their ids, and people by their addresses.
async fn shown_user(
    service: &Service,
    access: &OrganizationAccess<ReadActivity>,
    asked: &ActivityQuery,
    filter: &ActivityFilter,
) -> Result<String, Failure> {
    let Some(uuid) = filter.user else {
        return Ok(String::new());
    };
    let reader = access.also::<ReadMembers>(service).await?;
    match service.member(&reader, MemberRef::Uuid(uuid)).await {
        Ok(member) => Ok(member.user.email),
        Err(Error::NotFound(_)) => Ok(asked.user.trim().to_owned()),
        Err(error) => Err(error.into()),
    }
}

fn empty_page(
    service: &Service,
    access: &OrganizationAccess<ReadActivity>,
    asked: &ActivityQuery,
    user: &str,
    problems: &Problems,
) -> ActivityPage {
    let kinds = [("", "All")]
        .into_iter()
        .chain(KINDS.iter().map(|&(scope, _, title)| (scope, title)));
    let field = |field: Field, value: &str| field.of_filter().holding(value).judged(problems);
    ActivityPage {
        frame: Frame::new(access, Section::Activity),
        user: field(Field::text("user", "User", "off").remark("email").at_most(254), user),
        scope: Select::new("scope", "Resource", kinds, &asked.scope),
        item: field(Field::text("item", "Resource ID", "off").at_most(100), &asked.item),
        after: field(Field::date("after", "From"), &asked.after),
        before: field(Field::date("before", "To"), &asked.before),
        is_filtered: asked.is_filtered(),
        entries: Vec::new(),
        pages: Pages::new("", &[], PageNumber::read(""), 0),
        curl: AsCurl::new(service, [call(access, &ActivityFilter::default())]),
    }
}

fn call(access: &OrganizationAccess<ReadActivity>, filter: &ActivityFilter) -> Call {
    let user = filter.user.map(|user| user.to_string()).unwrap_or_default();
    let (after, before) = (filter.after.map(show::exactly), filter.before.map(show::exactly));
    let pairs = [
        ("user", user.as_str()),
        ("scope", filter.scope.as_deref().unwrap_or_default()),
        ("item_id", filter.item.as_deref().unwrap_or_default()),
        ("after", after.as_deref().unwrap_or_default()),
        ("before", before.as_deref().unwrap_or_default()),
    ];
    Call::get::<ReadActivity>("List the activity", with_query(&access.api("activity/"), pairs))
}
