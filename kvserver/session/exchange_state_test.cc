// SPDX-License-Identifier: Apache-2.0
//
// Promise 4: a reply belongs to its request's epoch and exchange. A stale one is refused, never
// silently applied. The model below is one lane's worker and server over a network that may lose,
// delay, repeat and reorder. All of its states up to a depth are visited.
#include "kvserver/session/exchange_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace quire::kvserver {
namespace {

using Previous = ExchangeState::Previous;

/// Takes a recall and answers it.
StatusOr<Previous> Answer(ExchangeState& state, uint64_t exchange, uint64_t applied) {
  QUIRE_RETURN_IF_ERROR(state.CheckRecall(exchange, applied));
  const Previous previous = state.Recall(exchange, applied);
  state.SetPending();
  return previous;
}

TEST(ExchangeStateTest, AWorkerThatAppliesEverythingCommitsEverything) {
  ExchangeState state;
  EXPECT_EQ(*Answer(state, 1, 0), Previous::kNone);
  EXPECT_EQ(*Answer(state, 7, 1), Previous::kCommit);
  EXPECT_EQ(*Answer(state, 9, 7), Previous::kCommit);
  EXPECT_EQ(state.committed(), 7u);
}

TEST(ExchangeStateTest, WhatWasNotAppliedIsRolledBackAndNeverComesAgain) {
  ExchangeState state;
  ASSERT_TRUE(Answer(state, 1, 0).ok());
  EXPECT_EQ(*Answer(state, 2, 0), Previous::kRollBack);
  EXPECT_EQ(Answer(state, 1, 0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Answer(state, 2, 0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Answer(state, 3, 1).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*Answer(state, 3, 2), Previous::kCommit);
}

TEST(ExchangeStateTest, ARecallThatWasNotAnsweredMayComeAgain) {
  ExchangeState state;
  ASSERT_TRUE(Answer(state, 1, 0).ok());
  ASSERT_TRUE(Answer(state, 2, 1).ok());
  state.Abandon();
  EXPECT_FALSE(state.CheckRecall(3, 2).ok());
  EXPECT_EQ(state.committed(), 1u) << "what it said was applied stays so";
  EXPECT_EQ(*Answer(state, 2, 1), Previous::kNone);
}

TEST(ExchangeStateTest, RefusesEveryOtherNumberWithoutChanging) {
  for (const bool pending : {false, true}) {
    for (uint64_t exchange = 0; exchange <= 9; ++exchange) {
      for (uint64_t applied = 0; applied <= 9; ++applied) {
        ExchangeState state;
        state.Resync(4);
        if (pending) {
          ASSERT_TRUE(Answer(state, 6, 4).ok());
        }
        const bool known = applied == 4 || (pending && applied == 6);
        EXPECT_EQ(state.CheckRecall(exchange, applied).ok(),
                  known && exchange > (pending ? 6u : 4u))
            << exchange << " " << applied << " " << pending;
        EXPECT_EQ(std::tuple(state.last(), state.committed(), state.pending().has_value()),
                  std::tuple(pending ? 6u : 4u, 4u, pending));
      }
    }
  }
}

// ---------------------------------------------------------------------------- the model

/// A map is the string of wants applied to it.
struct Request {
  enum Kind : char { kRecall = 'r', kResync = 's' } kind;
  uint64_t call, epoch, exchange, applied;
  std::string content;  ///< Wants of a recall, or the map of a resync.
  auto operator<=>(const Request&) const = default;
};
struct Reply {
  enum Kind : char { kOk = '+', kRefused = '-', kFailed = '!' };
  uint64_t call;
  Kind kind;
  std::string base;  ///< The server's map from which a recall's difference was made.
  auto operator<=>(const Reply&) const = default;
};

struct World {
  // Worker.
  uint64_t epoch = 1, exchange = 0, applied = 0, calls = 0;
  bool waiting = false, synced = true;
  Request current{};
  std::string worker_map;
  // Network.
  std::multiset<Request> requests;
  std::multiset<Reply> replies;
  // Server.
  ExchangeState exchanges;
  uint64_t server_epoch = 1, newest_seen = 0;
  std::string committed_map, pending_map;

  std::string Encode() const {
    std::string out;
    const auto add = [&](auto value) { out += std::to_string(value) + ","; };
    add(epoch), add(exchange), add(applied), add(calls), add(waiting), add(synced);
    add(server_epoch), add(newest_seen), add(exchanges.last()), add(exchanges.committed());
    add(exchanges.pending().value_or(0));
    out += worker_map + "|" + committed_map + "|" + pending_map + "|";
    for (const Request& r : requests) {
      out += static_cast<char>(r.kind);
      add(r.call), add(r.epoch), add(r.exchange), add(r.applied);
      out += r.content + ";";
    }
    for (const Reply& r : replies) {
      out += std::to_string(r.call) + static_cast<char>(r.kind) + r.base + ";";
    }
    return out;
  }

  /// A new call gives up the one before it.
  void Send(Request::Kind kind, std::string content) {
    if (kind == Request::kResync) ++epoch, synced = false;
    if (kind == Request::kRecall) ++exchange;
    current = {kind, ++calls, epoch, exchange, applied, std::move(content)};
    requests.insert(current);
    waiting = true;
  }

  void Settle(Previous previous) {
    if (previous == Previous::kCommit) committed_map = pending_map;
  }
  bool ServerRecalls(const Request& request, bool fails, Reply* reply) {
    if (!exchanges.CheckRecall(request.exchange, request.applied).ok()) return false;
    Settle(exchanges.Recall(request.exchange, request.applied));
    reply->base = committed_map;
    if (fails) {
      exchanges.Abandon();
      reply->kind = Reply::kFailed;
    } else {
      exchanges.SetPending();
      pending_map = committed_map + request.content;
    }
    return true;
  }
  void ServerTakes(const Request& request, bool fails) {
    Reply reply{request.call, Reply::kOk, ""};
    bool taken = false;
    if (request.kind == Request::kResync) {
      taken = request.epoch > server_epoch;
      if (taken) {
        server_epoch = request.epoch;
        exchanges.Resync(request.applied);
        committed_map = request.content;
      }
    } else if (request.epoch == server_epoch) {
      taken = ServerRecalls(request, fails, &reply);
    }
    if (!taken) reply.kind = Reply::kRefused;
    // The worker's newest call is never refused, whatever was lost or delayed before.
    EXPECT_TRUE(taken || request.call <= newest_seen || request.call < calls) << Encode();
    newest_seen = std::max(newest_seen, request.call);
    replies.insert(reply);
  }

  /// The invariant: a difference that the worker applies was made from the worker's map.
  void WorkerTakes(const Reply& reply) {
    if (!waiting || reply.call != current.call) return;  // Reply of a call that was given up.
    waiting = false;
    if (reply.kind == Reply::kFailed) return;
    synced = reply.kind == Reply::kOk;
    if (!synced || current.kind != Request::kRecall) return;
    ASSERT_EQ(reply.base, worker_map) << Encode();
    worker_map += current.content;
    applied = current.exchange;
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
    }
    if (world.waiting) with([](World& w) { w.requests.insert(w.current); });  // Sent twice.
    with([](World& w) { w.Send(Request::kResync, w.worker_map); });
  }
  for (const Request& request :
       world.requests) {  // Any order; a request that is never delivered is lost.
    for (const bool fails : {false, true}) {
      if (fails && request.kind != Request::kRecall) continue;
      with([&](World& w) {
        w.requests.erase(w.requests.find(request));
        w.ServerTakes(request, fails);
      });
    }
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
  constexpr int kDepth = 7;
  std::set<std::string> seen;
  std::vector<World> level = {World{}};
  for (int depth = 0; depth < kDepth; ++depth) {
    std::vector<World> below;
    for (const World& world : level) {
      for (World& next : Successors(world)) {
        if (HasFailure()) return;
        if (seen.insert(next.Encode()).second) below.push_back(std::move(next));
      }
    }
    level = std::move(below);
  }
  EXPECT_GT(seen.size(), 10000u);
}

}  // namespace
}  // namespace quire::kvserver
