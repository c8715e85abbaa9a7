// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/peer_calls.h"

#include <algorithm>
#include <utility>

#include "common/base/memory/checksum.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "common/wire/message.h"
#include "quire/layout.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/replica.pb.h"

namespace quire::cluster {
namespace {

/// Transports kept before all are made anew; members are few.
constexpr size_t kMostTransports = 256;
/// Most segments of a chain that a node describes.
constexpr uint64_t kMostChainSegments = 65536;
/// Most segments of an extra, as servers take them.
constexpr uint64_t kMostSegmentsOfAnExtra = 4096;
/// Most bytes of a segment, as PageStore takes them.
constexpr uint64_t kMostSegmentBytes = uint64_t{1} << 30;

/// Time for a question that reads no segment.
constexpr Duration kQuestionTime = std::chrono::seconds(3);
/// Time for which a member that did not answer is asked nothing.
constexpr Duration kSilence = std::chrono::seconds(10);

/// Positive, since a transport takes no other timeout.
Duration TimeUntil(TimePoint deadline, Duration most) {
  const Duration left = deadline - SystemClock().Now();
  return std::clamp<Duration>(left, std::chrono::milliseconds(1), most);
}

void AppendTo(std::vector<std::byte>* bytes, const Payload& payload) {
  const size_t before = bytes->size();
  bytes->resize(before + payload.size_bytes());
  payload.CopyTo(bytes->data() + before);
}

}  // namespace

StatusOr<std::shared_ptr<Transport>> PeerCalls::TransportTo(const std::string& address) {
  MutexLock lock(mutex_);
  if (const auto known = transports_.find(address); known != transports_.end()) {
    return known->second;
  }
  QUIRE_ASSIGN_OR_RETURN(auto transport, connect_(address));
  if (transports_.size() == kMostTransports) transports_.clear();
  return transports_[address] = std::move(transport);
}

Status PeerCalls::Call(const Member& member, std::string_view tenant, std::string_view method,
                       const google::protobuf::Message& request, google::protobuf::Message* reply,
                       Payload* payload, Duration timeout) {
  if (const Member self; !Understand(self, member)) {
    return Unavailable("node ", member.name, " speaks ", ProtocolsOf(member), ", and this program ",
                       ProtocolsOf(self), ": upgrade the older one");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto transport, TransportTo(member.address));
  CallMessage message, answer;
  QUIRE_RETURN_IF_ERROR(wire::Encode(request, &message.control));
  QUIRE_RETURN_IF_ERROR(transport->Call(
      std::string("quire.v1.").append(method), message, &answer,
      {.tenant = std::string(tenant), .timeout = timeout, .priority = Priority::kPrefetch}));
  QUIRE_RETURN_IF_ERROR(wire::Decode(answer.control, reply));
  if (payload != nullptr) *payload = std::move(answer.payload);
  return OkStatus();
}

Status PeerCalls::Ask(const Member& member, std::string_view tenant, std::string_view method,
                      const google::protobuf::Message& request, google::protobuf::Message* reply,
                      Payload* payload, Duration timeout) {
  {
    MutexLock lock(mutex_);
    const auto silent = silent_until_.find(member.address);
    if (silent != silent_until_.end() && SystemClock().Now() < silent->second) {
      return Unavailable("node ", member.name, " did not answer a moment ago; it is asked later");
    }
  }
  Status status = Call(member, tenant, method, request, reply, payload, timeout);
  MutexLock lock(mutex_);
  if (status.code() == StatusCode::kDeadlineExceeded) {
    silent_until_[member.address] = SystemClock().Now() + kSilence;
  } else {
    silent_until_.erase(member.address);
  }
  return status;
}

StatusOr<ChainDescription> PeerCalls::Describe(const Member& member, std::string_view tenant,
                                               const SegmentKey& tip) {
  v1::DescribeChainRequest request;
  request.set_chain_tip(wire::KeyToBytes(tip));
  v1::DescribeChainReply reply;
  QUIRE_RETURN_IF_ERROR(Ask(member, tenant, "Replica/DescribeChain", request, &reply, nullptr,
                            std::min(timeout_, kQuestionTime)));
  ChainDescription chain;
  QUIRE_ASSIGN_OR_RETURN(chain.spec, wire::KvSpecFromProto(reply.spec()));
  QUIRE_ASSIGN_OR_RETURN(chain.keys, wire::KeysFromProto(reply.keys(), kMostChainSegments, "keys"));
  if (!chain.keys.empty() && chain.keys.back() == tip) return chain;
  return Internal("the described chain does not end with ", tip.Hex());
}

StatusOr<SegmentCopy> PeerCalls::Read(const Member& member, std::string_view tenant,
                                      const KvSpec& spec, const SegmentKey& key) {
  SegmentCopy segment;
  uint64_t units = 0;
  do {
    QUIRE_RETURN_IF_ERROR(ReadMore(member, tenant, key, &segment));
    units = uint64_t{spec.num_layers} * PageCount(spec, segment.tokens.size()) * spec.num_kv_heads;
  } while (segment.unit_crc32c.size() < units);
  QUIRE_RETURN_IF_ERROR(ReadRepresentatives(member, tenant, key, &segment));
  return segment;
}

Status PeerCalls::ReadMore(const Member& member, std::string_view tenant, const SegmentKey& key,
                           SegmentCopy* segment) {
  v1::ReadSegmentRequest request;
  request.set_key(wire::KeyToBytes(key));
  request.set_first_unit(segment->unit_crc32c.size());
  v1::ReadSegmentReply reply;
  Payload payload;
  QUIRE_RETURN_IF_ERROR(
      Ask(member, tenant, "Replica/ReadSegment", request, &reply, &payload, timeout_));
  const std::vector<TokenId> tokens(reply.tokens().begin(), reply.tokens().end());
  if (segment->unit_crc32c.empty()) {
    segment->tokens = tokens;
    segment->codec = reply.codec();
  }
  if (reply.unit_crc32c().empty() || segment->codec != reply.codec() || segment->tokens != tokens) {
    return Unavailable("segment ", key.Hex(), " was replaced while it was read; read it again");
  }
  if (segment->units.size() + payload.size_bytes() > kMostSegmentBytes) {
    return Internal("segment ", key.Hex(), " has more than ", kMostSegmentBytes, " bytes");
  }
  AppendTo(&segment->units, payload);
  segment->unit_crc32c.insert(segment->unit_crc32c.end(), reply.unit_crc32c().begin(),
                              reply.unit_crc32c().end());
  return OkStatus();
}

Status PeerCalls::ReadRepresentatives(const Member& member, std::string_view tenant,
                                      const SegmentKey& key, SegmentCopy* segment) {
  v1::ReadRepresentativesRequest request;
  request.set_key(wire::KeyToBytes(key));
  v1::ReadRepresentativesReply reply;
  Payload payload;
  QUIRE_RETURN_IF_ERROR(
      Ask(member, tenant, "Replica/ReadRepresentatives", request, &reply, &payload, timeout_));
  AppendTo(&segment->representatives, payload);
  if (Crc32c(segment->representatives) == reply.payload_crc32c()) return OkStatus();
  return DataLoss("representatives of segment ", key.Hex(), " were damaged on the way");
}

StatusOr<std::vector<ExtraCopy>> PeerCalls::ReadExtras(const Member& member,
                                                       std::string_view tenant,
                                                       const DocumentName& name) {
  v1::ListExtrasRequest list;
  wire::DocumentNameToProto(name, list.mutable_document());
  v1::ListExtrasReply listed;
  QUIRE_RETURN_IF_ERROR(
      Call(member, tenant, "Registry/ListExtras", list, &listed, nullptr, timeout_));
  std::vector<ExtraCopy> extras;
  for (const v1::Extra& extra : listed.extras()) {
    v1::GetExtraRequest get;
    wire::DocumentNameToProto(name, get.mutable_document());
    get.set_name(extra.name());
    v1::GetExtraReply got;
    Payload payload;
    QUIRE_RETURN_IF_ERROR(Call(member, tenant, "Registry/GetExtra", get, &got, &payload, timeout_));
    if (got.extra().num_segments() > 0 && got.segments().empty()) continue;
    ExtraCopy copy;
    QUIRE_ASSIGN_OR_RETURN(copy.segments,
                           wire::KeysFromProto(got.segments(), kMostSegmentsOfAnExtra, "segments"));
    QUIRE_ASSIGN_OR_RETURN(copy.extra, wire::ExtraFromProto(got.extra()));
    copy.bytes.resize(payload.size_bytes());
    payload.CopyTo(reinterpret_cast<std::byte*>(copy.bytes.data()));
    if (Crc32c(std::as_bytes(std::span(copy.bytes))) != copy.extra.crc32c) {
      return DataLoss("extra ", copy.extra.name, " was damaged on the way");
    }
    extras.push_back(std::move(copy));
  }
  return extras;
}

StatusOr<std::vector<Held>> PeerCalls::Holds(const Member& member, std::string_view tenant,
                                             std::span<const Document> documents) {
  v1::HoldsRequest request;
  for (const Document& document : documents) {
    v1::Document* const asked = request.add_documents();
    wire::DocumentNameToProto(document.name, asked->mutable_name());
    asked->set_chain_tip(wire::KeyToBytes(document.chain_tip));
  }
  v1::HoldsReply reply;
  QUIRE_RETURN_IF_ERROR(Ask(member, tenant, "Replica/Holds", request, &reply, nullptr,
                            std::min(timeout_, kQuestionTime)));
  if (static_cast<size_t>(reply.holds_size()) != documents.size()) {
    return Internal(reply.holds_size(), " answers for ", documents.size(), " documents");
  }
  std::vector<Held> held;
  for (int i = 0; i < reply.holds_size(); ++i) {
    // A node of a former version does not say what it lacks.
    const bool lacks = i < reply.lacks_size() && reply.lacks(i);
    held.push_back(reply.holds(i) ? Held::kWhole : lacks ? Held::kNot : Held::kDamaged);
  }
  return held;
}

Status PeerCalls::CopyChain(const Member& member, std::string_view tenant, const SegmentKey& tip,
                            std::string_view from, TimePoint deadline) {
  v1::CopyChainRequest request;
  request.set_chain_tip(wire::KeyToBytes(tip));
  request.set_from(std::string(from));
  v1::CopyChainReply reply;
  const Duration left = deadline - SystemClock().Now();
  if (left <= Duration::zero()) {
    return DeadlineExceeded("no time is left to copy chain ", tip.Hex(), " to node ", member.name);
  }
  return Call(member, tenant, "Replica/CopyChain", request, &reply, nullptr, left);
}

Status PeerCalls::Adopt(const Member& member, std::string_view tenant, const DocumentName& name,
                        TimePoint deadline) {
  v1::AdoptDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  v1::AdoptDocumentReply reply;
  return Call(member, tenant, "Replica/AdoptDocument", request, &reply, nullptr,
              TimeUntil(deadline, timeout_));
}

Status PeerCalls::CopyExtras(const Member& member, std::string_view tenant,
                             const DocumentName& name, std::string_view from, TimePoint deadline) {
  v1::CopyExtrasRequest request;
  wire::DocumentNameToProto(name, request.mutable_document());
  request.set_from(std::string(from));
  v1::CopyExtrasReply reply;
  return Call(member, tenant, "Replica/CopyExtras", request, &reply, nullptr,
              TimeUntil(deadline, timeout_));
}

}  // namespace quire::cluster
