use std::io::{Write, stdout};

use anyhow::Context;
use clap::Subcommand;
use service::keys::{Label, NewKey};
use service::sessions::SignedIn;
use service::{KeyId, OrganizationId, Scope, Service, TeamId};

use super::users::address;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an API key for a user and print it. It is shown only once.
    Create {
        /// The user's email.
        email: String,
        #[arg(long, default_value = "Created on the command line")]
        label: String,
        /// The scopes, separated by commas.
        #[arg(long, value_delimiter = ',', default_value = "*")]
        scopes: Vec<Scope>,
        /// The organizations it can access, separated by commas. Defaults to all of the user's.
        #[arg(long, value_delimiter = ',')]
        organizations: Vec<OrganizationId>,
        /// The teams it can access, separated by commas. Defaults to all.
        #[arg(long, value_delimiter = ',')]
        teams: Vec<TeamId>,
        /// When it expires, such as 2027-01-31T00:00:00Z. Never by default.
        #[arg(long)]
        expires_at: Option<chrono::DateTime<chrono::Utc>>,
    },
    /// List a user's API keys, newest first.
    List { email: String },
    /// Roll an API key and print the new value. It is shown only once, and the old value stops working.
    Roll { email: String, key: KeyId },
    /// Delete an API key. It stops working immediately.
    Delete { email: String, key: KeyId },
}

impl Command {
    pub(crate) async fn run(self, service: &Service) -> anyhow::Result<()> {
        match self {
            Self::Create {
                email,
                label,
                scopes,
                organizations,
                teams,
                expires_at,
            } => {
                let label = Label::new(&label).map_err(|invalid| anyhow::anyhow!(invalid.detail));
                let new = NewKey {
                    label: label.context("invalid label")?,
                    scopes,
                    scoped_organizations: Some(organizations),
                    scoped_teams: Some(teams),
                    expires_at,
                };
                let fresh = service.create_key(&person(service, &email).await?, &new).await?;
                writeln!(stdout(), "{}", fresh.secret)?;
            }
            Self::List { email } => {
                for key in service
                    .keys(&person(service, &email).await?, super::all_rows())
                    .await?
                    .items
                {
                    let scopes: Vec<String> = key.scopes.iter().map(ToString::to_string).collect();
                    writeln!(
                        stdout(),
                        "{}\t{}\t{}\t{}",
                        key.id,
                        key.mask_value,
                        scopes.join(","),
                        key.label
                    )?;
                }
            }
            Self::Roll { email, key } => {
                let fresh = service.roll_key(&person(service, &email).await?, key).await?;
                writeln!(stdout(), "{}", fresh.secret)?;
            }
            Self::Delete { email, key } => {
                service
                    .delete_key(&person(service, &email).await?, key, &service::no_precondition)
                    .await?;
                writeln!(stdout(), "deleted {key}")?;
            }
        }
        Ok(())
    }
}

async fn person(service: &Service, email: &str) -> anyhow::Result<SignedIn> {
    let user = service
        .user_by_email(&address(email)?)
        .await
        .with_context(|| format!("cannot find {email}"))?;
    Ok(SignedIn::on_behalf_of(&user))
}
