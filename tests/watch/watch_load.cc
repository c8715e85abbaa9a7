// SPDX-License-Identifier: Apache-2.0
//
// Load for tests of what people look at.
//   watch_load ADDRESS
// Registers a few documents, and one with markup in its name. Then recalls their pages over and
// over, by pages and by queries, until a line comes. It prints "loading" after the first recalls,
// and "stopped" after the last ones. It keeps a session open until a second line comes.
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "quire/client.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/session.h"

namespace {

using namespace quire;

constexpr uint32_t kChains = 4;
constexpr uint32_t kPages = 128;
constexpr uint32_t kWanted = 40;
/// Pause between two recalls of a thread: load, and not all that the machine can do.
constexpr std::chrono::milliseconds kPause{2};

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

/// Stores the chain of a number and returns its tip.
StatusOr<SegmentKey> PutChain(Client& client, uint32_t number) {
  const KvSpec spec = Spec();
  std::vector<TokenId> tokens(kPages * spec.page_tokens);
  std::iota(tokens.begin(), tokens.end(), static_cast<TokenId>(1000 * number + 100));
  Payload pages;
  pages.Append(std::vector<std::byte>(
      uint64_t{kPages} * spec.num_layers * spec.num_kv_heads * UnitBytes(spec),
      std::byte{static_cast<uint8_t>(number)}));
  QUIRE_ASSIGN_OR_RETURN(const OpenedContext context, client.OpenContext(spec, std::nullopt));
  QUIRE_RETURN_IF_ERROR(client.AppendPages(context.id, 0, tokens, pages).status());
  QUIRE_ASSIGN_OR_RETURN(const ContextInfo sealed, client.Seal(context.id, {}, {}));
  return sealed.chain_tip;
}

DocumentName NameOf(uint32_t number) {
  return {.collection = "live", .name = "manual-" + std::to_string(number) + ".md"};
}

Status Register(Client& client, const std::vector<SegmentKey>& tips) {
  for (uint32_t i = 0; i < tips.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(client.RegisterDocument(NameOf(i), tips[i]).status());
  }
  const DocumentName markup{.name = "<img src=x onerror=document.title=1> & <b>bold<b>"};
  return client.RegisterDocument(markup, tips.front()).status();
}

/// Wants of a step: a window of pages that moves on, or a query for the server.
LayerWant WantOf(const KvSpec& spec, uint32_t step) {
  LayerWant want{.layer = step % spec.num_layers};
  if (step % 4 == 3) {
    want.query.assign(size_t{spec.num_query_heads} * spec.head_dim, 0.5f);
    want.candidates = {{.end_page = kPages}};
    want.num_pages = kWanted;
    return want;
  }
  std::vector<uint32_t> pages(kWanted);
  std::iota(pages.begin(), pages.end(), step / 4 % (kPages - kWanted));
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) want.pages.AppendHead(pages);
  return want;
}

Status Load(Client& client, const std::atomic<bool>& stop, std::atomic<uint32_t>* recalls) {
  const KvSpec spec = Spec();
  for (uint32_t step = 0; !stop; ++step) {
    QUIRE_ASSIGN_OR_RETURN(
        const auto session,
        client.OpenSession(NameOf(step % kChains), {.spec = spec, .slots_per_head = 64}));
    for (uint32_t i = 0; i < 100 && !stop; ++i) {
      const LayerWant want = WantOf(spec, i);
      QUIRE_ASSIGN_OR_RETURN(const RecallResult result, session->Recall({&want, 1}));
      session->Applied(result);
      ++*recalls;
      std::this_thread::sleep_for(kPause);
    }
    QUIRE_RETURN_IF_ERROR(session->Close());
  }
  return OkStatus();
}

Status Run(const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(const auto transport, ConnectGrpc(address));
  QUIRE_ASSIGN_OR_RETURN(const DataConnection data,
                         ConnectData(transport, {.control_address = address}));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = transport,
                                                            .data_transport = data.transport}));
  (void)client->GetDocument({.name = "absent"});  // An error to be counted.
  std::vector<SegmentKey> tips(kChains);
  for (uint32_t i = 0; i < kChains; ++i) {
    QUIRE_ASSIGN_OR_RETURN(tips[i], PutChain(*client, i + 1));
  }
  QUIRE_RETURN_IF_ERROR(Register(*client, tips));
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> recalls{0};
  std::vector<Status> ended(2);
  std::vector<std::thread> threads;
  for (Status& status : ended) {
    threads.emplace_back([&] { status = Load(*client, stop, &recalls); });
  }
  threads.emplace_back([&] {
    while (recalls < 100 && !stop) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::cout << "loading" << std::endl;
  });
  std::string line;
  std::getline(std::cin, line);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : ended) QUIRE_RETURN_IF_ERROR(status);
  QUIRE_ASSIGN_OR_RETURN(const auto session,
                         client->OpenSession(NameOf(0), {.spec = Spec(), .slots_per_head = 64}));
  std::cout << "stopped" << std::endl;
  std::getline(std::cin, line);
  return session->Close();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (args.size() != 2) {
    std::cerr << "usage: watch_load ADDRESS\n";
    return 2;
  }
  const Status status = Run(args[1]);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
