// SPDX-License-Identifier: Apache-2.0
//
// The daemon: a Server behind a NetworkServer, and an AdminServer beside it where one is asked for,
// until SIGTERM or SIGINT. `quired` and `quire serve` are thin mains over these two functions.
#ifndef QUIRE_APPS_QUIRED_DAEMON_H_
#define QUIRE_APPS_QUIRED_DAEMON_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kvserver/service/server_options.h"

namespace CLI {
class App;
}

namespace quire::kvserver {

struct DaemonOptions {
  ServerOptions server;
  std::string listen = "127.0.0.1:7410";  ///< "host:port" (port 0: any free one) or "unix:/path".
  std::string port_file;  ///< Where to write the port, for scripts; none when empty.
  /// File of the tokens that prove tenants (transport/auth/tenant_tokens.h); empty: callers are
  /// believed.
  std::string tenant_tokens;
  /// "host:port" of the admin server (port 0: any free one); none when empty.
  std::string admin_listen;
  std::string admin_port_file;  ///< As port_file, for the admin server.
  /// "grpc", "shm", "ucx": how workers may connect; all that can listen here when empty.
  std::vector<std::string> transports = {};
  std::string shm_socket;            ///< Empty: DefaultShmSocket.
  bool shm_any_user = false;         ///< See ListenerOptions.
  std::string ucx_listen;            ///< "host:port"; empty: DefaultUcxListen.
  bool ucx_direct_landings = false;  ///< UcxOptions::direct_landings.
  /// Data connections over gRPC, each of which holds a thread; 0: as many as the tenants may have.
  uint32_t max_streams = 0;
  int max_threads = 0;             ///< For calls, running or waiting; 0: as many as may be there.
  uint32_t shutdown_seconds = 10;  ///< For calls that run when a signal comes.
};

/// Told where the server can be connected to.
using ListeningObserver = std::function<void(const std::string& address)>;
/// Writes "quired listening on ADDRESS" as a line of standard output.
void PrintListening(const std::string& address);

/// Adds a flag for each option, and --config FILE, which takes the same names (INI or TOML). What
/// `app` parses goes to `*options`, which must outlive it.
void AddDaemonFlags(CLI::App* app, DaemonOptions* options);

/// Serves until SIGTERM or SIGINT (also when it comes before the server is up), then finishes what
/// runs and closes the store. `listening` is called once it can be connected to.
[[nodiscard]] Status RunDaemon(const DaemonOptions& options,
                               const ListeningObserver& listening = PrintListening);

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_DAEMON_H_
