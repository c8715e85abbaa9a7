// SPDX-License-Identifier: Apache-2.0
//
// The daemon: a Server behind a NetworkServer, with an optional AdminServer, until SIGTERM or
// SIGINT. `quired` and `quire serve` are thin mains over these functions.
#ifndef QUIRE_APPS_QUIRED_DAEMON_H_
#define QUIRE_APPS_QUIRED_DAEMON_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/quired/cluster_node.h"
#include "kvserver/service/server_options.h"
#include "quire/status.h"
#include "transport/otlp/tracing.h"

namespace CLI {
class App;
}

namespace quire::kvserver {

struct DaemonOptions {
  ServerOptions server;
  ClusterOptions cluster;
  std::string listen = "127.0.0.1:7410";  ///< "host:port" (port 0: any free one) or "unix:/path".
  std::string port_file;  ///< File to write the port to, for scripts; none when empty.
  /// File of tokens that prove tenants (transport/auth/tenant_tokens.h). Empty: callers are
  /// trusted.
  std::string tenant_tokens;
  /// "host:port" of the admin server (port 0: any free one); none when empty.
  std::string admin_listen;
  std::string admin_port_file;  ///< As port_file, for the admin server.
  /// Names under which people open the admin page, besides addresses and names without a dot.
  std::vector<std::string> admin_names = {};
  bool admin_documents = false;  ///< The page shows documents also where others may look.
  /// Transports for workers: "grpc", "shm", "ucx". Empty: all that can listen here.
  std::vector<std::string> transports = {};
  std::string shm_socket;            ///< Empty: DefaultShmSocket.
  bool shm_any_user = false;         ///< See ListenerOptions.
  std::string ucx_listen;            ///< "host:port"; empty: DefaultUcxListen.
  bool ucx_direct_landings = false;  ///< UcxOptions::direct_landings.
  /// Data connections over gRPC, each with a thread; 0: as many as the tenants may have.
  uint32_t max_streams = 0;
  int max_threads = 0;               ///< Threads for calls, running or waiting; 0: enough for all.
  uint32_t shutdown_seconds = 10;    ///< Time for running calls after a signal.
  const Tracing* tracing = nullptr;  ///< Null: calls are not traced. Outlives the daemon.
};

/// Called with the server's address once it listens.
using ListeningObserver = std::function<void(const std::string& address)>;
/// Writes "quired listening on ADDRESS" as a line of standard output.
void PrintListening(const std::string& address);

/// Adds a flag for each option, and --config FILE, which takes the same names (INI or TOML).
/// Parsing `app` fills `*options`, which must outlive it.
void AddDaemonFlags(CLI::App* app, DaemonOptions* options);

/// Serves until SIGTERM or SIGINT (even one before the server is up), then finishes running calls
/// and closes the store. Calls `listening` once it accepts connections.
[[nodiscard]] Status RunDaemon(const DaemonOptions& options,
                               const ListeningObserver& listening = PrintListening);

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_DAEMON_H_
