// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/prompt_chain.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/threads/executor.h"
#include "gpuworker/engine/offload/page_sender.h"
#include "gpuworker/engine/offload/unit_buffers.h"
#include "gpuworker/engine/owned_context.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

/// Copies pages of a prompt into units in host memory.
class PromptExporter {
 public:
  PromptExporter(const EngineParts& parts, const AssembledPrompt& prompt)
      : parts_(parts), prompt_(prompt) {}

  /// A page at all layers, [num_layers][n_kv] units of `rows` tokens.
  StatusOr<PageSender::Units> Export(uint32_t page, uint32_t rows) {
    const uint64_t bytes = ExtentBytes(*parts_.spec, 1);
    if (units_.size_bytes() == 0) {
      QUIRE_ASSIGN_OR_RETURN(units_, parts_.device->Allocate(bytes));
    }
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<UnitBuffer> buffer, parts_.unit_buffers->Take());
    for (uint32_t layer = 0; layer < parts_.spec->num_layers; ++layer) {
      QUIRE_RETURN_IF_ERROR(prompt_.ExportPage(layer, page, rows, units_.data()));
      QUIRE_RETURN_IF_ERROR(
          parts_.device->CopyToPinned(buffer->bytes.get() + layer * bytes, units_.data(), bytes));
    }
    QUIRE_RETURN_IF_ERROR(buffer->arrived->Record(DeviceStream::kCompute));
    return PageSender::Units{std::move(buffer), SegmentBytes(*parts_.spec, 1)};
  }

 private:
  const EngineParts& parts_;
  const AssembledPrompt& prompt_;
  DeviceBuffer units_;  ///< [n_kv] units
};

/// Appends the whole pages of `tokens` from page `first` on.
Status AppendPages(const EngineParts& parts, uint64_t context_id, std::span<const TokenId> tokens,
                   uint32_t first, PromptExporter* exporter) {
  const uint32_t p = parts.spec->page_tokens;
  const auto whole = static_cast<uint32_t>(tokens.size() / p);
  InlineExecutor here;
  PageSender sender(parts, context_id, &here);
  while (first < whole) {
    const uint32_t most = PagesPerBatch(parts, SegmentBytes(*parts.spec, 1));
    const uint32_t end = first + std::min(most, whole - first);
    const std::span<const TokenId> some = tokens.subspan(size_t{first} * p, (end - first) * p);
    PageSender::Batch batch{
        .pages = {first, end}, .tokens = {some.begin(), some.end()}, .layer = {}, .units = {}};
    for (; first < end; ++first) {
      QUIRE_ASSIGN_OR_RETURN(batch.units.emplace_back(), exporter->Export(first, p));
    }
    QUIRE_RETURN_IF_ERROR(sender.Add(std::move(batch)));
  }
  return sender.Finish();
}

/// The short last page; empty when there is none.
StatusOr<Payload> ExportTail(const EngineParts& parts, std::span<const TokenId> tokens,
                             PromptExporter* exporter) {
  Payload tail;
  const uint32_t p = parts.spec->page_tokens;
  const auto rows = static_cast<uint32_t>(tokens.size() % p);
  if (rows == 0) return tail;
  QUIRE_ASSIGN_OR_RETURN(const PageSender::Units units,
                         exporter->Export(static_cast<uint32_t>(tokens.size() / p), rows));
  QUIRE_RETURN_IF_ERROR(units.buffer->arrived->Await());
  tail.Append(Slice{{units.buffer->bytes.get(), units.bytes}, units.buffer});
  return tail;
}

}  // namespace

StatusOr<std::vector<SegmentKey>> StorePrompt(const EngineParts& parts,
                                              const AssembledPrompt& prompt,
                                              std::span<const TokenId> tokens,
                                              std::string_view collection) {
  const KvSpec& spec = *parts.spec;
  QUIRE_ASSIGN_OR_RETURN(LookupResult stored, parts.client->Lookup(spec, tokens));
  if (stored.num_tokens == tokens.size()) return std::move(stored.segment_keys);
  std::optional<ContextRef> continues;
  if (!stored.segment_keys.empty()) continues = ContextRef(stored.segment_keys.back());
  QUIRE_ASSIGN_OR_RETURN(OpenedContext opened,
                         parts.client->OpenContext(spec, continues, {.collection = collection}));
  const auto first = static_cast<uint32_t>(opened.num_tokens / spec.page_tokens);
  const OwnedContext context(parts.client, std::move(opened), /*private_pages=*/false);
  PromptExporter exporter(parts, prompt);
  QUIRE_RETURN_IF_ERROR(AppendPages(parts, context.id(), tokens, first, &exporter));
  QUIRE_ASSIGN_OR_RETURN(const Payload tail, ExportTail(parts, tokens, &exporter));
  QUIRE_ASSIGN_OR_RETURN(
      SealedContext sealed,
      parts.client->Seal(context.id(), tokens.last(tokens.size() % spec.page_tokens), tail));
  if (sealed.num_tokens == tokens.size()) return std::move(sealed.segment_keys);
  return DataLoss("the server sealed ", sealed.num_tokens, " of ", tokens.size(), " tokens");
}

}  // namespace quire::worker
