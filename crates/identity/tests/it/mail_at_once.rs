//! Several mails at a time, through a server that is slow for some recipients.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use identity::IdentityDeps;
use outbound::{Mailer, Roots};
use serde_json::{Value, json};
use service::{Instance, OrganizationId};
use testkit::databases::Backend;
use testkit::kit::{deps, instance};
use testkit::{Kit, on_both};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::scene::kit_of;

/// What a mail server did: whom it took mail for, and how many it kept waiting, now and at most.
#[derive(Debug, Default)]
struct Seen {
    taken: Vec<String>,
    waiting: usize,
    most_waiting: usize,
}

/// A mail server that says nothing about recipients at `slow.example` until it is told to.
#[derive(Clone)]
struct Server {
    seen: Arc<Mutex<Seen>>,
    go_on: CancellationToken,
}

impl Server {
    async fn start(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.talk(connection).await });
            }
        });
        port
    }

    async fn talk(self, connection: TcpStream) -> std::io::Result<()> {
        let (reader, mut writer) = connection.into_split();
        let mut lines = BufReader::new(reader).lines();
        writer.write_all(b"220 here\r\n").await?;
        let mut is_content = false;
        while let Some(line) = lines.next_line().await? {
            let answer = match line.get(..4).unwrap_or(&line) {
                "." => {
                    is_content = false;
                    "250 taken"
                }
                _ if is_content => continue,
                "RCPT" => {
                    self.recipient(&line).await;
                    "250 fine"
                }
                "DATA" => {
                    is_content = true;
                    "354 go on"
                }
                "QUIT" => "221 bye",
                _ => "250 fine",
            };
            writer.write_all(format!("{answer}\r\n").as_bytes()).await?;
        }
        Ok(())
    }

    async fn recipient(&self, line: &str) {
        if line.contains("@slow.example") {
            let change = |by: fn(&mut usize)| {
                let mut seen = self.seen.lock().unwrap();
                by(&mut seen.waiting);
                seen.most_waiting = seen.most_waiting.max(seen.waiting);
            };
            change(|waiting| *waiting += 1);
            self.go_on.cancelled().await;
            change(|waiting| *waiting -= 1);
        }
        self.seen.lock().unwrap().taken.push(line.to_owned());
    }
}

struct Scene {
    kit: Kit,
    server: Server,
}

impl Scene {
    async fn new(backend: Backend) -> Self {
        let server = Server {
            seen: Arc::default(),
            go_on: CancellationToken::new(),
        };
        let url = format!("smtp://127.0.0.1:{}", server.start().await);
        let deps = IdentityDeps {
            mailer: Some(Mailer::new(&url, "hedgerow@example.com", &Roots::public()).unwrap()),
            ..deps()
        };
        let sending = Instance {
            sends_mail: true,
            ..instance()
        };
        let kit = kit_of(backend, sending, deps).await;
        Self { kit, server }
    }

    async fn invite(&self, key: &str, organization: OrganizationId, addresses: Vec<String>) {
        let new: Value = addresses
            .into_iter()
            .map(|address| json!({ "target_email": address }))
            .collect();
        let path = format!("/api/organizations/{organization}/invites/bulk/");
        assert_eq!(self.kit.post(key, &path, new).await.status, 200);
    }

    async fn wait_until(&self, is_so: impl Fn(&Seen) -> bool) {
        let start = Instant::now();
        while !is_so(&self.server.seen.lock().unwrap()) {
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", self.server.seen);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

on_both! {
    async fn mail_that_is_slow_to_hand_over_delays_no_one_elses(scene: Scene) {
        let (kit, server) = (&scene.kit, &scene.server);
        let slow = (0..10).map(|number| format!("p{number}@slow.example")).collect();
        scene.invite(&kit.owner.key, kit.organization, slow).await;
        let stop = CancellationToken::new();
        let work = tokio::spawn({
            let (identity, stop) = (kit.identity.clone(), stop.clone());
            async move { identity.work(stop).await }
        });
        scene.wait_until(|seen| seen.waiting == 2).await;
        let others = (0..5).map(|number| format!("p{number}@fast.example")).collect();
        scene.invite(&kit.outsider.key, kit.other, others).await;
        kit.post("", "/api/reset/", json!({ "email": "otto@elsewhere.example" })).await;
        scene.wait_until(|seen| seen.taken.len() == 6).await;
        {
            let seen = server.seen.lock().unwrap();
            assert!(seen.taken.iter().all(|line| !line.contains("slow.example")), "{seen:?}");
            assert_eq!((seen.waiting, seen.most_waiting), (2, 2));
        }
        server.go_on.cancel();
        scene.wait_until(|seen| seen.taken.len() == 16).await;
        stop.cancel();
        work.await.unwrap();
        assert_eq!(kit.database.column::<i64>("SELECT count(*) FROM email_outbox").await, [0]);
    }
}
