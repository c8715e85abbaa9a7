// SPDX-License-Identifier: Apache-2.0
//
// Connection: a client of a server, of all nodes of a cluster, or of one of those nodes, as Python
// holds it.
//
// Ownership: contexts, sessions and ingests share the client, which lives as long as the last of
// them. The client of a node keeps that of the cluster. Thread-safety: methods need the GIL; the
// client may be used without it.
#ifndef QUIRE_PYTHON_NATIVE_CONNECTION_H_
#define QUIRE_PYTHON_NATIVE_CONNECTION_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/native/dial.h"
#include "quire/client.h"

namespace quire::python {

class Connection {
 public:
  /// Connects, and asks the server for its version. Throws its error, also UNAVAILABLE.
  explicit Connection(const DialOptions& options);
  /// For the calls of one node: `node` is a client of `whole`'s, or that client itself.
  Connection(const Connection& whole, std::shared_ptr<Client> node);
  ~Connection() { Close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Throws FAILED_PRECONDITION after Close.
  std::shared_ptr<Client> client() const;
  /// Lets the client go. Contexts and sessions keep it for themselves.
  void Close();

  /// Addresses of the nodes that answer for what they have; that of the server where there is one.
  std::vector<std::string> Nodes() const;
  /// How recalls come now. Nodes of a cluster: "mixed" where they differ, "none" before the first.
  std::string transport() const;
  const std::string& transport_summary() const { return dialled_.summary; }
  const std::string& server_version() const { return server_version_; }

 private:
  Dialled dialled_;
  std::vector<std::string> servers_;
  std::string server_version_;
};

void BindConnection(nanobind::module_& module);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_CONNECTION_H_
