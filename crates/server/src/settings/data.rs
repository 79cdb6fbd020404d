//! Events, and the work of bringing them elsewhere.

use std::path::PathBuf;

use clap::Args;

/// Where events and persons are kept, and how they are exported.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataSettings {
    /// Where events and persons are kept: `clickhouse://user:password@host:8123/database`; a file in the data folder
    /// unless given.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_EVENTS_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) events_url: Option<String>,

    /// How many megabytes of memory requests that send events may use together. One sender gets five sixteenths of it at
    /// most.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_CAPTURE_MEMORY",
        default_value = "768",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(32..=1_048_576),
        value_name = "MEGABYTES"
    )]
    pub(crate) capture_memory: usize,

    /// The folder below which exports may write files on this machine; none may unless given.
    #[arg(long, global = true, env = "HEDGEROW_EXPORT_ROOT", value_name = "FOLDER")]
    pub(crate) export_root: Option<PathBuf>,

    /// How many runs of exports this process carries out at once; none if 0.
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
