//! E2: another key for everything that is encrypted, while others go on working.

use std::time::Duration;

use auth::encryption::Encryptor;
use serde_json::json;
use service::access::{ReadExports, Request};
use service::credentials::Credential;
use service::organizations::OrganizationRef;
use service::{Instance, RandomSource, Service};
use testkit::kit::instance;
use testkit::{Kit, on_both};

const OLD: &str = "a secret key for tests, long enough to be one";
const NEW: &str = "the next secret key, as long as it has to be";

/// Another replica on the same database, with these keys.
fn replica(kit: &Kit, keys: &[&str]) -> Service {
    let encryptor = Encryptor::new(keys.iter().copied()).unwrap();
    let instance = Instance {
        encryptor,
        ..instance()
    };
    Service::new(
        kit.service.store().clone(),
        kit.service.clock().clone(),
        RandomSource::System,
        instance,
    )
}

async fn create(kit: &Kit, name: &str) -> String {
    let config = json!({ "host": "db.example.com", "database": "d", "user": "u", "password": "hush" });
    let destination = json!({ "type": "Postgres", "config": config });
    let body = json!({ "name": name, "interval": "hour", "destination": destination });
    let made = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.text("/id").to_owned()
}

/// Whether a replica can read the secrets of an export.
async fn reads(kit: &Kit, service: &Service, export: &str) -> bool {
    let organization = Some(OrganizationRef::Id(kit.organization));
    let caller = service
        .allowed::<ReadExports>(Credential::Key(&kit.admin.key), organization, Request::default())
        .await
        .unwrap();
    let seen = service.batch_export(&caller, export.parse().unwrap()).await.unwrap();
    seen.export.destination(service.instance()).is_ok()
}

on_both! {
    async fn after_a_rotation_nothing_is_under_the_old_key(kit: Kit) {
        let mut exports = Vec::new();
        for _ in 0..3 {
            exports.push(create(&kit, "x").await);
        }
        let domain = json!({ "domain": "acme.example", "oidc_issuer": "https://id.example.com", "oidc_client_id": "us", "oidc_client_secret": "hush" });
        assert_eq!(kit.post(&kit.owner.key, &kit.at("domains/"), domain).await.status, 201);
        kit.service.check_secret_key().await.unwrap();
        let before = kit.service.secret_key_use().await.unwrap();
        assert!(before.newest >= 4 && before.older == 0, "{before:?}");

        let both = replica(&kit, &[NEW, OLD]);
        assert_eq!(both.secret_key_use().await.unwrap().older, before.newest);
        // Broken off, it has done no harm and can be done again.
        let _ = tokio::time::timeout(Duration::from_micros(200), both.rotate_secret_key()).await;
        assert!(reads(&kit, &both, &exports[0]).await);
        both.check_secret_key().await.unwrap();
        assert_eq!(both.secret_key_use().await.unwrap().older, 0);

        // A replica that was not restarted yet writes under the old key.
        exports.push(create(&kit, "x").await);
        assert_eq!(both.secret_key_use().await.unwrap().older, 1);
        both.check_secret_key().await.unwrap();
        assert_eq!(both.secret_key_use().await.unwrap().older, 1, "a start does not look again");
        assert_eq!(both.rotate_secret_key().await.unwrap(), 1);
        assert_eq!(both.rotate_secret_key().await.unwrap(), 0);

        let new = replica(&kit, &[NEW]);
        new.check_secret_key().await.unwrap();
        for export in &exports {
            assert!(reads(&kit, &new, export).await && !reads(&kit, &kit.service, export).await);
        }
        assert!(replica(&kit, &[OLD]).check_secret_key().await.is_err(), "the old key alone is refused");
    }

    async fn secrets_moved_to_another_row_are_not_decrypted(kit: Kit) {
        let (one, other) = (create(&kit, "one").await, create(&kit, "other").await);
        let theft = "UPDATE batch_export SET secrets = (SELECT b.secrets FROM batch_export b WHERE b.name = 'one') \
                     WHERE name = 'other'";
        kit.database.run(theft).await;
        assert!(reads(&kit, &kit.service, &one).await);
        assert!(!reads(&kit, &kit.service, &other).await, "it was encrypted for another row");
    }

    async fn what_no_key_decrypts_ends_a_rotation_and_stays_as_it_is(kit: Kit) {
        create(&kit, "x").await;
        let stranger = replica(&kit, &[NEW]);
        assert!(stranger.rotate_secret_key().await.is_err());
        assert_eq!(kit.service.secret_key_use().await.unwrap().older, 0);
    }
}
