// SPDX-License-Identifier: Apache-2.0
//
// Which ways of connecting a server listens on besides its control channel. The kinds of listeners
// are a table: a build has those whose libraries it was made with. gRPC is always there, because
// the control channel is.
#ifndef QUIRE_KVSERVER_SERVICE_LISTENERS_H_
#define QUIRE_KVSERVER_SERVICE_LISTENERS_H_

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
  bool shm_any_user = false;    ///< Or only processes of the server's own user, and root.
  std::string ucx_listen = "127.0.0.1:0";  ///< "host:port"; port 0 takes a free one.
  /// Of UCX, but for the size of frames, which is the server's. With `direct_landings` clients that
  /// trust the server that much may register memory for it to write to.
  UcxOptions ucx = {};

  /// Whether `kind` is asked for, by name or as one of all.
  bool Wants(std::string_view kind) const;
};

/// What a listener is made for.
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
/// Of this build.
std::span<const ListenerKind> ListenerKinds();

/// A transport that was not asked for by name and cannot listen here, and why.
using LeftOut = std::pair<std::string, Status>;

/// Starts what the options ask for of `kinds` and hands it to the server's data plane. Errors:
/// INVALID_ARGUMENT for a transport that nobody knows; UNIMPLEMENTED for one that is named and not
/// built; that of a listener that is named and cannot start.
[[nodiscard]] StatusOr<std::vector<LeftOut>> StartListeners(const ListenerContext& context,
                                                            std::span<const ListenerKind> kinds);

/// DATA_DIR/quire.sock, or a name in the directory for temporary files that is made from DATA_DIR
/// where the former is longer than a Unix socket's path may be, or no UTF-8 text.
std::string DefaultShmSocket(const std::string& data_dir);

/// The address that UCX listens on beside a control channel at `listen`: its host, any free port.
/// 127.0.0.1 beside a Unix socket.
std::string DefaultUcxListen(const std::string& listen);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_LISTENERS_H_
