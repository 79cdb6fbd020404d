//! A new export: its form, a try of its destination, and its making.

use std::str::FromStr;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use exports::Exports;
use serde_json::{Value, json};
use service::access::ChangeExports;
use service::batch_exports::destination::Kind;
use service::{Service, TeamId};

use super::connection_test::ConnectionTest;
use super::export_form::ExportForm;
use super::form::{Form, FormInput, Secrets};
use super::kinds::slug;
use super::list::teams;
use super::values;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(
            "/organizations/{organization}/exports/new/{kind}/",
            get(ask).post(create),
        )
        .route(
            "/organizations/{organization}/exports/new/{kind}/test/",
            get(back).post(test),
        )
}

#[derive(Template)]
#[template(path = "organization/exports/new.html")]
struct NewPage {
    frame: Frame,
    alerts: Vec<String>,
    title: &'static str,
    about: &'static str,
    action: String,
    form: Form,
    connection_test: Option<ConnectionTest>,
    curl: AsCurl,
}

/// The kind in the path.
struct Chosen(Kind);

impl FromStr for Chosen {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Kind::named(text).map(Self).ok_or(())
    }
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeExports>,
    Id(Chosen(kind)): Id<Chosen>,
) -> Result<Response, Failure> {
    let wizard = Wizard::new(service, access, kind, ExportForm::fresh(kind)).await?;
    Ok(wizard.page(Secrets::New, &Problems::default(), None))
}

async fn create(
    State(service): State<Service>,
    State(exports): State<Exports>,
    access: OrganizationAccess<ChangeExports>,
    Id(Chosen(kind)): Id<Chosen>,
    Sent(sent): Sent<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let typed = ExportForm::from(sent);
    let made = match typed.new_export(kind) {
        Ok(new) => exports.create(&access.caller, &new).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(seen) => {
            let done = if seen.export.paused {
                "export-created-paused"
            } else {
                "export-created"
            };
            Ok(go_to(&access.path(&format!("exports/{}/?done={done}", seen.export.id))))
        }
        Err(error) => {
            let problems = Problems::try_from(error)?;
            let wizard = Wizard::new(service, access, kind, typed).await?;
            Ok(wizard.page(Secrets::Again, &problems, None))
        }
    }
}

/// Tries the destination that was typed. What else is in the form does not matter yet.
async fn test(
    State(service): State<Service>,
    State(exports): State<Exports>,
    access: OrganizationAccess<ChangeExports>,
    Id(Chosen(kind)): Id<Chosen>,
    Sent(sent): Sent<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let typed = ExportForm::from(sent);
    let tried = match typed.destination(kind).read() {
        Ok(destination) => exports.test_destination(&access.caller, &destination).await,
        Err(error) => Err(error),
    };
    let wizard = Wizard::new(service, access, kind, typed).await?;
    match tried {
        Ok(steps) => {
            let connection_test = ConnectionTest::new(&steps);
            Ok(wizard.page(Secrets::Again, &Problems::default(), Some(connection_test)))
        }
        Err(error) => {
            let problems = Problems::try_from(error)?;
            let connection_test = ConnectionTest::refused(wizard.said(&problems));
            Ok(wizard.page(Secrets::Again, &problems, Some(connection_test)))
        }
    }
}

/// A test is not a page to come back to; its form is.
async fn back(access: OrganizationAccess<ChangeExports>, Id(Chosen(kind)): Id<Chosen>) -> Response {
    go_to(&access.path(&format!("exports/new/{}/", slug(kind))))
}

struct Wizard {
    service: Service,
    access: OrganizationAccess<ChangeExports>,
    kind: Kind,
    typed: ExportForm,
    teams: Vec<(TeamId, String)>,
}

impl Wizard {
    async fn new(
        service: Service,
        access: OrganizationAccess<ChangeExports>,
        kind: Kind,
        typed: ExportForm,
    ) -> Result<Self, Failure> {
        Ok(Self {
            teams: teams(&service, &access).await?,
            service,
            access,
            kind,
            typed,
        })
    }

    fn form(&self, secrets: Secrets, problems: &Problems) -> Form {
        Form::new(&FormInput {
            kind: self.kind,
            typed: &self.typed,
            problems,
            secrets,
            teams: &self.teams,
        })
    }

    /// All that is wrong, in one place, for those whose form stays as it is.
    fn said(&self, problems: &Problems) -> Vec<String> {
        let form = self.form(Secrets::Again, problems);
        let said = problems.each().map(|(field, detail)| {
            let detail = show::sentence(detail);
            match field.and_then(|field| form.label(field)) {
                Some(label) => format!("{label}: {detail}"),
                None => detail,
            }
        });
        said.collect()
    }

    fn page(&self, secrets: Secrets, problems: &Problems, connection_test: Option<ConnectionTest>) -> Response {
        let (access, kind) = (&self.access, self.kind);
        let form = self.form(secrets, problems);
        let shown = NewPage {
            frame: Frame::new(access, Section::Exports)
                .below()
                .through("exports/new/", "New export"),
            alerts: form.alerts(problems),
            title: kind.title(),
            about: kind.about(),
            action: access.path(&format!("exports/new/{}/", slug(kind))),
            form,
            connection_test,
            curl: AsCurl::new(&self.service, self.calls()),
        };
        page_again(problems, &shown)
    }

    fn calls(&self) -> [Call; 2] {
        let config = values::example(self.kind, values::whole(self.kind, &self.typed));
        let destination = json!({ "type": self.kind.name(), "config": config });
        let create = Call::post::<ChangeExports>("Create the export", self.access.api("batch_exports/"));
        let test = Call::post::<ChangeExports>("Test the connection", self.access.api("batch_exports/test/"));
        [
            create.sending(self.body(&destination)),
            test.sending(json!({ "destination": destination })),
        ]
    }

    fn body(&self, destination: &Value) -> Value {
        let mut body = self.typed.said(None);
        body.entry("name").or_insert(self.kind.title().into());
        body.insert("destination".to_owned(), destination.clone());
        body.into()
    }
}
