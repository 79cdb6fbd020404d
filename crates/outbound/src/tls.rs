//! Which certificate authorities are trusted.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Makes ring the provider of whoever in this process names none, such as the exporter of traces.
///
/// It shares reqwest with us, and our build of reqwest panics without a provider. Clients made here need no default.
pub fn set_default_provider() {
    // An error says that one is set already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The public certificate authorities and those the operator added.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    added: Vec<CertificateDer<'static>>,
}

/// The operator's certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct BadCertificates {
    problem: &'static str,
    #[source]
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl BadCertificates {
    pub(crate) fn from_client(cause: reqwest::Error) -> Self {
        bad("the HTTP client cannot be set up", cause)
    }
}

impl Roots {
    /// The public authorities alone.
    pub fn public() -> Self {
        Self::default()
    }

    /// The public authorities and every certificate in `pem`.
    pub fn with_pem(pem: &[u8]) -> Result<Self, BadCertificates> {
        let added: Vec<_> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|cause| bad("the certificates are not PEM", cause))?;
        if added.is_empty() {
            let problem = "there is no certificate in the PEM text";
            return Err(BadCertificates { problem, cause: None });
        }
        let roots = Self { added };
        roots.store()?;
        Ok(roots)
    }

    pub(crate) fn added(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.added.iter()
    }

    /// Fixes the provider, so that nothing depends on which one the process installed.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, BadCertificates> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|cause| bad("TLS cannot be set up", cause))?
            .with_root_certificates(self.store()?)
            .with_no_client_auth();
        Ok(config)
    }

    fn store(&self) -> Result<RootCertStore, BadCertificates> {
        let mut store: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        for certificate in &self.added {
            store
                .add(certificate.clone())
                .map_err(|cause| bad("a certificate cannot be used as an authority", cause))?;
        }
        Ok(store)
    }
}

fn bad(problem: &'static str, cause: impl std::error::Error + Send + Sync + 'static) -> BadCertificates {
    BadCertificates {
        problem,
        cause: Some(Box::new(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused_at_once() {
        assert!(Roots::with_pem(b"").is_err());
        assert!(Roots::with_pem(b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n").is_err());
        assert!(Roots::with_pem(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
    }
}
