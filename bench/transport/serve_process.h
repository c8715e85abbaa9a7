// SPDX-License-Identifier: Apache-2.0
//
// ServeProcess: `quired` as a child of a benchmark, with its data in a directory of its own.
// Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_SERVE_PROCESS_H_
#define QUIRE_BENCH_TRANSPORT_SERVE_PROCESS_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/transport/process.h"
#include "client/data/data_connection.h"
#include "quire/client.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::bench {

/// This program.
inline constexpr char kThisProgram[] = "/proc/self/exe";

/// Waits until `process` has written a port to `port_file`. Returns the address on 127.0.0.1.
StatusOr<std::string> AwaitAddress(Process& process, const std::string& port_file);

class ServeProcess {
 public:
  /// Serves from `directory`, with `flags` in addition to those for paths.
  static StatusOr<std::unique_ptr<ServeProcess>> Start(const std::string& directory,
                                                       const std::vector<std::string>& flags);

  pid_t pid() const { return process_->pid(); }
  const std::shared_ptr<Transport>& control() const { return control_; }
  /// A connection for recalls over `transport`; sets `*detail` to its description.
  StatusOr<std::shared_ptr<Transport>> ConnectRecalls(const std::string& transport,
                                                      std::string* detail,
                                                      const std::string& tenant = "default") const;
  /// A tenant's client whose recalls use `transport` ("shm", "ucx", "grpc"); sets `*detail` to the
  /// description of the connection.
  StatusOr<std::unique_ptr<Client>> Connect(const std::string& transport, std::string* detail,
                                            const std::string& tenant = "default") const;

 private:
  std::unique_ptr<Process> process_;
  std::string address_;
  std::shared_ptr<Transport> control_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_SERVE_PROCESS_H_
