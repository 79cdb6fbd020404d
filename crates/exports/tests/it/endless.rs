//! A peer that never stops answering.

use std::io::{Read, Write};
use std::net::TcpListener;

use hogql::Model;
use outbound::Roots;
use serde_json::json;
use service::batch_exports::destination::Kind;

use crate::suite;
use crate::warehouse::{deps, open};

/// Answers every request with a body that has no end.
fn endless() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            std::thread::spawn(move || {
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 4096]);
                let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"data\": \"");
                while connection.write_all(&[b'a'; 8192]).is_ok() {}
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_is_cut_off_and_tried_again_later() {
    let url = endless();
    let destinations = [
        (
            Kind::Snowflake,
            json!({
                "account": "a", "user": "u", "password": "p", "database": "d", "schema": "s", "warehouse": "w",
                "endpoint_url": url,
            }),
        ),
        (
            Kind::BigQuery,
            json!({
                "project_id": "p", "dataset_id": "d", "private_key": testkit::external::warehouses::rsa_key(), "private_key_id": "k",
                "token_uri": format!("{url}/token"), "client_email": "e", "endpoint_url": url,
            }),
        ),
    ];
    for (kind, config) in destinations {
        let destination = open(kind, &config, &deps(&Roots::public())).unwrap();
        let delivery = suite::delivery(&*destination, Model::Events, 0);
        let error = destination.begin(&delivery).await.err().unwrap();
        assert!(
            !error.is_permanent && error.sentence.contains("larger than"),
            "{kind:?}: {error}"
        );
        assert!(
            destination
                .test()
                .await
                .iter()
                .any(|step| step.message.contains("larger than"))
        );
    }
}
