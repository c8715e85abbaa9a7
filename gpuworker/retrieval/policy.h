// SPDX-License-Identifier: Apache-2.0
//
// RetrievalPolicy: which pages a layer keeps and which it attends to. One object belongs to one
// sequence and may keep state for each layer. A policy decides; the recall pipeline moves the
// bytes. Implementations are registered by name and pass policy_conformance.h.
//
// A policy must say Layout, NeedsBlocking and Select; the rest is optional. Order of calls:
//
//   the sequence opens    Layout of each layer, then those of PageObserver
//
//   a token, in each layer with selectable pages
//                         MayBeLate ──► NeedsBlocking ─┬─ a head blocks: Select ──► attention
//                                                      └─ none blocks:   attention ──► BeginSelect
//                                                                            ──► Select
//   a unit is recalled    KeySource::FillKeys
//   a page fills up       PageObserver::OnPageComplete
//
// In a batch on a device Prepare may come before NeedsBlocking. MayBeLate is called only where
// RetrievalOptions::recall_deadline sets one. Queries and units are on the device.
//
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICY_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/threads/executor.h"
#include "gpuworker/cache/cache_layout.h"
#include "gpuworker/device/device.h"
#include "gpuworker/retrieval/options.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/status.h"

namespace quire::worker {

class DraftFeatures;
class HiddenTap;
class JointWork;
class KeySource;
class PageObserver;
class RetrievalHead;
class TokenObserver;
struct HeadWeights;

/// Arguments of a policy's factory. The device outlives the policy.
struct PolicyContext {
  KvSpec spec;
  Device* device = nullptr;
  uint64_t max_context_tokens = 0;  ///< No sequence is longer; bounds what is allocated.
  RetrievalOptions options;
  /// Where a selection may be made beside the model, on a device that the processor is; may be
  /// null. Outlives the policy.
  Executor* executor = nullptr;
  /// A retrieval head of the model, for policies that select with it. Null where there is none.
  /// Outlives the policy.
  const HeadWeights* head = nullptr;
};

struct SelectRequest {
  uint32_t layer = 0;
  const float* q = nullptr;  ///< [n_q][d] of the token, rotated, on the device
  PageRange candidates;      ///< Complete pages outside sinks and window.
  uint32_t max_pages = 0;    ///< k_sel (CacheLayout::most_selected).
  /// Tokens of the sequence, this one counted. A selection is known by the position of its query.
  uint64_t position = 0;
  /// [n_kv] the position whose selection each head attends to at this token unless it blocks; 0 for
  /// none. It may differ from head to head, and be older than the token before. Valid in
  /// Prepare, NeedsBlocking and MayBeLate; empty elsewhere.
  std::span<const uint64_t> held = {};
};

struct Selection {
  /// The server scores: the query goes with the recall, and `pages` is empty.
  bool at_server = false;
  /// [n_kv] distinct candidates of each KV head, ascending, at most max_pages.
  std::vector<std::vector<uint32_t>> pages = {};
  /// Scores of this selection that were NaN, ranked after every number. The server counts its own.
  uint64_t nan_scores = 0;
};

class RetrievalPolicy {
 public:
  virtual ~RetrievalPolicy() = default;
  virtual std::string_view name() const = 0;

  /// How the slots of `layer` are divided; constant. Layers that have selectable pages have as many
  /// as each other, since a sequence has one number of slots for all its lanes.
  virtual CacheLayout Layout(uint32_t layer) const = 0;
  /// For each KV head: must its recall precede this token's attention? The other heads attend to
  /// what they hold and are recalled after it. Called once for each token, for layers with
  /// selectable pages only. A policy that compares queries keeps the earlier ones
  /// (keys/held_queries.h).
  virtual StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) = 0;
  /// Selects with NeedsBlocking's request.
  virtual StatusOr<Selection> Select(const SelectRequest& request) = 0;

  /// Adds to `work` what NeedsBlocking and Select of this request take on the device. They are
  /// called after its next Launch, and before the one after it. The work outlives the policy.
  [[nodiscard]] virtual Status Prepare(const SelectRequest& /*request*/, JointWork* /*work*/) {
    return OkStatus();
  }
  /// True when Select looks at no query, so that all layers of a step can be selected for before
  /// the first of them has run.
  virtual bool selects_ahead() const { return false; }
  /// Starts what Select takes on the device or a thread of the executor. True when it has: Select
  /// is then called before the next NeedsBlocking of any layer, without the query. False: Select is
  /// called at once.
  virtual StatusOr<bool> BeginSelect(const SelectRequest& /*request*/) { return false; }
  /// True when attention may use what every head holds in place of a new selection. It then goes on
  /// without a recall that misses the layer's deadline (RetrievalOptions::recall_deadline).
  virtual bool MayBeLate(const SelectRequest& /*request*/) const { return false; }

  /// Observer of the sequence's pages; null for none. Lives as long as the policy.
  virtual PageObserver* page_observer() { return nullptr; }
  /// Observer of the sequence's tokens; null for none. Lives as long as the policy.
  virtual TokenObserver* token_observer() { return nullptr; }
  /// Head of the sequence, whose keys of a document may be taken from the store; null for none. It
  /// is told of the document's tokens in place of the observer. Lives as long as the policy.
  virtual RetrievalHead* retrieval_head() { return nullptr; }
  /// Hidden states that wait for that head to take them; null where it sees none. Lives as long as
  /// the policy.
  virtual DraftFeatures* draft_features() { return nullptr; }
  /// Observer of the hidden states of the sequence's passes; null where the policy needs none.
  /// Lives as long as the policy.
  virtual HiddenTap* hidden_tap() { return nullptr; }
  /// Most tokens of a pass that it selects in.
  virtual uint32_t most_pass_tokens() const { return UINT32_MAX; }
  /// Keys that the policy keeps itself; null where recalls bring them. Lives as long as the policy.
  virtual const KeySource* key_source() const { return nullptr; }
  /// The part of a unit that recalls bring.
  UnitPart recalled_part() const {
    return key_source() == nullptr ? UnitPart::kWhole : UnitPart::kValues;
  }
};

/// The policy that `context.options.policy` names. INVALID_ARGUMENT for an unknown name, listing
/// the known ones, and for options that do not fit (options.h, Validate).
StatusOr<std::unique_ptr<RetrievalPolicy>> MakePolicy(const PolicyContext& context);
/// `options` for `policy`. For another policy than theirs, the layers that keep everything become
/// those published with it; the budget stays. INVALID_ARGUMENT as for MakePolicy.
StatusOr<RetrievalOptions> WithPolicy(RetrievalOptions options, std::string_view policy);
/// `options` with the published settings of their policy, for pages of `page_tokens`. They divide
/// the budget, choose layers that keep everything, pool scores, place units, and rank keys.
/// policies/README.md has the figures. INVALID_ARGUMENT as for MakePolicy.
StatusOr<RetrievalOptions> AsPublished(RetrievalOptions options, uint32_t page_tokens);
/// Options that few policies read.
enum class OwnOption : uint8_t {
  kCorrectionThreshold,
  kCorrectedHeads,
  kRecallDeadline,
  kKeyRank,
  kSelectionMemory
};
/// INVALID_ARGUMENT when `policy` does not read `option`, which the message calls `name`.
Status CheckReads(std::string_view policy, OwnOption option, std::string_view name);
/// True if the policy treats retrieval heads in another way, and the options do not name them.
bool WantsRetrievalHeads(const RetrievalOptions& options);
/// Names of the policies that select for any model, sorted.
std::vector<std::string_view> PolicyNames();
/// The same with those that need a retrieval head of the model (PolicyContext::head).
std::vector<std::string_view> AllPolicyNames();

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICY_H_
