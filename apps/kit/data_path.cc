// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/data_path.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

namespace quire::cli {
namespace {

constexpr char kUcxDirect[] = "ucx-direct";

}  // namespace

void AddTransportFlag(CLI::App& command, std::string* transport, bool loopback) {
  std::vector<std::string> choices = {"auto", "grpc", "ucx", "shm", kUcxDirect};
  if (loopback) choices.insert(choices.begin(), "loopback");
  command
      .add_option("--transport", *transport,
                  "How pages come: auto takes the first that works of shm (same host), ucx, grpc; "
                  "ucx is shm on the server's own host, where the server offers that; ucx-direct "
                  "is UCX where the server writes units into this program's memory by RDMA, of "
                  "which it then has as much again as slots (in a batch up to four times)")
      ->check(CLI::IsMember(choices))
      ->capture_default_str();
}

kvserver::ListenerOptions ListenersFor(const std::string& transport) {
  kvserver::ListenerOptions options;
  options.ucx.direct_landings = transport == kUcxDirect;
  if (transport != "auto") options.transports = {transport == kUcxDirect ? "ucx" : transport};
  return options;
}

DataConnector ConnectorOver(std::shared_ptr<Transport> control) {
  return [control = std::move(control)](const DataOptions& options, auto on_other_way) {
    return ConnectData(control, options, std::move(on_other_way));
  };
}

StatusOr<DataPath> ChooseDataPath(const DataConnector& connect, const DataOptions& asked,
                                  std::ostream& notes) {
  DataOptions options = asked;
  options.spin = kWorkerSpin;
  if (options.transport == kUcxDirect) {
    options.transport = "ucx";
    options.ucx_within_host = true;
    options.direct_landings = true;
  }
  const auto data = connect(options, [&notes](const DataReport& report) {
    notes << "pages now come over " + report.Summary() + "\n" << std::flush;
  });
  if (data.ok()) {
    const DataReport& report = data->report;
    return DataPath{
        .transport = data->transport, .name = report.taken, .summary = report.Summary()};
  }
  if (options.transport != "auto") return data.status();
  return DataPath{.transport = nullptr,
                  .name = "control",
                  .summary = "the control channel (" + std::string(Message(data.status())) + ")"};
}

}  // namespace quire::cli
