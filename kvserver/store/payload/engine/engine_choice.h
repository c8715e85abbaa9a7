// SPDX-License-Identifier: Apache-2.0
//
// Choice of the IoEngine of this machine, made once at start.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_ENGINE_CHOICE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_ENGINE_CHOICE_H_

#include <memory>
#include <string>

#include "kvserver/store/payload/engine/io_engine.h"
#include "kvserver/store/payload/engine/uring_engine.h"
#include "quire/status.h"

namespace quire::kvserver {

enum class EngineKind {
  kAuto,   ///< io_uring if available, otherwise pread.
  kUring,  ///< io_uring or an error.
  kPlain,  ///< Always pread and pwrite.
};

struct EngineChoice {
  std::unique_ptr<IoEngine> engine;
  std::string reason;  ///< Reason why kAuto fell back; empty otherwise.
};

/// Errors: as UringEngine::Create; with kAuto only INVALID_ARGUMENT.
StatusOr<EngineChoice> ChooseEngine(EngineKind kind, const UringEngine::Options& options);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_ENGINE_CHOICE_H_
