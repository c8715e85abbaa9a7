// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/clients/load_child.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "quire/client.h"
#include "quire/clock.h"
#include "quire/connect.h"

namespace quire::torture {
namespace {

using Json = nlohmann::json;

Json ToJson(const LoadTotals& totals) {
  Json operations = Json::object();
  for (const auto& [name, counts] : totals.operations) {
    operations[name] = {{"done", counts.done}, {"failures", counts.failures}};
  }
  return {{"operations", operations},
          {"not_found", totals.not_found},
          {"wrong_bytes", totals.wrong_bytes},
          {"begun_anew", totals.begun_anew},
          {"first_failure", totals.first_failure}};
}

/// A number of `json` by name; 0 if missing.
uint64_t Number(const Json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}

LoadCounts CountsOf(const Json& json) {
  LoadCounts counts{.done = Number(json, "done"), .failures = {}};
  const auto failures = json.find("failures");
  if (failures == json.end() || !failures->is_object()) return counts;
  for (const auto& [what, count] : failures->items()) {
    if (count.is_number_unsigned()) counts.failures[what] = count.get<uint64_t>();
  }
  return counts;
}

}  // namespace

std::vector<std::string> LoadChildOptions::ToArguments() const {
  return {"--address", address,
          "--number",  std::to_string(number),
          "--seed",    std::to_string(seed),
          "--seconds", std::to_string(seconds)};
}

Status RunLoadChild(const LoadChildOptions& options, std::ostream& out) {
  QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc(options.address));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = std::move(transport)}));
  LoadClient load(client.get(), options.number, options.seed);
  const TimePoint end = SystemClock().Now() + std::chrono::seconds(options.seconds);
  while (SystemClock().Now() < end) load.Step();
  load.DeleteAll();
  out << ToJson(load.totals()).dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
  return OkStatus();
}

StatusOr<LoadTotals> ParseLoadTotals(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("operations") || !json["operations"].is_object()) {
    return Internal("a client of the load ended without saying what came of its calls: '", line,
                    "'; see its messages above");
  }
  LoadTotals totals;
  for (const auto& [name, counts] : json["operations"].items()) {
    if (counts.is_object()) totals.operations[name] = CountsOf(counts);
  }
  totals.not_found = Number(json, "not_found");
  totals.wrong_bytes = Number(json, "wrong_bytes");
  totals.begun_anew = Number(json, "begun_anew");
  const auto failure = json.find("first_failure");
  if (failure != json.end() && failure->is_string()) {
    totals.first_failure = failure->get<std::string>();
  }
  return totals;
}

}  // namespace quire::torture
