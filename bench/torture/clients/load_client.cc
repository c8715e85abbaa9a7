// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/clients/load_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/torture/store/corpus.h"
#include "quire/layout.h"
#include "quire/session.h"

namespace quire::torture {
namespace {

constexpr size_t kMostDocuments = 24;
/// Most attempts at a put whose prefix is deleted meanwhile.
constexpr int kMostAttempts = 8;

const KvSpec& Spec() {
  static const KvSpec spec = SmallSpecs().front();
  return spec;
}

Payload PayloadOf(std::vector<std::byte> bytes) {
  Payload payload;
  payload.Append(std::move(bytes));
  return payload;
}

}  // namespace

void LoadCounts::Add(const LoadCounts& other) {
  done += other.done;
  for (const auto& [what, count] : other.failures) failures[what] += count;
}

uint64_t LoadCounts::failed() const {
  uint64_t sum = 0;
  for (const auto& [what, count] : failures) sum += count;
  return sum;
}

void LoadTotals::Add(const LoadTotals& other) {
  for (const auto& [name, counts] : other.operations) operations[name].Add(counts);
  not_found += other.not_found;
  wrong_bytes += other.wrong_bytes;
  begun_anew += other.begun_anew;
  if (first_failure.empty()) first_failure = other.first_failure;
}

uint64_t LoadTotals::failed() const {
  uint64_t sum = 0;
  for (const auto& [name, counts] : operations) sum += counts.failed();
  return sum;
}

void LoadClient::Step() {
  const uint64_t dice = random_.Below(100);
  if (stored_.empty() || (dice < 35 && stored_.size() < kMostDocuments)) {
    Count("put", Put());
  } else if (dice < 50) {
    Count("continue", Continue());
  } else if (dice < 65) {
    Count("read", Read());
  } else if (dice < 75) {
    Count("ask", Ask());
  } else {
    Count("delete", Delete(AnyStored()));
  }
}

void LoadClient::DeleteAll() {
  while (!stored_.empty()) Count("delete", Delete(stored_.size() - 1));
}

void LoadClient::Count(const std::string& operation, const Outcome& outcome) {
  LoadCounts& counts = totals_.operations[operation];
  if (outcome.wrong_bytes) ++totals_.wrong_bytes;
  if (outcome.status.ok() && !outcome.wrong_bytes) {
    ++counts.done;
    return;
  }
  const std::string what =
      outcome.step + " " + (outcome.wrong_bytes ? "wrong bytes" : Name(outcome.status.code()));
  ++counts.failures[what];
  if (IsNotFound(outcome.status)) ++totals_.not_found;
  if (totals_.first_failure.empty()) {
    totals_.first_failure = operation + ": " + what + ": " + std::string(Message(outcome.status));
  }
}

LoadClient::Outcome LoadClient::Put() {
  const LoadText text = LoadText::Draw(Spec(), seed_, random_);
  for (int attempt = 1;; ++attempt) {
    bool others = false;
    Outcome outcome = TryPut(text, &others);
    if (!others || !IsNotFound(outcome.status) || attempt == kMostAttempts) return outcome;
    ++totals_.begun_anew;
  }
}

LoadClient::Outcome LoadClient::TryPut(const LoadText& text, bool* others) {
  SegmentKey tip;
  Outcome outcome = Store(text, &tip, others);
  if (!outcome.status.ok()) return outcome;
  return Register(text, tip);
}

LoadClient::Outcome LoadClient::Store(const LoadText& text, SegmentKey* tip, bool* others) {
  const auto found = client_->Lookup(Spec(), text.tokens());
  if (!found.ok()) return {found.status(), "lookup"};
  *others = !found->segment_keys.empty();
  if (found->num_tokens == text.tokens().size()) {
    *tip = found->segment_keys.back();
    return {OkStatus(), ""};
  }
  std::optional<ContextRef> continues;
  if (!found->segment_keys.empty()) continues = ContextRef(found->segment_keys.back());
  const auto context = client_->OpenContext(Spec(), continues);
  if (!context.ok()) return {context.status(), "open"};
  *others = false;  // The context holds them.
  Outcome outcome = AppendRest(*context, text);
  if (outcome.status.ok()) {
    const auto sealed = client_->Seal(context->id, {}, {});
    if (sealed.ok()) {
      *tip = sealed->chain_tip;
      return {OkStatus(), ""};
    }
    outcome = {sealed.status(), "seal"};
  }
  (void)client_->DropContext(context->id);
  return outcome;
}

LoadClient::Outcome LoadClient::AppendRest(const OpenedContext& context, const LoadText& text) {
  const auto first = static_cast<uint32_t>(context.num_tokens / Spec().page_tokens);
  const auto appended = client_->AppendPages(context.id, first, text.TokensFrom(first),
                                             PayloadOf(text.PagesFrom(first, random_)));
  return {appended.status(), "append"};
}

LoadClient::Outcome LoadClient::Register(LoadText text, const SegmentKey& tip) {
  const DocumentName name{.collection = "load",
                          .name = std::to_string(number_) + "-" + std::to_string(next_name_++)};
  const auto document = client_->RegisterDocument(name, tip);
  if (!document.ok()) return {document.status(), "register"};
  stored_.push_back({document->name, std::move(text)});
  return {OkStatus(), ""};
}

LoadClient::Outcome LoadClient::Continue() {
  const Stored stored = stored_[AnyStored()];
  const bool keep = stored_.size() < kMostDocuments && random_.Below(3) == 0;
  const auto context =
      client_->OpenContext(Spec(), ContextRef(stored.name), {.private_pages = !keep});
  if (!context.ok()) return {context.status(), "open"};
  LoadText text = stored.text.ContinuedBy(static_cast<uint32_t>(1 + random_.Below(4)), random_);
  Outcome outcome = AppendRest(*context, text);
  if (outcome.status.ok()) outcome = FetchAndCompare(ContextRef(context->id), text);
  if (outcome.status.ok() && !outcome.wrong_bytes && keep) {
    const auto sealed = client_->Seal(context->id, {}, {});
    if (sealed.ok()) return Register(std::move(text), sealed->chain_tip);
    outcome = {sealed.status(), "seal"};
  }
  const Status dropped = client_->DropContext(context->id);
  if (outcome.status.ok() && !outcome.wrong_bytes) outcome = {dropped, "drop"};
  return outcome;
}

LoadClient::Outcome LoadClient::Read() {
  const Stored& stored = stored_[AnyStored()];
  return FetchAndCompare(ContextRef(stored.name), stored.text);
}

LoadClient::Outcome LoadClient::FetchAndCompare(const ContextRef& context, const LoadText& text) {
  const auto layer = static_cast<uint32_t>(random_.Below(Spec().num_layers));
  const auto head = static_cast<uint32_t>(random_.Below(Spec().num_kv_heads));
  UnitRange range{.layer = layer, .heads = {head}};
  for (uint32_t page = 0; page < text.num_pages(); ++page) {
    if (random_.Below(2) == 0) range.pages.push_back(page);
  }
  if (range.pages.empty()) range.pages.push_back(0);
  const auto fetched = client_->Fetch(context, {&range, 1});
  if (!fetched.ok()) return {fetched.status(), "fetch"};
  std::vector<std::byte> expected;
  for (const uint32_t page : range.pages) {
    const std::vector<std::byte> unit = text.Unit(page, layer, head);
    expected.insert(expected.end(), unit.begin(), unit.end());
  }
  return {OkStatus(), "fetch", !IsExpected(*fetched, expected)};
}

bool LoadClient::IsExpected(const Payload& payload, const std::vector<std::byte>& expected) {
  std::vector<std::byte> got(payload.size_bytes());
  payload.CopyTo(got.data());
  LoadText::RemoveNoise(got);
  return got == expected;
}

LoadClient::Outcome LoadClient::Ask() {
  const Stored& stored = stored_[AnyStored()];
  const uint32_t slots = std::min<uint32_t>(stored.text.num_pages(), 4);
  const auto session =
      client_->OpenSession(ContextRef(stored.name), {.spec = Spec(), .slots_per_head = slots});
  if (!session.ok()) return {session.status(), "open"};
  for (int step = 0; step < 3; ++step) {
    const auto first = static_cast<uint32_t>(random_.Below(stored.text.num_pages() - slots + 1));
    std::vector<uint32_t> pages;
    for (uint32_t page = first; page < first + slots; ++page) pages.push_back(page);
    LayerWant want{.layer = 0, .num_layers = Spec().num_layers};
    for (uint32_t head = 0; head < Spec().num_kv_heads; ++head) want.pages.AppendHead(pages);
    const auto result = (*session)->Recall({&want, 1});
    if (!result.ok()) return {result.status(), "recall"};
    std::vector<std::byte> expected;
    for (const Placement& placement : result->placements) {
      const auto unit = stored.text.Unit(placement.page, placement.layer, placement.head);
      expected.insert(expected.end(), unit.begin(), unit.end());
    }
    if (!IsExpected(result->payload, expected)) return {OkStatus(), "recall", true};
    (*session)->Applied(*result);
  }
  return {(*session)->Close(), "close"};
}

LoadClient::Outcome LoadClient::Delete(size_t index) {
  const DocumentName name = stored_[index].name;
  stored_.erase(stored_.begin() + static_cast<std::ptrdiff_t>(index));
  return {client_->DeleteDocument(name).status(), "delete"};
}

}  // namespace quire::torture
