// SPDX-License-Identifier: Apache-2.0
//
// The server's listeners besides the control channel. Kinds of listeners are a table of those built
// in. gRPC is always there, like the control channel.
#ifndef QUIRE_KVSERVER_SERVICE_DATA_PLANE_LISTENERS_H_
#define QUIRE_KVSERVER_SERVICE_DATA_PLANE_LISTENERS_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvserver/service/server_options.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/ucx/ucx.h"

namespace quire::kvserver {

class Server;

struct ListenerOptions {
  /// "grpc", "shm", "ucx". Empty: all that are built and can listen here.
  std::vector<std::string> transports = {};
  std::string shm_socket = {};  ///< A path; empty: DefaultShmSocket.
  bool shm_any_user = false;    ///< False: only processes of the server's own user, and root.
  std::string ucx_listen = "127.0.0.1:0";  ///< "host:port"; port 0 takes a free one.
  /// Options of UCX; the server sets the frame size. With `direct_landings` clients may register
  /// memory for the server to write to, which needs their trust.
  UcxOptions ucx = {};

  /// True when `kind` is requested, by name or as one of all.
  bool Wants(std::string_view kind) const;
};

/// Arguments of a listener.
struct ListenerContext {
  Server& server;
  const ServerOptions& server_options;
  const ListenerOptions& options;
};
/// One row of the table. `listen` starts a listener that hands its pipes to `accept`.
struct ListenerKind {
  std::string_view kind;
  StatusOr<std::unique_ptr<PipeListener>> (*listen)(const ListenerContext& context,
                                                    PipeListener::Accept accept);
};
/// Kinds of this build.
std::span<const ListenerKind> ListenerKinds();

/// A transport that was not requested by name and cannot listen here, with the reason.
using LeftOut = std::pair<std::string, Status>;

/// Starts the requested listeners out of `kinds` and adds them to the server's data plane. Errors:
/// INVALID_ARGUMENT for an unknown transport; UNIMPLEMENTED for a named one that is not built; the
/// error of a named one that cannot start.
[[nodiscard]] StatusOr<std::vector<LeftOut>> StartListeners(const ListenerContext& context,
                                                            std::span<const ListenerKind> kinds);

/// DATA_DIR/quire.sock. If that is too long for a Unix socket, or not UTF-8, a name in the
/// temporary directory derived from DATA_DIR.
std::string DefaultShmSocket(const std::string& data_dir);

/// UCX's address for a control channel at `listen`: its host, any free port. 127.0.0.1 for a Unix
/// socket.
std::string DefaultUcxListen(const std::string& listen);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_DATA_PLANE_LISTENERS_H_
