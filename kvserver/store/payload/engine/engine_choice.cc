// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/engine/engine_choice.h"

#include <utility>

#include "kvserver/store/payload/engine/plain_engine.h"

namespace quire::kvserver {

StatusOr<EngineChoice> ChooseEngine(EngineKind kind, const UringEngine::Options& options) {
  if (kind == EngineKind::kPlain) return EngineChoice{std::make_unique<PlainEngine>(), {}};
  StatusOr<std::unique_ptr<UringEngine>> uring = UringEngine::Create(options);
  if (uring.ok()) return EngineChoice{*std::move(uring), {}};
  const bool fall_back =
      kind == EngineKind::kAuto && uring.status().code() == StatusCode::kUnavailable;
  if (!fall_back) return uring.status();
  return EngineChoice{std::make_unique<PlainEngine>(), std::string(Message(uring.status()))};
}

}  // namespace quire::kvserver
