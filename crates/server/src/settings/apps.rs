//! Pipeline apps, and where they come from.

use std::path::PathBuf;

use clap::Args;
use sandbox::Strictness;
use url::Url;

use super::values;

/// Where apps may be taken from.
#[derive(Debug, Clone, Args)]
pub(crate) struct AppSettings {
    /// The folder below which apps of the type `local` lie; there are none unless given.
    #[arg(long, global = true, env = "HEDGEROW_LOCAL_APPS", value_name = "FOLDER")]
    pub(crate) local_apps: Option<PathBuf>,

    /// A server that has what GitHub, GitLab and npm have, each below its name; they are asked themselves unless given.
    #[arg(long, global = true, env = "HEDGEROW_APP_MIRROR", value_name = "URL")]
    pub(crate) app_mirror: Option<Url>,

    /// The npm registry that apps are taken from; none are unless given.
    #[arg(long, global = true, env = "HEDGEROW_NPM_REGISTRY", value_name = "URL")]
    pub(crate) npm_registry: Option<Url>,

    /// The list of apps that can be installed: the address of a JSON file, or its path; a built-in one unless given.
    #[arg(long, global = true, env = "HEDGEROW_APP_CATALOGUE", value_name = "URL or FILE")]
    pub(crate) app_catalogue: Option<String>,

    /// Whether apps run on a system that lacks layers of the sandbox: best-effort or strict (then none runs).
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_SANDBOX",
        default_value = "best-effort",
        value_parser = values::strictness,
        value_name = "MODE"
    )]
    pub(crate) sandbox: Strictness,
}
