// SPDX-License-Identifier: Apache-2.0
//
// A data directory with many documents, for tests of what people look at.
//   watch_fill DIRECTORY DOCUMENTS
// Registers one document, and writes the rows of all others as a registration does, many in one
// commit. They are report-100000.md and so on, of seven collections.
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "kvserver/registry/document_registry.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"
#include "kvserver/store/page_store.h"
#include "quire/layout.h"

namespace {

using namespace quire;
using namespace quire::kvserver;

constexpr char kFilledTenant[] = "default";
constexpr uint32_t kOfCommit = 5000;

KvSpec Spec() {
  KvSpec spec;
  spec.model = "llama-3.1-8b";
  spec.num_layers = 4;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.page_tokens = 16;
  spec.segment_pages = 16;
  spec.rope.rotary_dim = 64;
  return spec;
}

StatusOr<SegmentKey> Put(PageStore& store) {
  const KvSpec spec = Spec();
  std::vector<TokenId> tokens(spec.segment_tokens());
  std::iota(tokens.begin(), tokens.end(), 1);
  const std::vector<std::byte> payload(SegmentBytes(spec, spec.segment_pages));
  PutSegmentArgs args;
  args.spec = &spec;
  args.tokens = tokens;
  args.payload = payload;
  QUIRE_ASSIGN_OR_RETURN(const PutSegmentResult result, store.PutSegment(kFilledTenant, args));
  return result.key;
}

DocumentName NameOf(uint32_t number) {
  return {.collection = "year-" + std::to_string(number % 7 + 2019),
          .name = "report-" + std::to_string(100'000 + number) + ".md",
          .version = 1};
}

/// The rows of document_registration.cc.
void AddRows(Document document, const SegmentKey& segment, MetadataBatch* batch) {
  const DocumentName& name = document.name;
  batch->Put(DocumentKey(kFilledTenant, name), EncodeDocument(document));
  batch->Put(CreatedKey(kFilledTenant, document.created_unix_micros, name), "");
  batch->Put(ChainKey(kFilledTenant, name), EncodeSegmentKeys({segment}));
  batch->Put(ReferenceKey(kFilledTenant, segment, name), "");
}

Status Fill(const std::string& directory, uint32_t documents) {
  QUIRE_ASSIGN_OR_RETURN(const auto store,
                         PageStore::Open({.ssd_path = directory, .dram_bytes = 8 << 20}));
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey segment, Put(*store));
  Document document;
  {
    QUIRE_ASSIGN_OR_RETURN(const auto registry,
                           DocumentRegistry::Open(store.get(), &store->metadata(), &SystemClock()));
    QUIRE_ASSIGN_OR_RETURN(const auto registered,
                           registry->Register(kFilledTenant, NameOf(0), segment, ""));
    document = registered.document;
  }
  MetadataBatch batch;
  for (uint32_t number = 1; number < documents; ++number) {
    document.name = NameOf(number);
    ++document.created_unix_micros;
    AddRows(document, segment, &batch);
    if (number % kOfCommit != 0 && number + 1 != documents) continue;
    QUIRE_RETURN_IF_ERROR(store->metadata().Apply(batch));
    batch = {};
  }
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (args.size() != 3) {
    std::cerr << "usage: watch_fill DIRECTORY DOCUMENTS\n";
    return 2;
  }
  const Status status = Fill(args[1], static_cast<uint32_t>(std::stoul(args[2])));
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
