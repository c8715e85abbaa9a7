// SPDX-License-Identifier: Apache-2.0
//
// RetrievalPolicy: which pages a layer keeps and which it attends to (spec 0.5). One object belongs
// to one sequence and may keep state for each layer (digests, earlier queries). A policy decides;
// the recall pipeline moves the bytes. Implementations are registered by
// name and pass policy_conformance.h.
//
// Order of calls for each layer: Layout; OnPrefillLayer once, when the sequence opens; then for
// each token MayBeLate, NeedsBlocking and Select (BeginSelect before it where no head blocks); and
// OnPageComplete when a page fills up. Queries and units are on the device.
//
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICY_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/executor.h"
#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "common/page/layout.h"
#include "gpuworker/cache/cache_layout.h"
#include "gpuworker/device/device.h"
#include "gpuworker/retrieval/digests/stored_digests.h"
#include "gpuworker/retrieval/options.h"

namespace quire::worker {

/// What a policy is made of. The device outlives the policy.
struct PolicyContext {
  KvSpec spec;
  Device* device = nullptr;
  uint64_t max_context_tokens = 0;  ///< No sequence is longer; bounds what is allocated.
  RetrievalOptions options;
  /// Where a selection may be made beside the model, on a device that the processor is; may be
  /// null. Outlives the policy.
  Executor* executor = nullptr;
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
  /// NeedsBlocking and MayBeLate; empty elsewhere.
  std::span<const uint64_t> held = {};
};

struct Selection {
  /// The server scores: the query goes with the recall, and `pages` is empty.
  bool at_server = false;
  /// [n_kv] distinct candidates of each KV head, ascending, at most max_pages.
  std::vector<std::vector<uint32_t>> pages = {};
  /// Scores of this selection that were NaN; what they are of comes after everything else
  /// (spec 0.4). The server counts its own.
  uint64_t nan_scores = 0;
};

class RetrievalPolicy {
 public:
  virtual ~RetrievalPolicy() = default;
  virtual std::string_view name() const = 0;

  /// How the slots of `layer` are divided; constant. Layers that have selectable pages have as many
  /// as each other, since a sequence has one number of slots for all its lanes.
  virtual CacheLayout Layout(uint32_t layer) const = 0;
  /// The kind of digests of the pages that are stored already, when OnPrefillLayer needs some.
  virtual std::optional<kernels::DigestKind> WantedDigests(uint32_t layer) const {
    static_cast<void>(layer);
    return std::nullopt;
  }

  /// True when the policy needs the keys of pages that are stored already: each of them is then
  /// given to OnPageComplete, in order, after OnPrefillLayer. That reads the whole layer once, when
  /// the sequence opens.
  virtual bool WantsUnits(uint32_t layer) const {
    static_cast<void>(layer);
    return false;
  }

  /// The sequence starts with pages [0, num_pages) complete. `digests` are theirs, of the
  /// kind that is wanted; null when none is or there are no pages.
  [[nodiscard]] virtual Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                              std::shared_ptr<const StoredDigests> digests) {
    static_cast<void>(layer), static_cast<void>(num_pages), static_cast<void>(digests);
    return OkStatus();
  }
  /// Page `page` is complete; pages come in order. `units` is [n_kv] units on the device, valid
  /// during the call.
  [[nodiscard]] virtual Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
    static_cast<void>(layer), static_cast<void>(page), static_cast<void>(units);
    return OkStatus();
  }

  /// For each KV head: must its recall precede this token's attention? Heads that need not attend
  /// to what they hold, and are recalled after it. Called once for each token, for layers with
  /// selectable pages only; a policy that compares queries keeps the earlier ones (held_queries.h).
  virtual StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) = 0;
  /// Called after NeedsBlocking with the same request: before the token's attention when a head
  /// blocks, after it otherwise.
  virtual StatusOr<Selection> Select(const SelectRequest& request) = 0;
  /// Called after the token's attention when no head blocks, with NeedsBlocking's request. True
  /// when the device, or a thread of the executor, has been given all that Select takes: Select is
  /// then called later, before the next NeedsBlocking of any layer, and without the query, which
  /// goes away. False: it is called at once.
  virtual StatusOr<bool> BeginSelect(const SelectRequest& request) {
    static_cast<void>(request);
    return false;
  }
  /// True when what every head holds can be attended to in place of a new selection: then attention
  /// goes on without what has not come when the layer's deadline passes
  /// (RetrievalOptions::recall_deadline), and it counts once it comes. Called before NeedsBlocking,
  /// with what the heads hold by then.
  virtual bool MayBeLate(const SelectRequest& request) const {
    static_cast<void>(request);
    return false;
  }

  /// What recalls bring of a unit. kValues: of a policy that has the keys itself; RewritesUnits is
  /// true then, and RewriteUnit gives them. Constant.
  virtual UnitPart RecalledPart() const { return UnitPart::kWhole; }
  /// True when RewriteUnit has to see the units that recalls bring.
  virtual bool RewritesUnits(uint32_t layer) const {
    static_cast<void>(layer);
    return false;
  }
  /// Puts what the policy keeps of a recalled page in the place of what came: `unit` is one whole
  /// unit, in host memory, before it goes into its slot. What was not recalled of it is zero.
  virtual void RewriteUnit(uint32_t layer, uint32_t head, uint32_t page,
                           std::span<std::byte> unit) const {
    static_cast<void>(layer), static_cast<void>(head), static_cast<void>(page);
    static_cast<void>(unit);
  }
};

/// The policy that `context.options.policy` names. INVALID_ARGUMENT for an unknown name, listing
/// the known ones, and for options that do not fit (options.h, Validate).
StatusOr<std::unique_ptr<RetrievalPolicy>> MakePolicy(const PolicyContext& context);
/// `options` for `policy`. Of another policy than theirs, with the layers that keep everything that
/// were published with it: which those are belongs to a policy, the budget to who uses it.
/// INVALID_ARGUMENT as for MakePolicy.
StatusOr<RetrievalOptions> WithPolicy(RetrievalOptions options, std::string_view policy);
/// `options` with what was published with their policy (spec E): how it divides its budget, in
/// whole pages of `page_tokens`, which layers keep everything, how scores are pooled, how units go
/// into their slots, and the rank of keys. policies/README.md has the figures. INVALID_ARGUMENT as for
/// MakePolicy.
StatusOr<RetrievalOptions> AsPublished(RetrievalOptions options, uint32_t page_tokens);
/// Options that few policies read.
enum class OwnOption : uint8_t { kCorrectionThreshold, kRecallDeadline, kKeyRank };
/// INVALID_ARGUMENT when `policy` does not read `option`, which the message calls `name`.
Status CheckReads(std::string_view policy, OwnOption option, std::string_view name);
/// Whether the policy divides the heads, and the options do not say how.
bool WantsRetrievalHeads(const RetrievalOptions& options);
/// Names of all policies, sorted.
std::vector<std::string_view> PolicyNames();

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICY_H_
