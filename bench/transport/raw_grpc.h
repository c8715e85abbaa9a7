// SPDX-License-Identifier: Apache-2.0
//
// The minimal gRPC streaming program, the limit of a gRPC transport. It uses one streaming call of
// the synchronous API. A message holds the places of its units, and the units as slices scattered
// over the server's memory. The client copies every unit to its place. Messages have the size of
// the transport's parts. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_RAW_GRPC_H_
#define QUIRE_BENCH_TRANSPORT_RAW_GRPC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"

namespace grpc {
class Channel;
class Server;
class Service;
}  // namespace grpc

namespace quire::bench {

struct RawGrpcShape {
  uint64_t unit_bytes = 0;
  uint64_t num_units = 0;       ///< Units that the server holds.
  uint64_t units_per_read = 0;  ///< Units that the client has places for; at most num_units.
  uint64_t message_bytes = 0;   ///< Most bytes of units in a message; at least one unit.
};

/// Serves on a free port of loopback until it is destroyed.
class RawGrpcServer {
 public:
  /// UNAVAILABLE if it cannot listen on loopback.
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
  /// Reads units to places; `seed` decides the units, their order and their places. The first 8
  /// bytes of unit i are i.
  Status Read(uint64_t seed);

 private:
  const RawGrpcShape shape_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::span<std::byte> places_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_RAW_GRPC_H_
