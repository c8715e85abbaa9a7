// SPDX-License-Identifier: Apache-2.0
//
// OtlpSettings: where traces go and which are recorded, as OpenTelemetry's standard environment
// variables say (docs/operations.md lists them). Parsing is a pure function. Plain values.
#ifndef QUIRE_TRANSPORT_OTLP_OTLP_SETTINGS_H_
#define QUIRE_TRANSPORT_OTLP_OTLP_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/trace/trace_sampler.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire {

struct OtlpSettings {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  std::string address;  ///< "host:port" of the collector.
  TraceSampler sampler = {};
  Pairs resource = {};                          ///< Attributes of the process, service.name too.
  Pairs headers = {};                           ///< Metadata of each call.
  Duration timeout = std::chrono::seconds(10);  ///< Longest time of a call.
  Duration delay = std::chrono::seconds(5);     ///< How long a span may wait for others.
  uint32_t queue_spans = 2048;                  ///< Further spans are dropped.
  uint32_t batch_spans = 512;                   ///< Most spans of one call.
};

/// The value of a variable of the environment; null when it is not set.
using ReadVariable = std::function<const char*(const char* name)>;

/// Nullopt when no collector is named, or tracing is switched off. INVALID_ARGUMENT naming a
/// variable whose value is not understood, UNIMPLEMENTED for a protocol that Quire lacks.
/// `service` names the process where no variable does.
StatusOr<std::optional<OtlpSettings>> ReadOtlpSettings(const ReadVariable& read,
                                                       std::string_view service);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_OTLP_OTLP_SETTINGS_H_
