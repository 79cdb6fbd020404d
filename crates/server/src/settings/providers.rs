//! Providers that people sign in with.

use clap::Args;
use url::Url;

/// Sign-in providers for all users. Each needs a client ID and a secret.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProviderSettings {
    /// The Google OAuth client ID. Enables sign-in with Google.
    #[arg(long, global = true, env = "HEDGEROW_GOOGLE_CLIENT_ID", value_name = "ID")]
    pub(crate) google_client_id: Option<String>,
    /// The Google OAuth client secret.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GOOGLE_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) google_client_secret: Option<String>,
    /// The URL of Google. Defaults to accounts.google.com.
    #[arg(long, global = true, env = "HEDGEROW_GOOGLE_URL", value_name = "URL")]
    pub(crate) google_url: Option<Url>,
    /// The GitHub OAuth client ID. Enables sign-in with GitHub.
    #[arg(long, global = true, env = "HEDGEROW_GITHUB_CLIENT_ID", value_name = "ID")]
    pub(crate) github_client_id: Option<String>,
    /// The GitHub OAuth client secret.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GITHUB_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) github_client_secret: Option<String>,
    /// The URL of your GitHub Enterprise Server.
    #[arg(long, global = true, env = "HEDGEROW_GITHUB_URL", value_name = "URL")]
    pub(crate) github_url: Option<Url>,
    /// The GitLab OAuth client ID. Enables sign-in with GitLab.
    #[arg(long, global = true, env = "HEDGEROW_GITLAB_CLIENT_ID", value_name = "ID")]
    pub(crate) gitlab_client_id: Option<String>,
    /// The GitLab OAuth client secret.
    #[arg(
        long,
        global = true,
        env = "HEDGEROW_GITLAB_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub(crate) gitlab_client_secret: Option<String>,
    /// The URL of your GitLab server.
    #[arg(long, global = true, env = "HEDGEROW_GITLAB_URL", value_name = "URL")]
    pub(crate) gitlab_url: Option<Url>,
}
