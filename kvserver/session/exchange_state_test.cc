// SPDX-License-Identifier: Apache-2.0
//
// Promise 4: a reply is for the epoch and sequence it was asked for; a stale one is refused, never
// silently applied. The model below is a worker and a server with a network between them that may
// lose, delay, repeat and reorder; all of its states up to a depth are visited.
#include "kvserver/session/exchange_state.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace quire::kvserver {
namespace {

using Previous = ExchangeState::Previous;

TEST(ExchangeStateTest, AWorkerThatAppliesEverythingCommitsEverything) {
  ExchangeState state;
  EXPECT_EQ(*state.Recall(1, 1, 0, false), Previous::kNone);
  EXPECT_EQ(*state.Recall(1, 2, 1, false), Previous::kCommit);
  EXPECT_EQ(*state.Ack(1, 2), Previous::kCommit);
  EXPECT_EQ(*state.Ack(1, 2), Previous::kNone);
  EXPECT_EQ(*state.Recall(1, 3, 2, true), Previous::kNone);
  EXPECT_EQ(state.committed(), 2u);
}

TEST(ExchangeStateTest, ALostReplyIsMadeAgainAndOnlyThat) {
  ExchangeState state;
  ASSERT_TRUE(state.Recall(1, 1, 0, false).ok());
  EXPECT_EQ(*state.Recall(1, 1, 0, true), Previous::kRollBack);
  EXPECT_EQ(state.Recall(1, 1, 0, false).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*state.Recall(1, 2, 1, false), Previous::kCommit);
}

TEST(ExchangeStateTest, AFailedRecallMayBeReplaced) {
  ExchangeState state;
  ASSERT_TRUE(state.Recall(1, 1, 0, false).ok());
  state.Abandon();
  EXPECT_EQ(state.Ack(1, 1).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*state.Recall(1, 1, 0, false), Previous::kNone);
}

TEST(ExchangeStateTest, RefusesEveryOtherNumberAndEpochWithoutChanging) {
  for (const bool pending : {false, true}) {
    for (uint64_t epoch = 0; epoch <= 3; ++epoch) {
      for (uint64_t sequence = 0; sequence <= 8; ++sequence) {
        for (uint64_t acked = 0; acked <= 8; ++acked) {
          ExchangeState state;
          state.Resync(2, 4);
          if (pending) {
            ASSERT_TRUE(state.Recall(2, 5, 4, false).ok());
          }
          const bool good = epoch == 2 && sequence == acked + 1 &&
                            ((acked == 4 && !pending) || (acked == 5 && pending));
          EXPECT_EQ(state.Recall(epoch, sequence, acked, false).ok(), good)
              << epoch << " " << sequence << " " << acked << " " << pending;
          if (!good) {
            EXPECT_EQ(std::tuple(state.epoch(), state.committed(), state.pending()),
                      std::tuple(2u, 4u, pending));
          }
        }
      }
    }
  }
}

TEST(ExchangeStateTest, ResyncNeedsAHigherEpoch) {
  ExchangeState state;
  EXPECT_FALSE(state.CheckResync(1).ok());
  EXPECT_TRUE(state.CheckResync(2).ok());
  state.Resync(7, 3);
  EXPECT_FALSE(state.CheckResync(7).ok());
  EXPECT_EQ(state.Recall(1, 4, 3, false).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(state.Recall(7, 4, 3, false).ok());
}

// ---------------------------------------------------------------------------- the model

/// A map is the string of wants that were applied to it.
struct Request {
  enum Kind : char { kRecall = 'r', kAck = 'a', kResync = 's' } kind;
  uint64_t call, epoch, sequence, acked;
  std::string content;  ///< What a recall wants, or the map of a resync.
  auto operator<=>(const Request&) const = default;
};
struct Reply {
  uint64_t call;
  bool ok;
  std::string base;  ///< The server's map that a recall's diff was made from.
  auto operator<=>(const Reply&) const = default;
};

struct World {
  // Worker.
  uint64_t epoch = 1, applied = 0, calls = 0;
  bool waiting = false, synced = true;
  Request current{};
  std::string worker_map;
  // Network.
  std::multiset<Request> requests;
  std::multiset<Reply> replies;
  // Server.
  ExchangeState exchanges;
  std::string committed_map, pending_map, last_content;

  std::string Encode() const {
    std::string out;
    const auto add = [&](auto value) { out += std::to_string(value) + ","; };
    add(epoch), add(applied), add(calls), add(waiting), add(synced);
    add(exchanges.epoch()), add(exchanges.committed()), add(exchanges.pending());
    out += worker_map + "|" + committed_map + "|" + pending_map + "|" + last_content + "|";
    for (const Request& r : requests) {
      out += static_cast<char>(r.kind);
      add(r.call), add(r.epoch), add(r.sequence), add(r.acked);
      out += r.content + ";";
    }
    for (const Reply& r : replies)
      out += std::to_string(r.call) + (r.ok ? "+" : "-") + r.base + ";";
    return out;
  }

  void Send(Request::Kind kind, std::string content) {
    // A new call gives up the one before it, whatever became of that.
    if (kind == Request::kResync) ++epoch;
    const uint64_t sequence = kind == Request::kRecall ? applied + 1 : applied;
    current = {kind, ++calls, epoch, sequence, applied, std::move(content)};
    requests.insert(current);
    waiting = true;
  }

  void ServerTakes(const Request& request) {
    Reply reply{request.call, true, ""};
    const auto settle = [&](const StatusOr<Previous>& previous) {
      reply.ok = previous.ok();
      if (previous.ok() && *previous == Previous::kCommit) committed_map = pending_map;
    };
    if (request.kind == Request::kRecall) {
      settle(exchanges.Recall(request.epoch, request.sequence, request.acked,
                              request.content == last_content));
      if (reply.ok) {
        last_content = request.content;
        reply.base = committed_map;
        pending_map = committed_map + request.content;
      }
    } else if (request.kind == Request::kAck) {
      settle(exchanges.Ack(request.epoch, request.sequence));
    } else if (exchanges.CheckResync(request.epoch).ok()) {
      exchanges.Resync(request.epoch, request.sequence);
      committed_map = request.content;
    } else {
      reply.ok = false;
    }
    replies.insert(reply);
  }

  /// The invariant: a diff that the worker applies was made from the map that the worker has.
  void WorkerTakes(const Reply& reply) {
    if (!waiting || reply.call != current.call) return;  // Of a call that was given up.
    waiting = false;
    synced = reply.ok;
    if (!reply.ok || current.kind != Request::kRecall) return;
    ASSERT_EQ(reply.base, worker_map) << Encode();
    worker_map += current.content;
    applied = current.sequence;
  }
};

std::vector<World> Successors(const World& world) {
  std::vector<World> next;
  const auto with = [&](auto change) {
    World copy = world;
    change(copy);
    next.push_back(std::move(copy));
  };
  if (world.requests.size() < 3) {
    if (world.synced) {
      for (const char* want : {"x", "y"}) with([&](World& w) { w.Send(Request::kRecall, want); });
      with([](World& w) { w.Send(Request::kAck, ""); });
      if (world.waiting) with([](World& w) { w.requests.insert(w.current); });  // A retry.
    }
    with([](World& w) { w.Send(Request::kResync, w.worker_map); });
  }
  for (const Request& request : world.requests) {  // Any order; what is never delivered is lost.
    with([&](World& w) {
      w.requests.erase(w.requests.find(request));
      w.ServerTakes(request);
    });
  }
  for (const Reply& reply : world.replies) {
    with([&](World& w) {
      w.replies.erase(w.replies.find(reply));
      w.WorkerTakes(reply);
    });
  }
  return next;
}

TEST(ExchangeStateTest, NoOrderOfLossDelayAndRepetitionAppliesAStaleReply) {
  constexpr int kDepth = 8;
  std::set<std::string> seen;
  std::vector<World> level = {World{}};
  for (int depth = 0; depth < kDepth; ++depth) {
    std::vector<World> below;
    for (const World& world : level) {
      for (World& next : Successors(world)) {
        if (HasFatalFailure()) return;
        if (seen.insert(next.Encode()).second) below.push_back(std::move(next));
      }
    }
    level = std::move(below);
  }
  EXPECT_GT(seen.size(), 10000u);
}

}  // namespace
}  // namespace quire::kvserver
