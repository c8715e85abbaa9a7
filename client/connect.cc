// SPDX-License-Identifier: Apache-2.0
#include "quire/connect.h"

#include <utility>

#include "client/data/data_transport.h"
#include "common/wire/limits.h"
#include "transport/grpc/grpc_transport.h"

namespace quire {

static_assert(kDefaultMaxMessageBytes == wire::kDefaultMaxMessageBytes);

StatusOr<std::shared_ptr<Transport>> ConnectGrpc(const std::string& address,
                                                 const ConnectOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GrpcTransport> transport,
                         GrpcTransport::Create({.address = address,
                                                .max_message_bytes = options.max_message_bytes,
                                                .token = options.token}));
  return std::shared_ptr<Transport>(std::move(transport));
}

std::string DataReport::Summary() const {
  std::string text = taken;
  std::string others;
  for (const auto& [kind, why] : passed_over) {
    others.append(others.empty() ? "" : "; ").append("not ").append(kind).append(": ").append(why);
  }
  return others.empty() ? text : text.append(" (").append(others).append(")");
}

StatusOr<DataConnection> ConnectData(const std::shared_ptr<Transport>& control,
                                     const DataOptions& options,
                                     std::function<void(const DataReport&)> on_other_way) {
  QUIRE_ASSIGN_OR_RETURN(auto transport,
                         internal::DataTransport::Open(control, options, std::move(on_other_way)));
  DataReport report = transport->report();
  return DataConnection{.transport = std::move(transport), .report = std::move(report)};
}

}  // namespace quire
