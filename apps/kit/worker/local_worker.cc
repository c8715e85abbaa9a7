// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/local_worker.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "gpuworker/device/cuda_device.h"
#include "gpuworker/model/checkpoint/companions.h"

namespace quire::cli {

Status LocalWorker::NeedsTokenizer(std::string_view remedy) const {
  if (tokenizer != nullptr) return OkStatus();
  return FailedPrecondition("this model has no tokenizer that can be used here (",
                            Message(no_tokenizer), "); ", remedy);
}

StatusOr<std::vector<TokenId>> LocalWorker::DocumentTokens(std::string_view text) const {
  return worker::DocumentTokens(this->text(), text);
}

StatusOr<LocalWorker> LoadLocalWorker(const std::string& model_directory, Client* client,
                                      const worker::EngineOptions& options,
                                      std::string_view device_name, const HeadChoice& head) {
  QUIRE_ASSIGN_OR_RETURN(worker::Device* const device, worker::FindDevice(device_name));
  LocalWorker local;
  QUIRE_ASSIGN_OR_RETURN(local.decoder, worker::Decoder::Load(model_directory, device));
  const std::string tokens = model_directory + "/tokenizer.json";
  auto tokenizer = worker::Tokenizer::Load(tokens);
  local.no_tokenizer = tokenizer.status();
  if (tokenizer.ok()) {
    QUIRE_RETURN_IF_ERROR(worker::CheckTokenizer(*tokenizer, tokens, local.decoder->config()));
    QUIRE_RETURN_IF_ERROR(worker::CheckTextSettingsOf(model_directory, *tokenizer));
    tokenizer->AddEnds(local.decoder->config().eos_ids);
    local.tokenizer = std::make_unique<worker::Tokenizer>(*std::move(tokenizer));
  }
  worker::EngineOptions engine = options;
  QUIRE_ASSIGN_OR_RETURN(engine.head,
                         LoadRetrievalHead(model_directory, local.decoder->config(), head));
  QUIRE_ASSIGN_OR_RETURN(
      local.engine, worker::Engine::Create(local.decoder.get(), client, device, std::move(engine)));
  return local;
}

void AddDeviceFlag(CLI::App& command, std::string* device) {
  const std::vector<std::string_view> names = worker::DeviceNames();
  command.add_option("--device", *device, "Where the model runs")
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())))
      ->capture_default_str();
}

CLI::Option* AddStatisticsFlag(CLI::App& command, bool* statistics) {
  return command.add_flag("--statistics,!--no-statistics", *statistics,
                          "Store what --method samkv selects by with each document. Without, the "
                          "first such question computes it");
}

void AddQuestionChunkFlag(CLI::App& command, uint32_t* tokens) {
  command
      .add_option("--question-chunk", *tokens,
                  "Questions about one document attend to all of it, in one pass, from so many "
                  "tokens on; 0: never")
      ->capture_default_str();
}

Json DescribeDevice(const std::string& device_name) {
  Json json = {{"device", device_name}, {"gpu", nullptr}, {"cublas", nullptr}};
  const auto device = worker::FindDevice(device_name);
  if (device.ok() && !(*device)->hardware().empty()) {
    json["gpu"] = (*device)->hardware();
    json["cublas"] = (*device)->has_cublas();
  }
  return json;
}

}  // namespace quire::cli
