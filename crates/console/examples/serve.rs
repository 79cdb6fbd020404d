//! The pages on a fresh database with made-up people, to be looked at: `cargo run --example serve -- 8077`.
//!
//! Prints what to open. Everybody's password is `correct horse battery`.

#![expect(clippy::print_stdout, reason = "this is for whoever runs it")]

#[path = "../tests/it/kit.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod kit;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use kit::Kit;
use service::Level;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8077".to_owned());
    let kit = Kit::starting_at(service::Clock::System, &format!("http://127.0.0.1:{port}")).await;
    kit.person("ann@example.org").await;
    for (email, level) in [("ben@example.org", Level::Admin), ("cia@example.org", Level::Member)] {
        kit.member(email, level).await;
    }
    println!("http://127.0.0.1:{port}/login/");
    for (domain, enforcement) in [("sso.example.net", "saml"), ("both.example.net", "")] {
        println!(
            "{domain} {}",
            kit.domain_at("http://127.0.0.1:8078/sso", domain, enforcement).await
        );
    }
    for email in ["new@example.org", "ann@example.org", "new@sso.example.net"] {
        println!("{email} http://127.0.0.1:{port}/signup/{}/", kit.invite(email).await);
    }
    let app = kit.app.clone().layer(from_fn(|mut request: Request, next: Next| {
        request.extensions_mut().insert(api::Peer([127, 0, 0, 1].into()));
        next.run(request)
    }));
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, app).await
}
