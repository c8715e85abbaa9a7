// SPDX-License-Identifier: Apache-2.0
//
// Protobuf messages as fuzzers read them: protobuf does not log what is malformed.
#ifndef QUIRE_TESTS_FUZZ_MESSAGES_H_
#define QUIRE_TESTS_FUZZ_MESSAGES_H_

#include <google/protobuf/stubs/logging.h>

#include <string_view>

namespace quire::fuzz {

[[maybe_unused]] inline const auto kNoLog = google::protobuf::SetLogHandler(nullptr);

/// False for bytes that are no message.
template <typename Message>
bool Parse(std::string_view bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace quire::fuzz

#endif  // QUIRE_TESTS_FUZZ_MESSAGES_H_
