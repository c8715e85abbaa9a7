// SPDX-License-Identifier: Apache-2.0
//
// Connection: a client of one server and the transport of its recalls, as Python holds them.
//
// Ownership: contexts, sessions and ingests share the client, which lives as long as the last of
// them. Thread-safety: methods need the GIL; the client may be used without it.
#ifndef QUIRE_PYTHON_NATIVE_CONNECTION_H_
#define QUIRE_PYTHON_NATIVE_CONNECTION_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "quire/client.h"
#include "quire/clock.h"

namespace quire::python {

class Connection {
 public:
  struct Options {
    std::string address;  ///< "host:port" or "unix:/path".
    std::string transport =
        "auto";  ///< How recalls come: "auto", "shm", "ucx", "grpc" or "control".
    std::string tenant = "default";
    std::string token;  ///< Empty: none.
    Duration timeout;   ///< Limit of one call, retries included.
    Duration patience;  ///< Time for which a server that cannot be reached is tried again.
  };
  /// Connects, and asks the server for its version. Throws its error, also UNAVAILABLE.
  explicit Connection(const Options& options);
  ~Connection() { Close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Throws FAILED_PRECONDITION after Close.
  std::shared_ptr<Client> client() const;
  /// Lets the client go. Contexts and sessions keep it for themselves.
  void Close();

  const std::string& transport() const { return transport_; }
  /// "shm", or "grpc (not shm: another host)".
  const std::string& transport_summary() const { return summary_; }
  const std::string& server_version() const { return server_version_; }

 private:
  void Connect(const Options& options);

  std::shared_ptr<Client> client_;
  std::string transport_ = "control";
  std::string summary_ = "control";
  std::string server_version_;
};

void BindConnection(nanobind::module_& module);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_CONNECTION_H_
