//! Changing an export: the same form, with what is kept in it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use exports::Exports;
use serde_json::{Value, json};
use service::access::ChangeExports;
use service::batch_exports::{BatchExport, ExportSeen};
use service::{ExportId, Service};

use super::export_form::ExportForm;
use super::form::{Form, FormInput, Secrets};
use super::values;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::form_version::FormVersion;
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::{Id, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/exports/{export}/edit/",
        get(ask).post(save),
    )
}

#[derive(Template)]
#[template(path = "organization/exports/edit.html")]
struct EditPage {
    frame: Frame,
    alerts: Vec<String>,
    name: String,
    kind: &'static str,
    path: String,
    seen: FormVersion,
    form: Form,
    curl: AsCurl,
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeExports>,
    Id(id): Id<ExportId>,
) -> Result<Response, Failure> {
    let export = service.batch_export(&access.caller, id).await?.export;
    let mut typed = ExportForm::of(&export);
    typed.set("seen", FormVersion::of(export.updated_at).text());
    Ok(edit_page(&service, &access, &export, &typed, &Problems::default()))
}

async fn save(
    State(service): State<Service>,
    State(exports): State<Exports>,
    access: OrganizationAccess<ChangeExports>,
    Id(id): Id<ExportId>,
    Sent(sent): Sent<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let export = service.batch_export(&access.caller, id).await?.export;
    let typed = ExportForm::from(sent);
    let saved = match typed.patch(&export) {
        Ok(patch) => {
            let seen = FormVersion::from(typed.get("seen"));
            let precondition = |now: &ExportSeen| seen.fits(now.export.updated_at);
            exports.update(&access.caller, id, &patch, &precondition).await
        }
        Err(error) => Err(error),
    };
    match saved {
        Ok(_) => Ok(go_to(&access.path(&format!("exports/{id}/?done=saved")))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            Ok(edit_page(&service, &access, &export, &typed, &problems))
        }
    }
}

fn edit_page(
    service: &Service,
    access: &OrganizationAccess<ChangeExports>,
    export: &BatchExport,
    typed: &ExportForm,
    problems: &Problems,
) -> Response {
    let below = format!("exports/{}/", export.id);
    let form = Form::new(&FormInput {
        kind: export.kind,
        typed,
        problems,
        secrets: Secrets::Kept,
        teams: &[],
    });
    let api = access.api(&format!("batch_exports/{}/", export.id));
    let call = Call::patch::<ChangeExports>("Update the export", api).sending(body(export, typed));
    let shown = EditPage {
        frame: Frame::new(access, Section::Exports)
            .below()
            .through(&below, export.name.to_string()),
        alerts: form.alerts(problems),
        name: export.name.to_string(),
        kind: export.kind.title(),
        path: access.path(&below),
        seen: FormVersion::from(typed.get("seen")),
        form,
        curl: AsCurl::new(service, [call]),
    };
    page_again(problems, &shown)
}

/// What was typed that is not so yet; as long as that is nothing, the name as an example.
fn body(export: &BatchExport, typed: &ExportForm) -> Value {
    let before = ExportForm::of(export);
    let mut body = typed.said(Some(&before));
    let change = values::changed(export.kind, &export.config, typed, &before);
    if !change.is_empty() {
        let config = values::seen(export.kind, change);
        body.insert("destination".to_owned(), json!({ "config": config }));
    }
    if body.is_empty() {
        body.insert("name".to_owned(), export.name.as_str().into());
    }
    body.into()
}
