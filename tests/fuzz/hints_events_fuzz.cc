// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes hints of agents, and requests and replies about the events of segments. The first byte
// picks one. Accepted input must keep to its bounds and survive a round trip; a reply that a client
// takes must bring its reader on.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_event.h"
#include "common/wire/limits.h"
#include "kvserver/service/adapters/following.h"
#include "quire/client.h"
#include "quire/v1/events.pb.h"
#include "quire/v1/store.pb.h"
#include "tests/fuzz/messages.h"
#include "tests/fuzz/require.h"
#include "transport/transport.h"

namespace {

using namespace quire;
using fuzz::Parse;
using fuzz::Require;

void CheckHints(std::string_view bytes) {
  v1::Hints proto, again;
  if (!Parse(bytes, &proto)) return;
  const auto hints = wire::HintsFromProto(proto);
  if (!hints.ok()) return;
  Require(hints->keep_seconds <= kMaxKeepSeconds);
  Require(hints->conversation.size() <= kMaxConversationBytes);
  wire::HintsToProto(*hints, &again);
  const auto back = wire::HintsFromProto(again);
  Require(back.ok() && *back == *hints);
}

void CheckRequests(std::string_view bytes) {
  if (v1::FollowRequest follow; Parse(bytes, &follow) && kvserver::CheckFollowing(follow).ok()) {
    const uint32_t events = kvserver::EventsOf(follow);
    Require(events >= 1 && events <= wire::kMaxWatchedEvents);
  }
  if (v1::ListSegmentsRequest list; Parse(bytes, &list)) {
    (void)wire::KeyOrRootFromBytes(list.after(), "after");
  }
}

/// A server whose every reply is one message.
class OneReply final : public Transport {
 public:
  explicit OneReply(std::string_view reply) : reply_(reply) {}

  TransportCapabilities capabilities() const override {
    return {.name = "fuzz", .max_message_bytes = wire::kDefaultMaxMessageBytes};
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage,
                                               const CallOptions&) override {
    return Unimplemented(method);
  }
  Status Call(std::string_view, const CallMessage&, CallMessage* reply,
              const CallOptions&) override {
    reply->control = reply_;
    return OkStatus();
  }

 private:
  const std::string reply_;
};

std::unique_ptr<Client> ClientOf(std::string_view reply) {
  auto client = Client::Create({.transport = std::make_shared<OneReply>(reply)});
  Require(client.ok());
  return *std::move(client);
}

void CheckFollowReply(std::string_view bytes) {
  const auto client = ClientOf(bytes);
  const auto read = client->FollowSegments({.after = 5});
  if (!read.ok()) return;
  uint64_t last = 5;
  for (const SegmentEvent& event : read->events) {
    Require(event.kind == SegmentEventKind::kGap || event.position > last);
    last = event.position;
    v1::SegmentEvent proto;
    wire::EventToProto(event, &proto);
    const auto back = wire::EventFromProto(proto);
    Require(back.ok() && *back == event);
  }
  Require(read->events.empty() || read->position == last);
}

void CheckListReply(std::string_view bytes) {
  const auto client = ClientOf(bytes);
  const auto segments = client->ListSegments();
  if (!segments.ok()) return;
  SegmentKey last = kRootKey;
  for (const ListedSegment& segment : *segments) {
    Require(last < segment.segment);
    last = segment.segment;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr void (*kChecks[])(std::string_view) = {CheckHints, CheckRequests, CheckFollowReply,
                                                   CheckListReply};
  kChecks[data[0] % std::size(kChecks)](
      std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
