// SPDX-License-Identifier: Apache-2.0
//
// FreeKvPolicy: speculative retrieval with fine-grained correction (FreeKV). Pages are selected as
// quest does, but a step attends to the selection of an earlier query. It is the query of the last
// step, unless a recall was late. The recall thus has a whole step's time. A KV head whose query
// turned since then is corrected: its recall precedes attention. A query has turned when the mean
// of its group's cosines is below tau. One selection serves corrected heads and the others.
//
// While all candidates fit, attention is full and every recall blocks. A head without an earlier
// choice blocks too: at the first step over the budget it has nothing to speculate with.
//
// RetrievalOptions::correct_retrieval_heads corrects retrieval heads alone, which is not published.
// They copy what the text said before. The others lose little by the selection of a step before.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_FREEKV_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_FREEKV_H_

#include <memory>
#include <vector>

#include "gpuworker/device/joint_work.h"
#include "gpuworker/retrieval/digests/digest_policy.h"
#include "gpuworker/retrieval/keys/held_queries.h"

namespace quire::worker {

class FreeKvPolicy final : public DigestPolicy {
 public:
  static constexpr std::string_view kName = "freekv";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  Status Prepare(const SelectRequest& request, JointWork* work) override;
  StatusOr<bool> BeginSelect(const SelectRequest& request) override;
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override;
  bool MayBeLate(const SelectRequest& request) const override;

 private:
  explicit FreeKvPolicy(const PolicyContext& context);
  /// Arguments of the comparison of queries, without arrays.
  kernels::CorrectHeadsArgs Comparison() const;
  /// The heads, [n_kv], whose query has turned since the one whose selection they hold. The queries
  /// stay on the device, the heads' numbers come. True for a head that holds no choice.
  StatusOr<std::vector<bool>> TurnedHeads(const SelectRequest& request);
  /// Takes the heads that are not corrected out of `blocking`, [n_kv], where they hold a choice.
  void LetSpeculate(const SelectRequest& request, std::vector<bool>* blocking) const;

  const KvSpec spec_;
  Device* const device_;
  const float threshold_;
  const std::vector<bool> corrects_;  ///< [num_layers * n_kv] heads that are corrected.
  std::vector<HeldQueries> queries_;  ///< [num_layers], of steps that had a choice to make.
  // Results of the kernel that compares queries.
  DeviceBuffer cosines_;  ///< [n_kv]
  DeviceBuffer turned_;   ///< Number of turned heads, then the heads, ascending.
  /// The comparison that was prepared: made if the work has it.
  JointWork* work_ = nullptr;
  JointWork::Ticket compared_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_FREEKV_H_
