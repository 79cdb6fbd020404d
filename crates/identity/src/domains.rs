//! Proving a domain, and reading what an identity provider says of itself.

use auth::saml::{IdentityProvider, read_metadata};
use boxed::boxed;
use outbound::DnsError;
use schemars::JsonSchema;
use serde::Deserialize;
use service::access::{Caller, ChangeDomains};
use service::domains::{DnsLookup, Domain};
use service::{DomainId, Error, OrganizationId, Result};

use crate::Identity;

/// Larger metadata is a federation's, not one provider's.
const MAX_METADATA: usize = 512 * 1024;

/// The metadata of an identity provider.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "url": "https://login.example.com/metadata" }]))]
pub struct MetadataSource {
    /// The https URL of the metadata.
    #[schemars(length(max = 2000))]
    pub url: Option<String>,
    /// The metadata XML itself.
    #[schemars(length(max = 524_288))]
    pub xml: Option<String>,
}

impl Identity {
    /// Looks for the record and decides. A dry run asks nobody, so it tells what is known already.
    #[boxed]
    pub async fn verify_domain(&self, caller: &Caller<ChangeDomains>, id: DomainId) -> Result<Domain> {
        let domain = self.service.domain(caller, id).await?;
        if caller.actor.request.is_dry_run {
            return Ok(domain);
        }
        let lookup = self.look_for_record_in_turn(&domain).await;
        self.service
            .settle_domain(&caller.actor, caller.organization, id, &lookup)
            .await
    }

    /// For somebody who asks: the name server may be theirs, and silent.
    pub(crate) async fn look_for_record_in_turn(&self, domain: &Domain) -> DnsLookup {
        let _permit = self.exchanges.begin(Some(domain.organization_id)).await;
        self.look_for_record(domain).await
    }

    pub(crate) async fn look_for_record(&self, domain: &Domain) -> DnsLookup {
        match self.deps.dns.txt(&domain.record()).await {
            Ok(texts) => DnsLookup::Texts(texts),
            Err(DnsError::NoRecord(_) | DnsError::NoSuchName(_)) => DnsLookup::NoRecord,
            Err(DnsError::Timeout(_)) => DnsLookup::Timeout,
            Err(error) => DnsLookup::Failed(error.to_string()),
        }
    }

    /// Takes entity id, address and certificates from the provider's metadata.
    #[boxed]
    pub async fn import_metadata(
        &self,
        caller: &Caller<ChangeDomains>,
        id: DomainId,
        source: &MetadataSource,
    ) -> Result<Domain> {
        let domain = self.service.domain(caller, id).await?;
        let (provider, url) = match (&source.xml, &source.url) {
            (Some(xml), None) => (read("xml", xml.as_bytes())?, ""),
            // No outbound call in a dry run.
            (None, Some(_)) if caller.actor.request.is_dry_run => return Ok(domain),
            (None, Some(url)) => (self.fetch_metadata(domain.organization_id, url).await?, url.as_str()),
            _ => {
                let detail = "Send either the metadata URL (url) or the metadata XML (xml).";
                return Err(Error::refused("required", detail));
            }
        };
        self.service.connect_identity_provider(caller, id, &provider, url).await
    }

    pub(crate) async fn fetch_metadata(&self, organization: OrganizationId, url: &str) -> Result<IdentityProvider> {
        let accept = "application/samlmetadata+xml, application/xml, text/xml";
        let _permit = self.exchanges.begin(Some(organization)).await;
        let answer = self.http_of(Some(organization)).get(url, accept, MAX_METADATA).await;
        let answer = answer.map_err(|error| {
            tracing::info!(error = &error as &dyn std::error::Error, "metadata could not be read");
            Error::invalid("url", "unreachable", error.to_string())
        })?;
        if !answer.status().is_success() {
            let detail = format!("The URL returned status {}.", answer.status().as_u16());
            return Err(Error::invalid("url", "unreachable", detail));
        }
        read("url", answer.body())
    }
}

fn read(field: &'static str, xml: &[u8]) -> Result<IdentityProvider> {
    let metadata = read_metadata(xml).map_err(|refusal| Error::invalid(field, refusal.rule.code(), refusal.detail))?;
    Ok(IdentityProvider {
        entity_id: metadata.entity_id,
        sso_url: metadata.sso_url,
        certificates: metadata.certificates,
    })
}
