// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes appends to an open context: pages and layers in any order, with repeats, gaps, changed
// bytes and changed tokens, and seals in between. Four bytes make one call. A model of the context
// predicts the answer of each call, and the readable content.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/session/context/open_context.h"
#include "kvserver/session/testing/fake_page_store.h"
#include "kvserver/session/testing/test_pages.h"
#include "tests/fuzz/require.h"

namespace {

using namespace quire;
using fuzz::Require;
using namespace quire::kvserver;

constexpr uint32_t kMaxPages = 12;

/// The expected state of a page after the calls so far: its tokens, and the bytes of each layer.
struct PageModel {
  bool other_tokens = false;
  std::map<uint32_t, uint64_t> layers;  ///< Layer -> seed of its bytes.
};

struct AppendCall {
  uint32_t first_page = 0;
  uint32_t pages = 0;
  std::vector<uint32_t> layers;
  bool whole_pages = false;  ///< AppendPages; all layers.
  bool other_tokens = false;
  uint64_t seed = 1;
};

class IngestFuzz {
 public:
  void Run(std::span<const uint8_t> bytes) {
    for (; bytes.size() >= 4; bytes = bytes.subspan(4)) {
      if (bytes[0] % 16 == 15) {
        TrySeal();
      } else {
        Append(CallFrom(bytes));
      }
      CheckContents();
    }
  }

 private:
  AppendCall CallFrom(std::span<const uint8_t> bytes) const {
    AppendCall call{.first_page = bytes[1] % kMaxPages,
                    .pages = 1 + bytes[2] % 3u,
                    .layers = {},
                    .whole_pages = (bytes[0] & 1) != 0,
                    .other_tokens = (bytes[0] & 0xe0) == 0x20,
                    .seed = (bytes[0] & 0xe0) == 0x40 ? 2u : 1u};
    for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
      if (call.whole_pages || ((bytes[3] >> layer) & 1) != 0) call.layers.push_back(layer);
    }
    if (call.layers.empty()) call.layers.push_back(bytes[3] % spec_.num_layers);
    return call;
  }

  bool IsWhole(size_t page) const { return pages_[page].layers.size() == spec_.num_layers; }
  size_t Appended() const {
    size_t appended = 0;
    while (appended < pages_.size() && IsWhole(appended)) ++appended;
    return appended;
  }
  bool Contradicts(const AppendCall& call, uint32_t index) const {
    if (call.first_page + index >= pages_.size()) return false;
    const PageModel& page = pages_[call.first_page + index];
    return page.other_tokens != call.other_tokens ||
           std::ranges::any_of(call.layers, [&](uint32_t layer) {
             const auto known = page.layers.find(layer);
             return known != page.layers.end() && known->second != call.seed;
           });
  }
  void Take(const AppendCall& call, uint32_t index) {
    pages_.resize(std::max<size_t>(pages_.size(), call.first_page + index + 1));
    PageModel& page = pages_[call.first_page + index];
    page.other_tokens = call.other_tokens;
    for (const uint32_t layer : call.layers) page.layers[layer] = call.seed;
  }

  /// Predicts the answer of the call, and applies it to the model.
  StatusCode Expect(const AppendCall& call) {
    if (sealed_) return StatusCode::kFailedPrecondition;
    if (call.first_page > (call.whole_pages ? Appended() : pages_.size())) {
      return StatusCode::kInvalidArgument;
    }
    for (uint32_t i = 0; i < call.pages; ++i) {
      if (Contradicts(call, i)) return StatusCode::kAlreadyExists;
      // Page by page; the layers of a page are accepted together or not at all.
      if (call.whole_pages) Take(call, i);
    }
    for (uint32_t i = 0; i < call.pages && !call.whole_pages; ++i) Take(call, i);
    return StatusCode::kOk;
  }

  std::vector<TokenId> TokensOf(uint32_t first, uint32_t pages, bool other) const {
    const uint32_t p = spec_.page_tokens;
    return testing::TestTokens(pages * p, static_cast<TokenId>((other ? 5000 : 100) + first * p));
  }

  void Append(const AppendCall& call) {
    const StatusCode expected = Expect(call);
    const auto tokens = TokensOf(call.first_page, call.pages, call.other_tokens);
    const StatusOr<uint64_t> answer =
        call.whole_pages
            ? context_->Append(call.first_page, tokens,
                               testing::TestPages(spec_, call.first_page, call.pages, call.seed))
            : context_->AppendLayers(
                  call.first_page, tokens, call.layers,
                  testing::TestLayers(spec_, call.first_page, call.pages, call.layers, call.seed));
    Require(answer.status().code() == expected);
    if (answer.ok()) Require(*answer == Appended() * spec_.page_tokens);
  }

  void TrySeal() {
    const auto sealed = context_->Seal({}, {}, Durability::kMemory);
    const bool can = sealed_ || (!pages_.empty() && Appended() == pages_.size());
    Require(sealed.ok() == can);
    sealed_ = sealed_ || can;
  }

  void CheckContents() {
    const ContextViewPtr view = context_->view();
    Require(view->num_pages() == Appended());
    std::vector<UnitRef> refs;
    for (uint32_t page = 0; page < view->num_pages(); ++page) {
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        refs.push_back({layer, page, page % spec_.num_kv_heads});
      }
    }
    std::vector<kvserver::UnitBytes> units;
    Require(ReadUnits(store_, "t", view, refs, &units).ok());
    for (size_t i = 0; i < refs.size(); ++i) {
      const auto expected =
          testing::TestUnit(spec_, refs[i].page, refs[i].layer, refs[i].head, spec_.page_tokens,
                            pages_[refs[i].page].layers.at(refs[i].layer));
      Require(std::ranges::equal(units[i].ToSend().slice.bytes, expected));
    }
  }

  const KvSpec spec_ = testing::TestSpec();
  testing::FakePageStore store_;
  std::shared_ptr<MemoryBudget> budget_ =
      std::make_shared<MemoryBudget>(1 << 20, "the contexts", "--context-bytes");
  std::shared_ptr<OpenContext> context_ =
      OpenContext::Create({"t", &store_, &kernels::CpuReference(), budget_, {}}, spec_, nullptr)
          .value();
  std::vector<PageModel> pages_;  ///< Pages of which any layer has arrived.
  bool sealed_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  IngestFuzz().Run({data, std::min<size_t>(size, 256)});
  return 0;
}
