// SPDX-License-Identifier: Apache-2.0
//
// LocalWorker: a model in this process over a store in another (or in this one): checkpoint,
// tokenizer and engine, loaded together for the commands that compute.
// Ownership: the client outlives it. Thread-safety: as Engine.
#ifndef QUIRE_CLIENT_CLI_LOCAL_WORKER_H_
#define QUIRE_CLIENT_CLI_LOCAL_WORKER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "common/base/status.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/tokenizer.h"

namespace quire::cli {

struct LocalWorker {
  std::unique_ptr<worker::Decoder> decoder;
  std::unique_ptr<worker::Tokenizer> tokenizer;
  std::unique_ptr<worker::Engine> engine;
};

/// Loads config.json, *.safetensors and tokenizer.json of `model_directory`. Errors name the file.
StatusOr<LocalWorker> LoadLocalWorker(const std::string& model_directory, Client* client,
                                      const worker::EngineOptions& options);

/// Token ids of a document's text: BOS, then the text. What `put` stores and `ask` continues.
std::vector<TokenId> DocumentTokens(const worker::Tokenizer& tokenizer, std::string_view text);

}  // namespace quire::cli

#endif  // QUIRE_CLIENT_CLI_LOCAL_WORKER_H_
