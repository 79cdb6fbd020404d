//! Which certificate authorities are trusted.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

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
        bad("The HTTP client cannot be set up.", cause)
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
            .map_err(|cause| bad("The certificates are not PEM.", cause))?;
        if added.is_empty() {
            let problem = "No certificate found in the PEM file.";
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
    pub fn client_config(&self) -> Result<ClientConfig, BadCertificates> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|cause| bad("TLS cannot be set up.", cause))?
            .with_root_certificates(self.store()?)
            .with_no_client_auth();
        Ok(config)
    }

    fn store(&self) -> Result<RootCertStore, BadCertificates> {
        let mut store: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        for certificate in &self.added {
            store
                .add(certificate.clone())
                .map_err(|cause| bad("A certificate cannot be used as a certificate authority.", cause))?;
        }
        Ok(store)
    }
}

/// Encrypts, and believes whoever answers: for servers whose certificate is their own, if their owner says so.
///
/// Nobody who only listens can read along; somebody in between could pose as the server.
pub fn encrypted_but_unverified() -> Result<ClientConfig, BadCertificates> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|cause| bad("TLS cannot be set up.", cause))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(config)
}

/// Takes every certificate, but still wants to see that the server has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
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
