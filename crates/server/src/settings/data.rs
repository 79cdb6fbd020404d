//! Events, and the work of bringing them elsewhere.

use std::path::PathBuf;

use clap::Args;

/// Where events and persons are kept, and how they are exported.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataSettings {
    /// The event store: `clickhouse://user:password@host:8123/database`. Defaults to a file in the data folder.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_EVENTS_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) events_url: Option<String>,

    /// The memory for all capture requests together, in MiB. One sender can use up to five sixteenths of it.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_CAPTURE_MEMORY",
        default_value = "768",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(32..=1_048_576),
        value_name = "MIB"
    )]
    pub(crate) capture_memory: usize,

    /// The folder for exports to local files. Disabled by default.
    #[arg(long, global = true, env = "HEDGEROW_EXPORT_ROOT", value_name = "FOLDER")]
    pub(crate) export_root: Option<PathBuf>,

    /// The number of slots for export runs, and as many for apps; 0 for none.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_WORKERS",
        default_value = "4",
        value_parser = clap::value_parser!(u16).range(0..=1000),
        value_name = "NUMBER"
    )]
    pub(crate) workers: u16,
}
