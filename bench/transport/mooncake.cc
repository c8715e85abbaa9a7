// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "bench/transport/congestion_control.h"
#include "bench/transport/free_port.h"
#include "bench/transport/mooncake_script.h"
#include "bench/transport/rivals.h"

namespace quire::bench {
namespace {

constexpr char kPackage[] = "mooncake-transfer-engine-non-cuda==0.3.13.post1";
constexpr Duration kInstallTime = std::chrono::minutes(5);
constexpr Duration kStartTime = std::chrono::seconds(120);
constexpr Duration kReadTime = std::chrono::minutes(3);

/// Runs a command to its end. UNAVAILABLE, with its output, if it fails.
Status RunToEnd(std::vector<std::string> command, const std::string& log) {
  QUIRE_ASSIGN_OR_RETURN(const auto process, Process::Start(std::move(command), log));
  return process->WaitForEnd(kInstallTime);
}

/// Creates the Python environment if missing. The last step makes mooncake_master.
Status Install(const std::string& environment, const std::string& log) {
  if (std::filesystem::exists(environment + "/bin/mooncake_master")) return OkStatus();
  QUIRE_RETURN_IF_ERROR(RunToEnd({"python3", "-m", "venv", environment}, log));
  return RunToEnd({environment + "/bin/pip", "install", "--quiet", kPackage}, log);
}

}  // namespace

StatusOr<std::unique_ptr<Mooncake>> Mooncake::Start(const std::string& environment,
                                                    const std::string& directory,
                                                    const MooncakeUnits& units) {
  QUIRE_RETURN_IF_ERROR(Annotate(Install(environment, directory + "/install.log"), kPackage));
  std::unique_ptr<Mooncake> self(new Mooncake(environment, directory, units));
  self->unpaced_ = UnpacedEnvironment(directory);
  QUIRE_RETURN_IF_ERROR(self->StartStore());
  QUIRE_RETURN_IF_ERROR(self->StartReader());
  return self;
}

Status Mooncake::StartStore() {
  QUIRE_ASSIGN_OR_RETURN(master_port_, FreePort());
  QUIRE_ASSIGN_OR_RETURN(const int metrics_port, FreePort());
  QUIRE_ASSIGN_OR_RETURN(master_, Process::Start({environment_ + "/bin/mooncake_master",
                                                  "--rpc_port=" + std::to_string(master_port_),
                                                  "--metrics_port=" + std::to_string(metrics_port)},
                                                 directory_ + "/master.log", unpaced_));
  std::ofstream(directory_ + "/rival.py") << kMooncakeScript;
  const std::string ready = directory_ + "/ready";
  QUIRE_ASSIGN_OR_RETURN(auto command, Side("store"));
  command.insert(command.end(), {"--ready", ready});
  QUIRE_ASSIGN_OR_RETURN(store_,
                         Process::Start(std::move(command), directory_ + "/store.log", unpaced_));
  return store_->WaitUntil([&] { return std::filesystem::exists(ready); }, kStartTime);
}

Status Mooncake::StartReader() {
  const std::string turns = directory_ + "/turns";
  if (mkfifo(turns.c_str(), 0600) != 0) {
    return Unavailable("cannot make the pipe ", turns, ": ", std::strerror(errno));
  }
  // Opened for reading and writing, so that neither end blocks, nor gets a signal when the other
  // dies.
  turns_ = UniqueFd(open(turns.c_str(), O_RDWR | O_CLOEXEC));
  QUIRE_ASSIGN_OR_RETURN(auto command, Side("reader"));
  command.insert(command.end(), {"--turns", turns});
  QUIRE_ASSIGN_OR_RETURN(reader_,
                         Process::Start(std::move(command), directory_ + "/reader.log", unpaced_));
  QUIRE_ASSIGN_OR_RETURN(const auto version, Await("version", kStartTime));
  version_ = version.get<std::string>();
  return OkStatus();
}

StatusOr<std::vector<Duration>> Mooncake::Ask(const std::string& word, uint64_t first,
                                              uint64_t second) {
  const std::string line = word + " " + std::to_string(first) + " " + std::to_string(second) + "\n";
  if (write(turns_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return Unavailable("cannot tell the Mooncake reader");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto seconds, Await("seconds", kReadTime));
  std::vector<Duration> times;
  for (const auto& read : seconds) {
    times.push_back(
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(read.get<double>())));
  }
  return times;
}

StatusOr<std::vector<Duration>> Mooncake::Read(uint64_t units, uint32_t count) {
  QUIRE_ASSIGN_OR_RETURN(auto times, Ask("read", units, count));
  if (times.size() == count) return times;
  return Internal("the Mooncake reader has read ", times.size(), " times instead of ", count);
}

StatusOr<Duration> Mooncake::Put(uint64_t first, uint64_t units) {
  QUIRE_ASSIGN_OR_RETURN(const auto times, Ask("put", first, units));
  if (times.size() == 1) return times.front();
  return Internal("the Mooncake reader did not say how long a put took");
}

Status Mooncake::Remove(uint64_t first, uint64_t units) {
  return Ask("remove", first, units).status();
}

StatusOr<Duration> Mooncake::Read() {
  QUIRE_ASSIGN_OR_RETURN(const auto times, Read(units_.units_per_read, 1));
  return times.front();
}

StatusOr<nlohmann::json> Mooncake::Await(const std::string& key, Duration timeout) {
  const std::string begins = "{\"" + key + "\"";
  std::string output;
  size_t begin = 0, end = 0;
  const auto printed = [&] {
    output = reader_->Output();
    begin = output.find(begins, read_);
    end = output.find('\n', begin == std::string::npos ? output.size() : begin);
    return end != std::string::npos;
  };
  QUIRE_RETURN_IF_ERROR(reader_->WaitUntil(printed, timeout));
  read_ = end;
  const auto json = nlohmann::json::parse(output.substr(begin, end - begin), nullptr, false);
  if (!json.contains(key)) return Internal("the Mooncake reader printed no JSON");
  return json[key];
}

StatusOr<std::vector<std::string>> Mooncake::Side(const std::string& role) const {
  QUIRE_ASSIGN_OR_RETURN(const int port, FreePort());
  return std::vector<std::string>{environment_ + "/bin/python",
                                  directory_ + "/rival.py",
                                  role,
                                  "--port",
                                  std::to_string(port),
                                  "--master",
                                  std::to_string(master_port_),
                                  "--unit-bytes",
                                  std::to_string(units_.unit_bytes),
                                  "--units",
                                  std::to_string(units_.num_units),
                                  "--units-per-read",
                                  std::to_string(units_.units_per_read)};
}

}  // namespace quire::bench
