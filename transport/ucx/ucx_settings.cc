// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_settings.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace quire {
namespace {

/// Most pieces of one message; UCX has no more.
constexpr char kMostPieces[] = "16";

/// The variables that decide a setting, including those of single transports.
std::vector<std::string> VariablesOf(const std::string& name) {
  if (name.ends_with("_SEG_SIZE") || name == "MAX_IOV") return {"UCX_" + name, "UCX_TCP_" + name};
  return {"UCX_" + name};
}

}  // namespace

UcxSettings ChooseUcxSettings(const UcxOptions& options, bool loopback,
                              const IsVariableSet& is_set) {
  UcxSettings settings;
  const auto ask = [&](const std::string& name, std::string value) {
    settings.values[name] = std::move(value);
  };
  const auto by_default = [&](const std::string& name, std::string value) {
    if (!std::ranges::any_of(VariablesOf(name), is_set)) ask(name, std::move(value));
  };

  if (!options.transports.empty()) ask("TLS", options.transports);
  if (!options.devices.empty()) {
    ask("NET_DEVICES", options.devices);
  } else if (loopback) {
    // With all devices UCX stripes over loopback and the network card, which is several times
    // slower.
    by_default("NET_DEVICES", "lo");
  }

  // Without the detection, UCX (1.13) names a rendezvous by the address of its request. It follows
  // that address when the peer reports the end of an abandoned one.
  const bool safe = options.peer_failure_detection;
  const bool rendezvous = safe && options.rendezvous_bytes != UINT64_MAX;
  if (!safe) {
    ask("RNDV_THRESH", "inf");
  } else if (rendezvous) {
    ask("RNDV_THRESH", std::to_string(options.rendezvous_bytes));
    settings.gather_bytes = options.rendezvous_bytes;
  } else {
    by_default("RNDV_THRESH", "inf");
    // Only UCX then knows which messages go by rendezvous.
    if (!settings.values.contains("RNDV_THRESH")) settings.gather_bytes = 0;
  }
  by_default("MAX_IOV", kMostPieces);
  // The threshold covers both messages and puts. Puts of direct landings keep UCX's own.
  if (!rendezvous && !options.direct_landings) {
    by_default("ZCOPY_THRESH", std::to_string(kUcxInPlaceBytes));
  }

  const std::string segment = std::to_string(options.segment_bytes);
  by_default("TX_SEG_SIZE", segment);
  by_default("RX_SEG_SIZE", segment);
  return settings;
}

}  // namespace quire
