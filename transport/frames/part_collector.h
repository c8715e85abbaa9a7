// SPDX-License-Identifier: Apache-2.0
//
// PartCollector: a ReplyWriter that keeps the parts, for transports that answer only after the
// handler has returned, and for tests of handlers. Thread-safety: none.
#ifndef QUIRE_TRANSPORT_FRAMES_PART_COLLECTOR_H_
#define QUIRE_TRANSPORT_FRAMES_PART_COLLECTOR_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "transport/frames/message_limit.h"
#include "transport/transport.h"

namespace quire {

class PartCollector final : public ReplyWriter {
 public:
  /// Accepts up to `max_parts` parts of up to `max_message_bytes` each.
  PartCollector(uint32_t max_parts, uint64_t max_message_bytes)
      : max_parts_(max_parts), max_message_bytes_(max_message_bytes) {}

  /// INTERNAL for a part too many: the handler ignored CallContext::max_parts.
  Status Write(CallMessage part) override {
    QUIRE_RETURN_IF_ERROR(CheckMessageBytes(part, max_message_bytes_, "reply"));
    if (parts_.size() >= max_parts_) {
      return Internal("the reply has more than ", max_parts_, " parts, all that the caller takes");
    }
    parts_.push_back(std::move(part));
    return OkStatus();
  }

  std::vector<CallMessage>& parts() { return parts_; }

 private:
  const uint32_t max_parts_;
  const uint64_t max_message_bytes_;
  std::vector<CallMessage> parts_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_PART_COLLECTOR_H_
