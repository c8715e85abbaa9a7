// SPDX-License-Identifier: Apache-2.0
//
// ContextResolver: resolves a request's reference (a chain's last key, an open context's id, a
// document) to a readable context. Thread-safety: safe for concurrent use. Ownership: store,
// registry, contexts and counts outlive it.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_RESOLVER_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_RESOLVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kvserver/registry/document_registry.h"
#include "kvserver/session/context/context_table.h"
#include "kvserver/session/context/context_view.h"
#include "kvserver/session/context/page_use_table.h"
#include "kvserver/session/context/read_counts.h"
#include "quire/contexts.h"
#include "quire/status.h"

namespace quire::kvserver {

/// A context to read from, whose segments it holds. An open one grows: take a new view for each
/// request.
class ReadableContext {
 public:
  explicit ReadableContext(ContextViewPtr sealed,
                           std::optional<DocumentName> document = std::nullopt)
      : sealed_(std::move(sealed)), document_(std::move(document)) {}
  /// Reads count by `reads` from now on.
  void CountBy(std::shared_ptr<ReadCount> reads) { reads_ = std::move(reads); }
  explicit ReadableContext(std::shared_ptr<OpenContext> open)
      : open_(std::move(open)), hold_(open_->view()->hold) {}
  ContextViewPtr view() const { return open_ != nullptr ? open_->view() : sealed_; }
  /// False for a sealed context that had released its segments before it was found.
  bool holds() const { return open_ == nullptr || hold_ != nullptr; }
  /// The document by which it was named, with its version.
  const std::optional<DocumentName>& document() const { return document_; }
  /// It was read once more. Thread-safe.
  void NoteRead() const {
    if (reads_ != nullptr) reads_->fetch_add(1, std::memory_order_relaxed);
  }
  /// Uses of its pages count by `uses` from now on.
  void CountPagesBy(std::shared_ptr<PageUse> uses) { page_use_ = std::move(uses); }
  /// Counts of the chain that it is or continues. Null when nobody counts them.
  PageUse* page_use() const { return page_use_.get(); }
  /// The chain that it is or continues, and its pages. kRootKey while that is open.
  std::pair<SegmentKey, uint32_t> counted_chain() const;

 private:
  ContextViewPtr sealed_;
  std::shared_ptr<OpenContext> open_;
  std::shared_ptr<const SegmentHold>
      hold_;  ///< Hold of `open_`, which releases its own once it is named.
  std::optional<DocumentName> document_;
  std::shared_ptr<ReadCount> reads_;  ///< Null when nobody counts them.
  std::shared_ptr<PageUse> page_use_;
};

class ContextResolver {
 public:
  /// `reads` counts reads of documents, `page_uses` those of pages; null: nobody wants to know.
  ContextResolver(PageStore* store, DocumentRegistry* registry, ContextTable* contexts,
                  ReadCounts* reads = nullptr, PageUseTable* page_uses = nullptr)
      : store_(store),
        registry_(registry),
        contexts_(contexts),
        reads_(reads),
        page_uses_(page_uses) {}

  /// NOT_FOUND naming the missing object.
  [[nodiscard]] StatusOr<ReadableContext> Resolve(std::string_view tenant, const ContextRef& ref);
  /// The same for a question, which counts in the statistics of a document, and as a read. Its
  /// recalls count as uses of pages.
  [[nodiscard]] StatusOr<ReadableContext> Open(std::string_view tenant, const ContextRef& ref);

  /// Counts a question about a document whose chain is `chain`, as Open does where it was named. A
  /// document that is gone, or has another chain, does not count.
  void NoteQuestion(std::string_view tenant, const DocumentName& name, const ContextView& chain);

  struct UsedPages {
    uint32_t page_tokens = 0;    ///< Tokens of a page.
    std::vector<uint32_t> uses;  ///< [pages] Units that recalls have placed.
  };
  /// The use of a document's pages. NOT_FOUND as Resolve.
  [[nodiscard]] StatusOr<UsedPages> UsesOf(std::string_view tenant, const DocumentName& name);

 private:
  PageStore* const store_;
  DocumentRegistry* const registry_;
  ContextTable* const contexts_;
  ReadCounts* const reads_;
  PageUseTable* const page_uses_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_RESOLVER_H_
