// SPDX-License-Identifier: Apache-2.0
//
// A client signs keys of landings that UCX never packed. The server is a process of its own: should
// one end it, the test goes on and tells which.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/transport/testing/hostile_ucx_client.h"
#include "common/transport/ucx_test_peer.h"
#include "tests/integration/ucx_lane.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using testing::ChildProcess;
using ::testing::HasSubstr;

constexpr size_t kMutations = 150;  // For each seed.

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    for (const int shift : {4, 0}) {
      text += "0123456789abcdef"[static_cast<unsigned char>(c) >> shift & 15];
    }
  }
  return text;
}

/// `key` with one to four changes: bits, bytes, words, and lengths.
std::string Mutate(std::string key, Random& random) {
  for (uint64_t left = 1 + random.Next() % 4; left > 0 && !key.empty(); --left) {
    const size_t at = random.Next() % key.size();
    switch (random.Next() % 6) {
      case 0:
        key[at] = static_cast<char>(key[at] ^ (1 << random.Next() % 8));
        break;
      case 1:
        key[at] = static_cast<char>(random.Next());
        break;
      case 2:
        for (size_t i = at; i < key.size() && i < at + 8; ++i) {
          key[i] = static_cast<char>(random.Next());
        }
        break;
      case 3:
        for (size_t i = at; i < key.size() && i < at + 8; ++i) key[i] = '\xff';
        break;
      case 4:
        key.erase(at, 1 + random.Next() % 8);
        break;
      case 5:
        key.insert(at, 1 + random.Next() % 300, static_cast<char>(random.Next()));
        break;
    }
  }
  return key;
}

class UcxKeyProcessTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string domain = GetParam() == std::string("sysv") ? "sysv/" : "posix/";
    const std::string why_not =
        testing::WhyNoLane({.name = domain, .options = options_, .carriers = {domain}});
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    ASSERT_TRUE(server_.ReadLine(&address_)) << server_.Stderr();
  }

  /// What the server says to a key with this remote key; empty when it has ended.
  std::string Answer(testing::HostileUcxClient& client, const std::string& remote_key) {
    UcxLandingKey key = honest_;
    key.serial = key.landing = ++keys_;
    key.remote_key = remote_key;
    const std::string head = client.Sign(key);
    const auto bytes = std::as_bytes(std::span(head));
    client.Send({.sequence = keys_ - 1, .head_bytes = head.size()}, {bytes.begin(), bytes.end()});
    std::string line;
    do {  // UCX prints there as well, with its time in brackets.
      if (!server_.ReadLine(&line)) return {};
    } while (line.starts_with("["));
    return line;
  }

  const UcxOptions options_ = testing::UcxLaneOptions(GetParam());
  const testing::TempDir directory_;
  ChildProcess server_{QUIRE_BINARY_DIR "/bin/ucx_peer", {"open", GetParam()}, directory_ / "err"};
  std::string address_;
  UcxLandingKey honest_;
  uint64_t keys_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Lanes, UcxKeyProcessTest, ::testing::Values("shm", "sysv"),
                         [](const auto& lane) { return std::string(lane.param); });

/// Keeps the first frame's head.
class FirstHead final : public FrameReceiver {
 public:
  void OnFrame(Frame frame) override { Set(std::move(frame.head)); }
  void OnClosed(const Status& why) override { Set(std::string(why.message())); }
  std::string Wait() {
    MutexLock lock(mutex_);
    while (head_.empty()) changed_.Wait(mutex_);
    return head_;
  }

 private:
  void Set(std::string head) {
    MutexLock lock(mutex_);
    if (head_.empty()) head_ = std::move(head);
    changed_.NotifyAll();
  }
  Mutex mutex_;
  CondVar changed_;
  std::string head_ QUIRE_GUARDED_BY(mutex_);
};

TEST_P(UcxKeyProcessTest, AServerOutlivesWhateverItsClientSigns) {
  {
    testing::HostileUcxClient client(address_, options_);
    honest_ = client.MakeKey(testing::kUcxLandingBytes);
    const std::string packed = honest_.remote_key;
    ASSERT_EQ(Answer(client, packed), "OK") << server_.Stderr();
    for (size_t size = 0; size < packed.size(); ++size) {
      ASSERT_THAT(Answer(client, packed.substr(0, size)), HasSubstr("INVALID_ARGUMENT")) << size;
    }
    for (const size_t more : {1, 9, 255, 1000}) {
      ASSERT_THAT(Answer(client, packed + std::string(more, '\0')), HasSubstr("INVALID_ARGUMENT"));
      ASSERT_THAT(Answer(client, packed + std::string(more, '\xff')),
                  HasSubstr("INVALID_ARGUMENT"));
    }
    size_t refused = 0;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SeededRandom random(seed);
      for (size_t i = 0; i < kMutations; ++i) {
        const std::string mutated = Mutate(packed, random);
        const std::string answer = Answer(client, mutated);
        if (answer.empty()) {
          FAIL() << "seed " << seed << ", mutation " << i << ", " << Hex(mutated)
                 << " ended the server with " << server_.Wait() << ": " << server_.Stderr();
        }
        if (answer != "OK") ++refused;
      }
    }
    // What is left is harmless: it changed what nobody reads.
    EXPECT_GT(refused, kMutations);
    EXPECT_EQ(Answer(client, packed), "OK") << server_.Stderr();
  }
  // The next client gets what it asks for.
  auto pipe = ConnectUcx(address_, options_);
  ASSERT_TRUE(pipe.ok()) << pipe.status();
  const auto memory = (*pipe)->AllocateLandingMemory(testing::kUcxLandingBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  FirstHead first;
  (*pipe)->Start(&first);
  const auto key = (*pipe)->AddLanding(1, memory->bytes);
  ASSERT_TRUE(key.ok()) << key.status();
  Frame ask{.head = *key, .payload = {}};
  ask.payload.Append(std::vector<std::byte>(1));
  ASSERT_TRUE((*pipe)->Send(std::move(ask)).ok());
  std::string opened;
  ASSERT_TRUE(server_.ReadLine(&opened)) << server_.Stderr();
  EXPECT_EQ(opened, "OK");
  EXPECT_EQ(first.Wait(), "units");
  EXPECT_EQ(memory->bytes[0], std::byte{7});
  (*pipe)->Close();
}

}  // namespace
}  // namespace quire
