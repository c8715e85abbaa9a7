// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/testing/fake_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "quire/layout.h"

namespace quire::worker::testing {
namespace {

/// Parses, calls, serializes.
template <typename Request, typename Reply, typename Body>
Status Answer(const std::string& control, CallMessage* reply, Body body) {
  Request request;
  Reply answer;
  std::string payload;
  if (!request.ParseFromString(control)) return InvalidArgument("malformed request");
  QUIRE_RETURN_IF_ERROR(body(request, &answer, &payload));
  reply->control = answer.SerializeAsString();
  if (payload.empty()) return OkStatus();
  const auto bytes = std::as_bytes(std::span(payload.data(), payload.size()));
  reply->payload.Append(std::vector<std::byte>(bytes.begin(), bytes.end()));
  return OkStatus();
}

}  // namespace

void FakeStore::FailOnce(const std::string& method, uint64_t after, const Status& status) {
  MutexLock lock(mutex_);
  failures_[method] = {calls_[method] + after, status};
}

void FakeStore::Hold(std::string_view method) {
  MutexLock lock(mutex_);
  held_ = method;
  changed_.NotifyAll();
}

void FakeStore::Restart() {
  MutexLock lock(mutex_);
  contexts_.clear();
  sessions_.clear();
}

void FakeStore::EvictUnnamed() {
  MutexLock lock(mutex_);
  std::map<SegmentKey, Pages> named;
  for (const auto& [name, document] : documents_) {
    const auto tip = wire::KeyFromBytes(document.chain_tip(), "chain_tip");
    if (!tip.ok() || !sealed_.contains(*tip)) continue;
    const Pages& chain = sealed_[*tip];
    for (const SegmentKey& key : ChainKeys(kFakeSalt, chain.spec, chain.tokens)) {
      named[key] = sealed_[key];
    }
  }
  sealed_ = std::move(named);
}

uint64_t FakeStore::calls(const std::string& method) const {
  MutexLock lock(mutex_);
  const auto it = calls_.find(method);
  return it == calls_.end() ? 0 : it->second;
}

void FakeStore::AwaitCalls(const std::string& method, uint64_t count) {
  MutexLock lock(mutex_);
  while (calls_[method] < count) changed_.Wait(mutex_);
}

Status FakeStore::Handle(const CallContext&, std::string_view method, const CallMessage& request,
                         ReplyWriter& reply) {
  MutexLock lock(mutex_);
  if (dead_) return Unavailable("the fake store is dead");
  std::string name(method.substr(method.find_last_of('.') + 1));
  const uint64_t call = calls_[name]++;
  changed_.NotifyAll();
  while (held_ == name) {
    if (changed_.WaitFor(mutex_, std::chrono::minutes(1)) || held_ != name) continue;
    return DeadlineExceeded(name, " was held for a minute");
  }
  if (const auto it = failures_.find(name); it != failures_.end() && it->second.first == call) {
    return it->second.second;
  }
  std::string payload(request.payload.size_bytes(), '\0');
  request.payload.CopyTo(reinterpret_cast<std::byte*>(payload.data()));
  CallMessage answer;
  QUIRE_RETURN_IF_ERROR(Dispatch(name, request.control, payload, &answer));
  return reply.Write(std::move(answer));
}

Status FakeStore::Dispatch(std::string_view method, const std::string& control,
                           const std::string& payload, CallMessage* reply) {
  if (method == "Store/OpenContext")
    return Answer<v1::OpenContextRequest, v1::OpenContextReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return OpenContext(in, out); });
  if (method == "Store/AppendPages")
    return Answer<v1::AppendPagesRequest, v1::AppendPagesReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return AppendPages(in, payload, out); });
  if (method == "Store/AppendLayers")
    return Answer<v1::AppendLayersRequest, v1::AppendLayersReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return AppendLayers(in, payload, out); });
  if (method == "Store/Seal")
    return Answer<v1::SealRequest, v1::SealReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return Seal(in, payload, out); });
  if (method == "Store/DropContext")
    return Answer<v1::DropContextRequest, v1::DropContextReply>(
        control, reply, [&](auto& in, auto*, auto*) {
          return contexts_.erase(in.context_id()) > 0 ? OkStatus() : NotFound("no such context");
        });
  if (method == "Store/PutSegment")
    return Answer<v1::PutSegmentRequest, v1::PutSegmentReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return PutSegment(in, payload, out); });
  if (method == "Store/Lookup")
    return Answer<v1::LookupRequest, v1::LookupReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return Lookup(in, out); });
  if (method == "Store/Fetch")
    return Answer<v1::FetchRequest, v1::FetchReply>(
        control, reply, [&](auto& in, auto* out, auto* bytes) { return Fetch(in, out, bytes); });
  if (method == "Store/ReadTokens")
    return Answer<v1::ReadTokensRequest, v1::ReadTokensReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return ReadTokens(in, out); });
  if (method == "Store/Stat")
    return Answer<v1::StatRequest, v1::StatReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return Stat(in, out); });
  if (method == "Store/PutRepresentatives")
    return Answer<v1::PutRepresentativesRequest, v1::PutRepresentativesReply>(
        control, reply,
        [&](auto& in, auto* out, auto*) { return PutRepresentatives(in, payload, out); });
  if (method == "Registry/Register")
    return Answer<v1::RegisterRequest, v1::RegisterReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return Register(in, out); });
  if (method == "Registry/Get")
    return Answer<v1::GetDocumentRequest, v1::GetDocumentReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return Get(in, out); });
  if (method == "Registry/PutExtra")
    return Answer<v1::PutExtraRequest, v1::PutExtraReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return PutExtra(in, payload, out); });
  if (method == "Registry/GetExtra")
    return Answer<v1::GetExtraRequest, v1::GetExtraReply>(
        control, reply, [&](auto& in, auto* out, auto* bytes) { return GetExtra(in, out, bytes); });
  if (method == "Session/Open")
    return Answer<v1::OpenSessionRequest, v1::OpenSessionReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return OpenSession(in, out); });
  if (method == "Session/AddSequence")
    return Answer<v1::AddSequenceRequest, v1::AddSequenceReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return AddSequence(in, out); });
  if (method == "Session/RemoveSequence")
    return Answer<v1::RemoveSequenceRequest, v1::RemoveSequenceReply>(
        control, reply, [&](auto& in, auto*, auto*) { return RemoveSequence(in); });
  if (method == "Session/Recall") return RecallWithPlaces(control, reply);
  if (method == "Session/Resync")
    return Answer<v1::ResyncRequest, v1::ResyncReply>(
        control, reply, [&](auto& in, auto*, auto*) { return Resync(in); });
  if (method == "Session/Digests")
    return Answer<v1::DigestsRequest, v1::DigestsReply>(
        control, reply, [&](auto& in, auto* out, auto* bytes) {
          const Status status = Digests(in, bytes);
          out->set_payload_crc32c(Crc32c(std::as_bytes(std::span(*bytes))));
          return status;
        });
  if (method == "Session/ScorePages")
    return Answer<v1::ScorePagesRequest, v1::ScorePagesReply>(
        control, reply, [&](auto& in, auto* out, auto*) { return ScorePages(in, out); });
  if (method == "Session/Close")
    return Answer<v1::CloseSessionRequest, v1::CloseSessionReply>(
        control, reply, [&](auto& in, auto*, auto*) {
          return sessions_.erase(in.session_id()) > 0 ? OkStatus() : NotFound("no such session");
        });
  return Unimplemented("the fake store has no ", method);
}

StatusOr<const FakeStore::Pages*> FakeStore::Find(const v1::ContextRef& ref) const {
  if (ref.target_case() == v1::ContextRef::kOpenContext) {
    const auto it = contexts_.find(ref.open_context());
    if (it == contexts_.end()) return NotFound("no such open context");
    return &it->second;
  }
  const auto document = documents_.find(ref.document().name());
  const std::string& bytes =
      document == documents_.end() ? ref.chain_tip() : document->second.chain_tip();
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, wire::KeyFromBytes(bytes, "chain_tip"));
  const auto it = sealed_.find(tip);
  if (it == sealed_.end()) return NotFound("no such chain");
  return &it->second;
}

Status FakeStore::OpenContext(const v1::OpenContextRequest& request, v1::OpenContextReply* reply) {
  last_collection_ = request.collection();
  Pages opened;
  QUIRE_ASSIGN_OR_RETURN(opened.spec, wire::KvSpecFromProto(request.spec()));
  if (request.has_continues()) {
    QUIRE_ASSIGN_OR_RETURN(const Pages* chain, Find(request.continues()));
    if (const std::string difference = FirstDifference(chain->spec, opened.spec);
        !difference.empty()) {
      return InvalidArgument("the KvSpecs differ in ", difference);
    }
    opened = *chain;
    const size_t whole = opened.tokens.size() / opened.spec.page_tokens;
    opened.tokens.resize(whole * opened.spec.page_tokens);
    opened.pages.resize(whole);
  }
  reply->set_context_id(next_id_);
  reply->set_num_tokens(opened.tokens.size());
  contexts_[next_id_++] = std::move(opened);
  return OkStatus();
}

Status FakeStore::AppendPages(const v1::AppendPagesRequest& request, const std::string& payload,
                              v1::AppendPagesReply* reply) {
  const auto it = contexts_.find(request.context_id());
  if (it == contexts_.end()) return NotFound("no such open context");
  Pages& context = it->second;
  if (request.first_page() != context.pages.size()) return InvalidArgument("a hole, or a repeat");
  const uint64_t bytes = SegmentBytes(context.spec, 1);
  for (uint64_t at = 0; at < payload.size(); at += bytes) {
    context.pages.push_back(payload.substr(at, bytes));
  }
  context.tokens.insert(context.tokens.end(), request.tokens().begin(), request.tokens().end());
  if (context.tokens.size() != context.pages.size() * context.spec.page_tokens) {
    return InvalidArgument("tokens and pages do not match");
  }
  reply->set_num_tokens(context.tokens.size());
  return OkStatus();
}

Status FakeStore::AppendLayers(const v1::AppendLayersRequest& request, const std::string& payload,
                               v1::AppendLayersReply* reply) {
  const auto it = contexts_.find(request.context_id());
  if (it == contexts_.end()) return NotFound("no such open context");
  Pages& context = it->second;
  const auto p = static_cast<size_t>(context.spec.page_tokens);
  const size_t count = static_cast<size_t>(request.tokens_size()) / p;
  const uint64_t row = ExtentBytes(context.spec, 1);
  if (payload.size() != count * static_cast<size_t>(request.layers_size()) * row) {
    return InvalidArgument("the payload has the wrong size");
  }
  if (request.first_page() > context.pages.size() + context.arriving.size()) {
    return InvalidArgument("a hole");
  }
  for (size_t i = 0; i < count; ++i) {
    if (request.first_page() + i < context.pages.size()) return AlreadyExists("the page is whole");
    const size_t index = request.first_page() + i - context.pages.size();
    if (index == context.arriving.size()) context.arriving.emplace_back();
    Arriving& page = context.arriving[index];
    const auto first = request.tokens().begin() + static_cast<std::ptrdiff_t>(i * p);
    page.tokens.assign(first, first + static_cast<std::ptrdiff_t>(p));
    for (int l = 0; l < request.layers_size(); ++l) {
      page.layers[request.layers(l)] =
          payload.substr((static_cast<size_t>(l) * count + i) * row, row);
    }
  }
  while (!context.arriving.empty() &&
         context.arriving.front().layers.size() == context.spec.num_layers) {
    const Arriving& page = context.arriving.front();
    context.tokens.insert(context.tokens.end(), page.tokens.begin(), page.tokens.end());
    context.pages.emplace_back();
    for (const auto& [layer, units] : page.layers) context.pages.back() += units;
    context.arriving.erase(context.arriving.begin());
  }
  reply->set_num_tokens(context.tokens.size());
  return OkStatus();
}

Status FakeStore::Seal(const v1::SealRequest& request, const std::string& payload,
                       v1::SealReply* reply) {
  const auto it = contexts_.find(request.context_id());
  if (it == contexts_.end()) return NotFound("no such open context");
  if (!it->second.arriving.empty()) return FailedPrecondition("a page lacks layers");
  Pages whole = std::move(it->second);
  contexts_.erase(it);
  whole.tokens.insert(whole.tokens.end(), request.tail_tokens().begin(),
                      request.tail_tokens().end());
  if (!payload.empty()) whole.pages.push_back(payload);
  ContextInfo info{.spec = whole.spec,
                   .num_tokens = whole.tokens.size(),
                   .num_pages = static_cast<uint32_t>(whole.pages.size()),
                   .segment_keys = ChainKeys(kFakeSalt, whole.spec, whole.tokens),
                   .chain_tip = {}};
  info.chain_tip = info.segment_keys.back();
  for (size_t i = 0; i < info.segment_keys.size(); ++i) {
    Pages prefix = whole;
    prefix.tokens.resize(
        std::min<size_t>(whole.tokens.size(), (i + 1) * whole.spec.segment_tokens()));
    prefix.pages.resize(PageCount(whole.spec, prefix.tokens.size()));
    sealed_[info.segment_keys[i]] = std::move(prefix);
  }
  wire::ContextInfoToProto(info, reply->mutable_context());
  return OkStatus();
}

Status FakeStore::PutSegment(const v1::PutSegmentRequest& request, const std::string& payload,
                             v1::PutSegmentReply* reply) {
  Pages whole;
  if (!request.parent().empty()) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey parent, wire::KeyFromBytes(request.parent(), "parent"));
    if (!sealed_.contains(parent)) return NotFound("no such parent");
    whole = sealed_[parent];
  }
  QUIRE_ASSIGN_OR_RETURN(whole.spec, wire::KvSpecFromProto(request.spec()));
  whole.tokens.insert(whole.tokens.end(), request.tokens().begin(), request.tokens().end());
  const size_t count = PageCount(whole.spec, static_cast<uint64_t>(request.tokens_size()));
  const uint64_t row = ExtentBytes(whole.spec, 1);
  if (payload.size() != count * whole.spec.num_layers * row) {
    return InvalidArgument("the payload has the wrong size");
  }
  for (size_t page = 0; page < count; ++page) {
    whole.pages.emplace_back();
    for (size_t layer = 0; layer < whole.spec.num_layers; ++layer) {
      whole.pages.back() += payload.substr((layer * count + page) * row, row);
    }
  }
  const SegmentKey key = ChainKeys(kFakeSalt, whole.spec, whole.tokens).back();
  reply->set_key(wire::KeyToBytes(key));
  reply->set_existed(!sealed_.try_emplace(key, std::move(whole)).second);
  return OkStatus();
}

Status FakeStore::Lookup(const v1::LookupRequest& request, v1::LookupReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const KvSpec spec, wire::KvSpecFromProto(request.spec()));
  const std::vector<TokenId> tokens(request.tokens().begin(), request.tokens().end());
  for (const SegmentKey& key : ChainKeys(kFakeSalt, spec, tokens)) {
    const auto it = sealed_.find(key);
    if (it == sealed_.end()) break;
    reply->add_segment_keys(wire::KeyToBytes(key));
    reply->set_num_tokens(it->second.tokens.size());
  }
  return OkStatus();
}

Status FakeStore::PutRepresentatives(const v1::PutRepresentativesRequest& request,
                                     const std::string& payload,
                                     v1::PutRepresentativesReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey key, wire::KeyFromBytes(request.key(), "key"));
  if (!sealed_.contains(key)) return NotFound("no such segment");
  reply->set_existed(!representatives_.try_emplace(key, payload).second);
  return OkStatus();
}

Status FakeStore::Fetch(const v1::FetchRequest& request, v1::FetchReply* reply,
                        std::string* payload) {
  QUIRE_ASSIGN_OR_RETURN(const Pages* pages, Find(request.context()));
  for (const v1::UnitRange& range : request.ranges()) {
    for (uint32_t page : range.pages()) {
      if (page >= pages->pages.size()) return InvalidArgument("no page ", page);
      for (uint32_t head = 0; head < pages->spec.num_kv_heads; ++head) {
        const std::string unit = UnitOf(pages->spec, pages->pages[page], range.layer(), head);
        reply->add_unit_crc32c(UnitChecksum(unit));
        *payload += unit;
      }
    }
  }
  reply->set_num_units(static_cast<uint64_t>(reply->unit_crc32c_size()));
  return OkStatus();
}

Status FakeStore::ReadTokens(const v1::ReadTokensRequest& request, v1::ReadTokensReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const Pages* pages, Find(request.context()));
  const std::vector<TokenId>& tokens = pages->tokens;
  if (request.first_token() > tokens.size()) return InvalidArgument("no such token");
  const uint64_t end =
      std::min<uint64_t>(tokens.size(), request.first_token() + request.num_tokens());
  reply->mutable_tokens()->Add(tokens.begin() + static_cast<ptrdiff_t>(request.first_token()),
                               tokens.begin() + static_cast<ptrdiff_t>(end));
  reply->set_stored_tokens(tokens.size());
  return OkStatus();
}

Status FakeStore::PutExtra(const v1::PutExtraRequest& request, const std::string& payload,
                           v1::PutExtraReply* reply) {
  if (!documents_.contains(request.document().name())) return NotFound("no such document");
  v1::Extra extra;
  extra.set_name(request.name());
  extra.set_version(request.version());
  extra.set_size(payload.size());
  extra.set_crc32c(UnitChecksum(payload));
  extras_[{request.document().name(), request.name()}] = {extra, payload};
  *reply->mutable_extra() = extra;
  return OkStatus();
}

Status FakeStore::GetExtra(const v1::GetExtraRequest& request, v1::GetExtraReply* reply,
                           std::string* payload) {
  const auto it = extras_.find({request.document().name(), request.name()});
  if (it == extras_.end()) return NotFound("no such extra");
  *reply->mutable_extra() = it->second.first;
  *payload = it->second.second;
  return OkStatus();
}

Status FakeStore::Register(const v1::RegisterRequest& request, v1::RegisterReply* reply) {
  v1::ContextRef ref;
  ref.set_chain_tip(request.chain_tip());
  QUIRE_ASSIGN_OR_RETURN(const Pages* pages, Find(ref));
  v1::Document& document = documents_[request.name().name()];
  *document.mutable_name() = request.name();
  document.mutable_name()->set_version(document.name().version() == 0 ? 1
                                                                      : request.name().version());
  document.set_chain_tip(request.chain_tip());
  document.set_num_tokens(pages->tokens.size());
  document.set_model(pages->spec.model);
  document.set_ttl_seconds(request.ttl_seconds());
  *reply->mutable_document() = document;
  return OkStatus();
}

Status FakeStore::Get(const v1::GetDocumentRequest& request, v1::GetDocumentReply* reply) {
  const auto it = documents_.find(request.name().name());
  if (it == documents_.end()) return NotFound("there is no document '", request.name().name(), "'");
  *reply->mutable_document() = it->second;
  return OkStatus();
}

Status FakeStore::Stat(const v1::StatRequest& request, v1::StatReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const Pages* pages, Find(request.context()));
  ContextInfo info{.spec = pages->spec,
                   .num_tokens = pages->tokens.size(),
                   .num_pages = static_cast<uint32_t>(pages->pages.size()),
                   .segment_keys = ChainKeys(kFakeSalt, pages->spec, pages->tokens),
                   .chain_tip = {}};
  info.chain_tip = info.segment_keys.back();
  wire::ContextInfoToProto(info, reply->mutable_context());
  reply->set_segments_in_dram(static_cast<uint32_t>(info.segment_keys.size()));
  return OkStatus();
}

}  // namespace quire::worker::testing
