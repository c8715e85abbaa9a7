// SPDX-License-Identifier: Apache-2.0
//
// GenerateCall: a GenerateRequest, checked and in the engine's terms. Pure; thread-safe.
#ifndef QUIRE_GPUWORKER_SERVICE_GENERATE_CALL_H_
#define QUIRE_GPUWORKER_SERVICE_GENERATE_CALL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "gpuworker/engine/sequence.h"
#include "gpuworker/retrieval/options.h"
#include "gpuworker/service/documents_call.h"
#include "gpuworker/text/text_of_model.h"
#include "quire/client.h"
#include "quire/key.h"
#include "quire/status.h"
#include "quire/v1/worker.pb.h"

namespace quire::worker {

inline constexpr uint32_t kDefaultNewTokens = 64;
inline constexpr uint32_t kMaxNewTokens = 65536;
inline constexpr int kMaxStopTokens = 1024;
inline constexpr int kMaxStopTexts = 16;
inline constexpr size_t kMaxStopTextBytes = 64;

struct GenerateCall {
  std::optional<DocumentName> document;
  std::optional<DocumentsCall> documents;  ///< In place of one document.
  std::vector<TokenId> prompt;
  RetrievalOptions retrieval;
  GenerateParams params;
};

/// Defaults for what a request leaves out.
struct GenerateDefaults {
  RetrievalOptions retrieval;  ///< Policy and division of the budget.
  uint32_t page_tokens = 32;   ///< Tokens of a page, for published settings.
};

/// Checks `request` and fills in what it leaves to the worker: `defaults`. INVALID_ARGUMENT names
/// the field. The tenant is the service's to check. `now_seconds`, since 1970 in UTC, is the time
/// that chat templates show.
StatusOr<GenerateCall> ParseGenerate(const v1::GenerateRequest& request,
                                     const GenerateDefaults& defaults, const TextOfModel& text,
                                     int64_t now_seconds = 0);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_SERVICE_GENERATE_CALL_H_
