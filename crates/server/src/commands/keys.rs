use std::io::{Write, stdout};

use anyhow::Context;
use clap::Subcommand;
use service::keys::{Label, NewKey};
use service::sessions::SignedIn;
use service::{KeyId, OrganizationId, Scope, Service, TeamId};

use super::users::address;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a key for a user and print it, once.
    Create {
        /// The user's e-mail address.
        email: String,
        #[arg(long, default_value = "Made on the command line")]
        label: String,
        /// What it may be used for, separated by commas.
        #[arg(long, value_delimiter = ',', default_value = "*")]
        scopes: Vec<Scope>,
        /// The organizations it reaches, separated by commas; all of the user's unless given.
        #[arg(long, value_delimiter = ',')]
        organizations: Vec<OrganizationId>,
        /// The teams it reaches, separated by commas; all unless given.
        #[arg(long, value_delimiter = ',')]
        teams: Vec<TeamId>,
        /// When it stops working, such as 2027-01-31T00:00:00Z.
        #[arg(long)]
        expires_at: Option<chrono::DateTime<chrono::Utc>>,
    },
    /// List a user's keys, newest first.
    List { email: String },
    /// Give a key another value and print it, once. The old one stops working.
    Roll { email: String, key: KeyId },
    /// Delete a key. It stops working at once.
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
                    label: label.context("cannot use this label")?,
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
