//! What the connection tests of these databases share.

use chrono::DateTime;
use hogql::{Model, Query};
use service::{ExportId, RunId};
use uuid::Uuid;

use super::connect::{Endpoint, Limits, Session, Stage};
use crate::destinations::steps::Steps;
use crate::{Delivery, ExportsDeps};

/// Opens a connection. How far it came are the first three steps of every plan.
pub(crate) async fn open_in_steps(steps: &mut Steps, place: &Endpoint, deps: &ExportsDeps) -> Option<Session> {
    let opened = Session::open_by_stages(place, deps, Limits::default()).await;
    let reached = opened.as_ref().err().map_or(Stage::Done, |(stage, _)| *stage);
    let messages = [
        (Stage::Connect, "connected"),
        (Stage::Encrypt, "agreed"),
        (Stage::SignIn, "signed in"),
    ];
    for (_, message) in messages.into_iter().take_while(|(stage, _)| *stage != reached) {
        steps.passed(message);
    }
    match opened {
        Ok(session) => Some(session),
        Err((_, error)) => {
            steps.failed(&error);
            None
        }
    }
}

/// A delivery of nothing that no export ever has.
pub(crate) fn sample(layout: &Query) -> Delivery {
    Delivery {
        export: ExportId(Uuid::nil()),
        run: RunId(Uuid::nil()),
        team: 0,
        model: Model::Events,
        start: DateTime::UNIX_EPOCH,
        end: DateTime::UNIX_EPOCH,
        schema: events::schema(layout),
        is_custom: false,
        is_resend: false,
        resumed_after: crate::Receipt::default(),
        acknowledged: crate::Acknowledged::default(),
    }
}
