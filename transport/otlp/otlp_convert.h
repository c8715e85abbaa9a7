// SPDX-License-Identifier: Apache-2.0
//
// Spans as OTLP's messages. Thread-safety: pure functions.
#ifndef QUIRE_TRANSPORT_OTLP_OTLP_CONVERT_H_
#define QUIRE_TRANSPORT_OTLP_OTLP_CONVERT_H_

#include <span>

#include "common/base/trace/span.h"
#include "otlp/trace.pb.h"
#include "transport/otlp/otlp_settings.h"

namespace quire {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;

/// One request with all of `spans`, of the process that `resource` describes.
otlp::ExportTraceServiceRequest SpansToProto(std::span<const SpanRecord> spans,
                                             const OtlpSettings::Pairs& resource);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_OTLP_OTLP_CONVERT_H_
