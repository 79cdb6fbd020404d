//! Providers that people sign in with.

use clap::Args;
use url::Url;

/// Whom anybody may sign in with, once this server is registered there. Each needs an id and a secret.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProviderSettings {
    /// What Google knows this server by, so that people may sign in with Google; they may not unless given.
    #[arg(long, global = true, env = "HEDGEROW_GOOGLE_CLIENT_ID", value_name = "ID")]
    pub(crate) google_client_id: Option<String>,
    /// The secret that Google gave with it.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GOOGLE_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) google_client_secret: Option<String>,
    /// Where Google is, if not at accounts.google.com.
    #[arg(long, global = true, env = "HEDGEROW_GOOGLE_URL", value_name = "URL")]
    pub(crate) google_url: Option<Url>,
    /// What GitHub knows this server by, so that people may sign in with GitHub; they may not unless given.
    #[arg(long, global = true, env = "HEDGEROW_GITHUB_CLIENT_ID", value_name = "ID")]
    pub(crate) github_client_id: Option<String>,
    /// The secret that GitHub gave with it.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GITHUB_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) github_client_secret: Option<String>,
    /// Where your own GitHub Enterprise Server is.
    #[arg(long, global = true, env = "HEDGEROW_GITHUB_URL", value_name = "URL")]
    pub(crate) github_url: Option<Url>,
    /// What GitLab knows this server by, so that people may sign in with GitLab; they may not unless given.
    #[arg(long, global = true, env = "HEDGEROW_GITLAB_CLIENT_ID", value_name = "ID")]
    pub(crate) gitlab_client_id: Option<String>,
    /// The secret that GitLab gave with it.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GITLAB_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) gitlab_client_secret: Option<String>,
    /// Where your own GitLab is.
    #[arg(long, global = true, env = "HEDGEROW_GITLAB_URL", value_name = "URL")]
    pub(crate) gitlab_url: Option<Url>,
}
