// SPDX-License-Identifier: Apache-2.0
//
// Serialization of messages. A `string` field of proto3 must be UTF-8. A receiver of other bytes
// cannot parse the whole message, and does not learn the field. Messages are therefore checked by
// their sender. Thread-safety: pure functions.
#ifndef QUIRE_COMMON_WIRE_MESSAGE_H_
#define QUIRE_COMMON_WIRE_MESSAGE_H_

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace google::protobuf {
class Message;
}

namespace quire::wire {

/// INVALID_ARGUMENT naming the first `string` field of `message` that is not UTF-8, with list
/// indices and byte offset: "documents[3].name is not UTF-8 at byte 5".
[[nodiscard]] Status CheckText(const google::protobuf::Message& message);

/// Serializes `message`. INVALID_ARGUMENT as CheckText, and above 2 GiB.
[[nodiscard]] Status Encode(const google::protobuf::Message& message, std::string* bytes);

/// Parses `bytes`, which the peer has made. INTERNAL naming the message's type when it fails;
/// `*message` is unspecified then.
[[nodiscard]] Status Decode(std::string_view bytes, google::protobuf::Message* message);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_MESSAGE_H_
