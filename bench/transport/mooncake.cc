// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "bench/transport/free_port.h"
#include "bench/transport/mooncake_script.h"
#include "bench/transport/rivals.h"

namespace quire::bench {
namespace {

constexpr char kPackage[] = "mooncake-transfer-engine-non-cuda==0.3.13.post1";
constexpr Duration kInstallTime = std::chrono::minutes(5);
constexpr Duration kStartTime = std::chrono::seconds(60);
constexpr Duration kReadTime = std::chrono::minutes(3);

/// Runs a command to its end. UNAVAILABLE with what it said when it fails.
Status RunToEnd(std::vector<std::string> command, const std::string& log) {
  QUIRE_ASSIGN_OR_RETURN(const auto process, Process::Start(std::move(command), log));
  return process->WaitForEnd(kInstallTime);
}

/// The Python environment, made when it is not there. Its last step makes mooncake_master.
Status Install(const std::string& environment, const std::string& log) {
  if (std::filesystem::exists(environment + "/bin/mooncake_master")) return OkStatus();
  QUIRE_RETURN_IF_ERROR(RunToEnd({"python3", "-m", "venv", environment}, log));
  return RunToEnd({environment + "/bin/pip", "install", "--quiet", kPackage}, log);
}

/// Runs the three processes of one measurement.
class Mooncake {
 public:
  Mooncake(std::string environment, std::string directory)
      : environment_(std::move(environment)), directory_(std::move(directory)) {}

  Status Start(uint64_t unit_bytes, uint64_t num_units) {
    QUIRE_ASSIGN_OR_RETURN(master_port_, FreePort());
    QUIRE_ASSIGN_OR_RETURN(const int metrics_port, FreePort());
    QUIRE_ASSIGN_OR_RETURN(master_,
                           Process::Start({environment_ + "/bin/mooncake_master",
                                           "--rpc_port=" + std::to_string(master_port_),
                                           "--metrics_port=" + std::to_string(metrics_port)},
                                          directory_ + "/master.log"));
    std::ofstream(directory_ + "/rival.py") << kMooncakeScript;
    const std::string ready = directory_ + "/ready";
    QUIRE_ASSIGN_OR_RETURN(auto command, Side("store", unit_bytes, num_units));
    command.insert(command.end(), {"--ready", ready});
    QUIRE_ASSIGN_OR_RETURN(store_, Process::Start(std::move(command), directory_ + "/store.log"));
    return store_->WaitUntil([&] { return std::filesystem::exists(ready); }, kStartTime);
  }

  StatusOr<MooncakeSpeed> Read(uint64_t unit_bytes, uint64_t num_units, uint32_t rounds) {
    QUIRE_ASSIGN_OR_RETURN(auto command, Side("reader", unit_bytes, num_units));
    command.insert(command.end(), {"--rounds", std::to_string(rounds)});
    const std::string log = directory_ + "/reader.log";
    QUIRE_ASSIGN_OR_RETURN(const auto reader, Process::Start(std::move(command), log));
    QUIRE_RETURN_IF_ERROR(reader->WaitForEnd(kReadTime));
    return Parse(reader->Output());
  }

 private:
  StatusOr<std::vector<std::string>> Side(const std::string& role, uint64_t unit_bytes,
                                          uint64_t num_units) const {
    QUIRE_ASSIGN_OR_RETURN(const int port, FreePort());
    return std::vector<std::string>{environment_ + "/bin/python",
                                    directory_ + "/rival.py",
                                    role,
                                    "--port",
                                    std::to_string(port),
                                    "--master",
                                    std::to_string(master_port_),
                                    "--unit-bytes",
                                    std::to_string(unit_bytes),
                                    "--units",
                                    std::to_string(num_units)};
  }

  /// The reader's line among what its library logs.
  static StatusOr<MooncakeSpeed> Parse(const std::string& output) {
    const size_t begin = output.find("{\"bytes_per_second\"");
    if (begin == std::string::npos) return Internal("the Mooncake reader printed no result");
    const std::string line = output.substr(begin, output.find('\n', begin) - begin);
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) return Internal("the Mooncake reader printed no JSON: ", line);
    auto speeds = json["bytes_per_second"].get<std::vector<double>>();
    std::ranges::sort(speeds);
    return MooncakeSpeed{.bytes_per_second = speeds[speeds.size() / 2],
                         .version = json["version"].get<std::string>()};
  }

  const std::string environment_;
  const std::string directory_;
  int master_port_ = 0;
  std::unique_ptr<Process> master_;
  std::unique_ptr<Process> store_;
};

}  // namespace

StatusOr<MooncakeSpeed> RunMooncake(const std::string& environment, const std::string& directory,
                                    uint64_t unit_bytes, uint64_t num_units, uint32_t rounds) {
  QUIRE_RETURN_IF_ERROR(Annotate(Install(environment, directory + "/install.log"), kPackage));
  Mooncake mooncake(environment, directory);
  QUIRE_RETURN_IF_ERROR(mooncake.Start(unit_bytes, num_units));
  return mooncake.Read(unit_bytes, num_units, rounds);
}

}  // namespace quire::bench
