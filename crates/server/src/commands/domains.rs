use std::io::{Write, stdout};

use clap::Subcommand;
use service::Service;
use service::access::Actor;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List verified domains and their SSO enforcement.
    List,
    /// Disable SSO enforcement for a domain after a lockout. Users can then sign in with any method.
    DisableSsoEnforcement { domain: String },
}

impl Command {
    pub(crate) async fn run(self, service: &Service) -> anyhow::Result<()> {
        match self {
            Self::List => {
                for domain in service.verified_domains().await? {
                    let enforced = match domain.sso_enforcement.as_str() {
                        "" => "any method",
                        sso => sso,
                    };
                    writeln!(stdout(), "{}\t{}\t{enforced}", domain.domain, domain.organization_id)?;
                }
            }
            Self::DisableSsoEnforcement { domain } => {
                let domain = service.disable_sso_enforcement(&Actor::system(), &domain).await?;
                writeln!(
                    stdout(),
                    "disabled SSO enforcement for {}: users can sign in with any method",
                    domain.domain
                )?;
            }
        }
        Ok(())
    }
}
