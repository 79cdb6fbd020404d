use std::io::{Write, stdout};

use anyhow::Context;
use clap::Subcommand;
use service::Service;
use service::operators::{NewOperator, Operator};

use super::users::address;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the operators of this instance.
    List,
    /// Add an operator.
    Add { email: String },
    /// Remove an operator. The last operator cannot be removed.
    Remove { email: String },
}

impl Command {
    pub(crate) async fn run(self, service: &Service) -> anyhow::Result<()> {
        let machine = Operator::of_the_machine();
        match self {
            Self::List => {
                for user in service.operators(&machine, super::all_rows()).await?.items {
                    writeln!(stdout(), "{}\t{}", user.uuid, user.email)?;
                }
            }
            Self::Add { email } => {
                let user = service.add_operator(&machine, &NewOperator { email }).await?;
                writeln!(stdout(), "{} is now an operator of this instance", user.email)?;
            }
            Self::Remove { email } => {
                let user = service.user_by_email(&address(&email)?).await;
                let user = user.with_context(|| format!("cannot find {email}"))?;
                service.remove_operator(&machine, user.uuid).await?;
                writeln!(stdout(), "{} is no longer an operator of this instance", user.email)?;
            }
        }
        Ok(())
    }
}
