// SPDX-License-Identifier: Apache-2.0
//
// Runs of questions over a server in this process and a tiny model.
#include "bench/rag/rag_run.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/rag/prompt_sets.h"
#include "bench/rag/rag_store.h"
#include "tests/kit/temp_dir.h"
#include "tests/kit/tiny_model.h"

namespace quire::bench {
namespace {

class RagRunTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kBlockTokens = 16;

  RagRunTest() { testing::WriteTinyModel(directory_.path(), {}); }

  /// Asks `questions` questions over three documents by the method with this name.
  MethodTotals Run(const std::string& name, uint32_t questions) {
    auto store = OpenRagStore(directory_.path(), "dram", "grpc", kBlockTokens);
    EXPECT_TRUE(store.ok()) << store.status();
    std::vector<RagMethod> methods = RagMethods({});
    std::erase_if(methods, [&](const RagMethod& method) { return method.name != name; });
    EXPECT_EQ(methods.size(), 1u);
    const PromptSet set =
        RandomPromptSet({.documents = 3, .tokens = 150, .questions = questions, .vocab_size = 64});
    RagRun run(*store->worker.engine, *store->worker.decoder, std::move(methods), {});
    auto totals = run.Run({&set, 1});
    EXPECT_TRUE(totals.ok()) << totals.status();
    return totals.ok() ? totals->methods.at(name) : MethodTotals{};
  }

 private:
  testing::TempDir directory_;
};

TEST_F(RagRunTest, CacheCraftFindsDocumentsOfAnotherOrderInEveryQuestion) {
  const MethodTotals one = Run("cachecraft", 1);
  EXPECT_NEAR(one.recompute_ratio, 1.0 / 3, 1e-9) << "the document that stood first has no variant";
  const MethodTotals four = Run("cachecraft", 4);
  EXPECT_NEAR(four.recompute_ratio / 4, one.recompute_ratio, 1e-9);
  EXPECT_EQ(four.document_rows, 0u);
}

TEST_F(RagRunTest, EpicAtEqualRecomputeIsAskedWithItsOwnTokens) {
  const MethodTotals few = Run("epic_equal_hops", 1);
  EXPECT_NEAR(few.recompute_ratio, 8.0 / 150, 1e-9);
  const MethodTotals more = Run("epic_equal_samkv", 1);
  EXPECT_NEAR(more.recompute_ratio, 78.0 / 150, 1e-9);
}

}  // namespace
}  // namespace quire::bench
