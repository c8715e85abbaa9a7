// SPDX-License-Identifier: Apache-2.0
#include "python/native/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>

#include "python/native/arguments.h"
#include "python/native/host_array.h"
#include "python/native/landing.h"
#include "python/native/names.h"
#include "quire/clock.h"
#include "quire/layout.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// Pages for each of `heads`, where one list may stand for all of them.
void SpreadOver(uint32_t heads, PageLists* lists) {
  if (lists->num_heads() != 1) return;
  for (uint32_t head = 1; head < heads; ++head) lists->RepeatHead();
}

RecallOptions OptionsOf(const Session::How& how, const SessionCore& core) {
  return {
      .priority = ValueOf(kPrioritiesByName, how.priority, "priority"),
      .timeout = SecondsOf(how.timeout, Duration::zero()),
      .landing = how.landing.is_none() ? nullptr : nb::cast<const Landing&>(how.landing).Of(core)};
}

/// Codecs of the units that were sent; none when all are raw.
std::vector<UnitCodec> CodecsOfSent(const RecallPart& part) {
  std::vector<UnitCodec> codecs;
  for (size_t i = 0; i < part.codecs.size(); ++i) {
    if (!std::binary_search(part.held.begin(), part.held.end(), i)) {
      codecs.push_back(part.codecs[i]);
    }
  }
  return codecs;
}

}  // namespace

std::vector<float> FloatsOf(nb::handle values) {
  const HostArray array(values, "queries", HostArray::Use::kRead);
  if (array.element() != Element::kF32) {
    throw StatusError(InvalidArgument("queries: elements must be floats of 32 bits"));
  }
  std::vector<float> floats(array.bytes().size() / sizeof(float));
  std::memcpy(floats.data(), array.bytes().data(), array.bytes().size());
  return floats;
}

std::vector<CandidateRange> CandidatesOf(nb::object ranges) {
  std::vector<CandidateRange> candidates;
  if (ranges.is_none()) return candidates;
  for (const nb::handle range : nb::borrow<nb::iterable>(ranges)) {
    const std::vector<uint32_t> numbers = NumbersOf(range, "candidates");
    if (numbers.size() != 3) {
      throw StatusError(InvalidArgument("candidates: give (member, first_page, end_page)"));
    }
    candidates.push_back({.member = numbers[0], .first_page = numbers[1], .end_page = numbers[2]});
  }
  return candidates;
}

SequenceSpec SequenceOf(nb::handle sequence) {
  if (nb::isinstance<SequenceSpec>(sequence)) return nb::cast<const SequenceSpec&>(sequence);
  SequenceSpec spec;
  if (PyList_Check(sequence.ptr()) != 0 || PyTuple_Check(sequence.ptr()) != 0) {
    for (const nb::handle context : nb::borrow<nb::sequence>(sequence)) {
      spec.members.push_back({.context = ContextOf(context)});
    }
  } else {
    spec.members.push_back({.context = ContextOf(sequence)});
  }
  return spec;
}

SessionCore::SessionCore(std::shared_ptr<Client> client, SessionOptions options,
                         std::unique_ptr<ClientSession> session)
    : client_(std::move(client)),
      options_(std::move(options)),
      layers_(options_.managed_layers),
      session_(std::move(session)) {
  if (layers_.empty()) {
    layers_.resize(options_.spec.num_layers);
    std::iota(layers_.begin(), layers_.end(), 0);
  }
  std::sort(layers_.begin(), layers_.end());
}

SessionCore::~SessionCore() {
  WithoutGil([&] { session_.reset(); });
}

uint32_t SessionCore::SlotsOf(uint32_t sequence) const {
  const auto found = slots_.find(sequence);
  if (found == slots_.end()) {
    throw StatusError(InvalidArgument("the session has no sequence ", sequence));
  }
  return found->second;
}

void Recall::CheckHas() const {
  if (released_)
    throw StatusError(FailedPrecondition("the units were released; recall them again"));
}

std::shared_ptr<Units> Recall::units() {
  CheckHas();
  if (units_ == nullptr) {
    units_ = std::make_shared<Units>(std::make_shared<const Payload>(part_->payload),
                                     part_->placements.size() - part_->held.size(),
                                     CodecsOfSent(*part_), core_->form());
  }
  return units_;
}

double Recall::ValidFor() const {
  if (part_->valid_until == TimePoint::max()) return std::numeric_limits<double>::infinity();
  return std::chrono::duration<double>(part_->valid_until - SystemClock().Now()).count();
}

void Recall::Renew(double timeout) {
  const Duration limit = SecondsOf(timeout, {});
  auto renewed = std::make_shared<RecallPart>(*part_);
  core_->Do([&](ClientSession& session) { Check(session.Renew(renewed.get(), limit)); });
  if (!released_) part_ = std::move(renewed);
}

void Recall::Own() {
  auto owned = std::make_shared<RecallPart>(*part_);
  WithoutGil([&] { Check(owned->OwnUnits()); });
  if (released_) return;
  part_ = std::move(owned);
  units_.reset();
}

void Recall::Applied() {
  core_->Do([part = part_](ClientSession& session) { session.Applied(*part); });
}

void Recall::Invalidate() {
  core_->Do([part = part_](ClientSession& session) { session.Invalidate(*part); });
}

void Recall::CopyInto(SlotArrays& arrays) {
  CheckHas();
  WithoutGil([&arrays, part = part_] { Check(arrays.Take(*part)); });
}

void Recall::CopyInto(nb::handle into) {
  SlotArrays arrays(into, *core_);
  CopyInto(arrays);
}

void Recall::Release() {
  if (std::exchange(released_, true)) return;
  part_ = std::make_shared<const RecallPart>(RecallPart{.lanes = part_->lanes,
                                                        .placements = part_->placements,
                                                        .checksums = part_->checksums,
                                                        .codecs = part_->codecs,
                                                        .held = part_->held});
  units_.reset();
}

Pending::~Pending() {
  if (recall_ != nullptr) core_->Do([&](ClientSession&) { recall_.reset(); });
}

std::unique_ptr<Recall> Pending::Next(std::optional<double> timeout) {
  std::optional<RecallPart> part = core_->Do([&](ClientSession&) {
    const TimePoint deadline =
        timeout ? SystemClock().Now() + SecondsOf(timeout, {}) : recall_->deadline();
    return Take(recall_->Next(deadline));
  });
  if (!part) return nullptr;
  return std::make_unique<Recall>(core_, *std::move(part));
}

void Pending::Cancel() {
  core_->Do([&](ClientSession&) { recall_->Cancel(); });
}

std::vector<LayerWant> Session::WantsOf(nb::handle wants) {
  std::vector<LayerWant> all;
  if (nb::isinstance<LayerWant>(wants)) {
    all.push_back(nb::cast<const LayerWant&>(wants));
  } else {
    for (const nb::handle want : nb::borrow<nb::iterable>(wants)) {
      if (!nb::isinstance<LayerWant>(want)) {
        throw StatusError(InvalidArgument("wants: give a Want or several"));
      }
      all.push_back(nb::cast<const LayerWant&>(want));
    }
  }
  for (LayerWant& want : all) {
    SpreadOver(core_->spec().num_kv_heads, &want.pages);
    SpreadOver(core_->spec().num_kv_heads, &want.held);
    if (want.query.empty() || !want.candidates.empty()) continue;
    want.candidates = WholePages(want.sequence);
  }
  return all;
}

std::vector<CandidateRange> Session::WholePages(uint32_t sequence) {
  const std::vector<ContextInfo> members = Members(sequence);
  std::vector<CandidateRange> all;
  for (uint32_t member = 0; member < members.size(); ++member) {
    const uint64_t whole = members[member].num_tokens / core_->spec().page_tokens;
    all.push_back({.member = member, .end_page = static_cast<uint32_t>(whole)});
  }
  return all;
}

std::unique_ptr<Recall> Session::RecallNow(nb::handle wants, nb::object into, const How& how) {
  const std::vector<LayerWant> asked = WantsOf(wants);
  const RecallOptions options = OptionsOf(how, *core_);
  std::optional<SlotArrays> arrays;
  if (!into.is_none()) {
    arrays.emplace(into, *core_);
    for (const LayerWant& want : asked) arrays->CheckHas(want.sequence);
  }
  RecallResult result =
      core_->Do([&](ClientSession& session) { return Take(session.Recall(asked, options)); });
  auto recall = std::make_unique<Recall>(core_, RecallPart(std::move(result)));
  if (arrays) {
    recall->CopyInto(*arrays);
    recall->Applied();
    recall->Release();
  }
  return recall;
}

std::unique_ptr<Pending> Session::Start(nb::handle wants, const How& how) {
  std::vector<LayerWant> asked = WantsOf(wants);
  const RecallOptions options = OptionsOf(how, *core_);
  auto recall = core_->Do(
      [&](ClientSession& session) { return Take(session.Start(std::move(asked), options)); });
  return std::make_unique<Pending>(core_, std::move(recall), how.landing);
}

uint32_t Session::AddSequence(nb::handle sequence) {
  const SequenceSpec spec = SequenceOf(sequence);
  const auto [number, slots] = core_->Do([&](ClientSession& session) {
    const uint32_t added = Take(session.AddSequence(spec));
    return std::pair(added, session.slots_per_head(added));
  });
  core_->AddSlots(number, slots);
  return number;
}

void Session::RemoveSequence(uint32_t sequence) {
  (void)core_->SlotsOf(sequence);
  core_->Do([&](ClientSession& session) { Check(session.RemoveSequence(sequence)); });
  core_->DropSlots(sequence);
}

std::vector<std::vector<int32_t>> Session::ResidentPages(uint32_t layer, uint32_t sequence) {
  const uint32_t slots = core_->SlotsOf(sequence);
  const std::vector<uint32_t>& layers = core_->layers();
  if (!std::binary_search(layers.begin(), layers.end(), layer)) {
    throw StatusError(InvalidArgument("layer ", layer, " is not managed by the session"));
  }
  return core_->Do([&](ClientSession& session) {
    const std::span<const int32_t> pages = session.ResidentPages(sequence, layer);
    std::vector<std::vector<int32_t>> heads;
    for (size_t first = 0; first + slots <= pages.size(); first += slots) {
      heads.emplace_back(pages.begin() + static_cast<ptrdiff_t>(first),
                         pages.begin() + static_cast<ptrdiff_t>(first + slots));
    }
    return heads;
  });
}

std::vector<ContextInfo> Session::Members(uint32_t sequence) {
  (void)core_->SlotsOf(sequence);
  return core_->Do([&](ClientSession& session) {
    std::vector<ContextInfo> members;
    for (const SessionMember& member : session.members(sequence)) members.push_back(member.context);
    return members;
  });
}

void Session::Close() {
  core_->Do([&](ClientSession& session) { Check(session.Close()); });
}

}  // namespace quire::python
