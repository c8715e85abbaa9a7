// SPDX-License-Identifier: Apache-2.0
//
// Tracing: a process's tracer and its exporter, when the environment asks for them.
//
//   QUIRE_ASSIGN_OR_RETURN(const auto tracing, Tracing::Start("quired", std::getenv));
//   options.tracer = TracerOf(tracing.get());
//
// Thread-safety: all methods may be called concurrently. Ownership: it outlives whatever it traces.
#ifndef QUIRE_TRANSPORT_OTLP_TRACING_H_
#define QUIRE_TRANSPORT_OTLP_TRACING_H_

#include <memory>
#include <string_view>
#include <utility>

#include "common/base/trace/tracer.h"
#include "quire/status.h"
#include "transport/otlp/otlp_exporter.h"
#include "transport/otlp/otlp_settings.h"

namespace quire {

class Tracing {
 public:
  /// Null when tracing is off. Errors: those of ReadOtlpSettings. Spans that cannot be sent become
  /// lines of the log.
  static StatusOr<std::unique_ptr<Tracing>> Start(std::string_view service,
                                                  const ReadVariable& read);

  const Tracer& tracer() const { return tracer_; }
  void VisitMetrics(MetricsVisitor& visit) const { exporter_->VisitMetrics(visit); }

 private:
  Tracing(const OtlpSettings& settings, std::unique_ptr<OtlpExporter> exporter)
      : exporter_(std::move(exporter)), tracer_(settings.sampler, exporter_->sink()) {}

  const std::unique_ptr<OtlpExporter> exporter_;
  const Tracer tracer_;
};

/// Null when tracing is off.
inline const Tracer* TracerOf(const Tracing* tracing) {
  return tracing == nullptr ? nullptr : &tracing->tracer();
}

}  // namespace quire

#endif  // QUIRE_TRANSPORT_OTLP_TRACING_H_
