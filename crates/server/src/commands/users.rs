use std::io::{Write, stdout};

use anyhow::Context;
use clap::Subcommand;
use service::access::Actor;
use service::users::NewUser;
use service::{Email, Service};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a user.
    Create {
        email: String,
        #[arg(long, default_value = "")]
        first_name: String,
        #[arg(long, default_value = "")]
        last_name: String,
        /// Without one the user cannot sign in with a password.
        #[arg(long, env = "HEDGEROW_USER_PASSWORD", hide_env_values = true)]
        password: Option<String>,
    },
    /// List users, oldest first.
    List,
    /// Take away the second factor of a user who has lost it, and end all their sessions.
    ForgetSecondFactor { email: String },
    /// Give a user another password, and end all their sessions.
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
            Self::ForgetSecondFactor { email } => {
                let user = service
                    .forget_second_factor(&Actor::system(), &address(&email)?)
                    .await?;
                writeln!(stdout(), "{} has no second factor, and no session", user.email)?;
            }
            Self::SetPassword { email, password } => {
                let user = service
                    .set_password(&Actor::system(), &address(&email)?, &password)
                    .await?;
                writeln!(stdout(), "{} has another password, and no session", user.email)?;
            }
        }
        Ok(())
    }
}

pub(super) fn address(text: &str) -> anyhow::Result<Email> {
    Email::new(text)
        .map_err(|invalid| anyhow::anyhow!(invalid.detail))
        .with_context(|| format!("cannot use {text}"))
}
