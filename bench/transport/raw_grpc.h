// SPDX-License-Identifier: Apache-2.0
//
// The minimal gRPC streaming program: what a gRPC transport could reach at most. One streaming call
// of the synchronous API; a message is the places of its units and the units themselves, as
// slices that lie scattered over the server's memory; the client copies every unit to its place.
// Messages have the size of the transport's parts. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_RAW_GRPC_H_
#define QUIRE_BENCH_TRANSPORT_RAW_GRPC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "quire/status.h"

namespace grpc {
class Channel;
class Server;
class Service;
}  // namespace grpc

namespace quire::bench {

struct RawGrpcShape {
  uint64_t unit_bytes = 0;
  uint64_t num_units = 0;       ///< That the server holds.
  uint64_t units_per_read = 0;  ///< That the client has places for; no more than the server holds.
  uint64_t message_bytes = 0;   ///< Of units in a message, at most; at least one unit.
};

/// Serves on a free port of loopback until it is destroyed.
class RawGrpcServer {
 public:
  /// UNAVAILABLE when loopback cannot be listened on.
  static StatusOr<std::unique_ptr<RawGrpcServer>> Start(const RawGrpcShape& shape);
  ~RawGrpcServer();
  int port() const { return port_; }

 private:
  RawGrpcServer();

  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

class RawGrpcClient {
 public:
  /// `places` has room for the units of a read.
  RawGrpcClient(const RawGrpcShape& shape, const std::string& address, std::span<std::byte> places);
  /// Reads units to places; which, in what order and where to follows from `seed`. The first 8
  /// bytes of unit i are i.
  Status Read(uint64_t seed);

 private:
  const RawGrpcShape shape_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::span<std::byte> places_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_RAW_GRPC_H_
