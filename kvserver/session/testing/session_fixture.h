// SPDX-License-Identifier: Apache-2.0
//
// Fixture of the session tests: a fake store and clock, a context table and a session manager, and
// helpers that make contexts of known bytes. Only tests use it.
#ifndef QUIRE_KVSERVER_SESSION_TESTING_SESSION_FIXTURE_H_
#define QUIRE_KVSERVER_SESSION_TESTING_SESSION_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/memory/checksum.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/session/context/context_table.h"
#include "kvserver/session/session_manager.h"
#include "kvserver/session/testing/collecting_sink.h"
#include "kvserver/session/testing/fake_page_store.h"
#include "kvserver/session/testing/test_pages.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/manual_executor.h"

namespace quire::kvserver::testing {

/// Deadline of a call without a time limit.
constexpr TimePoint kNever = TimePoint::max();

inline constexpr char kTenant[] = "team-a";

class SessionFixture : public ::testing::Test {
 protected:
  /// Opens a context and appends `pages` pages of known bytes.
  ContextTable::Opened OpenWith(uint32_t pages, const ContextViewPtr& chain = nullptr) {
    auto opened = contexts_.Open(kTenant, spec_, chain);
    EXPECT_TRUE(opened.ok()) << opened.status();
    const uint32_t first = opened->context->view()->num_pages();
    if (pages > 0) {
      EXPECT_TRUE(Append(*opened->context, first, pages).ok());
    }
    return *opened;
  }
  StatusOr<uint64_t> Append(OpenContext& context, uint32_t first, uint32_t pages,
                            uint64_t seed = 1) {
    const uint32_t p = spec_.page_tokens;
    return context.Append(first, TestTokens(pages * p, 100 + static_cast<TokenId>(first * p)),
                          TestPages(spec_, first, pages, seed));
  }
  StatusOr<uint64_t> AppendLayers(OpenContext& context, uint32_t first, uint32_t pages,
                                  const std::vector<uint32_t>& layers, uint64_t seed = 1) {
    const uint32_t p = spec_.page_tokens;
    return context.AppendLayers(first, TestTokens(pages * p, 100 + static_cast<TokenId>(first * p)),
                                layers, TestLayers(spec_, first, pages, layers, seed));
  }
  /// Expects every unit of the view to be as put, with as many rows as the page has tokens.
  void ExpectContents(const ContextViewPtr& view) {
    std::vector<UnitRef> refs;
    for (uint32_t page = 0; page < view->num_pages(); ++page) {
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        for (uint32_t head = 0; head < spec_.num_kv_heads; ++head)
          refs.push_back({layer, page, head});
      }
    }
    std::vector<UnitBytes> units;
    ASSERT_TRUE(ReadUnits(store_, kTenant, view, refs, &units).ok());
    ASSERT_EQ(units.size(), refs.size());
    for (size_t i = 0; i < refs.size(); ++i) {
      const uint32_t rows = TokensInPage(spec_, view->num_tokens, refs[i].page);
      EXPECT_EQ(BytesOf(units[i]),
                TestUnit(spec_, refs[i].page, refs[i].layer, refs[i].head, rows));
      EXPECT_EQ(units[i].crc32c(), Crc32c(units[i].ToSend().slice.bytes));
    }
  }
  /// A sealed chain of whole pages and `tail` more tokens.
  ContextViewPtr SealedWith(uint32_t pages, uint32_t tail = 0) {
    const auto opened = OpenWith(pages);
    auto sealed = Seal(*opened.context, pages, tail);
    EXPECT_TRUE(sealed.ok()) << sealed.status();
    contexts_.Retire(kTenant, opened.id);
    return *sealed;
  }
  StatusOr<ContextViewPtr> Seal(OpenContext& context, uint32_t pages, uint32_t tail) {
    return context.Seal(TestTokens(tail, 100 + static_cast<TokenId>(pages * spec_.page_tokens)),
                        tail == 0 ? std::vector<std::byte>() : TestPage(spec_, pages, tail),
                        Durability::kPersisted);
  }
  /// A session of `sequences`, all of which read `context`.
  SessionManager::Opened OpenSession(const ContextRef& context, uint32_t slots,
                                     uint32_t sequences = 1) {
    return OpenSession(std::vector(sequences, SessionManager::SequenceArgs{{{context}}}), slots);
  }
  SessionManager::Opened OpenSession(std::vector<SessionManager::SequenceArgs> sequences,
                                     uint32_t slots) {
    auto opened = sessions_.Open(kTenant, {std::move(sequences), spec_, slots, {}});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *opened;
  }

  static std::vector<std::byte> BytesOf(const UnitBytes& unit) {
    return {unit.ToSend().slice.bytes.begin(), unit.ToSend().slice.bytes.end()};
  }

  const KvSpec spec_ = TestSpec();
  FakePageStore store_;
  quire::testing::FakeClock clock_;
  quire::testing::ManualExecutor executor_;
  ContextTable contexts_{{.max_contexts_per_tenant = 4,
                          .max_bytes_per_tenant = 1 << 20,
                          .store = &store_,
                          .ops = &kernels::CpuReference(),
                          .clock = &clock_}};
  ContextResolver resolver_{&store_, nullptr, &contexts_};
  SessionManager sessions_{{.max_sessions_per_tenant = 4,
                            .max_reply_bytes = 1 << 16,
                            .store = &store_,
                            .resolver = &resolver_,
                            .ops = &kernels::CpuReference(),
                            .clock = &clock_,
                            .executor = &executor_}};
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_SESSION_TESTING_SESSION_FIXTURE_H_
