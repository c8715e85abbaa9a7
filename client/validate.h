// SPDX-License-Identifier: Apache-2.0
//
// Checks of what the caller gives and what the server replies; internal to client/. Pure functions.
#ifndef QUIRE_CLIENT_VALIDATE_H_
#define QUIRE_CLIENT_VALIDATE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/memory/unit_checksums.h"
#include "quire/client.h"
#include "quire/kv_spec.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "quire/v1/types.pb.h"

namespace quire::internal {

/// INVALID_ARGUMENT naming the field when the caller's spec is not valid.
[[nodiscard]] Status CheckSpec(const KvSpec& spec);
/// INVALID_ARGUMENT when a document's collection or name is one that no server takes.
[[nodiscard]] Status CheckName(const DocumentName& name);
[[nodiscard]] Status CheckRef(const ContextRef& context);

/// The context in a reply to `method`; DATA_LOSS (BadReply) when its counts and keys do not agree.
[[nodiscard]] StatusOr<ContextInfo> ContextFromReply(std::string_view method,
                                                     const v1::ContextInfo& info);

/// INVALID_ARGUMENT unless the caller's `payload` has exactly `bytes` bytes; `what` says what it
/// is.
[[nodiscard]] Status CheckPayloadSize(std::string_view what, const Payload& payload,
                                      uint64_t bytes);

/// Checksum of all bytes in order.
[[nodiscard]] uint32_t PayloadCrc32c(const Payload& payload);

/// Times that a client asks again for units that did not match. A reply names all that it has, so
/// more than one is for those that are damaged in between, or on the way.
inline constexpr uint32_t kMaxRechecks = 3;

/// Checks a received payload of `num_units` units of `unit_bytes` bytes (> 0) against one checksum
/// each. A non-OK status names the wrong size, the wrong number of checksums, or the first
/// mismatched unit. All mismatched units are added to `mismatches`, if given. Units may lie across
/// slices.
[[nodiscard]] Status CheckUnits(const Payload& payload, uint64_t num_units, uint64_t unit_bytes,
                                std::span<const uint32_t> unit_crc32c,
                                std::vector<UnitMismatch>* mismatches = nullptr);

/// The managed layers that `options` mean, or what is wrong with the options.
StatusOr<std::vector<uint32_t>> LayersOf(const SessionOptions& options);

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_VALIDATE_H_
