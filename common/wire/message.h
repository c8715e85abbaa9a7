// SPDX-License-Identifier: Apache-2.0
//
// Messages to bytes and back. A `string` field of proto3 has to be UTF-8: who receives other bytes
// cannot parse the whole message, and is not told which field it was. Messages are therefore
// checked where they are made. Thread-safety: pure functions.
#ifndef QUIRE_COMMON_WIRE_MESSAGE_H_
#define QUIRE_COMMON_WIRE_MESSAGE_H_

#include <string>
#include <string_view>

#include "quire/status.h"

namespace google::protobuf {
class Message;
}

namespace quire::wire {

/// INVALID_ARGUMENT naming the first `string` field of `message` that is not UTF-8, with its place
/// in lists, and the offset of the byte: "documents[3].name is not UTF-8 at byte 5".
[[nodiscard]] Status CheckText(const google::protobuf::Message& message);

/// The message's bytes. INVALID_ARGUMENT as CheckText, and for one of more than 2 GiB.
[[nodiscard]] Status Encode(const google::protobuf::Message& message, std::string* bytes);

/// INTERNAL naming the message's type when `bytes` are none: the peer has made them. `*message` is
/// not to be used then.
[[nodiscard]] Status Decode(std::string_view bytes, google::protobuf::Message* message);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_MESSAGE_H_
