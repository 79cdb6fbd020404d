//! A network between a server and its clients, which can swallow what is sent.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes everything on, until it is told to swallow it. Connections stay open then, and nobody is told: as when a firewall has
/// forgotten them, or a cable was pulled.
#[derive(Debug)]
pub struct Relay {
    pub address: SocketAddr,
    /// Connections that were made before this many silences are silent.
    silences: Arc<watch::Sender<u32>>,
}

impl Relay {
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let silences = Arc::new(watch::Sender::new(0));
        let heard = silences.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let heard = heard.clone();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(target).await else {
                        return;
                    };
                    let (client, server) = (client.into_split(), server.into_split());
                    tokio::join!(
                        pass_on(client.0, server.1, heard.clone()),
                        pass_on(server.0, client.1, heard)
                    );
                });
            }
        });
        Self { address, silences }
    }

    /// From now on nothing comes through on the connections there are. New ones work.
    pub fn swallow(&self) {
        self.silences.send_modify(|count| *count += 1);
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut heard: watch::Receiver<u32>) {
    heard.mark_unchanged();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            biased;
            silenced = heard.changed() => {
                if silenced.is_ok() {
                    // Both ends stay open.
                    std::future::pending::<()>().await;
                }
                return;
            }
            read = from.read(&mut buffer) => match read {
                Ok(count) if count > 0 && to.write_all(&buffer[..count]).await.is_ok() => {}
                _ => return,
            }
        }
    }
}
