//! Backfills, and the calendar they are picked from: where the data begins is for the store of events to say.

use boxed::boxed;
use service::access::{Caller, ChangeExports};
use service::batch_exports::{Backfill, BackfillPlan, BackfillRequest, Covered, ExportSeen, Span};
use service::{ExportId, Result, Time};

use crate::exporter::{Exports, store_failed};

impl Exports {
    #[boxed]
    pub async fn backfill(
        &self,
        caller: &Caller<ChangeExports>,
        id: ExportId,
        request: &BackfillRequest,
    ) -> Result<(ExportSeen, Backfill)> {
        let earliest = self.earliest(caller, id).await?;
        let made = self.core.service.create_backfill(caller, id, request, earliest).await?;
        self.core.wake.notify_waiters();
        Ok(made)
    }

    /// What a request would come to.
    pub async fn plan_backfill<P>(
        &self,
        caller: &Caller<P>,
        id: ExportId,
        request: &BackfillRequest,
    ) -> Result<BackfillPlan> {
        let earliest = self.earliest(caller, id).await?;
        self.core.service.plan_backfill(caller, id, request, earliest).await
    }

    /// How every interval in a span stands.
    pub async fn coverage<P>(&self, caller: &Caller<P>, id: ExportId, span: Span) -> Result<Vec<Covered>> {
        let earliest = self.earliest(caller, id).await?;
        self.core.service.coverage(caller, id, span, earliest).await
    }

    async fn earliest<P>(&self, caller: &Caller<P>, id: ExportId) -> Result<Option<Time>> {
        let export = self.core.service.batch_export(caller, id).await?.export;
        let earliest = self.core.events.earliest(export.team_id.0, export.model).await;
        earliest.map_err(|error| store_failed(&error))
    }
}
