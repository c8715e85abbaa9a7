// SPDX-License-Identifier: Apache-2.0
#include "client/cli/local_worker.h"

#include <utility>

#include "gpuworker/device/device.h"

namespace quire::cli {

Status LocalWorker::NeedsTokenizer(std::string_view remedy) const {
  if (tokenizer != nullptr) return OkStatus();
  return FailedPrecondition("this model has no tokenizer that can be used here (",
                            Message(no_tokenizer), "); ", remedy);
}

StatusOr<LocalWorker> LoadLocalWorker(const std::string& model_directory, Client* client,
                                      const worker::EngineOptions& options) {
  worker::Device* const device = &worker::CpuDevice();
  LocalWorker local;
  QUIRE_ASSIGN_OR_RETURN(local.decoder, worker::Decoder::Load(model_directory, device));
  auto tokenizer = worker::Tokenizer::Load(model_directory + "/tokenizer.json");
  local.no_tokenizer = tokenizer.status();
  if (tokenizer.ok()) {
    local.tokenizer = std::make_unique<worker::Tokenizer>(*std::move(tokenizer));
  }
  QUIRE_ASSIGN_OR_RETURN(local.engine,
                         worker::Engine::Create(local.decoder.get(), client, device, options));
  return local;
}

std::vector<TokenId> DocumentTokens(const worker::Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> tokens = tokenizer.Encode(text);
  tokens.insert(tokens.begin(), tokenizer.bos_id());
  return tokens;
}

}  // namespace quire::cli
