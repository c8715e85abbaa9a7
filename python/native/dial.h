// SPDX-License-Identifier: Apache-2.0
//
// Dial: a client of one server, or of all nodes of a cluster. Needs no GIL. Thread-safety: a
// function.
#ifndef QUIRE_PYTHON_NATIVE_DIAL_H_
#define QUIRE_PYTHON_NATIVE_DIAL_H_

#include <memory>
#include <string>
#include <vector>

#include "quire/bearer_token.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/document_router.h"
#include "quire/status.h"

namespace quire::python {

struct DialOptions {
  /// "host:port" or "unix:/path" of the server, or of some nodes of a cluster.
  std::vector<std::string> servers;
  bool is_cluster = false;  ///< Also with one server: any node tells the others.
  /// Way of recalls and objects: "auto", "shm", "ucx", "ucx-direct" (the server writes into
  /// landings), "grpc" or "control".
  std::string transport = "auto";
  std::string tenant = "default";
  BearerToken token;
  Duration timeout;   ///< Limit of one call, retries included.
  Duration patience;  ///< Time for which a server that cannot be reached is tried again.
};

struct Dialled {
  std::shared_ptr<Client> client;
  std::string transport;  ///< Kind of the data connection; empty where each node has its own.
  std::string summary;    ///< "shm", or "grpc (not shm: another host)".
  std::shared_ptr<DocumentRouter> router = nullptr;  ///< Router of a cluster.
};

/// Nodes of a cluster are connected to when they are needed. Errors: those of ConnectData for a
/// transport other than "auto"; INVALID_ARGUMENT without an address.
[[nodiscard]] StatusOr<Dialled> Dial(const DialOptions& options);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_DIAL_H_
