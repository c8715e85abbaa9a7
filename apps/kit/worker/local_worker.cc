// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/local_worker.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>
#include <vector>

#include "gpuworker/device/cuda_device.h"
#include "gpuworker/model/checkpoint/companions.h"

namespace quire::cli {
namespace {

/// The retrieval head beside the model, null when there is none. A draft is read without the
/// hidden states of the model.
StatusOr<std::shared_ptr<const worker::HeadWeights>> LoadHead(const std::string& model_directory,
                                                              const worker::ModelConfig& config) {
  const std::string directory = model_directory + "/" + worker::kHeadFolder;
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return std::shared_ptr<const worker::HeadWeights>();
  }
  const worker::HeadTarget target{model_directory, config};
  QUIRE_ASSIGN_OR_RETURN(worker::HeadWeights head, worker::LoadHeadWeights(directory, target));
  if (head.mode == worker::HeadMode::kEagle) {
    QUIRE_ASSIGN_OR_RETURN(
        head, worker::LoadHeadWeights(directory, target, worker::HeadMode::kEmbedOnly));
  }
  return std::make_shared<const worker::HeadWeights>(std::move(head));
}

}  // namespace

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
                                      std::string_view device_name) {
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
  QUIRE_ASSIGN_OR_RETURN(engine.head, LoadHead(model_directory, local.decoder->config()));
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
