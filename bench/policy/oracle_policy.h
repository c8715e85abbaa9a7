// SPDX-License-Identifier: Apache-2.0
//
// OraclePolicy: selects the pages with the most attention, known only after it is computed. It is
// the upper bound for policies that select whole pages. Thread-safety: none.
#ifndef QUIRE_BENCH_POLICY_ORACLE_POLICY_H_
#define QUIRE_BENCH_POLICY_ORACLE_POLICY_H_

#include "bench/policy/exact_attention.h"
#include "gpuworker/retrieval/budget_policy.h"

namespace quire::bench {

class OraclePolicy final : public worker::BudgetPolicy {
 public:
  /// `exact` holds the present step and outlives this.
  OraclePolicy(const worker::PolicyContext& context, const ExactAttention* exact);

  std::string_view name() const override { return "oracle"; }
  StatusOr<worker::Selection> Select(const worker::SelectRequest& request) override;

 private:
  const ExactAttention* const exact_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_ORACLE_POLICY_H_
