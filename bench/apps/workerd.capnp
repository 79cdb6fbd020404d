using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "main", worker = .main)],
  sockets = [(name = "http", http = (), service = "main")],
);

const main :Workerd.Worker = (
  modules = [
    (name = "worker", esModule = embed "workerd_worker.js"),
    (name = "app", esModule = embed "app.js"),
  ],
  compatibilityDate = "2025-01-01",
);
