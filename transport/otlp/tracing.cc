// SPDX-License-Identifier: Apache-2.0
#include "transport/otlp/tracing.h"

#include <string>
#include <utility>

#include "common/base/observe/log.h"

namespace quire {

StatusOr<std::unique_ptr<Tracing>> Tracing::Start(std::string_view service,
                                                  const ReadVariable& read) {
  QUIRE_ASSIGN_OR_RETURN(const std::optional<OtlpSettings> settings,
                         ReadOtlpSettings(read, service));
  if (!settings) return nullptr;
  const auto report = [address = settings->address](std::string_view why, uint64_t dropped) {
    LogWarning("traces_not_sent", {{"collector", address},
                                   {"dropped_spans", std::to_string(dropped)},
                                   {"why", std::string(why)}});
  };
  QUIRE_ASSIGN_OR_RETURN(auto exporter, OtlpExporter::Start(*settings, report));
  return std::unique_ptr<Tracing>(new Tracing(*settings, std::move(exporter)));
}

}  // namespace quire
