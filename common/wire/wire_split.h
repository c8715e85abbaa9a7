// SPDX-License-Identifier: Apache-2.0
//
// Splits a serialized message into its control bytes and its payload (field 15), and makes the
// header that joins them again. The payload is never copied: its slices point into the message.
//
// The message is untrusted. Splitting follows protobuf: fields may have any order, and the last
// payload field wins. Only the top level is parsed. The control bytes may still be invalid.
#ifndef QUIRE_COMMON_WIRE_WIRE_SPLIT_H_
#define QUIRE_COMMON_WIRE_WIRE_SPLIT_H_

#include <cstdint>
#include <string>

#include "common/base/payload.h"
#include "common/base/status.h"

namespace quire::wire {

inline constexpr uint32_t kPayloadField = 15;
inline constexpr char kPayloadTag = 0x7a;  ///< (15 << 3) | 2: field 15, length-delimited.

/// Splits `message`. `*control` gets every top-level field but the payload, in order. `*payload`
/// gets the payload's bytes and shares the owners of the message's slices. Both are set only on OK.
/// INVALID_ARGUMENT when the bytes are not a sequence of whole protobuf fields.
[[nodiscard]] Status SplitMessage(const Payload& message, std::string* control, Payload* payload);

/// Bytes between the control bytes and a payload of `payload_bytes`: tag and length. Empty for an
/// empty payload, which is not sent.
[[nodiscard]] std::string PayloadHeader(uint64_t payload_bytes);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_WIRE_SPLIT_H_
