// SPDX-License-Identifier: Apache-2.0
//
// LocalWorker: a model in this process, over a store in this or another one. Loads checkpoint,
// engine and an optional tokenizer together, for the commands that compute. Ownership: the client
// outlives it. Thread-safety: as Engine.
#ifndef QUIRE_APPS_KIT_WORKER_LOCAL_WORKER_H_
#define QUIRE_APPS_KIT_WORKER_LOCAL_WORKER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/kit/output/json_output.h"
#include "apps/kit/worker/head_choice.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/ingest/document_tokens.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/text/chat/chat_template.h"
#include "gpuworker/text/text_of_model.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/client.h"
#include "quire/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace quire::cli {

struct LocalWorker {
  std::unique_ptr<worker::Decoder> decoder;
  /// Null when the checkpoint has no tokenizer.json, or one that is not known here.
  std::unique_ptr<worker::Tokenizer> tokenizer;
  Status no_tokenizer;  ///< Why `tokenizer` is null; OK when it is not.
  std::unique_ptr<worker::Engine> engine;
  /// The template that text goes through (LoadChat); nullopt: text is read as it is. Has a
  /// tokenizer beside it.
  std::optional<worker::ChatTemplate> chat;

  /// OK with a tokenizer. Otherwise FAILED_PRECONDITION, which says why there is none and `remedy`.
  Status NeedsTokenizer(std::string_view remedy) const;
  worker::TextOfModel text() const { return {tokenizer.get(), chat ? &*chat : nullptr}; }
  /// Token ids to store of a document's text, in the chat template where there is one. Needs a
  /// tokenizer. Errors are those of Tokenizer::Encode and DocumentInChat.
  StatusOr<std::vector<TokenId>> DocumentTokens(std::string_view text) const;
};

/// Loads config.json, *.safetensors, tokenizer.json and the retrieval head of `model_directory`;
/// only the last two may be missing. Errors name the file. `device` is one of
/// worker::DeviceNames(). `head` chooses the retrieval head.
StatusOr<LocalWorker> LoadLocalWorker(const std::string& model_directory, Client* client,
                                      const worker::EngineOptions& options,
                                      std::string_view device = "cpu", const HeadChoice& head = {});

/// Adds --device, which `device` holds the default of.
void AddDeviceFlag(CLI::App& command, std::string* device);

/// Adds --statistics and --no-statistics (EngineOptions::statistics), of which `statistics` holds
/// the default.
CLI::Option* AddStatisticsFlag(CLI::App& command, bool* statistics);

/// Adds --question-chunk (EngineOptions::question_chunk_tokens).
void AddQuestionChunkFlag(CLI::App& command, uint32_t* tokens);
/// Its default.
inline constexpr uint32_t kQuestionChunkTokens = 64;

/// For reports: {"device", "gpu", "cublas"}: of a GPU its name, and whether products of many rows
/// are cuBLAS's; null for the processor.
Json DescribeDevice(const std::string& device_name);

using worker::DocumentTokens;

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_WORKER_LOCAL_WORKER_H_
