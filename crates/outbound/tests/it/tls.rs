use std::net::SocketAddr;
use std::sync::Arc;

use outbound::{Dialer, Http, HttpError, Policy, Roots, Rule};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// An authority of the operator's own, as PEM, and a server for `localhost` that it vouches for.
async fn server(response: &'static [u8]) -> (String, SocketAddr) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();

    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(response).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    (authority.pem(), address)
}

fn client(roots: &Roots) -> Http {
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()]);
    Http::new(Dialer::new(policy), roots).unwrap()
}

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";

#[tokio::test]
async fn an_authority_of_the_operator_is_trusted_once_added() {
    let (authority, address) = server(HELLO).await;
    let url = format!("https://localhost:{}/", address.port());
    let error = client(&Roots::public()).get(&url, "*/*", 100).await.unwrap_err();
    assert!(matches!(error, HttpError::Unreachable { .. }), "{error:?}");
    let roots = Roots::with_pem(authority.as_bytes()).unwrap();
    assert_eq!(client(&roots).get(&url, "*/*", 100).await.unwrap().body(), b"hello");
}

#[tokio::test]
async fn a_certificate_for_another_host_is_not_accepted() {
    let (authority, address) = server(HELLO).await;
    let roots = Roots::with_pem(authority.as_bytes()).unwrap();
    let outcome = client(&roots).get(&format!("https://{address}/"), "*/*", 100).await;
    assert!(matches!(outcome, Err(HttpError::Unreachable { .. })));
}

/// N3
#[tokio::test]
async fn https_is_not_left_for_http() {
    let (authority, address) =
        server(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n").await;
    let roots = Roots::with_pem(authority.as_bytes()).unwrap();
    let url = format!("https://localhost:{}/", address.port());
    match client(&roots).following(5).get(&url, "*/*", 100).await {
        Err(HttpError::Refused(refusal)) => assert_eq!(refusal.rule, Rule::Downgrade),
        other => panic!("not refused: {other:?}"),
    }
}
