//! Pipeline apps, and where they come from.

use std::path::PathBuf;

use clap::Args;
use sandbox::Strictness;
use url::Url;

use super::values;

/// Where apps may be taken from.
#[derive(Debug, Clone, Args)]
pub(crate) struct AppSettings {
    /// The folder for apps of type `local`. Disabled by default.
    #[arg(long, global = true, env = "HEDGEROW_LOCAL_APPS", value_name = "FOLDER")]
    pub(crate) local_apps: Option<PathBuf>,

    /// A mirror server for GitHub, GitLab and npm. They are used directly by default.
    #[arg(long, global = true, env = "HEDGEROW_APP_MIRROR", value_name = "URL")]
    pub(crate) app_mirror: Option<Url>,

    /// The npm registry to install apps from. Disabled by default.
    #[arg(long, global = true, env = "HEDGEROW_NPM_REGISTRY", value_name = "URL")]
    pub(crate) npm_registry: Option<Url>,

    /// The catalog of apps that can be installed: the URL or path of a JSON file. Defaults to a built-in catalog.
    #[arg(long, global = true, env = "HEDGEROW_APP_CATALOG", value_name = "URL or FILE")]
    pub(crate) app_catalog: Option<String>,

    /// Whether apps run on a system that lacks layers of the sandbox: best-effort, or strict to not run them.
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
