// SPDX-License-Identifier: Apache-2.0
#include "client/cli/data_path.h"

#include <CLI/CLI.hpp>
#include <vector>

namespace quire::cli {

void AddTransportFlag(CLI::App& command, std::string* transport, bool loopback) {
  std::vector<std::string> choices = {"auto", "grpc", "ucx", "shm"};
  if (loopback) choices.insert(choices.begin(), "loopback");
  command
      .add_option("--transport", *transport,
                  "How pages come: auto takes the first that works of shm (same host), ucx, grpc")
      ->check(CLI::IsMember(choices))
      ->capture_default_str();
}

StatusOr<DataPath> ChooseDataPath(const std::shared_ptr<Transport>& control,
                                  const DataOptions& options) {
  const auto data = DataTransport::Open(control, options);
  if (data.ok()) {
    const DataReport report = (*data)->report();
    return DataPath{.transport = *data, .name = report.taken, .summary = report.Summary()};
  }
  if (options.transport != "auto") return data.status();
  return DataPath{.transport = nullptr,
                  .name = "control",
                  .summary = "the control channel (" + std::string(Message(data.status())) + ")"};
}

}  // namespace quire::cli
