use std::io::{Write, stdout};

use anyhow::Context;
use clap::Subcommand;
use service::access::Actor;
use service::users::NewUser;
use service::{Email, Service};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a user.
    Create {
        email: String,
        #[arg(long, default_value = "")]
        first_name: String,
        #[arg(long, default_value = "")]
        last_name: String,
        /// The password. Without it, the user cannot sign in with a password.
        #[arg(long, env = "HEDGEROW_USER_PASSWORD", hide_env_values = true)]
        password: Option<String>,
    },
    /// List users, oldest first.
    List,
    /// Reset a user's two-factor authentication and revoke all their sessions.
    #[command(name = "reset-2fa")]
    ResetTwoFactor { email: String },
    /// Set a user's password and revoke all their sessions.
    SetPassword {
        email: String,
        #[arg(long, env = "HEDGEROW_USER_PASSWORD", hide_env_values = true)]
        password: String,
    },
}

impl Command {
    pub(crate) async fn run(self, service: &Service) -> anyhow::Result<()> {
        match self {
            Self::Create {
                email,
                first_name,
                last_name,
                password,
            } => {
                let new = NewUser {
                    email: address(&email)?,
                    first_name,
                    last_name,
                    password,
                    // Whoever has the machine says so.
                    is_email_verified: true,
                };
                let user = service.create_user(&Actor::system(), &new).await?;
                writeln!(stdout(), "created {} ({})", user.email, user.uuid)?;
            }
            Self::List => {
                for user in service.users(super::all_rows()).await?.items {
                    writeln!(
                        stdout(),
                        "{}\t{}\t{} {}",
                        user.uuid,
                        user.email,
                        user.first_name,
                        user.last_name
                    )?;
                }
            }
            Self::ResetTwoFactor { email } => {
                let user = service.reset_two_factor(&Actor::system(), &address(&email)?).await?;
                writeln!(
                    stdout(),
                    "reset two-factor authentication for {} and revoked all sessions",
                    user.email
                )?;
            }
            Self::SetPassword { email, password } => {
                let user = service
                    .set_password(&Actor::system(), &address(&email)?, &password)
                    .await?;
                writeln!(
                    stdout(),
                    "changed the password of {} and revoked all sessions",
                    user.email
                )?;
            }
        }
        Ok(())
    }
}

pub(super) fn address(text: &str) -> anyhow::Result<Email> {
    Email::new(text)
        .map_err(|invalid| anyhow::anyhow!(invalid.detail))
        .with_context(|| format!("invalid email {text}"))
}
