// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "common/base/random.h"

namespace quire {
namespace {

TEST(UcxGatherTest, PacksPartsInWhateverPiecesAreAskedFor) {
  SeededRandom random(7);
  std::vector<std::vector<std::byte>> parts;
  std::vector<std::byte> whole;
  UcxGather gather;
  for (const size_t bytes : {1u, 0u, 5000u, 16384u, 3u, 20000u}) {
    std::vector<std::byte> part(bytes);
    for (std::byte& byte : part) byte = static_cast<std::byte>(random.Next());
    whole.insert(whole.end(), part.begin(), part.end());
    parts.push_back(std::move(part));
  }
  for (const auto& part : parts) gather.Append(part);
  EXPECT_EQ(gather.parts().size(), parts.size() - 1) << "an empty part is none";
  ASSERT_EQ(gather.size_bytes(), whole.size());
  for (const size_t piece : {1u, 100u, 4096u, 16384u, 1u << 20}) {
    std::vector<std::byte> packed(whole.size() + 1, std::byte{0x5a});
    size_t done = 0;
    while (done < whole.size()) {
      const size_t room = std::min(piece, packed.size() - done);
      const size_t now = gather.Pack(done, std::span(packed).subspan(done, room));
      ASSERT_EQ(now, std::min(room, whole.size() - done)) << "at " << done << " of " << piece;
      done += now;
    }
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), packed.begin())) << piece;
    EXPECT_EQ(packed.back(), std::byte{0x5a});
  }
}

/// Gathers `part` `count` times.
UcxGather Of(std::span<const std::byte> part, size_t count) {
  UcxGather gather;
  for (size_t i = 0; i < count; ++i) gather.Append(part);
  return gather;
}

TEST(UcxGatherTest, FewLargePartsMayBeSentFromWhereTheyLie) {
  const std::vector<std::byte> part(UcxGather::kPartBytesInPlace);
  EXPECT_TRUE(Of(part, 2).FewAndLarge());
  EXPECT_TRUE(Of(part, UcxGather::kMaxPartsInPlace).FewAndLarge());
  EXPECT_FALSE(Of(part, UcxGather::kMaxPartsInPlace + 1).FewAndLarge()) << "UCX has no more pieces";
  EXPECT_FALSE(Of(part, 1).FewAndLarge()) << "it is in one piece";
  EXPECT_FALSE(Of(std::span(part).first(part.size() - 1), 2).FewAndLarge()) << "they are small";

  UcxGather gather = Of(part, 3);
  EXPECT_TRUE(gather.pieces().empty());
  gather.SendInPlace();
  ASSERT_EQ(gather.pieces().size(), 3u);
  for (const ucp_dt_iov_t& piece : gather.pieces()) {
    EXPECT_EQ(piece.buffer, part.data());
    EXPECT_EQ(piece.length, part.size());
  }
}

}  // namespace
}  // namespace quire
