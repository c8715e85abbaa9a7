// SPDX-License-Identifier: Apache-2.0
//
// Payloads of incoming requests, and units of outgoing replies.
#ifndef QUIRE_KVSERVER_SERVICE_ADAPTERS_PAYLOAD_CHECK_H_
#define QUIRE_KVSERVER_SERVICE_ADAPTERS_PAYLOAD_CHECK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/memory/checksum.h"
#include "kvserver/store/page_store.h"
#include "quire/payload.h"
#include "quire/status.h"

namespace quire::kvserver {

inline uint32_t PayloadCrc32c(const Payload& payload) {
  uint32_t crc32c = 0;
  for (const Slice& slice : payload.slices()) crc32c = Crc32c(slice.bytes, crc32c);
  return crc32c;
}

/// DATA_LOSS when the bytes do not match the sender's checksum.
[[nodiscard]] inline Status CheckPayload(const Payload& payload, uint32_t crc32c) {
  const uint32_t actual = PayloadCrc32c(payload);
  if (actual == crc32c) return OkStatus();
  return DataLoss("the payload of ", payload.size_bytes(), " bytes has checksum ", actual,
                  ", not the stated ", crc32c, ": it was damaged on the way; send it again");
}

/// The payload as one run of bytes for kernels: in place when it is contiguous and aligned,
/// otherwise a copy.
[[nodiscard]] inline Slice Contiguous(const Payload& payload) {
  constexpr uintptr_t kAlignment = 16;
  const Slice whole = payload.Flatten();
  if (reinterpret_cast<uintptr_t>(whole.bytes.data()) % kAlignment == 0) return whole;
  auto copy = std::make_shared<std::vector<std::byte>>(whole.bytes.begin(), whole.bytes.end());
  const std::span<const std::byte> bytes(*copy);
  return Slice{bytes, std::move(copy)};
}

/// Adds units to a reply: checksums to `crc32c` (a repeated field), bytes to `payload`.
template <typename RepeatedField>
void AppendUnits(const std::vector<UnitBytes>& units, RepeatedField* crc32c, Payload* payload) {
  crc32c->Reserve(static_cast<int>(units.size()));
  for (const UnitBytes& unit : units) {
    OutboundBytes sent = unit.ToSend();
    crc32c->Add(sent.crc32c);
    payload->Append(std::move(sent.slice));
  }
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADAPTERS_PAYLOAD_CHECK_H_
