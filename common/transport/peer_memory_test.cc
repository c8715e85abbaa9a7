// SPDX-License-Identifier: Apache-2.0
#include "common/transport/peer_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <vector>

namespace quire {
namespace {

uint64_t AddressOf(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

/// A process with a copy of this one's memory, until this is destroyed.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    pause();
    _exit(0);
  }
  ~Child() { End(); }
  uint64_t pid() const { return static_cast<uint64_t>(pid_); }
  void End() {
    if (ended_) return;
    ended_ = true;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  const pid_t pid_;
  bool ended_ = false;
};

class PeerMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < there_.size(); ++i) there_[i] = static_cast<std::byte>(i * 7);
    child_.emplace();
    if (!PeerMemory(child_->pid()).Has(AddressOf(&secret_), secret_)) {
      GTEST_SKIP() << "processes may not read each other here";
    }
    std::ranges::fill(there_, std::byte{0});  // The child has its own.
  }

  const std::array<uint8_t, 32> secret_ = {3, 1, 4, 1, 5, 9, 2, 6};
  std::vector<std::byte> there_ = std::vector<std::byte>(3 << 20);
  std::optional<Child> child_;
};

TEST_F(PeerMemoryTest, MorePiecesThanTheKernelTakesAtOnceComeToTheirPlaces) {
  constexpr size_t kBytes = 1000, kPieces = 3000;
  std::vector<std::byte> here(kBytes * kPieces);
  std::vector<PeerMemory::Piece> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back({.from = AddressOf(there_.data()) + (kPieces - 1 - i) * kBytes,
                      .to = std::span(here).subspan(i * kBytes, kBytes)});
  }
  ASSERT_EQ(PeerMemory(child_->pid()).Read(pieces), OkStatus());
  for (size_t i = 0; i < kPieces; ++i) {
    ASSERT_EQ(here[i * kBytes], static_cast<std::byte>((kPieces - 1 - i) * kBytes * 7)) << i;
  }
}

TEST_F(PeerMemoryTest, MemoryThatIsNotThereIsUnavailable) {
  std::vector<std::byte> here(4096);
  const PeerMemory::Piece piece{.from = 8, .to = here};
  EXPECT_TRUE(absl::IsUnavailable(PeerMemory(child_->pid()).Read({&piece, 1})));
}

TEST_F(PeerMemoryTest, AProcessThatIsGoneIsUnavailableAndHasNoSecret) {
  child_->End();
  const PeerMemory gone(child_->pid());
  std::vector<std::byte> here(4096);
  const PeerMemory::Piece piece{.from = AddressOf(there_.data()), .to = here};
  EXPECT_TRUE(absl::IsUnavailable(gone.Read({&piece, 1})));
  EXPECT_FALSE(gone.Has(AddressOf(&secret_), secret_));
}

TEST_F(PeerMemoryTest, AnotherSecretIsToldFromItsOwn) {
  std::array<uint8_t, 32> other = secret_;
  other.back() ^= 1;
  EXPECT_FALSE(PeerMemory(child_->pid()).Has(AddressOf(&secret_), other));
  EXPECT_FALSE(PeerMemory(child_->pid()).Has(AddressOf(&secret_), {}));
}

TEST(NoPeerMemoryTest, NobodyIsNotRead) {
  std::vector<std::byte> here(16);
  const PeerMemory::Piece piece{.from = AddressOf(here.data()), .to = here};
  for (const PeerMemory& nobody : {PeerMemory(), PeerMemory(uint64_t{1} << 40)}) {
    EXPECT_TRUE(absl::IsUnavailable(nobody.Read({&piece, 1})));
  }
}

}  // namespace
}  // namespace quire
