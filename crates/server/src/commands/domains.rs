use std::io::{Write, stdout};

use clap::Subcommand;
use service::Service;
use service::access::Actor;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the domains that organizations have proven, and how people must sign in there.
    List,
    /// Let people with addresses on a domain sign in as they like again. For when nobody gets in.
    StopEnforcing { domain: String },
}

impl Command {
    pub(crate) async fn run(self, service: &Service) -> anyhow::Result<()> {
        match self {
            Self::List => {
                for domain in service.verified_domains().await? {
                    let enforced = match domain.sso_enforcement.as_str() {
                        "" => "as they like",
                        sso => sso,
                    };
                    writeln!(stdout(), "{}\t{}\t{enforced}", domain.domain, domain.organization_id)?;
                }
            }
            Self::StopEnforcing { domain } => {
                let domain = service.stop_enforcing(&Actor::system(), &domain).await?;
                writeln!(stdout(), "people on {} may sign in as they like", domain.domain)?;
            }
        }
        Ok(())
    }
}
