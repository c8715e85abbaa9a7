// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/ingest/document_ingest.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <variant>

#include "common/base/utf8.h"
#include "gpuworker/ingest/document_hash.h"
#include "gpuworker/ingest/document_tokens.h"
#include "gpuworker/ingest/split_text.h"

namespace quire::worker {
namespace {

constexpr size_t kMostReasonBytes = 1024;

/// Parts leave an eighth of the context for questions.
uint64_t MostTokensOfPart(uint64_t context) { return context - context / 8; }

DocumentName NameOfPart(const DocumentName& name, uint32_t number) {
  if (number == 0) return name;
  return {name.collection, name.name + "#" + std::to_string(number), 0};
}

Tags TagsOfPart(Tags tags, uint32_t number, uint32_t count) {
  if (number == 0) return tags;
  tags.insert_or_assign(std::string(kPartTag), static_cast<int64_t>(number));
  tags.insert_or_assign(std::string(kPartsTag), static_cast<int64_t>(count));
  return tags;
}

/// How many parts a document has of which this is one; 0 for a whole text.
uint32_t CountOfParts(const Document& document) {
  const auto tag = document.tags.find(kPartsTag);
  if (tag == document.tags.end()) return 0;
  const auto* const count = std::get_if<int64_t>(&tag->second);
  return count != nullptr && *count > 0 && *count <= UINT32_MAX ? static_cast<uint32_t>(*count) : 0;
}

/// The change that gives a document what was asked for.
std::optional<DocumentChange> ChangeOf(const DocumentToIngest& what, const Document& document) {
  DocumentChange change;
  for (const auto& [key, value] : what.tags) {
    const auto present = document.tags.find(key);
    if (present == document.tags.end() || present->second != value) change.set_tags[key] = value;
  }
  if (what.ttl_seconds && what.ttl_seconds != document.ttl_seconds) {
    change.ttl_seconds = what.ttl_seconds;
  }
  if (change.set_tags.empty() && !change.ttl_seconds) return std::nullopt;
  return change;
}

/// Hands on the progress of one of several parts as that of all.
IngestObserver WithinAll(const IngestObserver& observer, const IngestProgress& before,
                         uint64_t total_tokens) {
  if (!observer) return {};
  return [&observer, before, total_tokens](const IngestProgress& now) {
    return observer({.done_tokens = before.done_tokens + now.done_tokens,
                     .reused_tokens = before.reused_tokens + now.reused_tokens,
                     .total_tokens = total_tokens});
  };
}

Payload PayloadOf(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  Payload payload;
  payload.Append(Slice{*copy, copy});
  return payload;
}

/// A message that any template takes, as it is stored. Empty where text is stored as it is.
std::string FormOf(const TextOfModel& text) {
  if (text.chat == nullptr) return "";
  const ChatMessage message{.role = "user", .content = "."};
  return text.chat->Render({&message, 1}, {}).value_or("");
}

}  // namespace

StatusOr<IngestedDocument> DocumentIngest::Refresh(const DocumentToIngest& what,
                                                   Document document) const {
  if (const auto change = ChangeOf(what, document)) {
    QUIRE_ASSIGN_OR_RETURN(document, engine_->client().UpdateDocument(document.name, *change));
  }
  return IngestedDocument{.document = std::move(document), .unchanged = true};
}

StatusOr<std::optional<IngestedDocument>> DocumentIngest::FindPart(const DocumentToIngest& what,
                                                                   uint32_t number) const {
  auto document = engine_->client().GetDocument(NameOfPart(what.name, number));
  if (IsNotFound(document.status())) return std::optional<IngestedDocument>();
  QUIRE_RETURN_IF_ERROR(document.status());
  const bool is_whole = document->segments_lost == 0;
  if (!is_whole ||
      document->content_hash != HashDocument(what.text_hash, engine_->spec(), form_, number)) {
    return std::optional<IngestedDocument>();
  }
  QUIRE_ASSIGN_OR_RETURN(IngestedDocument found, Refresh(what, *std::move(document)));
  return std::optional(std::move(found));
}

DocumentIngest::DocumentIngest(const Engine* engine, const TextOfModel& text)
    : engine_(engine), text_(text), form_(FormOf(text)) {}

StatusOr<std::vector<IngestedDocument>> DocumentIngest::FindUnchanged(
    const DocumentToIngest& what) const {
  std::vector<IngestedDocument> found;
  QUIRE_ASSIGN_OR_RETURN(auto whole, FindPart(what, 0));
  if (whole) found.push_back(*std::move(whole));
  if (!found.empty() || !what.split) return found;
  for (uint32_t number = 1, count = 1; number <= count; ++number) {
    QUIRE_ASSIGN_OR_RETURN(auto part, FindPart(what, number));
    if (!part) return std::vector<IngestedDocument>();
    count = CountOfParts(part->document);
    found.push_back(*std::move(part));
  }
  return found;
}

StatusOr<std::vector<DocumentIngest::Part>> DocumentIngest::SplitParts(
    std::string_view text) const {
  const auto count = [this](std::string_view piece) -> StatusOr<uint64_t> {
    QUIRE_ASSIGN_OR_RETURN(const auto tokens, DocumentTokens(text_, piece));
    return tokens.size();
  };
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string_view> texts,
                         SplitText(text, MostTokensOfPart(engine_->model().max_positions), count));
  std::vector<Part> parts;
  for (const std::string_view piece : texts) {
    QUIRE_ASSIGN_OR_RETURN(auto tokens, DocumentTokens(text_, piece));
    parts.push_back({.number = static_cast<uint32_t>(parts.size() + 1),
                     .count = static_cast<uint32_t>(texts.size()),
                     .text = piece,
                     .tokens = std::move(tokens)});
  }
  return parts;
}

StatusOr<std::vector<DocumentIngest::Part>> DocumentIngest::Parts(const DocumentToIngest& what,
                                                                  std::string_view text) const {
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, DocumentTokens(text_, text));
  const uint64_t context = engine_->model().max_positions;
  if (tokens.size() > context) {
    if (what.split) return SplitParts(text);
    return InvalidArgument(tokens.size(), " tokens are ", tokens.size() - context,
                           " more than the model's context of ", context, "; --split makes parts");
  }
  std::vector<Part> parts(1);
  parts.front().text = text;
  parts.front().tokens = std::move(tokens);
  return parts;
}

Status DocumentIngest::PutSummary(const DocumentToIngest& what, const Part& part,
                                  const Document& document) const {
  const nlohmann::ordered_json summary = {{"reader", what.reader},
                                          {"text_bytes", part.text.size()},
                                          {"tokens", part.tokens.size()},
                                          {"part", part.number},
                                          {"parts", part.count},
                                          {"context_tokens", engine_->model().max_positions},
                                          {"vocabulary", text_.tokenizer->vocab_size()}};
  return engine_->client()
      .PutExtra(document.name, kSummaryExtra, kSummaryVersion, PayloadOf(summary.dump()))
      .status();
}

StatusOr<IngestedDocument> DocumentIngest::StorePart(const DocumentToIngest& what, const Part& part,
                                                     const IngestObserver& observer) const {
  const DocumentName name = NameOfPart(what.name, part.number);
  QUIRE_ASSIGN_OR_RETURN(Client* const client, engine_->client().ForPut(name));
  QUIRE_ASSIGN_OR_RETURN(
      const Ingest ingest,
      client->BeginIngest(
          name, {.content_hash = HashDocument(what.text_hash, engine_->spec(), form_, part.number),
                 .source = what.source,
                 .tags = TagsOfPart(what.tags, part.number, part.count),
                 .ttl_seconds = what.ttl_seconds}));
  if (ingest.unchanged && ingest.document.segments_lost == 0) return Refresh(what, ingest.document);
  auto stored =
      engine_->Ingest(part.tokens, ingest.document.name, observer, {.ingest_id = ingest.id});
  if (!stored.ok()) {
    const std::string reason(Message(stored.status()));
    (void)client->FailIngest(ingest.id, CutUtf8(reason, kMostReasonBytes));
    return Annotate(stored.status(), name.name);
  }
  IngestedDocument done{.document = std::move(stored->document),
                        .reused_tokens = stored->reused_tokens,
                        .bytes_sent = stored->bytes_sent};
  for (const Status& beside :
       {stored->representatives, stored->statistics, PutSummary(what, part, done.document)}) {
    if (!beside.ok()) done.warning += std::string(Message(beside)) + ". ";
  }
  return done;
}

Status DocumentIngest::DropParts(const DocumentToIngest& what, uint32_t first) const {
  for (uint32_t number = first;; ++number) {
    const Status dropped =
        engine_->client().InvalidateDocument(NameOfPart(what.name, number)).status();
    if (IsNotFound(dropped)) return OkStatus();
    QUIRE_RETURN_IF_ERROR(dropped);
  }
}

StatusOr<std::vector<IngestedDocument>> DocumentIngest::Store(
    const DocumentToIngest& what, std::string_view text, const IngestObserver& observer) const {
  if (text_.tokenizer == nullptr) {
    return FailedPrecondition("this model has no tokenizer; put token ids (quire put --token-ids)");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Part> parts, Parts(what, text));
  uint64_t total = 0;
  for (const Part& part : parts) total += part.tokens.size();
  std::vector<IngestedDocument> done;
  IngestProgress before;
  for (const Part& part : parts) {
    QUIRE_ASSIGN_OR_RETURN(done.emplace_back(),
                           StorePart(what, part, WithinAll(observer, before, total)));
    before.done_tokens += part.tokens.size();
    before.reused_tokens += done.back().reused_tokens;
  }
  if (what.split) {
    const bool whole = parts.front().number == 0;
    QUIRE_RETURN_IF_ERROR(DropParts(what, whole ? 1 : static_cast<uint32_t>(parts.size() + 1)));
  }
  return done;
}

}  // namespace quire::worker
