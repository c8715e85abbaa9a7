// SPDX-License-Identifier: Apache-2.0
//
// FakeStore: a Quire server in memory for the engine's unit tests: store, registry and sessions
// over plain maps, f32 pages, selection by the worker only. It follows the wire's rules as
// literally as it can, keeps no bytes but copies, and fails or does not answer on demand. Nothing
// that ships includes this. Thread-safety: safe for concurrent use; one call runs at a time.
#ifndef QUIRE_GPUWORKER_TESTING_FAKE_STORE_H_
#define QUIRE_GPUWORKER_TESTING_FAKE_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/threads/mutex.h"
#include "quire/client.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/status.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/session.pb.h"
#include "quire/v1/store.pb.h"
#include "transport/transport.h"

namespace quire::worker::testing {

inline constexpr TenantSalt kFakeSalt{};

/// One unit of a page of all layers.
inline std::string UnitOf(const KvSpec& spec, const std::string& page, uint32_t layer,
                          uint32_t head) {
  const uint64_t bytes = UnitBytes(spec);
  return page.substr((uint64_t{layer} * spec.num_kv_heads + head) * bytes, bytes);
}
inline uint32_t UnitChecksum(const std::string& unit) {
  return Crc32c(std::as_bytes(std::span(unit.data(), unit.size())));
}

class FakeStore final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override { return {}; }
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override QUIRE_EXCLUDES(mutex_);

  /// Fails the call that is `after` calls of `method` away (0: the next one) with `status`.
  void FailOnce(const std::string& method, uint64_t after, const Status& status)
      QUIRE_EXCLUDES(mutex_);
  /// From now on calls of `method` wait until Release, others go on. One that waits for a minute
  /// fails.
  void Hold(std::string_view method) QUIRE_EXCLUDES(mutex_);
  void Release() QUIRE_EXCLUDES(mutex_) { Hold(""); }
  /// Forgets open contexts and sessions, as a restart does.
  void Restart() QUIRE_EXCLUDES(mutex_);
  /// Forgets every segment.
  void LoseSegments() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    sealed_.clear();
  }
  /// Forgets segments that no document names.
  void EvictUnnamed() QUIRE_EXCLUDES(mutex_);
  /// Fails every call with UNAVAILABLE from now on.
  void FailAllCalls() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    dead_ = true;
  }

  /// Changes a byte of the unit that is the next recall's `unit`-th to be sent, behind its
  /// checksum.
  void DamageUnit(uint64_t unit) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    damage_ = unit;
  }
  /// Changes a byte of every unit that a recall sends, while set.
  void DamageEveryUnit(bool damage) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    damage_all_ = damage;
  }
  /// Units that recalls have named as not matching their checksums.
  uint64_t mismatched_units() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return mismatched_units_;
  }

  uint64_t calls(const std::string& method) const QUIRE_EXCLUDES(mutex_);
  /// Waits until `count` calls of `method` have arrived.
  void AwaitCalls(const std::string& method, uint64_t count) QUIRE_EXCLUDES(mutex_);
  /// The collection that the last context was opened for.
  std::string last_collection() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return last_collection_;
  }
  size_t open_contexts() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return contexts_.size();
  }
  /// Whole pages of the open context that was opened last.
  size_t last_context_pages() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return contexts_.empty() ? 0 : contexts_.rbegin()->second.pages.size();
  }
  size_t open_sessions() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return sessions_.size();
  }

 private:
  /// A page of which some layers have come.
  struct Arriving {
    std::vector<TokenId> tokens;
    std::map<uint32_t, std::string> layers;  ///< [n_kv] units each
  };
  struct Pages {
    KvSpec spec;
    std::vector<TokenId> tokens;
    std::vector<std::string> pages;       ///< [num_layers][n_kv] units each
    std::vector<Arriving> arriving = {};  ///< Pages after those.
  };
  struct Slot {
    int32_t page = -1;
    uint32_t generation = 0;
  };
  using Map = std::vector<Slot>;  ///< [n_kv][slots]
  struct LaneState {
    uint64_t committed_exchange = 0;
    uint64_t pending_exchange = 0;
    Map committed;
    Map pending;
  };
  struct SequenceState {
    bool present = true;
    uint64_t context = 0;            ///< An open context, or 0.
    Pages sealed;                    ///< Without an open context.
    std::vector<Pages> others = {};  ///< Sealed members after the first.
    uint32_t slots = 0;              ///< Per head, of those that the session may have.
    std::vector<LaneState> lanes;
  };
  struct SessionState {
    uint32_t slots = 0;
    UnitPart part = UnitPart::kWhole;
    uint64_t epoch = 1;
    std::vector<SequenceState> sequences;
  };

  Status Dispatch(std::string_view method, const std::string& control, const std::string& payload,
                  CallMessage* reply);
  Status OpenContext(const v1::OpenContextRequest& request, v1::OpenContextReply* reply);
  Status AppendPages(const v1::AppendPagesRequest& request, const std::string& payload,
                     v1::AppendPagesReply* reply);
  Status AppendLayers(const v1::AppendLayersRequest& request, const std::string& payload,
                      v1::AppendLayersReply* reply);
  Status Seal(const v1::SealRequest& request, const std::string& payload, v1::SealReply* reply);
  Status PutSegment(const v1::PutSegmentRequest& request, const std::string& payload,
                    v1::PutSegmentReply* reply);
  Status Lookup(const v1::LookupRequest& request, v1::LookupReply* reply);
  Status Fetch(const v1::FetchRequest& request, v1::FetchReply* reply, std::string* payload);
  Status PutRepresentatives(const v1::PutRepresentativesRequest& request,
                            const std::string& payload, v1::PutRepresentativesReply* reply);
  Status ReadTokens(const v1::ReadTokensRequest& request, v1::ReadTokensReply* reply);
  Status Register(const v1::RegisterRequest& request, v1::RegisterReply* reply);
  Status Get(const v1::GetDocumentRequest& request, v1::GetDocumentReply* reply);
  Status PutExtra(const v1::PutExtraRequest& request, const std::string& payload,
                  v1::PutExtraReply* reply);
  Status GetExtra(const v1::GetExtraRequest& request, v1::GetExtraReply* reply,
                  std::string* payload);
  Status Stat(const v1::StatRequest& request, v1::StatReply* reply);
  /// Opens a sequence in a session of `slots` slots.
  Status AddMember(const v1::ContextRef& context, SequenceState* sequence,
                   v1::OpenedSequence* opened);
  Status OpenSequence(const v1::SequenceSpec& spec, uint32_t slots, SequenceState* sequence,
                      v1::OpenedSequence* opened);
  Status OpenSession(const v1::OpenSessionRequest& request, v1::OpenSessionReply* reply);
  Status AddSequence(const v1::AddSequenceRequest& request, v1::AddSequenceReply* reply);
  Status RemoveSequence(const v1::RemoveSequenceRequest& request);
  Status Recall(const v1::RecallRequest& request, v1::RecallReply* reply, std::string* payload);
  /// As Recall, with every unit as a slice that has its place.
  Status RecallWithPlaces(const std::string& control, CallMessage* reply);
  /// Places what `want` lacks in the slots of `map`, a lane of `sequence`.
  Status RecallLane(const SessionState& session, const SequenceState& sequence,
                    const v1::LayerWant& want, Map* map, v1::LanePlacement* placed,
                    std::string* payload);
  Status Resync(const v1::ResyncRequest& request);
  Status Digests(const v1::DigestsRequest& request, std::string* payload);
  Status ScorePages(const v1::ScorePagesRequest& request, v1::ScorePagesReply* reply);
  /// Representatives of a page's heads at a layer; nullopt where none were put.
  std::optional<std::string> RepresentativesOf(const Pages& pages, uint32_t layer,
                                               uint32_t page) const;

  StatusOr<const Pages*> Find(const v1::ContextRef& ref) const;
  StatusOr<SessionState*> FindSession(uint64_t id);
  /// NOT_FOUND when there is no such sequence, or its context is gone.
  StatusOr<SequenceState*> FindSequence(SessionState* session, uint32_t number);
  const Pages& PagesOf(const SequenceState& sequence, uint32_t member = 0) const;

  mutable Mutex mutex_;  ///< Guards everything below, during a whole call.
  CondVar changed_;      ///< Calls have arrived, or what is held has changed.
  std::string held_;     ///< The method whose calls wait; empty: none.
  uint64_t next_id_ = 1;
  bool dead_ = false;
  std::optional<uint64_t> damage_;
  bool damage_all_ = false;
  uint64_t mismatched_units_ = 0;
  std::vector<uint64_t> places_;  ///< Places of the units of the current recall.
  std::map<uint64_t, Pages> contexts_;
  std::string last_collection_;
  std::map<uint64_t, SessionState> sessions_;
  std::map<SegmentKey, Pages> sealed_;  ///< By the key of the last segment of each prefix.
  std::map<SegmentKey, std::string> representatives_;  ///< By segment.
  std::map<std::string, v1::Document> documents_;
  /// By the names of document and extra: what is known of it, and its bytes.
  std::map<std::pair<std::string, std::string>, std::pair<v1::Extra, std::string>> extras_;
  std::map<std::string, uint64_t, std::less<>> calls_;
  std::map<std::string, std::pair<uint64_t, Status>, std::less<>> failures_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_FAKE_STORE_H_
