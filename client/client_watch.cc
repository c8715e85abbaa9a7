// SPDX-License-Identifier: Apache-2.0
//
// Client's reads of the log of events.
#include <algorithm>
#include <chrono>

#include "client/caller.h"
#include "common/wire/convert.h"
#include "common/wire/convert_document.h"
#include "common/wire/limits.h"
#include "quire/client.h"
#include "quire/v1/registry.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kWatch = {"quire.v1.Registry/Watch", Repeat::kSafe};

uint32_t MillisOf(Duration wait) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(millis, 0, wire::kMaxWatchMillis));
}

/// Positions must go up, from `after` on, so that a caller always gets on.
Status CheckOrder(const WatchOptions& options, const DocumentEvents& page) {
  uint64_t last = options.after;
  for (const DocumentEvent& event : page.events) {
    if (event.position <= last) return BadReply(kWatch.method, "its events are not in order");
    last = event.position;
  }
  if (page.position < last) return BadReply(kWatch.method, "its position goes back");
  return OkStatus();
}

}  // namespace

StatusOr<DocumentEvents> Client::WatchDocuments(const WatchOptions& options) {
  if (!options.collection.empty()) {
    QUIRE_RETURN_IF_ERROR(wire::CheckCollection(options.collection));
  }
  v1::WatchRequest request;
  request.set_after(options.after);
  request.set_from_now(options.from_now);
  request.set_collection(options.collection);
  request.set_max_events(options.max_events);
  request.set_wait_millis(MillisOf(options.wait));
  v1::WatchReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kWatch, request, {}, caller_->NewDeadline(), &reply, nullptr));
  DocumentEvents page{.events = {}, .position = reply.position(), .oldest = reply.oldest()};
  for (const v1::DocumentEvent& proto : reply.events()) {
    auto event = wire::EventFromProto(proto);
    if (!event.ok()) return BadReply(kWatch.method, Message(event.status()));
    page.events.push_back(*std::move(event));
  }
  QUIRE_RETURN_IF_ERROR(CheckOrder(options, page));
  return page;
}

}  // namespace quire
