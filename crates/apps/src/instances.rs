//! Apps that are running: kept for a while, as starting one costs more than calling it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sandbox::{Attachment, Failure, Instance, Json, Meta};
use serde_json::Value;
use service::pipeline::{Runnable, schema};
use service::{AppConfigId, Time};
use tokio::task::JoinSet;

use crate::errors::log;
use crate::host::Outlet;
use crate::shared::Core;

/// An app that nobody has called for so long is let go.
const IDLE: Duration = Duration::from_mins(1);

/// So many are kept; the sandbox has room for these and for those that are at work.
const MAX_KEPT: usize = 16;

#[derive(Default)]
pub(crate) struct InstancePool(Mutex<HashMap<AppConfigId, PooledInstance>>);

/// A running app, and what it was made of.
pub(crate) struct PooledInstance {
    pub(crate) instance: Instance,
    pub(crate) outlet: Arc<Outlet>,
    made_of: InstanceKey,
    used_at: Instant,
}

/// When one of these changes, the app is started again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InstanceKey {
    version: i64,
    app_changed_at: Time,
    config_changed_at: Time,
}

impl InstanceKey {
    fn of(runnable: &Runnable) -> Self {
        Self {
            version: runnable.app.version,
            app_changed_at: runnable.app.updated_at,
            config_changed_at: runnable.config.updated_at,
        }
    }
}

impl InstancePool {
    /// The app, running; it may not be set up yet. Whoever takes it has it alone, and puts it back if it is still good. The higher its rank,
    /// the less of the processor it gets.
    pub(crate) async fn take(
        &self,
        core: &Arc<Core>,
        runnable: &Runnable,
        rank: u32,
    ) -> Result<PooledInstance, (Failure, Arc<Outlet>)> {
        let kept = self.pool().remove(&runnable.config.id);
        let made_of = InstanceKey::of(runnable);
        match kept {
            Some(pooled) if pooled.made_of == made_of && pooled.instance.is_open() => {
                pooled.instance.lower_priority(rank);
                return Ok(pooled);
            }
            Some(old) => drop(old.instance.close().await),
            None => {}
        }
        let outlet = Outlet::new(core.clone(), runnable);
        let failed = |failure| (failure, outlet.clone());
        let (load, meta) = (load(core, runnable), meta(runnable));
        let opened = core
            .sandbox
            .open_loading((runnable.code_bytes, load), meta, outlet.clone(), rank);
        let opened = Box::pin(opened).await;
        Ok(PooledInstance {
            instance: opened.map_err(failed)?,
            outlet: outlet.clone(),
            made_of,
            used_at: Instant::now(),
        })
    }

    pub(crate) fn put_back(&self, id: AppConfigId, mut pooled: PooledInstance) {
        if !pooled.instance.is_open() {
            return;
        }
        pooled.used_at = Instant::now();
        let mut pool = self.pool();
        pool.insert(id, pooled);
        if pool.len() > MAX_KEPT
            && let Some(oldest) = pool.iter().min_by_key(|(_, pooled)| pooled.used_at).map(|(id, _)| *id)
        {
            pool.remove(&oldest);
        }
    }

    /// Drops those that nobody has called for a while.
    pub(crate) async fn tidy(&self) {
        let idle: Vec<PooledInstance> = {
            let mut pool = self.pool();
            let ids: Vec<AppConfigId> = pool
                .iter()
                .filter(|(_, pooled)| pooled.used_at.elapsed() > IDLE)
                .map(|(id, _)| *id)
                .collect();
            ids.iter().filter_map(|id| pool.remove(id)).collect()
        };
        close(idle).await;
    }

    pub(crate) async fn close(&self) {
        let all: Vec<PooledInstance> = self.pool().drain().map(|(_, pooled)| pooled).collect();
        close(all).await;
    }

    fn pool(&self) -> MutexGuard<'_, HashMap<AppConfigId, PooledInstance>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All at once: each may take as long as its teardown may.
async fn close(instances: Vec<PooledInstance>) {
    let mut closing: JoinSet<()> = instances.into_iter().map(close_one).collect();
    while closing.join_next().await.is_some() {}
}

async fn close_one(pooled: PooledInstance) {
    if let Err(failure) = pooled.instance.close().await {
        tracing::debug!(%failure, "an app did not end well");
    }
    pooled.outlet.flush().await;
}

/// The code, as it is passed on to the process that runs it.
async fn load(core: &Core, runnable: &Runnable) -> Result<Json, Failure> {
    match core.service.app_code(runnable).await {
        Ok(Some(text)) => {
            Json::from_text(text).ok_or_else(|| Failure::Crashed("its stored code has an unknown format".to_owned()))
        }
        Ok(None) => Err(Failure::Crashed("its code is no longer stored".to_owned())),
        Err(error) => {
            log(&error);
            Err(Failure::Busy)
        }
    }
}

/// What the app is told about itself. Attachments stand apart from the other values, as apps expect them.
fn meta(runnable: &Runnable) -> Meta {
    let mut config = runnable.values.clone();
    let mut attachments = BTreeMap::new();
    for field in schema::fields(&runnable.app.config_schema) {
        if field.kind == "attachment"
            && let Some(attachment) = config.remove(&field.key).as_ref().and_then(attachment)
        {
            attachments.insert(field.key, attachment);
        }
    }
    Meta {
        name: runnable.app.name.to_string(),
        team_id: runnable.config.team_id.0,
        config_id: runnable.config.id.0,
        config,
        attachments,
    }
}

fn attachment(value: &Value) -> Option<Attachment> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(Attachment {
        content_type: text("content_type").to_owned(),
        file_name: text("file_name").to_owned(),
        contents: BASE64.decode(text("contents")).ok()?,
    })
}
