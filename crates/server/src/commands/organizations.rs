use std::io::{Write, stdout};

use anyhow::Context;
use clap::Subcommand;
use service::access::Actor;
use service::operators::{InstanceOrganizationPatch, Operator};
use service::organizations::NewOrganization;
use service::{Level, Name, OrganizationId, Service};

use super::users::address;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an organization.
    Create {
        name: String,
        /// The email of its owner.
        #[arg(long)]
        owner: String,
    },
    /// List all organizations, newest first.
    List,
    /// Add an existing user as a member.
    AddMember {
        organization: OrganizationId,
        /// The user's email.
        email: String,
        /// member, administrator or owner.
        #[arg(long, value_name = "ROLE", default_value = "member", value_parser = role)]
        role: Level,
    },
    /// Set an organization's access to pipeline apps.
    SetPluginsAccessLevel {
        organization: OrganizationId,
        /// The access level: 0 none, 3 configure, 6 install, 9 root.
        level: i16,
    },
}

fn role(text: &str) -> Result<Level, String> {
    let named = Level::ALL.into_iter().find(|level| level.to_string() == text);
    named.ok_or_else(|| "use member, administrator or owner".to_owned())
}

impl Command {
    pub(crate) async fn run(self, service: &Service) -> anyhow::Result<()> {
        let user = async |email: &str| {
            service
                .user_by_email(&address(email)?)
                .await
                .with_context(|| format!("cannot find {email}"))
        };
        match self {
            Self::Create { name, owner } => {
                let name = Name::new(&name).map_err(|invalid| anyhow::anyhow!(invalid.detail));
                let name = name.context("invalid name")?;
                let new = NewOrganization {
                    name,
                    is_member_join_email_enabled: None,
                    enforce_2fa: None,
                };
                let seen = service
                    .create_organization_for(&Actor::system(), &new, &user(&owner).await?)
                    .await?;
                writeln!(
                    stdout(),
                    "created {} ({})",
                    seen.organization.name,
                    seen.organization.id
                )?;
            }
            Self::List => {
                for organization in service.all_organizations(super::all_rows()).await?.items {
                    let count = organization.member_count;
                    let members = if count == 1 { "member" } else { "members" };
                    writeln!(
                        stdout(),
                        "{}\t{} {members}\t{}",
                        organization.id,
                        count,
                        organization.name
                    )?;
                }
            }
            Self::AddMember {
                organization,
                email,
                role,
            } => {
                service
                    .add_member(&Actor::system(), organization, &user(&email).await?, role)
                    .await?;
                writeln!(stdout(), "added {email} to {organization} as {role}")?;
            }
            Self::SetPluginsAccessLevel { organization, level } => {
                let patch = InstanceOrganizationPatch {
                    plugins_access_level: Some(level),
                };
                let organization = service
                    .update_instance_organization(
                        &Operator::of_the_machine(),
                        organization,
                        &patch,
                        &service::no_precondition,
                    )
                    .await?;
                writeln!(stdout(), "{} has plugins_access_level {level}", organization.name)?;
            }
        }
        Ok(())
    }
}
