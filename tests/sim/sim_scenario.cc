// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_scenario.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/small_file.h"

namespace quire::sim {
namespace {

using nlohmann::json;

constexpr size_t kMostScenarioBytes = 1 << 16;

const std::map<std::string, SimFaultKind>& FaultKinds() {
  static const std::map<std::string, SimFaultKind> kinds = {
      {"crash", SimFaultKind::kCrash},        {"partition", SimFaultKind::kPartition},
      {"one_way", SimFaultKind::kOneWay},     {"clock_jump", SimFaultKind::kClockJump},
      {"slow_disk", SimFaultKind::kSlowDisk}, {"etcd_away", SimFaultKind::kEtcdAway},
      {"compact", SimFaultKind::kCompact},    {"drain", SimFaultKind::kDrain},
      {"join", SimFaultKind::kJoin},          {"long_crash", SimFaultKind::kLongCrash}};
  return kinds;
}

/// Reads the numbers that are there, and refuses other keys.
class ScenarioReader {
 public:
  ScenarioReader(std::string where, const json& object)
      : where_(std::move(where)), object_(object) {
    if (!object_.is_object()) status_ = InvalidArgument(where_, " is no object");
  }

  template <typename Number>
  ScenarioReader& Take(const std::string& key, Number* number) {
    known_.insert(key);
    if (!status_.ok() || !object_.contains(key)) return *this;
    if (object_[key].is_number()) {
      *number = object_[key].get<Number>();
    } else {
      status_ = InvalidArgument(where_, ": ", key, " is no number");
    }
    return *this;
  }
  ScenarioReader& Know(const std::string& key) {
    known_.insert(key);
    return *this;
  }
  Status Done() const {
    QUIRE_RETURN_IF_ERROR(status_);
    for (const auto& [key, value] : object_.items()) {
      if (!known_.contains(key)) return InvalidArgument(where_, " has an unknown key ", key);
    }
    return OkStatus();
  }

 private:
  const std::string where_;
  const json& object_;
  std::set<std::string> known_;
  Status status_;
};

StatusOr<SimFault> ParseFault(const std::string& name, const json& object) {
  SimFault fault;
  QUIRE_RETURN_IF_ERROR(ScenarioReader(name + ": a fault", object)
                            .Take("every_s", &fault.every_s)
                            .Take("for_s", &fault.for_s)
                            .Know("kind")
                            .Done());
  const std::string kind = object.contains("kind") && object["kind"].is_string()
                               ? object["kind"].get<std::string>()
                               : "";
  const auto found = FaultKinds().find(kind);
  if (found == FaultKinds().end()) return InvalidArgument(name, ": no kind of fault '", kind, "'");
  fault.kind = found->second;
  return fault;
}

}  // namespace

StatusOr<SimScenario> ParseScenario(const std::string& name, const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  SimScenario scenario{.name = name};
  QUIRE_RETURN_IF_ERROR(ScenarioReader(name, object)
                            .Take("nodes", &scenario.nodes)
                            .Take("zones", &scenario.zones)
                            .Take("replicas", &scenario.replicas)
                            .Take("min_replicas", &scenario.min_replicas)
                            .Take("clients", &scenario.clients)
                            .Take("seconds", &scenario.seconds)
                            .Take("loss", &scenario.loss)
                            .Take("duplicate", &scenario.duplicate)
                            .Take("most_delay_ms", &scenario.most_delay_ms)
                            .Take("hot_readers", &scenario.hot_readers)
                            .Take("hot_reads_per_second", &scenario.hot_reads_per_second)
                            .Take("hot_replicas", &scenario.hot_replicas)
                            .Take("hot_keep_seconds", &scenario.hot_keep_seconds)
                            .Know("faults")
                            .Done());
  if (!object.contains("faults")) return scenario;
  for (const json& fault : object["faults"]) {
    QUIRE_ASSIGN_OR_RETURN(const SimFault parsed, ParseFault(name, fault));
    scenario.faults.push_back(parsed);
  }
  return scenario;
}

StatusOr<std::vector<SimScenario>> ReadScenarios(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error) return NotFound(folder, ": ", error.message());
  std::ranges::sort(files);
  std::vector<SimScenario> scenarios;
  for (const auto& file : files) {
    QUIRE_ASSIGN_OR_RETURN(const SmallFile read, ReadSmallFile(file.string(), kMostScenarioBytes));
    QUIRE_ASSIGN_OR_RETURN(SimScenario scenario, ParseScenario(file.stem().string(), read.text));
    scenarios.push_back(std::move(scenario));
  }
  return scenarios;
}

}  // namespace quire::sim
